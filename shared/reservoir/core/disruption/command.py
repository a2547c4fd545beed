"""What disruption decided: commands, refusals, and why."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.disruption.candidate import Candidate, Refusal
from reservoir.core.disruption.unit_move import UnitMove
from reservoir.core.disruption.unit_split import UnitSplit
from reservoir.core.model.node_pool import DisruptionReason
from reservoir.core.model.plan import Plan, PlannedNodes

RECEIVES: Final = "replicas of other nodes move here"  # why a destination is left alone
LATER: Final = "a later pass will judge it"  # why a node was not judged
_HOUR: Final = timedelta(hours=1)
_TURNS_AN_HOUR: Final = 60  # at least one node has its turn in each minute's pass


@dataclass(frozen=True, slots=True)
class WaitingTurn:
    """A node that passes have had no effort for since then."""

    claim_id: str
    since: datetime


@dataclass(frozen=True, slots=True)
class DisruptionCommand:
    """Nodes to remove together, and what must run before they drain.

    ``replacements`` are launched and running before any of ``claim_ids`` drains, unless ``terminate_first``: then the
    one node goes first, its reservation's slot stays leased, and the replacement is launched into the slot.
    ``destinations`` are claims that the replicas were simulated onto; they are protected until the replicas arrive.
    ``pool_deleted``: the nodes go because their NodePool did. ``scales_down``: a static pool has too many of them, and
    they go past budgets.
    """

    reason: DisruptionReason
    claim_ids: tuple[str, ...]
    replacements: tuple[PlannedNodes, ...] = ()
    destinations: tuple[str, ...] = ()
    savings_atto_usd_per_hour: int = 0
    terminate_first: bool = False
    explanation: str = ""
    pool_deleted: bool = False
    scales_down: bool = False


@dataclass(frozen=True, slots=True)
class DisruptionDecision:
    """One pass: what to do, and for every other node why not; whose turn did not come is first in the next."""

    commands: tuple[DisruptionCommand, ...]
    refusals: tuple[Refusal, ...]
    moves: tuple[UnitMove, ...] = ()
    waiting: tuple[WaitingTurn, ...] = ()
    splits: tuple[UnitSplit, ...] = ()

    def unjudged_for_an_hour(self, now: datetime) -> int:
        """Count nodes that have waited for an hour, or will have: each pass tries the one that waits longest."""
        to_come = max(0, len(self.waiting) - _TURNS_AN_HOUR)
        waited = sum(now - turn.since >= _HOUR for turn in self.waiting)
        return max(to_come, waited)


def command_of(
    reason: DisruptionReason,
    removed: tuple[Candidate, ...],
    plan: Plan,
    explanation: str,
    *,
    terminate_first: bool = False,
) -> DisruptionCommand:
    """Make a command from a simulation's plan."""
    return DisruptionCommand(
        reason=reason,
        claim_ids=tuple(sorted(candidate.id for candidate in removed)),
        replacements=plan.launches,
        destinations=tuple(sorted(placement.claim_id for placement in plan.existing)),
        savings_atto_usd_per_hour=sum(candidate.price for candidate in removed)
        - launch_cost(plan),
        terminate_first=terminate_first,
        explanation=explanation,
        pool_deleted=any(candidate.is_orphan for candidate in removed),
    )


def launch_cost(plan: Plan) -> int:
    """Price of everything that the plan launches, in atto-USD an hour."""
    return sum(nodes.price_atto_usd_per_hour * nodes.count for nodes in plan.launches)
