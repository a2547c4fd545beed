"""Replaces spot nodes that cost more than on-demand (R-115), and removes those beyond a spot pool's share (rule 6).

Spot is cheaper than the same type on demand. But if small types are unavailable as spot and large ones are not, the
cheapest spot offering may cost more than a small on-demand one. A spot pool is an instance type in a zone.
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
    """Change each spot node to the cheapest on-demand substitute if that costs less."""
    state, substitutes = insertion.state, insertion.candidates.substitutes
    for bin_ in filter(_is_spot, state.bins):
        cheapest = substitutes.cheapest_on_demand(state, bin_)
        if (
            cheapest is not None
            and bin_.option is not None
            and cheapest.price < bin_.option.price
        ):
            # No limit is checked, as a substitute takes no more of any than the option it replaces.
            state.change_option(bin_, cheapest)


def _is_spot(bin_: Bin) -> bool:
    option = bin_.option
    return (
        option is not None
        and option.place.capacity_type is CapacityType.SPOT
        and bool(bin_.contents)
    )


def spread_spot(insertion: Insertion, place_leftovers: Callable[[], None]) -> None:
    """Remove nodes of spot pools beyond their share; ``place_leftovers`` places their replicas anew, or they wait.

    If replicas move to on-demand nodes, there are fewer spot nodes in all, which lowers the share. So the shares are
    computed again until all pools keep them. The bound on a pool's nodes never rises, so this ends.
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
    """Return how many nodes one spot pool may hold: all, while there are fewer than the policy's least total."""
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
    """Remove nodes of spot pools with more than ``most`` nodes, those with the lowest priority first.

    Gangs, and groups with rules over domains, are taken off all their nodes: the part that stayed might break the rule.
    Removal stops once there are so few spot nodes that the policy's shares no longer apply.
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
    """Return a sort key: nodes come first whose replicas have low priority and may be taken off alone."""
    priority = max(state.groups[index].priority for index in bin_.contents)
    return priority, bool(_whole(state, bin_)), bin_.uid


def _whole(state: PartialPlan, bin_: Bin) -> list[int]:
    """Return the indices of the groups on a node that must be taken off as a whole."""
    return [
        index
        for index, level in bin_.levels.items()
        if state.groups[index].workload.gang is not None
        or state.pinned_labels({index: level})
    ]
