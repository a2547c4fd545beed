"""Spot is bought to save: no spot node, nor any alternative of its launch, costs more than on demand (R-115)."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from reservoir.core.checking.constraints.topology import OF_A_ZONE, Topology
from reservoir.core.checking.final_state.facts import Facts, Host, LaunchClass
from reservoir.core.checking.final_state.offering_facts import in_words
from reservoir.core.checking.final_state.place_facts import place_of
from reservoir.core.checking.violation import Violation, ViolationCode
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import OfferingKey, PlannedNodes
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.labels import CAPACITY_TYPE
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.core.scheduling_terms.resources import NODES

_Priced = tuple[int, OfferingKey]
# the least that a type is listed for on demand, its name, and its room, packed
_Sold = tuple[int, str, int]
# rules by these may want a replica on spot, whatever that costs
_OF_A_PLACE = OF_A_ZONE | {CAPACITY_TYPE}


def dear_spot_violations(facts: Facts, topology: Topology) -> Iterator[Violation]:
    """Check every spot launch of pools without minValues."""
    on_demand = sorted(_on_demand(facts))
    dearest: dict[LaunchClass, _Priced] = {}
    judged: dict[tuple[LaunchClass, int, int], OfferingKey | None] = {}
    for host, launch_class, pool in _on_spot(facts):
        if launch_class not in dearest:
            dearest[launch_class] = _dearest(facts, launch_class.launch)
        price, key = dearest[launch_class]
        is_cheapest = not on_demand or price <= on_demand[0][0]
        if is_cheapest or facts.min_values(pool) or _depends_on_more(facts, topology, host):
            continue
        load, classes = facts.carried(host.placed)
        about = (launch_class, load, classes)
        if about not in judged:
            judged[about] = _cheaper(facts, host, pool, on_demand, price, load)
        cheaper = judged[about]
        if cheaper is not None:
            message = f"{in_words(key)} costs more than {in_words(cheaper)}, which would do"
            yield Violation(
                ViolationCode.DEAR_SPOT, host.subject, message, tuple(sorted(host.placed))
            )


def _on_spot(facts: Facts) -> Iterator[tuple[Host, LaunchClass, NodePool]]:
    for host in facts.changed:
        launch_class, pool = host.launch_class, host.pool
        if (
            launch_class is not None
            and pool is not None
            and launch_class.launch.offering.capacity_type is CapacityType.SPOT
        ):
            yield host, launch_class, pool


def _on_demand(facts: Facts) -> Iterator[_Sold]:
    """Yield the types that are listed on demand, whether or not a pool may have them now."""
    for instance_type in facts.snapshot.instance_types:
        on_demand = [
            it
            for it in instance_type.offerings
            if it.capacity_type is CapacityType.ON_DEMAND
        ]
        if on_demand:
            least = min([offering.price_micro_usd_per_hour for offering in on_demand])
            room = facts.packing.room(facts.by_name(instance_type.allocatable))
            yield least * ATTO_USD_PER_MICRO_USD, instance_type.name, room


def _dearest(facts: Facts, launch: PlannedNodes) -> _Priced:
    """Return the most expensive spot offering that the launch may become."""
    spot = [
        key
        for key in (launch.offering, *launch.alternatives)
        if key.capacity_type is CapacityType.SPOT
    ]
    return max(
        ((facts.price_atto_usd(key), key) for key in spot), key=lambda priced: priced[0]
    )


# Branches: one search, from cheap to expensive; each condition excludes something.
def _cheaper(
    facts: Facts,
    host: Host,
    pool: NodePool,
    on_demand: Sequence[_Sold],
    price: int,
    load: int,
) -> OfferingKey | None:
    """Return an on-demand offering below the price that certainly could carry what the host carries."""
    carried = [facts.workloads[key] for key in host.placed]
    assert host.planned is not None
    limits = [name for name in pool.limits or () if name != NODES]
    capacity = facts.launched_as(pool, host.planned.offering.instance_type).capacity
    for _, name, room in on_demand[: bisect_left(on_demand, (price,))]:
        other = facts.launched_as(pool, name)
        if not facts.packing.fits(load, room):
            continue
        # the pool's class may have smaller volumes
        room_here = facts.packing.room(facts.type_room(pool, name))
        if facts.packing.fits(load, room_here) and all(
            other.capacity[it] <= capacity[it] for it in limits
        ):
            for key in facts.sold_on_demand(pool, other):
                is_cheaper = facts.price_atto_usd(key) < price
                if is_cheaper and all(
                    facts.accepts(pool, name, (place_of(key),), each) for each in carried
                ):
                    return key
    return None


def _depends_on_more(facts: Facts, topology: Topology, host: Host) -> bool:
    """Whether where others run, or what something on it only prefers, may speak for the spot node."""
    is_held = topology.hold(host.placed, _OF_A_PLACE)
    return is_held or any(_is_choosy(facts.workloads[key]) for key in host.placed)


def _is_choosy(workload: Workload) -> bool:
    return bool(
        workload.preferred_node_terms
        or workload.topology_spread
        or workload.affinity
        or workload.anti_affinity
        or workload.single_topology_key is not None
    )
