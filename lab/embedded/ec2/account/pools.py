"""How much hardware each capacity pool (instance type, zone, market) has; unlimited unless a test says otherwise."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from lab.embedded.ec2.account.state import (
    HOLDING_STATES,
    CapacityReservation,
    Instance,
    Market,
    ReservationKind,
)

PoolKey = tuple[str, str, Market]


@dataclass
class PoolLimits:
    """Sizes of the pools that are limited. Spot has its own pool; reservations take theirs from the on-demand one."""

    sizes: dict[PoolKey, int] = field(default_factory=dict)

    def free(
        self,
        key: PoolKey,
        instances: Iterable[Instance],
        reservations: Iterable[CapacityReservation],
    ) -> int | None:
        """Return how many instances the pool can still hold, None when it is not limited.

        An on-demand reservation holds its whole size whether used or not, so instances inside one are not counted
        again. Blocks, and reservations of other accounts, stand on hardware of their own.
        """
        size = self.sizes.get(key)
        if size is None:
            return None
        instance_type, zone, market = key
        taken = sum(
            1
            for i in instances
            if i.is_live
            and i.reservation_id is None
            and (i.spec.instance_type, i.spec.zone.name, i.market)
            == (instance_type, zone, market)
        )
        if market is Market.ON_DEMAND:
            taken += sum(
                _held_on_demand(r)
                for r in reservations
                if (r.instance_type, r.zone.name) == (instance_type, zone)
            )
        return max(0, size - taken)


def _held_on_demand(reservation: CapacityReservation) -> int:
    if (
        reservation.kind is not ReservationKind.ON_DEMAND
        or reservation.state not in HOLDING_STATES
    ):
        return 0
    return max(reservation.total_count, len(reservation.occupants))
