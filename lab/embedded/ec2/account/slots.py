"""How instances take, hold and give back the slots of reservations."""

from datetime import datetime, timedelta
from functools import partial

from lab.embedded.ec2.account.state import (
    HOLDING_STATES,
    CapacityReservation,
    Instance,
    LaunchSpec,
    Market,
    ReservationKind,
)
from lab.embedded.ec2.account.world import World

_HISTORY_LIMIT = 512


def fits(reservation: CapacityReservation, spec: LaunchSpec) -> bool:
    """Whether an instance has the attributes that the reservation is for; says nothing about free slots."""
    return (
        reservation.instance_type == spec.instance_type
        and reservation.zone == spec.zone
        and reservation.platform == spec.platform
        and reservation.tenancy == spec.tenancy
    )


def open_reservations(world: World, spec: LaunchSpec) -> list[CapacityReservation]:
    """Return the reservations that take a matching instance by themselves, oldest first (EC2 names no order)."""
    return [
        r
        for r in world.visible_reservations()
        if r.kind is ReservationKind.ON_DEMAND
        and r.match_criteria == "open"
        and r.state in HOLDING_STATES
        and fits(r, spec)
    ]


def join(world: World, instance: Instance, reservation: CapacityReservation) -> None:
    """Let ``instance`` take a slot."""
    instance.reservation_id = reservation.reservation_id
    instance.block_id = reservation.block_id
    sound_count = reservation.total_count - reservation.broken_count
    if (
        reservation.broken_count
        and len(reservation.occupants) - len(reservation.stuck) >= sound_count
    ):
        reservation.stuck.add(instance.instance_id)
    reservation.occupants[instance.instance_id] = world.now()


def leave(world: World, instance: Instance) -> None:
    """Take ``instance`` out of its reservation; the slot of a block is scrubbed before it is free again."""
    reservation = world.reservations.get(instance.reservation_id or "")
    if reservation is None:
        return
    reservation.occupants.pop(instance.instance_id, None)
    reservation.stuck.discard(instance.instance_id)
    if (
        reservation.kind is ReservationKind.CAPACITY_BLOCK
        and world.settings.block_scrub_s > 0
    ):
        reservation.scrubbing.add(instance.instance_id)
        world.after(
            world.settings.block_scrub_s,
            partial(reservation.scrubbing.discard, instance.instance_id),
        )
    restore_to_source(world, reservation)


def restore_to_source(world: World, lent: CapacityReservation) -> None:
    """Restore free slots that the owner of lent capacity reclaims; the last one completes the reclamation."""
    source = world.reservations.get(lent.source_reservation_id or "")
    free_count = max(0, lent.total_count - lent.used_count)
    count = min(lent.total_count - lent.planned_count, free_count)
    if lent.kind is not ReservationKind.INTERRUPTIBLE or count <= 0:
        return
    lent.total_count -= count
    if source is not None:
        source.total_count += count
    if lent.total_count > lent.planned_count:
        return
    if source is not None:
        world.announce(
            world.events.reclamation_completed(
                source, lent, world.now(), reclaimed=lent.reclaimed_count
            )
        )
    lent.reclaimed_count = 0
    if lent.total_count == 0 and not lent.is_retained:
        lent.state = "cancelled"


def release(world: World, reservation: CapacityReservation, instance: Instance) -> None:
    """Let ``instance`` run on without ``reservation``: as on-demand, or in another one of its target group.

    This is what happens when an on-demand reservation is cancelled, expires or shrinks; EC2 sends no event for it.
    """
    reservation.occupants.pop(instance.instance_id, None)
    instance.reservation_id = instance.block_id = None
    for candidate_id in world.groups.get(instance.spec.target.group_arn or "", ()):
        candidate = world.reservations[candidate_id]
        if (
            candidate is not reservation
            and is_plain(candidate)
            and fits(candidate, instance.spec)
            and candidate.available_count
        ):
            join(world, instance, candidate)
            return


def release_all(world: World, reservation: CapacityReservation) -> None:
    """Release every instance of a reservation that has ended."""
    for instance_id in list(reservation.occupants):
        release(world, reservation, world.instances[instance_id])


def absorb(world: World, reservation: CapacityReservation) -> None:
    """Pull running instances into an open reservation that has room: those outside that have not opted out."""
    if reservation.match_criteria == "open":
        _take_in(world, reservation, frozenset({None}))


def absorb_later(world: World, reservation: CapacityReservation, group_arn: str) -> None:
    """Pull in running instances that target a group which the reservation has joined.

    EC2 "automatically moves the instances into its reserved capacity" (user guide, "Instance lifecycle in a group",
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/cr-groups-lifecycle.html). It does not say how soon, and says
    nothing of a member that grows or of a slot that an instance leaves: those take nobody in here.
    """

    def take_in() -> None:
        if reservation.reservation_id in world.groups.get(group_arn, ()):
            _take_in(world, reservation, frozenset({group_arn}))

    world.after(world.settings.group_move_s, take_in)


def _take_in(
    world: World, reservation: CapacityReservation, group_arns: frozenset[str | None]
) -> None:
    """Let instances join that run loose and target one of the groups; None: those that target none."""
    for instance in sorted(
        world.instances.values(), key=lambda i: (i.launched_at, i.instance_id)
    ):
        if reservation.available_count == 0:
            return
        target = instance.spec.target
        if target.group_arn in group_arns and _would_enter(instance, reservation):
            join(world, instance, reservation)


def is_plain(reservation: CapacityReservation) -> bool:
    """Whether the reservation is an on-demand one that instances may enter now."""
    return reservation.kind is ReservationKind.ON_DEMAND and reservation.state == "active"


def _would_enter(instance: Instance, reservation: CapacityReservation) -> bool:
    loose = (
        instance.state in {"pending", "running"}
        and instance.reservation_id is None
        and instance.market is Market.ON_DEMAND
    )
    if not (loose and is_plain(reservation) and fits(reservation, instance.spec)):
        return False
    target = instance.spec.target
    return target.group_arn is not None or (
        target.preference != "none" and not target.is_targeted
    )


def record_counts(world: World) -> None:
    """Remember the counts that have changed, for answers that lag behind."""
    now = world.now()
    for reservation in world.reservations.values():
        history, count = reservation.available_history, reservation.available_count
        if not history or history[-1][1] != count:
            history.append((now, count))
            del history[:-_HISTORY_LIMIT]


def described_available(world: World, reservation: CapacityReservation) -> int:
    """Return AvailableInstanceCount as an answer shows it: the count of some seconds ago when the emulation lags."""
    if world.settings.count_lag_s <= 0:
        return reservation.available_count
    seen_at: datetime = world.now() - timedelta(seconds=world.settings.count_lag_s)
    older = [count for at, count in reservation.available_history if at <= seen_at]
    return (
        older[-1]
        if older
        else reservation.available_history[0][1]
        if reservation.available_history
        else reservation.available_count
    )
