"""Handing replicas over: when a node begins to drain, its replicas belong at once to the nodes that replace it.

Were they demand in between, other demand could take the room (or the one slot) that was made for them, and the planner
would buy more for what lost it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import Final

from reservoir.core.launching.claim_nodes import grown_claim
from reservoir.core.model.node_claim import AWAITING_LAUNCH, ClaimState, NodeClaim
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.node_life.succession import handed_over
from reservoir.ports.state import ConflictError, NodeClaimStore, PlannedCommit
from reservoir.usecases.claims.claim_moves import Decide, return_all_replicas

_TRIES: Final = 6  # as for every move of a claim

# one that goes itself takes nothing
_TAKING: Final = AWAITING_LAUNCH | {ClaimState.LAUNCHED, ClaimState.RUNNING}

_Pair = tuple[NodeClaim, NodeClaim]


@dataclass(slots=True)
class HandOver:
    """Moves the replicas of one command's nodes; a ``draining.TakeOff``. ``placed``: which replica went where."""

    claims: NodeClaimStore
    replacement_ids: tuple[str, ...]
    now: datetime
    held_keys: frozenset[str] = frozenset()  # of workloads that are handed over
    placed: list[tuple[NodeClaim, tuple[PlacedReplicas, ...]]] = field(default_factory=list)

    def __call__(self, claim: NodeClaim, decide: Decide) -> NodeClaim | None:
        """Write the claim that ``decide`` returns; its replicas go to the replacements that expect them.

        Replicas that no replacement expects (they were simulated onto existing nodes, or onto one that was cordoned
        since) are demand again. Raises ConflictError.
        """
        current: NodeClaim | None = claim
        lost: ConflictError | None = None
        for _ in range(_TRIES):
            after = None if current is None else decide(current)
            if current is None or after is None:
                return None
            found = self.claims.get_many(self.replacement_ids)
            takers = [
                found[key]
                for key in sorted(found)
                if found[key].state in _TAKING and not found[key].cordoned
            ]
            pairs = [
                (before, handed_over(before, after, arrived, self.held_keys))
                for before, arrived in _moves(after.placements, takers, self.now)
            ]
            if not pairs:
                return return_all_replicas(self.claims, current, self.now, decide)
            gone = list(chain.from_iterable(map(_arrived, pairs)))
            left = replace(after, placements=_without(after.placements, gone))
            try:
                self.claims.commit(PlannedCommit(existing=((current, left), *pairs)))
            except ConflictError as error:
                lost = error
                current = self.claims.get(claim.id)
                continue
            self.placed += [
                (arrived, _arrived((before, arrived))) for before, arrived in pairs
            ]
            return self.return_rest(replace(left, revision=current.revision + 1))
        raise lost or ConflictError([claim.id])

    def return_rest(self, draining: NodeClaim) -> NodeClaim:
        """Return to demand the replicas that are left on a draining node.

        Raises ConflictError when other processes keep changing the claim, and UnreadableRowsError.
        """
        if not draining.placements:
            return draining
        rest = return_all_replicas(
            self.claims,
            draining,
            self.now,
            lambda claim: claim if claim.placements else None,
        )
        return rest or draining


def _moves(
    placements: Sequence[PlacedReplicas], replacements: Iterable[NodeClaim], now: datetime
) -> Iterator[_Pair]:
    """Yield replacements before and after they take what they expect of the replicas, in order of their ids."""
    left = {placed.workload_key: placed.count for placed in placements}
    for claim in replacements:
        taken = []
        for wanted in claim.expected:
            count = min(wanted.count, left.get(wanted.workload_key, 0))
            if count > 0:
                left[wanted.workload_key] -= count
                taken.append(PlacedReplicas(wanted.workload_key, count))
        if taken:
            grown = grown_claim(claim, taken, now, {})
            yield claim, replace(grown, expected=_without(claim.expected, taken))


def _arrived(pair: _Pair) -> tuple[PlacedReplicas, ...]:
    """Return the replicas that a replacement has taken: those that it no longer expects."""
    before, after = pair
    return _without(before.expected, after.expected)


def _without(
    placements: Sequence[PlacedReplicas], taken: Iterable[PlacedReplicas]
) -> tuple[PlacedReplicas, ...]:
    counts = {placed.workload_key: placed.count for placed in placements}
    for placed in taken:
        counts[placed.workload_key] -= placed.count
    return tuple(
        PlacedReplicas(key, count) for key, count in sorted(counts.items()) if count > 0
    )
