"""From a launch template, an override and a request to the specification of one launch."""

import base64
import hashlib
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from lab.embedded.ec2.account.state import (
    LINUX,
    BlockDevice,
    LaunchSpec,
    Market,
    ReservationTarget,
    Zone,
)
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api import keys
from lab.embedded.ec2.api.errors import Ec2Error, invalid_combination, invalid_value
from lab.embedded.ec2.api.tags import from_specifications, refuse_too_many
from lab.embedded.ec2.instances import metadata, volume_defaults
from lab.embedded.ec2.instances.life import DEFAULT_ROOT_DEVICE, DEFAULT_ROOT_SIZE_GIB

TAGGABLE_AT_LAUNCH = ("instance", "volume", "network-interface")
# A launch template may carry tags for resources that only some launches make; they are ignored otherwise.
TAGGABLE_IN_TEMPLATE = (*TAGGABLE_AT_LAUNCH, "spot-instances-request", "elastic-gpu")

USER_DATA_LIMIT_BYTES = 16_384

Data = Mapping[str, Any]


def resolve(
    world: World,
    data: Data,
    market: Market | None = None,
    extra_tags: Mapping[str, Mapping[str, str]] | None = None,
) -> LaunchSpec:
    """Return the launch that ``data`` (launch template data with the override's members on top) describes.

    ``market`` replaces the one in the data: CreateFleet decides it from its target capacity type. ``extra_tags`` come
    on top of the data's tags.

    Raises
    ------
    Ec2Error
        ``InvalidAMIID.Malformed``, ``InvalidAMIID.NotFound``, ``InvalidParameter``, ``InvalidParameterCombination``,
        ``InvalidParameterValue``, ``InvalidSubnetID.NotFound``, ``InvalidUserData.Malformed``, ``MissingInput``,
        ``MissingParameter``, ``TagLimitExceeded``, ``UnsupportedOperation``.
    """
    if "InstanceRequirements" in data:
        raise Ec2Error(
            "UnsupportedOperation",
            "Launching by InstanceRequirements is not emulated; name an instance type.",
        )
    instance_type = data.get("InstanceType")
    if not instance_type:
        raise Ec2Error(
            "MissingParameter", "The request must contain the parameter InstanceType"
        )
    image_id, platform = resolve_image(world, data.get("ImageId"))
    subnet_id, zone = resolve_subnet(world, data)
    tags = _tags(data, extra_tags or {})
    metadata_options = metadata.options_of(world, data.get("MetadataOptions"))
    metadata.refuse_tags_that_metadata_cannot_show(metadata_options, tags["instance"])
    return LaunchSpec(
        instance_type=instance_type,
        image_id=image_id,
        zone=zone,
        subnet_id=subnet_id,
        market=market or market_of(data),
        platform=platform,
        tenancy=data.get("Placement", {}).get("Tenancy", "default"),
        target=_target(data.get("CapacityReservationSpecification", {})),
        max_price_micro_usd_per_hour=_max_price(data),
        security_group_ids=_security_groups(world, data, subnet_id),
        user_data=_user_data(data),
        key_name=data.get("KeyName"),
        instance_profile=dict(data["IamInstanceProfile"])
        if data.get("IamInstanceProfile")
        else None,
        block_devices=_block_devices(world, data.get("BlockDeviceMappings", [])),
        metadata_options=metadata_options,
        placement_group=data.get("Placement", {}).get("GroupName"),
        ebs_optimized=bool(data.get("EbsOptimized")),
        monitoring=bool(data.get("Monitoring", {}).get("Enabled")),
        tags=tags,
    )


def market_of(data: Data) -> Market:
    """Return the market that a launch template or RunInstances asks for; on-demand when it names none."""
    return Market(
        data.get("InstanceMarketOptions", {}).get("MarketType", Market.ON_DEMAND.value)
    )


def resolve_subnet(world: World, data: Data) -> tuple[str, Zone]:
    """Return the subnet of a launch: the one that is named, or the default subnet of the zone that is named.

    Without either EC2 chooses; here it is the default subnet of the first zone by name.

    Raises
    ------
    Ec2Error
        ``InvalidParameterCombination``, ``InvalidParameterValue``, ``InvalidSubnetID.NotFound``, ``MissingInput``.
    """
    backend = world.moto.backend
    interfaces = data.get("NetworkInterfaces") or [{}]
    subnet_id = data.get("SubnetId") or interfaces[0].get("SubnetId")
    if subnet_id:
        subnet = None
        for of_zone in backend.subnets.values():
            subnet = subnet or of_zone.get(subnet_id)
        if subnet is None:
            raise Ec2Error(
                "InvalidSubnetID.NotFound", f"The subnet ID '{subnet_id}' does not exist"
            )
        return subnet.id, world.zones[subnet.availability_zone]
    zone = resolve_zone(world, data)
    default = next(
        (s for s in backend.subnets.get(zone.name, {}).values() if s.default_for_az), None
    )
    if default is None:
        raise Ec2Error(
            "MissingInput",
            f"No subnets found for the default VPC in availability zone {zone.name}.",
        )
    return default.id, zone


