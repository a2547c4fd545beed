"""Control actions on reservations that an account cannot make by itself: blocks, shared, interruptible ones."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from lab.embedded.ec2.account import slots
from lab.embedded.ec2.account.state import LINUX, CapacityReservation, ReservationKind
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import invalid_value, not_permitted
from lab.embedded.ec2.control.support import Action, moment, zone_of
from lab.embedded.ec2.market.catalogue import check_offered
from lab.embedded.ec2.reservations import interruptible, resource_groups
from lab.embedded.ec2.reservations.future_dated import waive
from lab.embedded.ec2.reservations.life import activate, begin, end_on_time

SHARING_ACCOUNT: Final = "888888888888"
_BLOCK_END: Final = timedelta(hours=11, minutes=30)


def purchase_capacity_block(
    world: World,
    *,
    instance_type: str,
    zone: str,
    count: int,
    start: str | None = None,
    start_in_s: float | None = None,
    end: str | None = None,
    end_in_s: float | None = None,
    duration_hours: int | None = None,
    paid: bool = True,
    platform: str = LINUX,
    tags: Mapping[str, str] | None = None,
    owner_id: str | None = None,
    ultraserver_type: str | None = None,
) -> dict[str, Any]:
    """Buy a capacity block; it starts now and ends after a day at 11:30 UTC unless told otherwise.

    With ``duration_hours`` the end is moved to 11:30 UTC, as AWS does; ``end`` and ``end_in_s`` are taken exactly.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``, ``TagLimitExceeded``, ``Unsupported``.
    """
    check_offered(world.region, instance_type, zone_of(world, zone).name)
    start_at = moment(world, start, start_in_s) or world.now()
    end_at = moment(world, end, end_in_s) or _block_end(start_at, duration_hours or 24)
    if end_at <= start_at:
        raise invalid_value("a block ends after it starts")
    block = CapacityReservation(
        reservation_id=world.ids.resource("cr"),
        owner_id=owner_id or world.account_id,
        kind=ReservationKind.CAPACITY_BLOCK,
        instance_type=instance_type,
        zone=zone_of(world, zone),
        total_count=0,
        planned_count=count,
        created_at=world.now(),
        start_at=start_at,
        end_at=end_at,
        platform=platform,
        match_criteria="targeted",
        state="scheduled" if paid else "payment-pending",
        block_id=world.ids.resource("cb"),
        ultraserver_type=ultraserver_type,
    )
    world.tags.put(block.reservation_id, tags or {})
    begin(world, block)
    return {
        "capacity_reservation_id": block.reservation_id,
        "capacity_block_id": block.block_id,
        "end": end_at.isoformat(),
    }


def extend_block(
    world: World,
    *,
    capacity_reservation_id: str,
    end: str | None = None,
    hours: int | None = None,
    payment_s: float = 0.0,
) -> dict[str, Any]:
    """Extend a block: its end moves once the extension is paid, without any event.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``, ``InvalidParameterValue``.
    """
    block = world.reservation(capacity_reservation_id)
    if (
        block.kind is not ReservationKind.CAPACITY_BLOCK
        or block.end_at is None
        or block.state not in {"active", "scheduled"}
    ):
        raise invalid_value(
            f"{capacity_reservation_id} is not a block that can be extended"
        )
    new_end = moment(world, end, None) or block.end_at + timedelta(hours=hours or 24)
    world.after(payment_s, partial(_extend, world, block, new_end))
    return {"end": new_end.isoformat()}


def _extend(world: World, block: CapacityReservation, new_end: datetime) -> None:
    if block.state in {"active", "scheduled"}:
        block.end_at = new_end
        end_on_time(world, block)


def break_units(
    world: World,
    *,
    capacity_reservation_id: str,
    count: int = 1,
    admitted_count: int = 0,
    interconnect_status: str = "ok",
) -> dict[str, Any]:
    """Let instances in so many units of a block stay pending for ever; 0 repairs all for the launches to come.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``, ``InvalidParameterValue``.
    """
    block = world.reservation(capacity_reservation_id)
    if (
        block.kind is not ReservationKind.CAPACITY_BLOCK
        or not 0 <= count <= block.total_count
    ):
        raise invalid_value(
            f"{capacity_reservation_id} is not a block of at least {count} units"
        )
    block.broken_count, block.admitted_count = count, admitted_count
    block.interconnect_status = interconnect_status
    return {}


def share_reservation(
    world: World,
    *,
    instance_type: str,
    zone: str,
    count: int,
    owner_id: str = SHARING_ACCOUNT,
    match_criteria: str = "targeted",
    platform: str = LINUX,
    end: str | None = None,
) -> dict[str, Any]:
    """Let another account share an on-demand reservation with this one.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``, ``Unsupported``.
    """
    return _add(
        world,
        ReservationKind.ON_DEMAND,
        instance_type,
        zone,
        count,
        owner_id,
        match_criteria,
        platform,
        end,
    )


def unshare_reservation(world: World, *, capacity_reservation_id: str) -> dict[str, Any]:
    """Stop sharing: the reservation vanishes from answers, its instances keep their slots, no event is sent.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``.
    """
    world.reservation(capacity_reservation_id).visible = False
    return {}


def assign_unused_billing(
    world: World, *, capacity_reservation_id: str, account_id: str
) -> dict[str, Any]:
    """Have an account pay for what nobody uses of an on-demand reservation: its owner has asked, the account accepted.

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/assign-billing.html

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``, ``OperationNotPermitted``.
    """
    reservation = world.reservation(capacity_reservation_id)
    if reservation.kind is not ReservationKind.ON_DEMAND:
        raise not_permitted(
            f"The bill of a capacity reservation of the kind {reservation.kind} cannot be assigned."
        )
    reservation.unused_billing_owner_id = account_id
    return {}


def create_interruptible(
    world: World,
    *,
    source_reservation_id: str | None = None,
    instance_type: str | None = None,
    zone: str | None = None,
    count: int,
    owner_id: str = SHARING_ACCOUNT,
    platform: str = LINUX,
) -> dict[str, Any]:
    """Make an interruptible reservation: out of one's own on-demand reservation, or lent by another account.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``, ``InvalidParameterValue``, ``OperationNotPermitted``,
        ``Unsupported``.
    """
    if source_reservation_id is not None:
        allocation = interruptible.allocate(
            world, world.reservation(source_reservation_id), count
        )
        return {"capacity_reservation_id": allocation.reservation_id}
    if instance_type is None or zone is None:
        raise invalid_value("name a source reservation, or an instance type and a zone")
    return _add(
        world,
        ReservationKind.INTERRUPTIBLE,
        instance_type,
        zone,
        count,
        owner_id,
        "targeted",
        platform,
        None,
    )


def reclaim_interruptible(
    world: World, *, capacity_reservation_id: str, target_count: int = 0
) -> dict[str, Any]:
    """Let the owner take capacity back: free slots at once, then running instances after two minutes' notice.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``, ``InvalidParameterValue``.
    """
    reservation = world.reservation(capacity_reservation_id)
    if (
        reservation.kind is not ReservationKind.INTERRUPTIBLE
        or not 0 <= target_count <= reservation.total_count
    ):
        raise invalid_value(
            f"{capacity_reservation_id} cannot be reclaimed down to {target_count}"
        )
    return {"instance_ids": interruptible.reclaim(world, reservation, target_count)}


def set_reservation_state(
    world: World, *, capacity_reservation_id: str, state: str
) -> dict[str, Any]:
    """Put a reservation into any state (delayed, failed, payment-failed...) with the event that belongs to it.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``.
    """
    reservation = world.reservation(capacity_reservation_id)
    if state == "active":
        activate(world, reservation)
        return {}
    reservation.state = state
    if state == "delayed":
        waive(reservation)
    if reservation.kind is ReservationKind.ON_DEMAND:
        world.announce(world.events.reservation_state(reservation, world.now()))
    return {}


def set_launch_status(
    world: World, *, capacity_reservation_id: str, launch_status: str
) -> dict[str, Any]:
    """Let EC2 say whether anything can be launched into an UltraServer's reservation; no event tells.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``.
    """
    world.reservation(capacity_reservation_id).launch_status = launch_status
    return {}


def set_network_nodes(
    world: World, *, capacity_reservation_id: str, network_nodes: list[str]
) -> dict[str, Any]:
    """Say where a reservation is in its zone's network, from the top; what EC2 shows of it depends on its kind.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``.
    """
    world.reservation(capacity_reservation_id).network_nodes = tuple(network_nodes)
    return {}


def create_group(
    world: World, *, name: str, capacity_reservation_ids: list[str], arn: str | None = None
) -> dict[str, Any]:
    """Make or replace a resource group of active reservations, as CreateGroup and GroupResources together do.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``, ``InvalidParameterValue``.
    """
    arn = arn or resource_groups.arn_of(world, name)
    for reservation_id in capacity_reservation_ids:
        if world.reservation(reservation_id).state != "active":
            raise invalid_value(
                f"{reservation_id} is not active; only active reservations can be added to a group"
            )
    joined = [
        key for key in capacity_reservation_ids if key not in world.groups.get(arn, ())
    ]
    world.groups[arn] = list(capacity_reservation_ids)
    for reservation_id in joined:
        slots.absorb_later(world, world.reservations[reservation_id], arn)
    return {"arn": arn}


def report_underutilized(
    world: World, *, capacity_reservation_ids: list[str], summary: bool = False
) -> dict[str, Any]:
    """Send the Health event about reservations that are hardly used, in its short or its summary form.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``.
    """
    reservations = [world.reservation(i) for i in capacity_reservation_ids]
    entities = [
        f"{r.reservation_id} | {r.zone.name} | {r.instance_type} | {r.platform} | {_utilization(r)}%"
        if summary
        else r.reservation_id
        for r in reservations
    ]
    world.announce(
        world.events.health_underutilized(entities, world.now(), summary=summary)
    )
    return {}


def _utilization(reservation: CapacityReservation) -> str:
    return f"{100 * len(reservation.occupants) / max(1, reservation.total_count):.1f}"


def _block_end(start_at: datetime, duration_hours: int) -> datetime:
    """Return the first 11:30 UTC that gives at least the duration asked for."""
    earliest = start_at + timedelta(hours=duration_hours)
    end_at = earliest.replace(hour=0, minute=0, second=0, microsecond=0) + _BLOCK_END
    return end_at if end_at >= earliest else end_at + timedelta(days=1)


def _add(
    world: World,
    kind: ReservationKind,
    instance_type: str,
    zone: str,
    count: int,
    owner_id: str,
    match_criteria: str,
    platform: str,
    end: str | None,
) -> dict[str, Any]:
    check_offered(world.region, instance_type, zone_of(world, zone).name)
    reservation = CapacityReservation(
        reservation_id=world.ids.resource("cr"),
        owner_id=owner_id,
        kind=kind,
        instance_type=instance_type,
        zone=zone_of(world, zone),
        total_count=count,
        planned_count=count,
        created_at=world.now(),
        start_at=world.now(),
        end_at=moment(world, end, None),
        platform=platform,
        match_criteria=match_criteria,
    )
    begin(world, reservation)
    return {"capacity_reservation_id": reservation.reservation_id}


ACTIONS: Final[Mapping[str, Action]] = {
    "purchase_capacity_block": purchase_capacity_block,
    "extend_block": extend_block,
    "break_units": break_units,
    "share_reservation": share_reservation,
    "unshare_reservation": unshare_reservation,
    "assign_unused_billing": assign_unused_billing,
    "create_interruptible": create_interruptible,
    "reclaim_interruptible": reclaim_interruptible,
    "set_reservation_state": set_reservation_state,
    "set_launch_status": set_launch_status,
    "set_network_nodes": set_network_nodes,
    "create_group": create_group,
    "report_underutilized": report_underutilized,
}
