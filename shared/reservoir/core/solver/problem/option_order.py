"""The order in which launch options are preferred for a new node (docs/scheduler.md, "The order").

Reserved options come before paid ones; the sort keys end with an index or id, so the order is total.
"""

from datetime import UTC, datetime

from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.solver.problem.catalogue import LaunchOption

_NEVER = datetime.max.replace(tzinfo=UTC)
_KIND_ORDER = {
    ReservationKind.CAPACITY_BLOCK: 0,
    ReservationKind.DEFAULT: 1,
    ReservationKind.INTERRUPTIBLE: 2,
}

OrderKey = tuple[object, ...]


def is_tiny(share: float) -> bool:
    """Whether work that uses this largest share of a slot is tiny for it; a smaller slot is then preferred."""
    return share < 0.25


def reserved_key(
    option: LaunchOption, flexibility: int, units: int, *, tiny: bool
) -> OrderKey:
    """Return the sort key of reserved options for one group or item; the option to use comes first.

    1. the pool's weight: an operator's order stands above this one;
    2. slots for which the work is not tiny: it leaves a large slot alone while a smaller one fits;
    3. the reservation that ends soonest: it is worth nothing afterwards (eligibility ensures that work ends in time);
    4. the slot that the fewest groups or items could use: flexible slots are kept for work that has no other;
    5. the lowest on-demand price: a large slot can serve work that a small one cannot;
    6. Capacity Blocks, then ODCRs, then interruptible ones: a block is sunk cost for a fixed time;
    7. the most free units (L-02): fewer reservations are touched;
    8. the order of pools, and the id.
    """
    reservation = option.reservation
    assert reservation is not None
    return (
        option.entry.tier,
        tiny,
        reservation.end_at or _NEVER,
        flexibility,
        option.on_demand_micro_usd,
        _KIND_ORDER[reservation.kind],
        -units,
        option.entry.index,
        reservation.unit_key,
    )


def paid_key(option: LaunchOption, overhead: int, copies: int) -> OrderKey:
    """Return the sort key of paid options with ``copies`` replicas on a node: pool weight, price per replica, index."""
    price = option.price + overhead
    return (option.entry.tier, price / copies, price, option.index)
