"""CreateFleet, type instant: one call a launch request.

``DeleteFleets`` is never called: deleting an instant fleet terminates its instances, and EC2 forgets the records of
instant fleets by itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from reservoir.adapters.aws_errors import launch_error_kind, map_client_errors
from reservoir.adapters.pacing import Pacer
from reservoir.core.capacity.token_bucket import MUTATING_CALLS
from reservoir.core.launching.launch_outcome import (
    LaunchedInstance,
    LaunchError,
    LaunchErrorKind,
    LaunchOutcome,
)
from reservoir.core.launching.launch_request import (
    LaunchConfig,
    LaunchOverride,
    LaunchRequest,
    supports_minimum,
    uses_reserved_capacity,
)
from reservoir.core.launching.launch_template import ReservationTarget
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance_type import CapacityType
from reservoir.ports.errors import AwsError, IdempotencyMismatchError, TransientError
from reservoir.ports.system import Clock

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

_TAGGED_RESOURCES: Final = ("fleet", "instance", "volume", "network-interface")
# R-122: the cheapest pool on demand; on spot, EC2's own balance of price and risk of interruption.
_ON_DEMAND_STRATEGY: Final = "lowest-price"
_SPOT_STRATEGY: Final = "price-capacity-optimized"
_RESERVATION_TYPES: Final[Mapping[ReservationKind, str]] = {
    ReservationKind.DEFAULT: "on-demand-capacity-reservation",
    ReservationKind.CAPACITY_BLOCK: "capacity-block",
    ReservationKind.INTERRUPTIBLE: "interruptible-capacity-reservation",
}


class Ec2FleetLauncher:
    """Implements ``FleetLauncher``."""

    def __init__(
        self, client: "EC2Client", clock: Clock, pacer: Pacer | None = None
    ) -> None:
        self._client = client
        self._clock = clock
        self._pacer = pacer or Pacer(MUTATING_CALLS)

    def launch(self, request: LaunchRequest, client_token: str) -> LaunchOutcome:
        """Launch; a refusal of the whole call is an outcome without instances."""
        self._pacer.wait()
        try:
            with map_client_errors():
                answer = self._client.create_fleet(
                    **create_fleet_parameters(request, client_token)
                )
        except (TransientError, IdempotencyMismatchError):
            raise
        except AwsError as error:
            refusal = LaunchError(launch_error_kind(error.code), error.code)
            return LaunchOutcome(errors=(refusal,), launched_at=self._clock.now())
        subnets = _subnets(request)
        return LaunchOutcome(
            instances=_instances(answer.get("Instances", []), request, subnets),
            errors=tuple(_error(item, subnets) for item in answer.get("Errors", [])),
            launched_at=self._clock.now(),
        )


def create_fleet_parameters(request: LaunchRequest, client_token: str) -> dict[str, Any]:
    """Return the parameters of the call, in EC2's shape."""
    tags = [{"Key": key, "Value": value} for key, value in sorted(request.tags.items())]
    parameters: dict[str, Any] = {
        "Type": "instant",
        "ClientToken": client_token,
        "LaunchTemplateConfigs": [_template_config(config) for config in request.configs],
        "TagSpecifications": [
            {"ResourceType": resource, "Tags": tags} for resource in _TAGGED_RESOURCES
        ],
    }
    market = "spot" if request.capacity_type is CapacityType.SPOT else "on-demand"
    if request.target is not None and uses_reserved_capacity(request.target):
        market = "reserved-capacity"
        parameters["ReservedCapacityOptions"] = _reserved_capacity(request.target)
    elif (
        request.target is not None and request.target.kind is ReservationKind.CAPACITY_BLOCK
    ):
        market = "capacity-block"  # EC2 accepts no on-demand or spot options beside it
    elif request.capacity_type is CapacityType.SPOT:
        parameters["SpotOptions"] = {
            "AllocationStrategy": _SPOT_STRATEGY,
            **_minimum(request),
        }
    else:
        parameters["OnDemandOptions"] = {
            "AllocationStrategy": _ON_DEMAND_STRATEGY,
            **_minimum(request),
        }
    parameters["TargetCapacitySpecification"] = {
        "TotalTargetCapacity": request.count,
        "DefaultTargetCapacityType": market,
    }
    return parameters


