"""Which spot is bought: none dearer than on-demand (R-115), none beyond a pool's share (rule 6).

Spot is cheaper than the same type on demand, but small types may be out of spot while large ones are not: the cheapest
spot offering is then dearer than a small on-demand one. A spot pool is a type in a zone.
"""

from collections import Counter
from collections.abc import Callable

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.plan import OfferingKey
from reservoir.core.solver.insertion.insert import Insertion
from reservoir.core.solver.insertion.node_elimination import empty_paid_nodes, take_off
from reservoir.core.solver.solution.bins import Bin
from reservoir.core.solver.solution.partial_plan import PartialPlan


def replace_dear_spot(insertion: Insertion) -> None:
    """Buy the cheapest on-demand offering instead, where there is one that costs less and holds the same."""
    state, substitutes = insertion.state, insertion.candidates.substitutes
    for bin_ in filter(_is_spot, state.bins):
        cheapest = substitutes.cheapest_on_demand(state, bin_)
        if (
            cheapest is not None
            and bin_.option is not None
            and cheapest.price < bin_.option.price
        ):
            # which takes no more of any limit than what it replaces
            state.change_option(bin_, cheapest)


def _is_spot(bin_: Bin) -> bool:
    option = bin_.option
    return (
        option is not None
        and option.place.capacity_type is CapacityType.SPOT
        and bool(bin_.contents)
    )


def spread_spot(insertion: Insertion, place_leftovers: Callable[[], None]) -> None:
    """Do without nodes of crowded spot pools; who was on them is placed anew where pools have room, or waits.

    Where that is on demand the total is lower, so the shares are looked at again. Each time less is beyond a bound that
    only gets lower, so this ends.
    """
    state, policy = insertion.state, insertion.state.catalogue.policy
    if policy.spot_pool_share_percent >= 100:
        return
    bound: int | None = None
    while True:
        replace_dear_spot(insertion)
        nodes = _spot_nodes(state)
        most = _most(state, nodes)
        if all(count <= most for count in nodes.values()):
            return
        bound = most if bound is None else min(most, bound)
        state.commit()
        state.residual.bound_spot(bound, nodes)
        _do_without(state, nodes, bound)
        place_leftovers()
        empty_paid_nodes(insertion)


def _most(state: PartialPlan, nodes: Counter[OfferingKey]) -> int:
    """Return how many nodes one pool may hold; below the least total of the policy any number."""
    policy, total = state.catalogue.policy, nodes.total()
    if total < policy.spot_share_from_nodes:
        return total
    return -(-total * policy.spot_pool_share_percent // 100)


def _spot_nodes(state: PartialPlan) -> Counter[OfferingKey]:
    nodes: Counter[OfferingKey] = Counter()
    for bin_ in state.bins:
        if bin_.option is not None and _is_spot(bin_):
            nodes[bin_.option.key] += bin_.count
    return nodes


def _do_without(state: PartialPlan, nodes: Counter[OfferingKey], most: int) -> None:
    """Take nodes out of crowded pools with who is on them, the lowest priority first.

    Who belongs together by rules over domains, or to a gang, goes as a whole: the rest alone might break the rule. No
    more go than it takes to have so few spot nodes that shares mean nothing.
    """
    too_many = nodes.total() - state.catalogue.policy.spot_share_from_nodes + 1
    dropped: set[int] = set()
    for bin_ in sorted(
        filter(_is_spot, state.bins), key=lambda item: _importance(state, item)
    ):
        assert bin_.option is not None
        count = min(nodes[bin_.option.key] - most, too_many, bin_.count)
        if count > 0:
            nodes[bin_.option.key] -= count
            too_many -= count
            dropped.update(_whole(state, bin_))
            node = state.split_bin(bin_, count)
            state.empty(node)
            state.close_bin(node)
    take_off(state, dropped)


def _importance(state: PartialPlan, bin_: Bin) -> tuple[int, bool, int]:
    """Sort nodes: those first that nobody misses much."""
    priority = max(state.groups[index].priority for index in bin_.contents)
    return priority, bool(_whole(state, bin_)), bin_.uid


def _whole(state: PartialPlan, bin_: Bin) -> list[int]:
    """Return the groups on a node of which it is all or nothing."""
    return [
        index
        for index, level in bin_.levels.items()
        if state.groups[index].workload.gang is not None
        or state.pinned_labels({index: level})
    ]
