"""Whether a sender may ask for what a message asks for.

SQS says who the sender is (``SenderId``); a message's own statement about its sender counts for nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from reservoir.core.model.team import Team, TeamLimits, in_force, may_reach
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.labels import DO_NOT_DISRUPT
from reservoir.manifests.messages import AnyMessage, SubmitMessage
from reservoir.manifests.parsing.fields import optional_seconds
from reservoir.manifests.parsing.problems import ManifestError, Problem, shown
from reservoir.ports.state import UnreadableRowsError


@dataclass(frozen=True, slots=True)
class DemandRules:
    """The part of policy that concerns demand. ``unreadable_teams``: teams whose namespaces cannot be read."""

    node_pool_names: frozenset[str] = frozenset()
    teams: Mapping[str, Team] = field(default_factory=dict)  # by namespace
    unreadable_teams: tuple[str, ...] = ()

    def authorise(self, message: AnyMessage, sender_id: str | None) -> TeamLimits:
        """Return the limits of the namespace that a message is about; where none are said, the ceilings.

        Raises
        ------
        ManifestError
            The sender may not act for the namespace, or not ask for so much.
        UnreadableRowsError
            The namespace may be one of a team that cannot be read.
        """
        namespace = message.workload.metadata.namespace
        team = self.teams.get(namespace)
        if team is None and self.unreadable_teams:
            raise UnreadableRowsError(self.unreadable_teams)
        if team is not None and not team.may_act(sender_id):
            raise ManifestError([_not_permitted(team, namespace, sender_id)])
        limits = in_force(TeamLimits() if team is None else team.limits)
        if isinstance(message, SubmitMessage):
            problems = list(
                _excesses(
                    message,
                    limits,
                    "the deployment" if team is None else f"Team {team.name}",
                )
            )
            if problems:
                raise ManifestError(problems)
        return limits

    def counted_as(self, namespace: str) -> str:
        """Return the name that a namespace's messages and workloads count under; those without a team share one."""
        team = self.teams.get(namespace)
        return "no team" if team is None else f"Team {team.name}"

    @property
    def sender_count(self) -> int:
        """Return among how many senders the bounds are divided: each team, and all namespaces without a team as one."""
        return len({team.name for team in self.teams.values()}) + 1

    def waiting_of_all(self, usual: int) -> int:
        """Return how many workloads of all may wait: ``usual``, or what the policy allows to one team."""
        return max(
            [usual, *(it.limits.waiting_workloads or 0 for it in self.teams.values())]
        )

    def refuse_reach(self, wanted: Workload) -> None:
        """Refuse required affinity to namespaces of teams that do not allow it. Raises ManifestError.

        Anti-affinity binds both sides: one replica a zone would keep another team out of a region.
        """
        problems: list[Problem] = []
        for kind, terms in (
            ("podAffinity", wanted.affinity),
            ("podAntiAffinity", wanted.anti_affinity),
        ):
            reached: set[str] = set()
            for term in terms:
                if term.weight is None:
                    reached.update(term.namespaces)
            for name in sorted(reached):
                if not may_reach(self.teams, wanted.namespace, name):
                    problems.append(self._out_of_reach(kind, name))
        if problems:
            raise ManifestError(problems)

    def _out_of_reach(self, kind: str, namespace: str) -> Problem:
        message = (
            f"{shown(namespace)} belongs to Team {self.teams[namespace].name}, which lets no replicas of others be"
            " placed by its own (affinityFrom)"
        )
        return Problem(f"workload.spec.affinity.{kind}", "not-permitted", message)


def _excesses(message: SubmitMessage, limits: TeamLimits, who: str) -> Iterator[Problem]:
    spec = message.workload.spec
    for name, asked, most in (
        ("priority", spec.priority, limits.priority),
        ("replicas", spec.replicas, limits.replicas),
    ):
        if most is not None and asked > most:
            yield Problem(
                f"workload.spec.{name}",
                "team-limit",
                f"{asked} is more than the {most} that {who} allows",
            )
    notice_s = optional_seconds(spec.checkpoint_period)
    longest_s = limits.checkpoint_period_s
    if notice_s is not None and longest_s is not None and notice_s > longest_s:
        longer = (
            f"{spec.checkpoint_period} is more than the {longest_s} s that {who} allows"
        )
        yield Problem("workload.spec.checkpointPeriod", "team-limit", longer)
    if message.workload.to_core().do_not_disrupt and not limits.do_not_disrupt:
        path = f"workload.metadata.annotations['{DO_NOT_DISRUPT}']"
        yield Problem(path, "team-limit", f"{who} does not allow it")


def refuse_jump(generation: int, stored_generation: int, limits: TeamLimits) -> None:
    """Refuse a generation so far above the stored one that it would leave none to its successors.

    Raises ManifestError.
    """
    most = limits.generation_jump
    if most is not None and generation > stored_generation + most:
        message = f"is more than {most} above the stored generation, {stored_generation}"
        problem = Problem(
            "workload.metadata.generation",
            "generation-jump",
            message,
            suggestion=str(stored_generation + 1),
        )
        raise ManifestError([problem])


def _not_permitted(team: Team, namespace: str, sender_id: str | None) -> Problem:
    who = "who sent it" if sender_id is None else shown(sender_id)
    message = f"{who} is not a principal of Team {team.name}, to which {namespace} belongs"
    return Problem("workload.metadata.namespace", "not-permitted", message)
