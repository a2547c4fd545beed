"""Control actions on instances: outsiders, Spot interruptions, failing hardware, maintenance."""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final

from lab.embedded.ec2.account.state import (
    LaunchSpec,
    Market,
    ReservationTarget,
    ScheduledEvent,
)
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import invalid_value
from lab.embedded.ec2.control.support import Action, instance_of, market_of, zone_of
from lab.embedded.ec2.instances.launch_specs import resolve_subnet
from lab.embedded.ec2.instances.life import SPOT_TERMINATED, launch_elsewhere, terminate
from lab.embedded.ec2.instances.placement import Draft

OUTSIDER_ACCOUNT: Final = "999999999999"


def outsider_launch(
    world: World,
    *,
    capacity_reservation_id: str | None = None,
    instance_type: str | None = None,
    zone: str | None = None,
    market: str = "on-demand",
    count: int = 1,
    account_id: str = OUTSIDER_ACCOUNT,
) -> dict[str, Any]:
    """Let another account take slots of a reservation, or hardware of a pool; fails when there is too little.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``, ``InvalidParameterValue``, and what keeps an instance from a place
        (:meth:`Draft.place`).
    """
    if capacity_reservation_id is not None:
        reservation = world.reservation(capacity_reservation_id)
        place = reservation.zone
        kind = reservation.instance_type
        chosen = reservation.kind.market
        target = ReservationTarget("capacity-reservations-only", capacity_reservation_id)
    elif instance_type is not None and zone is not None:
        place, kind, chosen = zone_of(world, zone), instance_type, market_of(market)
        target = ReservationTarget("none")
    else:
        raise invalid_value("name a reservation, or an instance type and a zone")
    subnet_id, _ = resolve_subnet(world, {"AvailabilityZone": place.name})
    spec = LaunchSpec(kind, "ami-outsider", place, subnet_id, market=chosen, target=target)
    draft = Draft(world)
    placed = [draft.place(spec) for _ in range(count)]
    return {
        "instance_ids": [
            launch_elsewhere(world, spec, slot, account_id).instance_id for slot in placed
        ]
    }


def terminate_instance(
    world: World, *, instance_id: str, code: str = "Server.InternalError"
) -> dict[str, Any]:
    """End an instance as failing hardware, or an outsider's own decision, would.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``.
    """
    terminate(
        world, instance_of(world, instance_id), (code, f"{code}: terminated by a test")
    )
    return {}


def interrupt_spot(
    world: World,
    *,
    instance_id: str,
    notice_s: float | None = None,
    rebalance: bool = False,
    warn: bool = True,
) -> dict[str, Any]:
    """Interrupt a Spot Instance: a rebalance recommendation if asked for, the warning, then termination.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``.
    """
    instance = instance_of(world, instance_id)
    if instance.market is not Market.SPOT:
        raise invalid_value(f"{instance_id} is not a Spot Instance")
    if rebalance:
        world.announce(world.events.rebalance(instance, world.now()))
    notice = world.settings.interruption_notice_s if notice_s is None else notice_s
    if warn:
        world.announce(world.events.spot_interruption(instance, world.now()))
        instance.interrupted_at = world.now() + timedelta(seconds=notice)
    world.after(notice, partial(terminate, world, instance, SPOT_TERMINATED))
    return {}


def recommend_rebalance(world: World, *, instance_id: str) -> dict[str, Any]:
    """Send a rebalance recommendation and nothing else.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``.
    """
    world.announce(world.events.rebalance(instance_of(world, instance_id), world.now()))
    return {}


def set_status_checks(
    world: World,
    *,
    instance_id: str,
    instance_status: str = "ok",
    system_status: str = "ok",
) -> dict[str, Any]:
    """Let status checks pass (ok), fail (impaired) or have no data (insufficient-data).

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``.
    """
    instance = instance_of(world, instance_id)
    instance.instance_status, instance.system_status = instance_status, system_status
    impaired = "impaired" in {instance_status, system_status}
    instance.impaired_since = (instance.impaired_since or world.now()) if impaired else None
    return {}


def schedule_maintenance(
    world: World,
    *,
    instance_ids: list[str],
    code: str = "instance-retirement",
    starts_in_s: float = 7 * 86_400.0,
    health_event: bool = True,
    entity_arns: bool = False,
    detail: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Schedule maintenance: in DescribeInstanceStatus, and as a Health event whose ``detail`` may be changed.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``.
    """
    starts_at = world.now() + timedelta(seconds=starts_in_s)
    for instance_id in instance_ids:
        event_id = world.ids.resource("instance-event")
        description = f"The instance is scheduled for {code}"
        instance_of(world, instance_id).scheduled_events.append(
            ScheduledEvent(event_id, code, description, starts_at)
        )
    if health_event:
        health_code = f"AWS_EC2_{code.upper().replace('-', '_')}_SCHEDULED"
        prefix = (
            f"arn:aws:ec2:{world.region}:{world.account_id}:instance/"
            if entity_arns
            else ""
        )
        entities = [f"{prefix}{i}" for i in instance_ids]
        world.announce(
            world.events.health_scheduled_change(
                entities, world.now(), health_code, starts_at, overrides=detail
            )
        )
    return {}


def clear_maintenance(world: World, *, instance_id: str) -> dict[str, Any]:
    """Remove the scheduled events of an instance.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``.
    """
    instance_of(world, instance_id).scheduled_events.clear()
    return {}


def protect_instance(
    world: World, *, instance_id: str, protected: bool = True
) -> dict[str, Any]:
    """Switch termination protection on or off.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``.
    """
    instance_of(world, instance_id).termination_protected = protected
    return {}


ACTIONS: Final[Mapping[str, Action]] = {
    "outsider_launch": outsider_launch,
    "terminate_instance": terminate_instance,
    "interrupt_spot": interrupt_spot,
    "recommend_rebalance": recommend_rebalance,
    "set_status_checks": set_status_checks,
    "schedule_maintenance": schedule_maintenance,
    "clear_maintenance": clear_maintenance,
    "protect_instance": protect_instance,
}
