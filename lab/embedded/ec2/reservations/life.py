"""The life of reservations by the clock: assessed, paid, started, reclaimed, ended."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from lab.embedded.ec2.account import slots
from lab.embedded.ec2.account.state import (
    ENDED_STATES,
    CapacityReservation,
    Instance,
    ReservationKind,
)
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.instances.life import RESERVATION_ENDED, terminate
from lab.embedded.ec2.market.catalogue import is_ultraserver
from lab.embedded.ec2.reservations.view import PLANNED_SIZE_TAG

RECLAIM_LEAD = timedelta(minutes=30)
ULTRASERVER_RECLAIM_LEAD = timedelta(minutes=60)
EXPIRY_WARNING_LEAD = timedelta(minutes=40)

Step = Callable[[World, CapacityReservation], None]


def begin(world: World, reservation: CapacityReservation) -> None:
    """Register a reservation and start its life from its start date."""
    world.reservations[reservation.reservation_id] = reservation
    starts_later = reservation.start_at > world.now()
    if reservation.kind is ReservationKind.CAPACITY_BLOCK:
        if reservation.state == "payment-pending":
            world.after(
                world.settings.block_payment_s, partial(_pay_for, world, reservation)
            )
        else:
            _become_scheduled(world, reservation)
    elif starts_later:
        reservation.state = "assessing"
        world.after(
            world.settings.assessment_s, partial(_become_scheduled, world, reservation)
        )
    else:
        _begin_now(world, reservation)
    end_on_time(world, reservation)


def reclaim_lead(instance_type: str) -> timedelta:
    """Return how long before a block's end EC2 starts to terminate its instances."""
    return ULTRASERVER_RECLAIM_LEAD if is_ultraserver(instance_type) else RECLAIM_LEAD


def end_on_time(world: World, reservation: CapacityReservation) -> None:
    """Put the end, and for a block what comes before it, on the agenda; call it again when the end moves."""
    end_at = reservation.end_at
    if end_at is None:
        return
    if reservation.kind is not ReservationKind.CAPACITY_BLOCK:
        delay = timedelta(seconds=world.settings.expiry_delay_s)
        _at_if_end_still(world, reservation, end_at, end_at + delay, _expire)
    else:
        _at_if_end_still(world, reservation, end_at, end_at, _expire)
        reservation.reclaiming = False
        reclaim_at = end_at - reclaim_lead(reservation.instance_type)
        warn_at = reclaim_at - timedelta(seconds=world.settings.block_warning_s)
        _at_if_end_still(
            world, reservation, end_at, end_at - EXPIRY_WARNING_LEAD, _warn_of_expiry
        )
        _at_if_end_still(world, reservation, end_at, warn_at, _warn_instances)
        _at_if_end_still(world, reservation, end_at, reclaim_at, _reclaim)


def start_on_time(world: World, reservation: CapacityReservation) -> None:
    """Put the start of a scheduled reservation on the agenda; call it again when the start moves."""
    if reservation.start_at <= world.now():
        _start(world, reservation)
    else:
        world.agenda.at(reservation.start_at, partial(_start, world, reservation))


def activate(world: World, reservation: CapacityReservation) -> None:
    """Deliver a scheduled reservation: a block with its own event, a future-dated one with a change of state."""
    reservation.state = "active"
    reservation.total_count = reservation.planned_count
    if reservation.kind is ReservationKind.CAPACITY_BLOCK:
        older = world.settings.older_block_event_names
        world.announce(
            world.events.block(reservation, world.now(), expiring=False, older_name=older)
        )
    else:
        world.announce(world.events.reservation_state(reservation, world.now()))


def warn_instance(
    world: World,
    reservation: CapacityReservation,
    instance: Instance,
    terminates_at: datetime,
) -> None:
    """Send the interruption warning in the variant of the reservation's kind."""
    if instance.owner_id != world.account_id:
        return
    if reservation.kind is ReservationKind.CAPACITY_BLOCK:
        world.announce(
            world.events.block_interruption(instance, world.now(), terminates_at)
        )
    else:
        world.announce(
            world.events.interruptible_interruption(instance, world.now(), terminates_at)
        )


def _begin_now(world: World, reservation: CapacityReservation) -> None:
    if world.settings.reservation_pending_s > 0:
        reservation.state = "pending"
        world.after(
            world.settings.reservation_pending_s,
            partial(_leave_pending, world, reservation),
        )
    else:
        reservation.state = "active"
        slots.absorb(world, reservation)


def _leave_pending(world: World, reservation: CapacityReservation) -> None:
    if reservation.state == "pending":
        reservation.state = "active"
        slots.absorb(world, reservation)


def _pay_for(world: World, block: CapacityReservation) -> None:
    if world.settings.block_payments_succeed:
        _become_scheduled(world, block)
    elif block.state == "payment-pending":
        block.state = "payment-failed"


def _become_scheduled(world: World, reservation: CapacityReservation) -> None:
    if reservation.state in ENDED_STATES:
        return
    reservation.state = "scheduled"
    world.tags.put(
        reservation.reservation_id, {PLANNED_SIZE_TAG: str(reservation.planned_count)}
    )
    if reservation.kind is not ReservationKind.CAPACITY_BLOCK:
        world.announce(world.events.reservation_state(reservation, world.now()))
    start_on_time(world, reservation)


def _start(world: World, reservation: CapacityReservation) -> None:
    was_put_off = world.now() < reservation.start_at
    if reservation.state == "scheduled" and not was_put_off:
        activate(world, reservation)


def _at_if_end_still(
    world: World,
    reservation: CapacityReservation,
    end_at: datetime,
    due: datetime,
    action: Step,
) -> None:
    """Run ``action`` at ``due`` unless the end has been moved or the reservation has ended by then."""
    world.agenda.at(due, partial(_run_if_end_still, world, reservation, end_at, action))


def _run_if_end_still(
    world: World, reservation: CapacityReservation, end_at: datetime, action: Step
) -> None:
    # one that is being cancelled gave its units back already, and ends when its charges do
    is_over = reservation.state in ENDED_STATES or reservation.state == "cancelling"
    if reservation.end_at == end_at and not is_over:
        action(world, reservation)


def _expire(world: World, reservation: CapacityReservation) -> None:
    reservation.state = "expired"
    if reservation.kind is ReservationKind.ON_DEMAND:
        slots.release_all(world, reservation)
    else:
        _terminate_all(world, reservation)
    if reservation.is_future_dated:
        world.announce(world.events.reservation_state(reservation, world.now()))


def _warn_of_expiry(world: World, reservation: CapacityReservation) -> None:
    if reservation.state == "active":
        older = world.settings.older_block_event_names
        world.announce(
            world.events.block(reservation, world.now(), expiring=True, older_name=older)
        )


def _warn_instances(world: World, reservation: CapacityReservation) -> None:
    end_at = reservation.end_at
    if end_at is None:
        return
    terminates_at = end_at - reclaim_lead(reservation.instance_type)
    for instance_id in list(reservation.occupants):
        warn_instance(world, reservation, world.instances[instance_id], terminates_at)


def _reclaim(world: World, reservation: CapacityReservation) -> None:
    reservation.reclaiming = True
    _terminate_all(world, reservation)


def _terminate_all(world: World, reservation: CapacityReservation) -> None:
    for instance_id in list(reservation.occupants):
        terminate(world, world.instances[instance_id], RESERVATION_ENDED)
