"""DescribeInstanceTypes, DescribeInstanceTypeOfferings and DescribeSpotPriceHistory."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from lab.embedded.ec2.account.state import LINUX
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import Ec2Error, invalid_combination
from lab.embedded.ec2.api.filters import Readable, Readers, page, select, without_empty
from lab.embedded.ec2.instances.launch_specs import resolve_zone
from lab.embedded.ec2.market import spot
from lab.embedded.ec2.market.catalogue import (
    InstanceTypeInfo,
    instance_types,
    offered_zones,
)
from lab.embedded.ec2.market.prices import usd

Parameters = dict[str, Any]
Offering = tuple[str, str]

# Filter names and where the value stands in the description of a type.
_PATHS: Final = {
    "auto-recovery-supported": ("AutoRecoverySupported",),
    "bare-metal": ("BareMetal",),
    "burstable-performance-supported": ("BurstablePerformanceSupported",),
    "current-generation": ("CurrentGeneration",),
    "ebs-info.ebs-optimized-support": ("EbsInfo", "EbsOptimizedSupport"),
    "ebs-info.nvme-support": ("EbsInfo", "NvmeSupport"),
    "free-tier-eligible": ("FreeTierEligible",),
    "hibernation-supported": ("HibernationSupported",),
    "hypervisor": ("Hypervisor",),
    "instance-storage-info.nvme-support": ("InstanceStorageInfo", "NvmeSupport"),
    "instance-storage-info.total-size-in-gb": ("InstanceStorageInfo", "TotalSizeInGB"),
    "instance-storage-supported": ("InstanceStorageSupported",),
    "instance-type": ("InstanceType",),
    "memory-info.size-in-mib": ("MemoryInfo", "SizeInMiB"),
    "network-info.efa-info.maximum-efa-interfaces": (
        "NetworkInfo",
        "EfaInfo",
        "MaximumEfaInterfaces",
    ),
    "network-info.efa-supported": ("NetworkInfo", "EfaSupported"),
    "network-info.ena-support": ("NetworkInfo", "EnaSupport"),
    "network-info.encryption-in-transit-supported": (
        "NetworkInfo",
        "EncryptionInTransitSupported",
    ),
    "network-info.ipv6-supported": ("NetworkInfo", "Ipv6Supported"),
    "network-info.maximum-network-cards": ("NetworkInfo", "MaximumNetworkCards"),
    "network-info.maximum-network-interfaces": ("NetworkInfo", "MaximumNetworkInterfaces"),
    "processor-info.supported-architecture": ("ProcessorInfo", "SupportedArchitectures"),
    "supported-root-device-type": ("SupportedRootDeviceTypes",),
    "supported-usage-class": ("SupportedUsageClasses",),
    "supported-virtualization-type": ("SupportedVirtualizationTypes",),
    "vcpu-info.default-cores": ("VCpuInfo", "DefaultCores"),
    "vcpu-info.default-vcpus": ("VCpuInfo", "DefaultVCpus"),
}


def describe_instance_types(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer DescribeInstanceTypes: the types that the region offers, 100 a page.

    Raises
    ------
    Ec2Error
        ``InvalidInstanceType``, ``InvalidParameterCombination``, ``InvalidParameterValue``.
    """
    names = parameters.get("InstanceTypes", [])
    offered = {
        name: info
        for name, info in instance_types().items()
        if name in offered_zones(world.region)
    }
    unknown = sorted(set(names) - offered.keys())
    if unknown:
        raise Ec2Error(
            "InvalidInstanceType",
            f"The following supplied instance types do not exist: [{', '.join(unknown)}]",
        )
    chosen = [offered[name] for name in names] if names else list(offered.values())
    found = select(chosen, parameters.get("Filters"), _TYPE_READERS, lambda _: {})
    types, token = page(
        found, parameters, default=100, minimum=5, maximum=100, with_ids=bool(names)
    )
    return without_empty({"InstanceTypes": types, "NextToken": token})


