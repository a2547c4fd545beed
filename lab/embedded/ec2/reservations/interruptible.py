"""Interruptible reservations: lent capacity that its owner may take back at two minutes' notice.

Source: EC2 user guide, "Interruptible Capacity Reservations for capacity owners"
(https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-owner-procedures.html). It names no error codes. It does
not say whether an allocation may change while units of it are being reclaimed: here more of it may be reclaimed then,
and growing is refused.
"""

from datetime import timedelta
from functools import partial
from typing import Final

from lab.embedded.ec2.account import slots
from lab.embedded.ec2.account.state import CapacityReservation, ReservationKind
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import invalid_value, not_permitted
from lab.embedded.ec2.instances.life import RESERVATION_ENDED, terminate
from lab.embedded.ec2.reservations.life import begin, warn_instance
from lab.embedded.ec2.reservations.view import allocation_of

_CHANGE_MAX: Final = 1000


def allocate(
    world: World, source: CapacityReservation, count: int, *, is_retained: bool = False
) -> CapacityReservation:
    """Move free capacity of an on-demand reservation into a new interruptible one.

    Raises
    ------
    Ec2Error
        When the source is not an active, unlimited on-demand reservation of this account, has too little free capacity,
        or has an allocation already, also one that was retained at zero.
    """
    _check_lends(world, source)
    known = allocation_of(world, source)
    if known is not None and known.state != "cancelled":
        raise not_permitted("The source has an interruptible allocation already.")
    _check_free(source, count)
    source.total_count -= count
    allocation = CapacityReservation(
        reservation_id=world.ids.resource("cr"),
        owner_id=world.account_id,
        kind=ReservationKind.INTERRUPTIBLE,
        instance_type=source.instance_type,
        zone=source.zone,
        total_count=count,
        planned_count=count,
        created_at=world.now(),
        start_at=world.now(),
        platform=source.platform,
        tenancy=source.tenancy,
        match_criteria="targeted",
        source_reservation_id=source.reservation_id,
        is_retained=is_retained,
    )
    begin(world, allocation)
    return allocation


def change(
    world: World,
    source: CapacityReservation,
    allocation: CapacityReservation,
    target_count: int,
) -> None:
    """Let an allocation grow out of free capacity of its source, or shrink.

    Raises
    ------
    Ec2Error
        When the source cannot lend so much, or units of the allocation are being reclaimed and it is to grow.
    """
    if target_count < 0:
        raise invalid_value("An interruptible allocation has at least 0 instances.")
    if target_count <= allocation.planned_count:
        reclaim(world, allocation, target_count)
        return
    _check_lends(world, source)
    if allocation.total_count != allocation.planned_count:
        raise not_permitted("Instances of the allocation are being reclaimed.")
    _check_free(source, target_count - allocation.total_count)
    source.total_count -= target_count - allocation.total_count
    allocation.total_count = allocation.planned_count = target_count


def reclaim(world: World, reservation: CapacityReservation, target_count: int) -> list[str]:
    """Shrink to ``target_count``: free slots now, the newest instances after their notice; returns those.

    An instance that ends before its time gives its slot back then.

    Raises
    ------
    Ec2Error
        When more would be reclaimed than EC2 does at once.
    """
    surplus = reservation.planned_count - target_count
    if surplus > _CHANGE_MAX:
        raise invalid_value(f"At most {_CHANGE_MAX} instances are reclaimed at once.")
    reservation.planned_count = target_count
    reservation.reclaimed_count += surplus
    occupants = reservation.occupants
    newest_first = sorted(occupants, key=lambda i: (occupants[i], i), reverse=True)
    doomed = newest_first[: max(0, len(occupants) - target_count)]
    terminates_at = world.now() + timedelta(seconds=world.settings.interruption_notice_s)
    new = [each for each in doomed if each not in reservation.warned]
    reservation.warned |= set(new)
    for instance_id in new:
        warn_instance(world, reservation, world.instances[instance_id], terminates_at)
    if new:
        notice_s = world.settings.interruption_notice_s
        world.after(notice_s, partial(_terminate, world, reservation, new))
    slots.restore_to_source(world, reservation)
    return new


def _terminate(
    world: World, reservation: CapacityReservation, instance_ids: list[str]
) -> None:
    reservation.warned -= set(instance_ids)
    for instance_id in instance_ids:
        if instance_id in reservation.occupants:
            terminate(world, world.instances[instance_id], RESERVATION_ENDED)


def _check_lends(world: World, source: CapacityReservation) -> None:
    is_own_plain = source.owner_id == world.account_id and slots.is_plain(source)
    if not is_own_plain or source.end_at is not None:
        raise not_permitted(
            "The source must be your own active on-demand reservation without an end."
        )


def _check_free(source: CapacityReservation, count: int) -> None:
    if count > _CHANGE_MAX:
        raise invalid_value(f"At most {_CHANGE_MAX} instances are allocated at once.")
    if not 1 <= count <= source.available_count:
        raise invalid_value("The source does not have that much free capacity.")
