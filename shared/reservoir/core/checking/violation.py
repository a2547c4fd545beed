"""What the checker reports."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class ViolationCode(StrEnum):
    """The rule that a plan breaks."""

    # a pending replica is not exactly once placed or unplaced
    REPLICA_COUNT = "ReplicaCount"
    # the plan names something that the snapshot does not have, or that is going away
    UNKNOWN_NAME = "UnknownName"
    RESOURCES = "Resources"
    REQUIREMENTS = "Requirements"
    TAINT = "Taint"
    OFFERING = "Offering"  # not offered, not available, or not allowed by pool or class
    PRICE = "Price"
    COST = "Cost"  # total or lower bound do not agree with the launches
    ALTERNATIVE = "Alternative"
    RESERVATION_OVERCOMMITTED = "ReservationOvercommitted"
    RESERVATION_UNUSABLE = "ReservationUnusable"
    DURATION = "Duration"
    GANG = "Gang"
    SPREAD = "Spread"
    AFFINITY = "Affinity"
    ANTI_AFFINITY = "AntiAffinity"
    LIMIT = "Limit"
    MIN_VALUES = "MinValues"
    FALLBACK = "Fallback"
    MAX_PRICE = "MaxPrice"
    SPOT_SHARE = "SpotShare"
    DEAR_SPOT = "DearSpot"  # costs more than on demand
    # a team borrows more than it may, or units that are not lent to it
    TEAM_QUOTA = "TeamQuota"
    TEAM_BUDGET = "TeamBudget"  # buys for a team beyond its budget
    TEAM_POOL = "TeamPool"  # on a node of a pool that its team may not use
    TEAM_OWED = "TeamOwed"  # lent, while their owner waits
    PRIORITY_INVERSION = "PriorityInversion"
    PAID_WHILE_FREE = "PaidWhileFree"  # rule 3
    BELOW_FLOOR = "BelowFloor"  # on a reserved slot that the policy keeps for larger work
    UNPLACED_WITHOUT_CAUSE = "UnplacedWithoutCause"  # rule 7


# A plan that could have been better, or whose reasons are not true, harms no workload: it may be committed as it is.
# Refusing it would leave all demand waiting because of one workload.
_SHORTCOMINGS: Final = frozenset(
    {
        ViolationCode.DEAR_SPOT,
        ViolationCode.PRIORITY_INVERSION,
        ViolationCode.TEAM_OWED,
        ViolationCode.PAID_WHILE_FREE,
        ViolationCode.BELOW_FLOOR,
        ViolationCode.UNPLACED_WITHOUT_CAUSE,
    }
)


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """One broken rule; ``subject`` is the launch, node, workload or reservation that breaks it.

    ``workload_keys``: without placing these workloads the plan would not break it; empty where it is not due to any.
    """

    code: ViolationCode
    subject: str
    message: str
    workload_keys: tuple[str, ...] = ()

    @property
    def forbids_commit(self) -> bool:
        """Whether what the plan does is wrong, and not only less than it should do."""
        return self.code not in _SHORTCOMINGS

    def __str__(self) -> str:
        return f"{self.code}: {self.subject}: {self.message}"
