"""Spot is bought to save: no spot node, nor what it may be launched as instead, costs more than on demand (R-115)."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import itemgetter

from shared.core.checking.constraints.topology import OF_A_ZONE, Topology
from shared.core.checking.final_state.facts import Facts, Host, LaunchClass, tallied
from shared.core.checking.final_state.offering_facts import in_words
from shared.core.checking.final_state.place_facts import Place
from shared.core.checking.violation import Violation, ViolationCode
from shared.core.model.instance_type import CapacityType
from shared.core.model.node_pool import NodePool
from shared.core.model.plan import OfferingKey, PlannedNodes
from shared.core.model.workload import Workload
from shared.core.scheduling_terms.labels import CAPACITY_TYPE
from shared.core.scheduling_terms.resources import NODES

_Priced = tuple[int, OfferingKey]
_Sold = tuple[int, str, Sequence[tuple[int, Place]]]  # a type with its prices by place, from the cheapest on
_OF_A_PLACE = OF_A_ZONE | {CAPACITY_TYPE}  # rules by these may want a replica on spot, whatever that costs


def dear_spot_violations(facts: Facts, topology: Topology) -> Iterator[Violation]:
    """Check every spot launch of pools without minValues."""
    on_demand: dict[str, Sequence[_Sold]] = {}
    dearest: dict[int, _Priced] = {}
    judged: dict[tuple[int, int, int], OfferingKey | None] = {}
    for host, launch_class, pool in _on_spot(facts):
        if pool.name not in on_demand:
            on_demand[pool.name] = () if facts.min_values(pool) else _on_demand(facts, pool)
        if id(launch_class) not in dearest:
            dearest[id(launch_class)] = _dearest(facts, launch_class.launch)
        price, key = dearest[id(launch_class)]
        is_cheapest = not on_demand[pool.name] or price <= on_demand[pool.name][0][0]
        if is_cheapest or topology.hold(host.placed, _OF_A_PLACE):
            continue
        load, classes = facts.carried(host.placed)
        about = (id(launch_class), load, classes)
        if about not in judged:
            judged[about] = _cheaper(facts, host, pool, on_demand[pool.name], price)
        cheaper = judged[about]
        if cheaper is not None:
            message = f"{in_words(key)} costs more than {in_words(cheaper)}, which would do"
            yield Violation(ViolationCode.DEAR_SPOT, host.subject, message, tuple(sorted(host.placed)))


def _on_spot(facts: Facts) -> Iterator[tuple[Host, LaunchClass, NodePool]]:
    for host in facts.changed:
        launch_class, pool = host.launch_class, host.pool
        if (
            launch_class is not None
            and pool is not None
            and launch_class.launch.offering.capacity_type is CapacityType.SPOT
        ):
            yield host, launch_class, pool


def _on_demand(facts: Facts, pool: NodePool) -> Sequence[_Sold]:
    """Return what is sold on demand, the cheapest types first."""
    found: list[_Sold] = []
    for name, places in facts.open_places(pool).items():
        on_demand = [place for place in places if place.capacity_type is CapacityType.ON_DEMAND]
        prices = sorted((facts.price_atto_usd(OfferingKey(name, *place)), place) for place in on_demand)
        if prices:
            found.append((prices[0][0], name, prices))
    return sorted(found)


def _dearest(facts: Facts, launch: PlannedNodes) -> _Priced:
    """Return the dearest spot offering that the launch may become."""
    spot = [key for key in (launch.offering, *launch.alternatives) if key.capacity_type is CapacityType.SPOT]
    return max(((facts.price_atto_usd(key), key) for key in spot), key=lambda priced: priced[0])


# Branches: one search, from cheap to dear; each condition rules something out.
def _cheaper(facts: Facts, host: Host, pool: NodePool, on_demand: Sequence[_Sold], price: int) -> OfferingKey | None:
    """Return an on-demand offering below the price that certainly could carry what the host carries."""
    carried = [facts.workloads[key] for key in host.placed]
    if any(map(_depends_on_more, carried)):
        return None
    assert host.planned is not None
    load = facts.load(tallied(host.planned.placements))
    limits = [name for name in pool.limits or () if name != NODES]
    capacity = facts.types[host.planned.offering.instance_type].capacity
    for _, name, prices in on_demand[: bisect_left(on_demand, price, key=itemgetter(0))]:
        other = facts.types[name]
        if load.fits_in(other.allocatable) and all(other.capacity[it] <= capacity[it] for it in limits):
            for sold_for, place in prices:
                if sold_for < price and all(facts.accepts(pool, name, (place,), each) for each in carried):
                    return OfferingKey(name, *place)
    return None


def _depends_on_more(workload: Workload) -> bool:
    """Whether where the others run, or what it only prefers, may speak for the spot node."""
    return bool(
        workload.preferred_node_terms
        or workload.topology_spread
        or workload.affinity
        or workload.anti_affinity
        or workload.single_topology_key is not None
    )
