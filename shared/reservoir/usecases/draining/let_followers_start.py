"""Lets replicas start whose predecessors have left their nodes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.node_life.succession import settled
from reservoir.ports.state import NodeClaimStore
from reservoir.usecases.claims.claim_moves import try_to_save_claims


@dataclass(frozen=True, slots=True)
class LetFollowersStart:
    """Lets replicas start that waited for others, once these have left.

    A release does it at once for the replicas that follow it, and the minute's sweep for all. A node that the sweep
    does not reach starts its replicas by itself when the deadline has passed that it was given.
    """

    claims: NodeClaimStore

    def sweep(self, live: Iterable[NodeClaim], now: datetime) -> int:
        """Look at all live claims; return how many changed. Raises UnreadableRowsError."""
        return self._settle([claim for claim in live if claim.successions], now)

    def after(self, left_id: str, now: datetime) -> int:
        """Look at the claims that follow replicas of one; return how many changed. Raises UnreadableRowsError."""
        return self._settle(
            [claim for claim in self.claims.list_live() if left_id in _followed(claim)], now
        )

    def _settle(self, followers: Sequence[NodeClaim], now: datetime) -> int:
        if not followers:
            return 0
        named: set[str] = set()
        for claim in followers:
            named |= _followed(claim)
        known = self.claims.get_many(named)
        # The next sweep looks at claims that another process changed.
        moved = try_to_save_claims(
            self.claims, followers, lambda claim: settled(claim, known, now)
        )
        return len(moved.moved)


def _followed(claim: NodeClaim) -> set[str]:
    ids: set[str] = set()
    for found in claim.successions:
        ids |= {each.claim_id for each in found.predecessors}
    return ids
