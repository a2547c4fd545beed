"""Reads an account in one region as it is, without a deployment: its instances, and the account's identity."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.core.assessing.assess import LINUX, SHARED, Running

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

_PAGE: Final = 1000


def running_instances(ec2: "EC2Client") -> tuple[Running, ...]:
    """Return all instances that run or will run, launched by Reservoir or by others."""
    pages = ec2.get_paginator("describe_instances").paginate(
        Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}],
        PaginationConfig={"PageSize": _PAGE},
    )
    with map_client_errors():
        found = [_running(item) for item in pages.search("Reservations[].Instances[]")]
    return tuple(sorted(found, key=lambda each: each.id))


def _running(item: Mapping[str, Any]) -> Running:
    placement = item.get("Placement", {})
    return Running(
        id=item["InstanceId"],
        instance_type=item["InstanceType"],
        zone=placement.get("AvailabilityZone", ""),
        platform=item.get("PlatformDetails", LINUX),
        tenancy=placement.get("Tenancy", SHARED),
        lifecycle=item.get("InstanceLifecycle", ""),
        reservation_id=item.get("CapacityReservationId"),
        tags={tag["Key"]: tag["Value"] for tag in item.get("Tags", [])},
    )
