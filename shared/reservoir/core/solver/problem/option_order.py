"""Which option a new node should be: one total order, reserved before paid (docs/scheduler.md, "The order")."""

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
    """Whether work with this largest share of a slot is tiny for it: a smaller fitting reservation goes first."""
    return share < 0.25


def reserved_key(
    option: LaunchOption, flexibility: int, units: int, *, tiny: bool
) -> OrderKey:
    """Order reservations for one piece of work, first one first.

    1. the pool's weight: an operator's order stands above ours;
    2. not tiny before tiny: tiny work leaves a large slot alone while a smaller one fits;
    3. what ends soonest (and still fits, which eligibility ensures): it is worth nothing afterwards;
    4. what the fewest groups of pending work could use: flexible slots are kept for those who have no other;
    5. the smallest by on-demand price: a large slot can serve what a small one cannot;
    6. Capacity Blocks, then ODCRs, then interruptible ones: a block is sunk cost for a fixed time;
    7. the most free units (L-02): fewer reservations are touched; 8. the pool order and the id.
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
    """Order spot and on-demand options for ``copies`` replicas per node: pool weight, price per replica, id."""
    price = option.price + overhead
    return (option.entry.tier, price / copies, price, option.index)