def _template_config(config: LaunchConfig) -> dict[str, Any]:
    return {
        "LaunchTemplateSpecification": {
            "LaunchTemplateName": config.template.name,
            "Version": "1",
        },
        "Overrides": [_override(override) for override in config.overrides],
    }


def _override(override: LaunchOverride) -> dict[str, Any]:
    return {
        "InstanceType": override.instance_type,
        "SubnetId": override.subnet_id,
        "Priority": float(override.priority),
    }


def _minimum(request: LaunchRequest) -> dict[str, Any]:
    """Ask for all or nothing; EC2 grants that within one zone only."""
    if not request.all_or_none or not supports_minimum(request):
        return {}
    return {"SingleAvailabilityZone": True, "MinTargetCapacity": request.count}


def _reserved_capacity(target: ReservationTarget) -> dict[str, Any]:
    """Name exactly one reservation: among several EC2 would choose at random, past the ledger."""
    return {
        "ReservationTypes": [_RESERVATION_TYPES[target.kind]],
        "AllocationStrategy": "prioritized",
        "CapacityReservationTarget": {"CapacityReservationIds": [target.reservation_id]},
    }


def _instances(
    groups: Sequence[Any], request: LaunchRequest, subnets: Mapping[str, LaunchOverride]
) -> tuple[LaunchedInstance, ...]:
    found: list[LaunchedInstance] = []
    for group in groups:
        found.extend(_group(group, request, subnets))
    return tuple(sorted(found, key=lambda instance: instance.id))


def _subnets(request: LaunchRequest) -> Mapping[str, LaunchOverride]:
    """Return an override of each subnet that is asked for, by subnet: it knows the subnet's zone."""
    return {override.subnet_id: override for override in request.overrides}


def _group(
    group: Mapping[str, Any], request: LaunchRequest, subnets: Mapping[str, LaunchOverride]
) -> Iterator[LaunchedInstance]:
    """Read one entry of the answer: the instances of one pool."""
    subnet_id: str = group.get("SubnetId") or _overrides_of(group).get("SubnetId", "")
    known = subnets.get(subnet_id)
    for instance_id in group.get("InstanceIds", []):
        yield LaunchedInstance(
            id=instance_id,
            instance_type=group["InstanceType"],
            zone=group.get("AvailabilityZone") or (known.zone if known else ""),
            zone_id=group.get("AvailabilityZoneId") or (known.zone_id if known else ""),
            subnet_id=subnet_id or None,
            image_id=_image_id(group, request),
        )


def _image_id(group: Mapping[str, Any], request: LaunchRequest) -> str | None:
    """Return the image of the instance: that of the only template with an override for its type."""
    for config in request.configs:
        if any(
            override.instance_type == group["InstanceType"] for override in config.overrides
        ):
            image_id = config.template.data.get("ImageId")
            return image_id if isinstance(image_id, str) else None
    return None


def _error(item: Mapping[str, Any], subnets: Mapping[str, LaunchOverride]) -> LaunchError:
    overrides = _overrides_of(item)
    code = item.get("ErrorCode", "Unknown")
    kind = launch_error_kind(code)
    subnet_id = overrides.get("SubnetId", "")
    if kind is LaunchErrorKind.TEMPLATE_MISSING:
        return LaunchError(kind, code)
    known = subnets.get(subnet_id)
    return LaunchError(
        kind,
        code,
        instance_type=overrides.get("InstanceType"),
        zone_id=overrides.get("AvailabilityZoneId") or (known.zone_id if known else None),
        subnet_id=subnet_id or None,
    )


def _overrides_of(item: Mapping[str, Any]) -> Mapping[str, Any]:
    overrides: Mapping[str, Any] = item.get("LaunchTemplateAndOverrides", {}).get(
        "Overrides", {}
    )
    return overrides
