"""Team: who may ask for what.

A namespace belongs to one team at most; a namespace without a team is open to all senders.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Final

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_class import CapacityReservationSelectorTerm

DEFAULT_COHORT: Final = "default"


class ReclaimWithinCohort(StrEnum):
    """From which teams a team takes back units that it owns, needs, and has lent."""

    NEVER = "Never"
    # from work of a lower priority than the work that waits
    LOWER_PRIORITY = "LowerPriority"
    ANY = "Any"


@dataclass(frozen=True, slots=True)
class Quota:
    """Units of the reservations that some term selects; the limits are None where nothing bounds."""

    reservation_terms: tuple[CapacityReservationSelectorTerm, ...]
    nominal_units: int
    borrowing_limit_units: int | None = None
    lending_limit_units: int | None = None


@dataclass(frozen=True, slots=True)
class ResourceQuota:
    """An amount of a resource, in its own unit, that may be requested on nodes of these capacity types.

    The limits are None where nothing but the cohort bounds.
    """

    capacity_types: tuple[CapacityType, ...]  # sorted
    resource: str
    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@dataclass(frozen=True, slots=True)
class TeamLimits:
    """What a team may ask for, and send. Without limits of its own the ceilings hold, as they do without any team."""

    priority: int | None = None
    replicas: int | None = None
    checkpoint_period_s: int | None = None  # None: what the deployment allows
    do_not_disrupt: bool = True  # whether its work may say so
    # how far a message's generation may be above the stored one
    generation_jump: int | None = None
    waiting_workloads: int | None = None
    # a workload's bytes times how many wait may be so many, so that all together are a few times that
    waiting_bytes: int | None = None
    messages_per_minute: int | None = None
    new_workloads_per_day: int | None = None


# More than demand in good faith ever asks for, and the most that a hostile sender, or a loop by mistake, may cost all
# others.
CEILINGS: Final = TeamLimits(
    priority=10**9,  # the highest that Kubernetes leaves to its users
    replicas=100_000,
    # room for instants in microseconds, and for three more messages that use it up
    generation_jump=2**51,
    waiting_workloads=20_000,
    waiting_bytes=64 * 2**20,
    messages_per_minute=6_000,
    new_workloads_per_day=100_000,
)


# Planners list the keys of all that waits in each pass, and intake each few seconds. Where so many wait, each team may
# have its part of that.
WAITING_OF_ALL: Final = 50_000


def in_force(limits: TeamLimits) -> TeamLimits:
    """Return the limits with the ceilings where they say nothing."""
    said = {
        name: value for name in _NUMBERS if (value := getattr(limits, name)) is not None
    }
    return replace(CEILINGS, **said, do_not_disrupt=limits.do_not_disrupt)


_NUMBERS: Final = tuple(
    each.name for each in fields(TeamLimits) if each.name != "do_not_disrupt"
)


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What everything that a deployment buys may cost; None: no bound."""

    micro_usd_per_hour: int | None = None
    micro_usd_per_month: int | None = None


@dataclass(frozen=True, slots=True)
class Team:
    """A team. ``principal_ids`` are IAM's unique ids of its principals, as they were when the team was applied.

    Without ``principals``, every sender of the demand queue may act for its namespaces.
    """

    name: str
    namespaces: tuple[str, ...] = ()
    principals: tuple[str, ...] = ()
    node_pools: tuple[str, ...] = ()  # on whose nodes its work may be placed; none: on all
    limits: TeamLimits = TeamLimits()
    quotas: tuple[Quota, ...] = ()
    resource_quotas: tuple[ResourceQuota, ...] = ()
    cohort: str = DEFAULT_COHORT
    weight: int = 1
    reclaim_within_cohort: ReclaimWithinCohort = ReclaimWithinCohort.NEVER
    # how old a node is before do-not-disrupt keeps it no longer from its owner
    loan_grace_s: int = 2 * 3600
    # teams whose required affinity may be about its replicas
    affinity_from: tuple[str, ...] = ()
    # for capacity that is bought; reserved units cost it nothing
    budget_micro_usd_per_hour: int | None = None
    # the rest of it bounds the budget of an hour in a snapshot
    budget_micro_usd_per_month: int | None = None
    principal_ids: frozenset[str] = field(default_factory=frozenset)

    def may_act(self, sender_id: str | None) -> bool:
        """Whether a sender may act for the team's namespaces.

        ``sender_id`` is SQS's: a user's id, or a role's id, a colon and the name of the session; None: unknown.
        """
        return (
            not self.principals or (sender_id or "").partition(":")[0] in self.principal_ids
        )


def may_reach(teams: Mapping[str, Team], namespace: str, other: str) -> bool:
    """Whether required affinity of work in one namespace may be about the work in another; ``teams`` by namespace."""
    own, owner = teams.get(namespace), teams.get(other)
    if owner is None or (own is not None and own.name == owner.name):
        return True
    return own is not None and own.name in owner.affinity_from


def by_namespace(teams: Iterable[Team]) -> Mapping[str, Team]:
    """Return the team of each namespace; of several that name one, the first by name has it."""
    found: dict[str, Team] = {}
    for team in sorted(teams, key=lambda team: team.name):
        for namespace in team.namespaces:
            found.setdefault(namespace, team)
    return found
