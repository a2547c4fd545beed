"""No spot pool (type and zone) holds more of a plan's spot nodes than the policy's share (DESIGN rule 6)."""

from collections import Counter
from itertools import chain

from shared.core.instance_type import CapacityType
from shared.core.plan import OfferingKey
from shared.core.solver.alternatives import Alternatives
from shared.core.solver.market import Option
from shared.core.solver.state import Bin, State


def spread_spot(state: State) -> None:
    """Move nodes out of crowded spot pools to their next cheapest offering that has room, spot or on demand.

    Every move to another spot pool keeps the total; a move on demand lowers it, so the shares are looked at again.
    """
    policy = state.market.policy
    if policy.spot_pool_share_percent >= 100:
        return
    alternatives = Alternatives(state)
    while True:
        nodes = _spot_nodes(state)
        total = nodes.total()
        most = -(-total * policy.spot_pool_share_percent // 100)
        crowded = sorted((key for key, count in nodes.items() if count > most), key=_name)
        if total < policy.spot_share_from_nodes or not crowded:
            return
        moved = [_relieve(state, alternatives, key, nodes, most) for key in crowded]
        if True not in moved:
            return


def _name(key: OfferingKey) -> tuple[str, str]:
    return (key.instance_type, key.zone)


def _spot_nodes(state: State) -> Counter[OfferingKey]:
    nodes: Counter[OfferingKey] = Counter()
    for bin_ in state.bins:
        if bin_.option is not None and bin_.option.key.capacity_type is CapacityType.SPOT and bin_.contents:
            nodes[bin_.option.key] += bin_.count
    return nodes


def _relieve(
    state: State, alternatives: Alternatives, key: OfferingKey, nodes: Counter[OfferingKey], most: int
) -> bool:
    """Move what is too much out of one pool; return whether anything moved."""
    moved = False
    for bin_ in [item for item in state.bins if item.option is not None and item.option.key == key]:
        excess = nodes[key] - most
        if excess <= 0:
            break
        target = _target(alternatives, bin_, nodes, most)
        if target is None:
            continue
        room = most - nodes[target.key] if target.key.capacity_type is CapacityType.SPOT else excess
        count = min(excess, bin_.count, room, state.supply.nodes_left(target))
        if count > 0:
            state.change_option(state.split_bin(bin_, count), target)
            nodes[key] -= count
            if target.key.capacity_type is CapacityType.SPOT:
                nodes[target.key] += count
            moved = True
    return moved


def _target(alternatives: Alternatives, bin_: Bin, nodes: Counter[OfferingKey], most: int) -> Option | None:
    """Return the cheapest other offering with room."""
    found = chain(alternatives.others(bin_, CapacityType.SPOT), alternatives.others(bin_, CapacityType.ON_DEMAND))
    open_to = (
        option for option in found if option.key.capacity_type is not CapacityType.SPOT or nodes[option.key] < most
    )
    return min(open_to, key=lambda option: (option.price, option.index), default=None)
