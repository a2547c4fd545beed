"""The reserved units of a static pool: it has as many nodes as there are units, no more and no fewer."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from reservoir.core.capacity.offerings import pool_admits
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.instance_type import InstanceType
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.node_pool import NodePool


@dataclass(frozen=True, slots=True)
class PoolUnits:
    """Units by reservation: all that exist, and those that may still be promised.

    ``known``: the units of reservations whose number of units is known, whichever pool they are for: an unknown number
    ends no node.
    """

    total: Mapping[str, int]
    free: Mapping[str, int]
    known: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ReservedCapacity:
    """The reservations of a deployment, and what is needed to say whose units they are.

    Without the ``types``, what a pool asks of types beside their name is not looked at.
    """

    reservations: Mapping[str, CapacityReservation]
    node_classes: Mapping[str, NodeClass]
    types: Mapping[str, InstanceType] | None
    now: datetime

    @classmethod
    def of(
        cls,
        reservations: Iterable[CapacityReservation],
        node_classes: Iterable[NodeClass],
        types: Iterable[InstanceType] | None,
        now: datetime,
    ) -> "ReservedCapacity":
        """Name everything."""
        return cls(
            {reservation.id: reservation for reservation in reservations},
            {node_class.name: node_class for node_class in node_classes},
            None
            if types is None
            else {instance_type.name: instance_type for instance_type in types},
            now,
        )

    def units_of(self, pool: NodePool) -> PoolUnits:
        """Return the units of the reservations that a pool may launch into now.

        Into what was split off nothing is launched.
        """
        usable = [
            each
            for each in self.reservations.values()
            if each.is_active(self.now)
            and each.split_from is None
            and self._is_for(pool, each)
        ]
        known = {
            each.id: each.total_count
            for each in self.reservations.values()
            if not each.stale
        }
        total = {each.id: each.total_count for each in usable}
        return PoolUnits(
            total, {each.id: max(0, each.free_units) for each in usable}, known
        )

    def _is_for(self, pool: NodePool, reservation: CapacityReservation) -> bool:
        node_class = self.node_classes.get(pool.node_class_name)
        if node_class is None or reservation.id not in node_class.status.reservation_ids:
            return False
        if not (node_class.may_use(reservation) and pool_admits(pool, reservation)):
            return False
        if self.types is None:
            return True
        instance_type = self.types.get(reservation.instance_type)
        return instance_type is not None and pool.requirements.meets(
            instance_type.requirements
        )
