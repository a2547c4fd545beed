"""Successions: replicas that have a place while the replicas that they follow still run on draining nodes.

A drain returns its replicas to demand when it begins, so that their next nodes are launched ahead. Until the drain is
over both have a node. In a workload that is handed over, the later replica is held: its node and its senders do not see
it as running until the earlier one has left its node or the deadline has passed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from reservoir.core.model.node_claim import (
    ClaimState,
    Drain,
    NodeClaim,
    Predecessor,
    Succession,
)
from reservoir.core.model.snapshot import PlacedReplicas, count_of
from reservoir.core.node_life import drain


def awaits(claim: NodeClaim | None, workload_key: str) -> bool:
    """Whether replicas of the workload still run on a node that drains."""
    return (
        claim is not None
        and claim.state is ClaimState.DRAINING
        and drain.awaited_count(claim, workload_key) > 0
    )


def arriving(
    workload_key: str,
    added: Mapping[str, int],
    live: Iterable[NodeClaim],
    now: datetime,
    *,
    is_held: bool,
) -> Mapping[str, Succession]:
    """Return the replicas that newly placed ones follow, by claim id: as many as run on draining nodes.

    ``added``: how many replicas each claim gets. All that a claim gets are held if some are: a launcher for a whole
    node starts once. Replicas on ``live`` claims that follow others already are waited for too.
    """
    known = sorted(live, key=lambda claim: claim.id)
    left = _unfollowed(workload_key, known, now)
    found: dict[str, Succession] = {}
    for claim_id, count in sorted(added.items()):
        predecessors = _taken(left, count)
        if predecessors:
            found[claim_id] = Succession(workload_key, count, predecessors, is_held)
    return found


def with_succession(claim: NodeClaim, more: Succession) -> NodeClaim:
    """Return the claim with replicas that follow others, beside its replicas that do so already."""
    key = more.workload_key
    before = [it for it in claim.successions if it.workload_key == key]
    others = [it for it in claim.successions if it.workload_key != key]
    predecessors: dict[str, Predecessor] = {}
    for it in (*before, more):
        predecessors.update((each.claim_id, each) for each in it.predecessors)
    merged = replace(
        more,
        count=sum(it.count for it in (*before, more)),
        predecessors=_by_deadline(predecessors.values()),
    )
    return replace(
        claim,
        successions=tuple(sorted((*others, merged), key=lambda it: it.workload_key)),
    )


def handed_over(
    before: NodeClaim, draining: NodeClaim, after: NodeClaim, held_keys: Iterable[str]
) -> NodeClaim:
    """Return ``after``, which took replicas off a claim that begins to drain, as their successor."""
    if draining.drain is None:
        return after
    predecessor = Predecessor(draining.id, draining.drain.deadline)
    held = set(held_keys)
    for key, count in gained(before, after).items():
        if awaits(draining, key):
            followed = Succession(key, count, (predecessor,), key in held)
            after = with_succession(after, followed)
    return after


def gained(before: NodeClaim, after: NodeClaim) -> Mapping[str, int]:
    """Return how many replicas a claim has got, by workload key."""
    more = {
        placed.workload_key: placed.count - count_of(placed.workload_key, before.placements)
        for placed in after.placements
    }
    return {key: count for key, count in more.items() if count > 0}


def settled(
    claim: NodeClaim, known: Mapping[str, NodeClaim], now: datetime
) -> NodeClaim | None:
    """Return the claim without predecessors that have left; None when nothing changes.

    ``known`` are predecessors as they are stored; one that is not there has gone.
    """
    kept = []
    for it in claim.successions:
        awaited = tuple(
            each
            for each in it.predecessors
            if now < each.deadline and awaits(known.get(each.claim_id), it.workload_key)
        )
        if awaited:
            kept.append(replace(it, predecessors=awaited))
    left = tuple(kept)
    return None if left == claim.successions else replace(claim, successions=left)


def of_workload(claim: NodeClaim, workload_key: str) -> Succession | None:
    """Return the replicas that the claim's replicas of a workload follow; None where they follow none."""
    return next((it for it in claim.successions if it.workload_key == workload_key), None)


def predecessor_ids(claim: NodeClaim, workload_key: str) -> list[str]:
    """Return the claims that replicas of a workload have not left while others on this claim follow them."""
    found = of_workload(claim, workload_key)
    return [] if found is None else [each.claim_id for each in found.predecessors]


def held_count(claim: NodeClaim, placed: PlacedReplicas) -> int:
    """Return how many of the replicas on a claim may not start yet; on one that drains itself, none starts anyway."""
    found = of_workload(claim, placed.workload_key)
    if found is None or not found.is_held or claim.drain is not None:
        return 0
    return min(found.count, placed.count)


def held_until(found: Succession) -> datetime:
    """Return when held replicas may start in any case."""
    return max(each.deadline for each in found.predecessors)


@dataclass(slots=True)
class _Leaving:
    """A draining node: where its replicas run, or will run, and how many of them are not followed yet."""

    predecessors: tuple[Predecessor, ...]
    count: int


def _unfollowed(
    workload_key: str, live: Sequence[NodeClaim], now: datetime
) -> list[_Leaving]:
    """Return the nodes that replicas have not left, by deadline."""
    found = {
        claim.id: _leaving(claim, claim.drain, workload_key)
        for claim in live
        if claim.drain is not None and _is_awaited(claim, workload_key, now)
    }
    for claim in live:
        follows = of_workload(claim, workload_key)
        if follows is not None and (claim.drain is None or claim.id in found):
            _take_followed(found, follows)
    return sorted(found.values(), key=lambda it: _order(it.predecessors[0]))


def _leaving(claim: NodeClaim, its_drain: Drain, workload_key: str) -> _Leaving:
    """Describe a node that replicas leave; one that waits itself is followed together with those it waits for."""
    own = Predecessor(claim.id, its_drain.deadline)
    waits_for = of_workload(claim, workload_key)
    before = () if waits_for is None else waits_for.predecessors
    return _Leaving(_by_deadline((own, *before)), drain.awaited_count(claim, workload_key))


def _take_followed(found: Mapping[str, _Leaving], follows: Succession) -> None:
    """Take off the counts of nodes, by claim id, the replicas that others follow already."""
    left = follows.count
    for each in follows.predecessors:
        if each.claim_id in found:
            taken = min(left, found[each.claim_id].count)
            found[each.claim_id].count -= taken
            left -= taken


def _taken(unfollowed: list[_Leaving], count: int) -> tuple[Predecessor, ...]:
    """Take so many of the replicas that are not followed; return where they run."""
    found: dict[str, Predecessor] = {}
    for leaving in unfollowed:
        taken = min(count, leaving.count)
        if taken:
            leaving.count -= taken
            count -= taken
            found.update((each.claim_id, each) for each in leaving.predecessors)
    return _by_deadline(found.values())


def _is_awaited(claim: NodeClaim, workload_key: str, now: datetime) -> bool:
    return (
        claim.drain is not None
        and now < claim.drain.deadline
        and awaits(claim, workload_key)
    )


def _by_deadline(predecessors: Iterable[Predecessor]) -> tuple[Predecessor, ...]:
    return tuple(sorted(predecessors, key=_order))


def _order(each: Predecessor) -> tuple[datetime, str]:
    return each.deadline, each.claim_id
