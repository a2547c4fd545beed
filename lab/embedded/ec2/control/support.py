"""What the control actions share."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from lab.embedded.ec2.account.state import Instance, Market, Zone
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import invalid_value
from lab.embedded.ec2.instances.launch_specs import resolve_zone

Action = Callable[..., dict[str, Any]]


def zone_of(world: World, name_or_id: str) -> Zone:
    """Return a zone by its name or its id.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``.
    """
    if name_or_id in world.zones:
        return world.zones[name_or_id]
    return resolve_zone(world, {"AvailabilityZoneId": name_or_id})


def instance_of(world: World, instance_id: str) -> Instance:
    """Return an instance of any account.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``.
    """
    if instance_id not in world.instances:
        raise invalid_value(f"there is no instance {instance_id}")
    return world.instances[instance_id]


def market_of(name: str) -> Market:
    """Return a market by EC2's name of it.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``.
    """
    if name not in set(Market):
        raise invalid_value(f"there is no market {name!r}; known: {', '.join(Market)}")
    return Market(name)


def moment(world: World, iso: str | None, in_s: float | None) -> datetime | None:
    """Return a time given as ISO 8601 text or as seconds from now; None when neither is given.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``.
    """
    if iso is not None and in_s is not None:
        raise invalid_value("give a time or a number of seconds, not both")
    if iso is not None:
        try:
            parsed = datetime.fromisoformat(iso)
        except ValueError as error:
            raise invalid_value(f"{iso!r} is no time in ISO 8601") from error
        if parsed.tzinfo is None:
            raise invalid_value(f"{iso} has no time zone")
        return parsed
    return None if in_s is None else world.now() + timedelta(seconds=in_s)
