"""Team: who may ask for what. A namespace belongs to one team at most; what belongs to none is as open as before."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TeamLimits:
    """What one message of a team may ask for; None: anything that the manifest allows."""

    priority: int | None = None
    replicas: int | None = None
    generation_jump: int | None = None  # how far above the stored generation that of a message may be


@dataclass(frozen=True, slots=True)
class Team:
    """A team. ``principal_ids`` are IAM's unique ids of its principals, as they were when the team was applied.

    Without ``principals`` whoever may send to the demand queue may act for its namespaces.
    """

    name: str
    namespaces: tuple[str, ...] = ()
    principals: tuple[str, ...] = ()
    limits: TeamLimits = TeamLimits()
    principal_ids: frozenset[str] = field(default_factory=frozenset)

    def may_act(self, sender_id: str | None) -> bool:
        """Whether a sender may act for the team's namespaces.

        ``sender_id`` is SQS's: a user's id, or a role's id, a colon and the name of the session; None: not told.
        """
        return not self.principals or (sender_id or "").partition(":")[0] in self.principal_ids


def by_namespace(teams: Iterable[Team]) -> Mapping[str, Team]:
    """Return the team of each namespace; of several that name one, the first by name has it."""
    found: dict[str, Team] = {}
    for team in sorted(teams, key=lambda team: team.name):
        for namespace in team.namespaces:
            found.setdefault(namespace, team)
    return found