def resolve_zone(world: World, data: Data) -> Zone:
    """Return the zone that is named by name or id, or the first of the region.

    Raises
    ------
    Ec2Error
        ``InvalidParameterCombination``, ``InvalidParameterValue``.
    """
    placement = data.get("Placement", {})
    name = data.get("AvailabilityZone") or placement.get("AvailabilityZone")
    zone_id = data.get("AvailabilityZoneId") or placement.get("AvailabilityZoneId")
    if name and zone_id:
        raise invalid_combination(
            "Specify AvailabilityZone or AvailabilityZoneId, not both."
        )
    if not name and not zone_id:
        return min(world.zones.values())
    for zone in world.zones.values():
        if zone.name == name or zone.zone_id == zone_id:
            return zone
    raise invalid_value(f"Invalid availability zone: [{name or zone_id}]")


def resolve_image(world: World, image_id: str | None) -> tuple[str, str]:
    """Return (image id, platform); a ``resolve:ssm:`` reference becomes an id derived from the parameter's name.

    Raises
    ------
    Ec2Error
        ``InvalidAMIID.Malformed``, ``InvalidAMIID.NotFound``, ``MissingParameter``.
    """
    if not image_id:
        raise Ec2Error("MissingParameter", "The request must contain the parameter ImageId")
    if image_id.startswith("resolve:ssm:"):
        return f"ami-{hashlib.sha256(image_id.encode()).hexdigest()[:17]}", LINUX
    if not image_id.startswith("ami-"):
        raise Ec2Error(
            "InvalidAMIID.Malformed", f'Invalid id: "{image_id}" (expecting "ami-...")'
        )
    image = world.moto.backend.amis.get(image_id)
    if image is None:
        raise Ec2Error(
            "InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist"
        )
    return image_id, "Windows" if image.platform == "windows" else LINUX


def _target(specification: Data) -> ReservationTarget:
    target = specification.get("CapacityReservationTarget", {})
    return ReservationTarget(
        specification.get("CapacityReservationPreference"),
        target.get("CapacityReservationId"),
        target.get("CapacityReservationResourceGroupArn"),
    )


def _max_price(data: Data) -> int | None:
    text = data.get("MaxPrice") or data.get("InstanceMarketOptions", {}).get(
        "SpotOptions", {}
    ).get("MaxPrice")
    if not text:
        return None
    try:
        return int(Decimal(text) * 1_000_000)
    except InvalidOperation as error:
        raise invalid_value(f"Invalid value '{text}' for MaxPrice.") from error


def _security_groups(world: World, data: Data, subnet_id: str) -> tuple[str, ...]:
    interfaces = data.get("NetworkInterfaces") or [{}]
    ids = data.get("SecurityGroupIds") or interfaces[0].get("Groups")
    if ids:
        return tuple(ids)
    vpc_id = world.moto.backend.get_subnet(subnet_id).vpc_id
    return (world.moto.backend.get_security_group_from_name("default", vpc_id=vpc_id).id,)


def _block_devices(world: World, mappings: list[dict[str, Any]]) -> tuple[BlockDevice, ...]:
    devices = [
        BlockDevice(
            device=mapping.get("DeviceName", DEFAULT_ROOT_DEVICE),
            size_gib=ebs.get("VolumeSize") or DEFAULT_ROOT_SIZE_GIB,
            volume_type=ebs.get("VolumeType"),
            iops=ebs.get("Iops"),
            encrypted=world.encrypts_volumes or bool(ebs.get("Encrypted")),
            delete_on_termination=ebs.get("DeleteOnTermination", True),
            refused=keys.refusal(volume_defaults.key_of(world, ebs)),
        )
        for mapping in mappings
        if (ebs := mapping.get("Ebs")) is not None
    ]
    for device in devices:
        if device.device == DEFAULT_ROOT_DEVICE and device.size_gib < DEFAULT_ROOT_SIZE_GIB:
            raise Ec2Error(
                "InvalidBlockDeviceMapping",
                f"Volume of size {device.size_gib}GB is smaller than the snapshot of the image's root device, expect"
                f" size >= {DEFAULT_ROOT_SIZE_GIB}GB",
            )
    root = BlockDevice(
        DEFAULT_ROOT_DEVICE,
        DEFAULT_ROOT_SIZE_GIB,
        encrypted=world.encrypts_volumes,
        refused=keys.refusal(volume_defaults.key_of(world, {})),
    )
    return tuple(devices) or (root,)


def _tags(data: Data, extra: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    own = from_specifications(data.get("TagSpecifications"), TAGGABLE_IN_TEMPLATE)
    merged = {
        kind: {**own.get(kind, {}), **extra.get(kind, {})} for kind in TAGGABLE_AT_LAUNCH
    }
    for tags in merged.values():
        refuse_too_many(tags)
    return merged


def _user_data(data: Data) -> str | None:
    text: str | None = data.get("UserData")
    try:
        size = len(base64.b64decode(text or "", validate=True))
    except ValueError as error:
        raise Ec2Error(
            "InvalidUserData.Malformed", "Invalid BASE64 encoding of user data."
        ) from error
    if size > USER_DATA_LIMIT_BYTES:
        raise invalid_value(f"User data is limited to {USER_DATA_LIMIT_BYTES} bytes")
    return text
