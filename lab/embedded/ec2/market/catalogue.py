"""Instance types and where they are offered: moto's copy of EC2's data, with what it lacks added."""

from functools import cache
from typing import Any, Final

from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES

from lab.embedded.ec2.api.errors import Ec2Error, invalid_value

InstanceTypeInfo = dict[str, Any]

# UltraServer types: their blocks end 60 minutes early, not 30, and cannot be shared.
_ULTRASERVER_FAMILIES: Final = ("trn2u", "p6e-gb200")

# us-east-2 is where AWS offers Trn2 UltraServers; us-east-1 has one too here, so that tests of the usual region can use
# it.
_EXTRA_OFFERINGS: Final = (
    ("us-east-1", "us-east-1b", "trn2u.48xlarge"),
    ("us-east-2", "us-east-2b", "trn2u.48xlarge"),
)


@cache
def instance_types() -> dict[str, InstanceTypeInfo]:
    """Return every instance type by name, in name order."""
    return dict(sorted(INSTANCE_TYPES.items()))


@cache
def offered_zones(region: str) -> dict[str, frozenset[str]]:
    """Return the zone names of ``region`` in which each instance type is offered."""
    zones: dict[str, set[str]] = {}
    for offering in INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, []):
        zones.setdefault(offering["InstanceType"], set()).add(offering["Location"])
    for extra_region, zone, instance_type in _EXTRA_OFFERINGS:
        if extra_region == region:
            zones.setdefault(instance_type, set()).add(zone)
    return {name: frozenset(found) for name, found in zones.items()}


def check_offered(region: str, instance_type: str, zone: str) -> None:
    """Refuse to reserve what a zone does not have.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``, ``Unsupported``.
    """
    if instance_type not in instance_types():
        raise invalid_value(f"Invalid value '{instance_type}' for InstanceType.")
    if zone not in offered_zones(region).get(instance_type, frozenset()):
        raise Ec2Error(
            "Unsupported", f"The instance type {instance_type} is not supported in {zone}."
        )


def is_ultraserver(instance_type: str) -> bool:
    """Whether the type belongs to an UltraServer, whose blocks are reclaimed an hour before their end."""
    return instance_type.split(".")[0] in _ULTRASERVER_FAMILIES


def architectures(instance_type: str) -> list[str]:
    """Return the processor architectures of a type, empty for one that is not known."""
    info = instance_types().get(instance_type, {})
    found: list[str] = info.get("ProcessorInfo", {}).get("SupportedArchitectures", [])
    return found
