"""The part of a region's catalogue that pools can really launch: what a simulation needs, and what it costs.

A region has some 1,400 instance types with 13,000 offerings; most pools admit few of them. A pass finds out once which;
its simulations then see no others, and are charged for no others.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from reservoir.core.capacity.offerings import OFFERING_LABELS
from reservoir.core.model.instance_type import CapacityType, InstanceType, Offering
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduling_terms.labels import CAPACITY_TYPE, NODE_POOL, ZONE, ZONE_ID
from reservoir.core.scheduling_terms.requirement import Requirement

# Looking at whether a pool admits a type costs about as much as so many of its offerings.
_TYPES_AN_OFFERING: Final = 2


@dataclass(frozen=True, slots=True)
class OnSale:
    """The types that some pool admits or a reservation is of, and how much there is to look at for a launch.

    ``offerings`` of all pools together, the look at each type on behalf of each pool among them.
    """

    instance_types: tuple[InstanceType, ...]
    offerings: int

    @classmethod
    def of(cls, snapshot: Snapshot) -> "OnSale":
        """Look at every type on behalf of every pool."""
        admitted: set[str] = set()
        offerings = 0
        for pool in _unlike(snapshot.node_pools):
            places = [
                item for key, item in pool.requirements.items() if key in OFFERING_LABELS
            ]
            for kind in snapshot.instance_types:
                if pool.requirements.meets(kind.requirements):
                    admitted.add(kind.name)
                    offerings += sum(
                        _is_sold(offering, places) for offering in kind.offerings
                    )
        kept = admitted.union(_needed_anyway(snapshot))
        types = tuple(kind for kind in snapshot.instance_types if kind.name in kept)
        return cls(
            types, offerings + len(snapshot.node_pools) * len(types) // _TYPES_AN_OFFERING
        )


def _unlike(pools: Iterable[NodePool]) -> Iterator[NodePool]:
    """Yield the pools without those that sell what an earlier one sells: these need not be examined again."""
    seen: set[object] = set()
    for pool in pools:
        is_bounded = pool.limits is not None or any(
            item.min_values for item in pool.requirements.values()
        )
        own = tuple(
            sorted(
                (key, str(item))
                for key, item in pool.requirements.items()
                if key != NODE_POOL
            )
        )
        about = (pool.node_class_name, pool.weight, pool.taints, pool.startup_taints, own)
        if is_bounded or about not in seen:
            yield pool
        seen.add(about)


def _is_sold(offering: Offering, places: list[Requirement]) -> bool:
    values = {
        ZONE: offering.zone,
        ZONE_ID: offering.zone_id,
        CAPACITY_TYPE: str(offering.capacity_type.value),
    }
    return all(item.has(values[item.key]) for item in places if item.key in values)


def _needed_anyway(snapshot: Snapshot) -> Iterator[str]:
    """Yield the types of reserved units and nodes, and the types from which the price of reserved units is derived."""
    yield from (reservation.instance_type for reservation in snapshot.reservations)
    yield from (node.instance_type for node in snapshot.nodes)
    if snapshot.reservations and snapshot.instance_types:
        yield max(snapshot.instance_types, key=_dearest).name
        yield min(snapshot.instance_types, key=_cheapest_spot).name


def _dearest(kind: InstanceType) -> int:
    listed = [
        it.price_micro_usd_per_hour
        for it in kind.offerings
        if it.capacity_type is CapacityType.ON_DEMAND
    ]
    return max(kind.on_demand_price_micro_usd_per_hour or 0, *listed, 0)


def _cheapest_spot(kind: InstanceType) -> tuple[bool, int]:
    """Order types by their cheapest spot price, those without any last."""
    spot = [
        it.price_micro_usd_per_hour
        for it in kind.offerings
        if it.capacity_type is not CapacityType.ON_DEMAND
    ]
    priced = [price for price in spot if price > 0]
    return not priced, min(priced, default=0)
