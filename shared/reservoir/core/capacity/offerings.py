"""What pools and their classes can launch, into which reservations, and at which near-zero price (rules 2 and 4)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduling_terms.labels import (
    ARCH,
    CAPACITY_RESERVATION_ID,
    CAPACITY_RESERVATION_INTERRUPTIBLE,
    CAPACITY_RESERVATION_SETTING,
    CAPACITY_RESERVATION_TYPE,
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NETWORK_LABELS,
    NETWORK_NODE_LAYERS,
    RESERVATION_SETTING_TARGET,
    ULTRA_SERVER_ID,
    ZONE,
    ZONE_ID,
)
from reservoir.core.scheduling_terms.money import (
    ATTO_USD_PER_MICRO_USD,
    reserved_price_atto_usd,
    reserved_price_divisor,
)

# Labels that an offering decides, not the pool or the instance type.
OFFERING_LABELS: Final = frozenset(
    {
        ZONE,
        ZONE_ID,
        CAPACITY_TYPE,
        CAPACITY_RESERVATION_ID,
        CAPACITY_RESERVATION_TYPE,
        CAPACITY_RESERVATION_INTERRUPTIBLE,
        CAPACITY_RESERVATION_SETTING,
        *NETWORK_LABELS,
    }
)


@dataclass(frozen=True, slots=True)
class ReservedPrices:
    """Prices of reserved units, from all discovered prices of a snapshot."""

    divisor: int
    dearest_micro_usd: int

    @classmethod
    def of(cls, instance_types: Iterable[InstanceType]) -> "ReservedPrices":
        """Compute the ODCR RFC's ratio: the highest on-demand price over the lowest spot price."""
        dearest, cheapest = 0, 0
        for instance_type in instance_types:
            dearest = max(dearest, instance_type.on_demand_price_micro_usd_per_hour or 0)
            for offering in instance_type.offerings:
                price = offering.price_micro_usd_per_hour
                if offering.capacity_type is CapacityType.ON_DEMAND:
                    dearest = max(dearest, price)
                elif price > 0:
                    cheapest = min(cheapest or price, price)
        return cls(
            reserved_price_divisor(dearest, cheapest or max(1, dearest)), max(1, dearest)
        )

    def atto_usd_per_hour(self, instance_type: InstanceType) -> int:
        """Price one reserved unit of the type; a type without any known price counts as the most expensive."""
        return reserved_price_atto_usd(
            self.on_demand_micro_usd(instance_type), self.divisor
        )

    def on_demand_micro_usd(self, instance_type: InstanceType) -> int:
        """Return what a unit would cost on demand: the order among reservations."""
        known = instance_type.on_demand_price_micro_usd_per_hour
        if known is not None:
            return known
        listed = [
            offering.price_micro_usd_per_hour
            for offering in instance_type.offerings
            if offering.capacity_type is CapacityType.ON_DEMAND
        ]
        return min(listed, default=self.dearest_micro_usd)


def usable_pools(snapshot: Snapshot) -> list[tuple[NodePool, NodeClass]]:
    """Return the dynamic pools with a class that may launch: heavier first, equal weights by descending name (R-39)."""
    classes = {node_class.name: node_class for node_class in snapshot.node_classes}
    found = []
    by_name = sorted(snapshot.node_pools, key=lambda item: item.name, reverse=True)
    for pool in sorted(by_name, key=lambda item: -item.weight):
        node_class = classes.get(pool.node_class_name)
        launches = not pool.is_static and pool.paused is None
        if (
            launches
            and node_class is not None
            and node_class.status.launch_blocked_reason is None
        ):
            found.append((pool, node_class))
    return found


def has_image(node_class: NodeClass, instance_type: InstanceType) -> bool:
    """Whether the class has an image that the type runs."""
    images = node_class.status.machine_images
    architecture = instance_type.requirements[ARCH]
    return not images or any(architecture.has(image.architecture) for image in images)


def selected_reservations(
    snapshot: Snapshot, node_class: NodeClass
) -> tuple[CapacityReservation, ...]:
    """Return the reservations that the class selected and can launch into, sorted by id."""
    wanted = frozenset(node_class.status.reservation_ids)
    chosen: dict[str, CapacityReservation] = {}
    for reservation in snapshot.reservations:
        if reservation.id not in wanted or not node_class.may_use(reservation):
            continue
        known = chosen.get(reservation.unit_key)
        # Two readings of one reservation: the smaller count cannot over-commit.
        if known is None or reservation.free_units < known.free_units:
            chosen[reservation.unit_key] = reservation
    return tuple(chosen[key] for key in sorted(chosen))


def reservation_labels(
    reservation: CapacityReservation, setting: str = RESERVATION_SETTING_TARGET
) -> Mapping[str, str]:
    """Return the labels of nodes in this reservation: the ODCR RFCs' (R-23), and where EC2 says that it is.

    ``setting`` is how the node came into it: "target", as every launch into a reservation is one, or "open".
    """
    interruptible = reservation.kind is ReservationKind.INTERRUPTIBLE
    kind = ReservationKind.DEFAULT if interruptible else reservation.kind
    return {
        CAPACITY_RESERVATION_ID: reservation.id,
        CAPACITY_RESERVATION_TYPE: str(kind.value),
        CAPACITY_RESERVATION_INTERRUPTIBLE: "true" if interruptible else "false",
        CAPACITY_RESERVATION_SETTING: setting,
        **network_labels(reservation.network_nodes, reservation.ultra_server_id),
    }


def network_labels(
    network_nodes: Sequence[str], ultra_server_id: str | None
) -> Mapping[str, str]:
    """Return the labels of what is under these network nodes (from the top) and in this UltraServer."""
    found = dict(zip(NETWORK_NODE_LAYERS, network_nodes, strict=False))
    if ultra_server_id is not None:
        found[ULTRA_SERVER_ID] = ultra_server_id
    return found


def pool_admits(pool: NodePool, reservation: CapacityReservation) -> bool:
    """Whether nodes in the reservation meet the pool's requirements of place, market and the type's name.

    Its other requirements of types are not checked: a count of units by this may be too high.
    """
    known = {
        INSTANCE_TYPE: reservation.instance_type,
        ZONE: reservation.zone,
        ZONE_ID: reservation.zone_id,
        CAPACITY_TYPE: str(CapacityType.RESERVED),
        **reservation_labels(reservation),
    }
    return all(
        requirement.has(known[key])
        for key, requirement in pool.requirements.items()
        if key in known
    )


def price_atto_usd(micro_usd: int) -> int:
    """Convert a price of the outside world."""
    return micro_usd * ATTO_USD_PER_MICRO_USD
