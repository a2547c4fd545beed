"""Interruptible reservations: lent capacity that its owner may take back at two minutes' notice."""

from datetime import timedelta
from functools import partial

from lab.embedded.ec2.account import slots
from lab.embedded.ec2.account.state import CapacityReservation, ReservationKind
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import Ec2Error, invalid_value
from lab.embedded.ec2.instances.life import RESERVATION_ENDED, terminate
from lab.embedded.ec2.reservations.life import begin, warn_instance


def allocate(world: World, source: CapacityReservation, count: int) -> CapacityReservation:
    """Move free capacity of an on-demand reservation into a new interruptible one.

    Raises
    ------
    Ec2Error
        When the source is not an active, unlimited on-demand reservation of this account, has too little free capacity,
        or has an allocation already.
    """
    if (
        source.owner_id != world.account_id
        or not slots.is_plain(source)
        or source.end_at is not None
    ):
        raise Ec2Error(
            "OperationNotPermitted",
            "The source must be your own active on-demand reservation without an end.",
        )
    if any(
        r.source_reservation_id == source.reservation_id and r.state == "active"
        for r in world.reservations.values()
    ):
        raise Ec2Error(
            "OperationNotPermitted", "The source has an interruptible allocation already."
        )
    if not 1 <= count <= source.available_count:
        raise invalid_value("The source does not have that much free capacity.")
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
    )
    begin(world, allocation)
    return allocation


def reclaim(world: World, reservation: CapacityReservation, target_count: int) -> list[str]:
    """Shrink to ``target_count``: free slots now, the newest instances after their notice; returns those."""
    reservation.planned_count = target_count
    surplus = reservation.total_count - target_count
    free_now = min(surplus, reservation.available_count)
    _give_back(world, reservation, free_now)
    occupants = reservation.occupants
    doomed = sorted(occupants, key=lambda i: (occupants[i], i), reverse=True)[
        : surplus - free_now
    ]
    terminates_at = world.now() + timedelta(seconds=world.settings.interruption_notice_s)
    for instance_id in doomed:
        warn_instance(world, reservation, world.instances[instance_id], terminates_at)
    notice_s = world.settings.interruption_notice_s if doomed else 0
    world.after(notice_s, partial(_take, world, reservation, doomed, surplus))
    return doomed


def _take(
    world: World, reservation: CapacityReservation, doomed: list[str], surplus: int
) -> None:
    for instance_id in doomed:
        if instance_id in world.instances:
            terminate(world, world.instances[instance_id], RESERVATION_ENDED)
    _give_back(world, reservation, len(doomed))
    _complete(world, reservation, surplus)


def _complete(world: World, reservation: CapacityReservation, reclaimed: int) -> None:
    source = world.reservations.get(reservation.source_reservation_id or "")
    if source is not None:
        world.announce(
            world.events.reclamation_completed(
                source, reservation, world.now(), reclaimed=reclaimed
            )
        )
    if reservation.total_count == 0:
        reservation.state = "cancelled"


def _give_back(world: World, reservation: CapacityReservation, count: int) -> None:
    reservation.total_count -= count
    source = world.reservations.get(reservation.source_reservation_id or "")
    if source is not None:
        source.total_count += count
