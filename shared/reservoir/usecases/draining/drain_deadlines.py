"""Ends drains at their deadlines, by an exact timer at the next one and by every sweep.

One timer serves all drains. Each run that ends due drains sets it to the next deadline, so the timers continue even
while no sweep succeeds.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.node_life.drain import is_over
from reservoir.ports.messaging import DrainTimers
from reservoir.ports.state import NodeClaimStore
from reservoir.usecases.draining.draining import Draining


@dataclass(frozen=True, slots=True)
class EndedDrains:
    """``claim_ids``: drains that were over. ``refused``: instance ids that EC2 would not end, with its code.

    ``late``: how long after its deadline the latest of them was ended; None when all had been released before theirs.
    """

    claim_ids: frozenset[str] = frozenset()
    late: timedelta | None = None
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DrainDeadlines:
    """Watches the deadlines of drains."""

    claims: NodeClaimStore
    draining: Draining
    timers: DrainTimers

    def end(self, live: Sequence[NodeClaim], now: datetime) -> EndedDrains:
        """Terminate the nodes of drains that are over; what EC2 refuses, or the envelope holds, waits for a sweep.

        Raises UnreadableRowsError for claims that cannot be read again.
        """
        over = [claim for claim in live if is_over(claim, now)]
        refused = self.draining.end_due(over, now).refused if over else {}
        passed = [
            now - it.drain.deadline
            for it in over
            if it.drain is not None and it.drain.deadline <= now
        ]
        return EndedDrains(
            frozenset(claim.id for claim in over), max(passed, default=None), refused
        )

    def watch(
        self, live: Sequence[NodeClaim], begun: Collection[str], now: datetime
    ) -> None:
        """Set the timer to the next deadline. ``begun`` names claims that began to drain since ``live`` was read.

        Raises UnreadableRowsError when one of these cannot be read.
        """
        current = {claim.id: claim for claim in live} | dict(
            self.claims.get_many(begun) if begun else {}
        )
        deadlines = [
            claim.drain.deadline
            for claim in current.values()
            if claim.state is ClaimState.DRAINING
            and claim.drain is not None
            and claim.drain.deadline > now
        ]
        if deadlines:
            self.timers.set_deadline_timer(min(deadlines))