def describe_instance_type_offerings(
    world: World, parameters: Parameters
) -> dict[str, Any]:
    """Answer DescribeInstanceTypeOfferings by region, zone name or zone id.

    Raises
    ------
    Ec2Error
        ``InvalidParameterCombination``, ``InvalidParameterValue``.
    """
    kind = parameters.get("LocationType", "region")
    readers: Readers[Offering] = {
        "instance-type": lambda o: o[0],
        "location": lambda o: o[1],
    }
    found = select(
        sorted(_offerings(world, kind)), parameters.get("Filters"), readers, lambda _: {}
    )
    offerings, token = page(found, parameters, default=1000, minimum=5, maximum=1000)
    rows = [
        {"InstanceType": name, "LocationType": kind, "Location": location}
        for name, location in offerings
    ]
    return without_empty({"InstanceTypeOfferings": rows, "NextToken": token})


def describe_spot_price_history(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer DescribeSpotPriceHistory with the current price of each pool.

    Prices here change only when a test sets them, so the last price before any start time is the price, stamped with
    the day's first second.

    Raises
    ------
    Ec2Error
        ``InvalidParameterCombination``, ``InvalidParameterValue``.
    """
    if "AvailabilityZone" in parameters and "AvailabilityZoneId" in parameters:
        raise invalid_combination(
            "Specify AvailabilityZone or AvailabilityZoneId, not both."
        )
    readers: Readers[Offering] = {
        "availability-zone": lambda o: o[1],
        "availability-zone-id": lambda o: world.zones[o[1]].zone_id,
        "instance-type": lambda o: o[0],
        "product-description": lambda _: [LINUX, f"{LINUX} (Amazon VPC)"],
    }
    found = select(
        sorted(_spot_pools(world, parameters)),
        parameters.get("Filters"),
        readers,
        lambda _: {},
    )
    pools, token = page(found, parameters, default=1000, maximum=1000)
    stamped = world.now().replace(hour=0, minute=0, second=0, microsecond=0)
    rows = [
        {
            "AvailabilityZone": zone,
            "AvailabilityZoneId": world.zones[zone].zone_id,
            "InstanceType": name,
            "ProductDescription": LINUX,
            "SpotPrice": usd(spot.price_micro_usd_per_hour(world, name, zone)),
            "Timestamp": stamped,
        }
        for name, zone in pools
    ]
    return {"SpotPriceHistory": rows, "NextToken": token or ""}


def _offerings(world: World, kind: str) -> Iterator[Offering]:
    for name, zones in offered_zones(world.region).items():
        if kind == "region":
            yield name, world.region
        elif kind == "availability-zone":
            yield from ((name, zone) for zone in zones)
        elif kind == "availability-zone-id":
            yield from ((name, world.zones[zone].zone_id) for zone in zones)


def _spot_pools(world: World, parameters: Parameters) -> Iterator[Offering]:
    products = parameters.get("ProductDescriptions")
    if products and not {LINUX, f"{LINUX} (Amazon VPC)"} & set(products):
        return
    names = set(parameters.get("InstanceTypes", []))
    if {"AvailabilityZone", "AvailabilityZoneId"} & parameters.keys():
        only = resolve_zone(world, parameters).name
    else:
        only = None
    for name, zones in offered_zones(world.region).items():
        info = instance_types().get(name)
        if (
            info is None
            or "spot" not in info.get("SupportedUsageClasses", [])
            or (names and name not in names)
        ):
            continue
        yield from ((name, zone) for zone in zones if only in (None, zone))


def _read(info: InstanceTypeInfo, path: tuple[str, ...]) -> Readable:
    value: Any = info
    for key in path:
        value = (value or {}).get(key)
    found: Readable = value
    return found


_TYPE_READERS: Readers[InstanceTypeInfo] = {
    name: partial(_read, path=path) for name, path in _PATHS.items()
}
