"""How DescribeInstances, RunInstances and DescribeInstanceStatus show an instance."""

from datetime import datetime
from typing import Any, Final

from lab.embedded.ec2.account.state import Instance, Market
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.filters import without_empty
from lab.embedded.ec2.market.catalogue import architectures, instance_types

STATE_CODES: Final = {
    "pending": 0,
    "running": 16,
    "shutting-down": 32,
    "terminated": 48,
    "stopping": 64,
    "stopped": 80,
}


def state_of(name: str) -> dict[str, Any]:
    """Return a state with its code."""
    return {"Code": STATE_CODES[name], "Name": name}


def reservation_of(world: World, instances: list[Instance]) -> dict[str, Any]:
    """Return the instances of one launch as an EC2 ``Reservation`` (which has nothing to do with capacity)."""
    return {
        "ReservationId": instances[0].run_id,
        "OwnerId": world.account_id,
        "Groups": [],
        "Instances": [instance_of(world, i) for i in instances],
    }


def instance_of(world: World, instance: Instance) -> dict[str, Any]:
    """Return one instance as DescribeInstances shows it."""
    spec = instance.spec
    gone = instance.state == "terminated"
    return without_empty(
        {
            "InstanceId": instance.instance_id,
            "ImageId": spec.image_id,
            "InstanceType": spec.instance_type,
            "State": state_of(instance.state),
            "StateTransitionReason": instance.transition_reason,
            "StateReason": {
                "Code": instance.state_reason[0],
                "Message": instance.state_reason[1],
            }
            if instance.state_reason
            else None,
            "LaunchTime": instance.launched_at,
            "AmiLaunchIndex": instance.launch_index,
            "ClientToken": instance.client_token or "",
            "Architecture": next(iter(architectures(spec.instance_type)), None),
            "Hypervisor": instance_types()[spec.instance_type].get("Hypervisor", "nitro"),
            "VirtualizationType": "hvm",
            "RootDeviceType": "ebs",
            "RootDeviceName": spec.block_devices[0].device,
            "EbsOptimized": spec.ebs_optimized,
            "EnaSupport": True,
            "InstanceLifecycle": None
            if instance.market is Market.ON_DEMAND
            else instance.market.value,
            "SpotInstanceRequestId": f"sir-{instance.instance_id[-8:]}"
            if instance.market is Market.SPOT
            else None,
            "CapacityReservationId": instance.reservation_id,
            "CapacityBlockId": instance.block_id,
            "CapacityReservationSpecification": _capacity_specification(instance),
            "PlatformDetails": spec.platform,
            "UsageOperation": "RunInstances",
            "Monitoring": {"State": "enabled" if spec.monitoring else "disabled"},
            "Placement": without_empty(
                {
                    "AvailabilityZone": spec.zone.name,
                    "AvailabilityZoneId": spec.zone.zone_id,
                    "GroupName": spec.placement_group or "",
                    "Tenancy": spec.tenancy,
                }
            ),
            "KeyName": spec.key_name,
            "IamInstanceProfile": _profile(world, instance),
            "MetadataOptions": {"State": "applied"} | (spec.metadata_options or {}),
            "Tags": world.tags.rendered(instance.instance_id),
            **({} if gone else _attachments(world, instance)),
        }
    )


def status_of(instance: Instance) -> dict[str, Any]:
    """Return one row of DescribeInstanceStatus."""
    running = instance.state == "running"
    return without_empty(
        {
            "InstanceId": instance.instance_id,
            "AvailabilityZone": instance.spec.zone.name,
            "AvailabilityZoneId": instance.spec.zone.zone_id,
            "InstanceState": state_of(instance.state),
            "InstanceStatus": _summary(
                instance.instance_status, instance.impaired_since, running=running
            ),
            "SystemStatus": _summary(
                instance.system_status, instance.impaired_since, running=running
            ),
            "Events": [
                without_empty(
                    {
                        "InstanceEventId": event.event_id,
                        "Code": event.code,
                        "Description": event.description,
                        "NotBefore": event.not_before,
                        "NotAfter": event.not_after,
                    }
                )
                for event in instance.scheduled_events
            ]
            or None,
        }
    )


def _summary(
    status: str, impaired_since: datetime | None, *, running: bool
) -> dict[str, Any]:
    if not running:
        return {"Status": "not-applicable"}
    passed = {"ok": "passed", "impaired": "failed"}.get(status, status)
    since = impaired_since if status == "impaired" else None
    detail = without_empty(
        {"Name": "reachability", "Status": passed, "ImpairedSince": since}
    )
    return {"Status": status, "Details": [detail]}


def _capacity_specification(instance: Instance) -> dict[str, Any]:
    target = instance.spec.target
    shown: dict[str, Any] = {}
    if target.preference or not target.is_targeted:
        shown["CapacityReservationPreference"] = target.preference or "open"
    if target.is_targeted:
        shown["CapacityReservationTarget"] = without_empty(
            {
                "CapacityReservationId": target.reservation_id,
                "CapacityReservationResourceGroupArn": target.group_arn,
            }
        )
    return shown


def _profile(world: World, instance: Instance) -> dict[str, str] | None:
    profile = instance.spec.instance_profile
    if profile is None:
        return None
    name = profile.get("Name") or profile.get("Arn", "").rpartition("/")[2]
    return {
        "Arn": profile.get("Arn")
        or f"arn:aws:iam::{world.account_id}:instance-profile/{name}",
        "Id": f"AIPA{name[:16].upper()}",
    }


def _attachments(world: World, instance: Instance) -> dict[str, Any]:
    subnet = world.moto.backend.get_subnet(instance.spec.subnet_id)
    groups = [
        {"GroupId": i, "GroupName": world.moto.backend.get_security_group_from_id(i).name}
        for i in instance.spec.security_group_ids
    ]
    host = f"ip-{(instance.private_ip or '').replace('.', '-')}"
    suffix = (
        "ec2.internal"
        if world.region == "us-east-1"
        else f"{world.region}.compute.internal"
    )
    return {
        "SubnetId": instance.spec.subnet_id,
        "VpcId": subnet.vpc_id,
        "PrivateIpAddress": instance.private_ip,
        "PrivateDnsName": f"{host}.{suffix}",
        "PublicDnsName": "",
        "SourceDestCheck": True,
        "SecurityGroups": groups,
        "NetworkInterfaces": [
            {
                "NetworkInterfaceId": instance.network_interface_id,
                "SubnetId": instance.spec.subnet_id,
                "VpcId": subnet.vpc_id,
                "PrivateIpAddress": instance.private_ip,
                "Groups": groups,
                "Status": "in-use",
            }
        ],
        "BlockDeviceMappings": [
            {
                "DeviceName": device.device,
                "Ebs": {
                    "VolumeId": volume_id,
                    "Status": "attached",
                    "DeleteOnTermination": device.delete_on_termination,
                },
            }
            for volume_id, device in zip(
                instance.volume_ids, instance.spec.block_devices, strict=True
            )
        ],
    }
