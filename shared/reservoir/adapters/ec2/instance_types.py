"""DescribeInstanceTypes and DescribeInstanceTypeOfferings, read as Karpenter reads them."""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.adapters.ec2.accelerators import accelerator_labels, accelerators
from reservoir.core.capacity.catalogue import DiscoveredType
from reservoir.core.model.instance_type import CapacityType, InstanceType, is_ultra_server
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.efa import EFA, EfaCard
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    Resources,
)
from reservoir.ports.discovery import ZoneOfferings

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

_MIB: Final = 1 << 20
_ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
# EC2 shows arm64 guests this much less than the type's memory.
_ARM64_HIDDEN_MIB: Final = 64
# The root volume that Karpenter assumes for a class that does not specify one.
_ROOT_VOLUME_BYTES: Final = 20 << 30
_EFA_TYPES: Final = frozenset({"efa", "efa-only"})
_NAME: Final = re.compile(r"(?P<category>[a-z]+)(-[0-9]+tb)?(?P<generation>[0-9]+)")
_log = logging.getLogger(__name__)


class Ec2InstanceTypeReader:
    """Implements ``reservoir.ports.discovery.InstanceTypeReader``."""

    def __init__(
        self, client: "EC2Client", *, region: str, vm_memory_overhead: Fraction
    ) -> None:
        self._client = client
        self._region = region
        self._vm_memory_overhead = vm_memory_overhead

    def list_types(self) -> tuple[DiscoveredType, ...]:
        """Return all types of the region that run Linux guests, without offerings and prices, by name."""
        with map_client_errors():
            pages = self._client.get_paginator("describe_instance_types").paginate(
                Filters=[
                    {"Name": "supported-virtualization-type", "Values": ["hvm"]},
                    {
                        "Name": "processor-info.supported-architecture",
                        "Values": sorted(_ARCHITECTURES),
                    },
                ]
            )
            described = list(pages.search("InstanceTypes[]"))
        found = {each.instance_type.name: each for each in self._readable(described)}
        return tuple(found[name] for name in sorted(found))

    def _readable(self, described: Iterable[Mapping[str, Any]]) -> Iterator[DiscoveredType]:
        """Read the types; one without what every other has is left out, and hides none of them."""
        for info in described:
            try:
                yield parse(info, self._region, self._vm_memory_overhead)
            except (LookupError, TypeError) as error:
                name = info.get("InstanceType")
                _log.warning("instance type %s cannot be read: lacks %s", name, error)

    def list_zones(self) -> ZoneOfferings:
        """Return where each type is sold."""
        zone_ids: dict[str, set[str]] = {}
        with map_client_errors():
            zones = self._client.describe_availability_zones(AllAvailabilityZones=False)[
                "AvailabilityZones"
            ]
            pages = self._client.get_paginator("describe_instance_type_offerings").paginate(
                LocationType="availability-zone-id", PaginationConfig={"PageSize": 1000}
            )
            for page in pages:
                for offering in page["InstanceTypeOfferings"]:
                    zone_ids.setdefault(offering["InstanceType"], set()).add(
                        offering["Location"]
                    )
        return ZoneOfferings(zone_ids, {zone["ZoneId"]: zone["ZoneName"] for zone in zones})


def parse(
    info: Mapping[str, Any], region: str, vm_memory_overhead: Fraction
) -> DiscoveredType:
    """Read one element of EC2's answer; what an element does not say about a type counts as absent."""
    architecture = _architecture(info)
    size_mib = info["MemoryInfo"]["SizeInMiB"]
    hidden_mib = _ARM64_HIDDEN_MIB if architecture == "arm64" else 0
    # Errs towards too little: what remains after the hypervisor and the kernel varies by type and image.
    overhead_mib = hidden_mib + ceil((size_mib - hidden_mib) * vm_memory_overhead)
    capacity = {
        CPU: info["VCpuInfo"]["DefaultVCpus"] * 1000,
        MEMORY: size_mib * _MIB,
        EPHEMERAL_STORAGE: _ROOT_VOLUME_BYTES,
        PODS: _pods(info),
        **accelerators(info),
        **_efas(info["NetworkInfo"]),
    }
    instance_type = InstanceType(
        name=info["InstanceType"],
        requirements=Requirements.of(*_requirements(info, region, architecture)),
        capacity=Resources.of(capacity),
        overhead=Resources.of({MEMORY: overhead_mib * _MIB}),
        ultra_server=is_ultra_server(info["InstanceType"]),
        efa_cards=_efa_cards(info["NetworkInfo"]),
    )
    usage = info.get("SupportedUsageClasses", [])
    markets = frozenset(
        market for market in (CapacityType.ON_DEMAND, CapacityType.SPOT) if market in usage
    )
    return DiscoveredType(instance_type, markets)


def _architecture(info: Mapping[str, Any]) -> str:
    supported = info["ProcessorInfo"]["SupportedArchitectures"]
    known = [_ARCHITECTURES[name] for name in supported if name in _ARCHITECTURES]
    return known[0]


def _pods(info: Mapping[str, Any]) -> int:
    """Count the replicas that a node may hold, as Karpenter does: the default card's addresses, less one an interface.

    No container network needs it here; manifests that come from Karpenter were sized with it, and it bounds a node.
    """
    network = info["NetworkInfo"]
    cards = network.get("NetworkCards", [])
    default = network.get("DefaultNetworkCardIndex", 0)
    card = next(
        (card for card in cards if card.get("NetworkCardIndex") == default), network
    )
    interfaces: int = card.get("MaximumNetworkInterfaces", 1)
    addresses: int = network.get("Ipv4AddressesPerInterface", 1)
    return interfaces * (addresses - 1) + 2


def _efas(network: Mapping[str, Any]) -> dict[str, int]:
    count = network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)
    return {EFA: count} if count else {}


def _efa_cards(network: Mapping[str, Any]) -> tuple[EfaCard, ...]:
    """Read on which cards EFAs go; a description without interface types is older than cards that carry none."""
    count = network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)
    cards = sorted(
        [card for card in network.get("NetworkCards", []) if "NetworkCardIndex" in card],
        key=lambda card: card["NetworkCardIndex"],
    )
    able = [
        card
        for card in cards
        if _EFA_TYPES.intersection(card.get("InterfaceTypes") or _EFA_TYPES)
    ]
    return tuple(
        EfaCard(card["NetworkCardIndex"], card.get("MaximumNetworkInterfaces", 1))
        for card in able[:count]
    )


def _requirements(
    info: Mapping[str, Any], region: str, architecture: str
) -> Iterator[Requirement]:
    name = info["InstanceType"]
    family, _, size = name.partition(".")
    parts = _NAME.match(family)
    values: dict[str, object] = {
        labels.INSTANCE_TYPE: name,
        labels.ARCH: architecture,
        labels.OS: "linux",
        labels.REGION: region,
        labels.INSTANCE_FAMILY: family,
        labels.INSTANCE_SIZE: size,
        labels.INSTANCE_CATEGORY: parts and parts["category"],
        labels.INSTANCE_GENERATION: parts and parts["generation"],
        labels.INSTANCE_CAPABILITY_FLEX: _text(family.endswith("-flex")),
        # of bare metal the empty one, as in Karpenter
        labels.INSTANCE_HYPERVISOR: info.get("Hypervisor", ""),
        labels.INSTANCE_PODS: _pods(info),
        labels.NITRO_SANDBOX: None,  # enclaves are not served
        **_processor(info),
        **_network(info),
        **_storage(info),
        **accelerator_labels(info),
    }
    for key, value in values.items():
        if value is None:
            yield Requirement.new(key, Operator.DOES_NOT_EXIST)
        else:
            yield Requirement.new(key, Operator.IN, (str(value),))


def _processor(info: Mapping[str, Any]) -> dict[str, object]:
    processor = info["ProcessorInfo"]
    manufacturer = processor.get("Manufacturer")
    clock = processor.get("SustainedClockSpeedInGhz")
    return {
        labels.INSTANCE_CPU: info["VCpuInfo"]["DefaultVCpus"],
        labels.INSTANCE_CPU_MANUFACTURER: manufacturer and manufacturer.lower(),
        labels.INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ: None
        if clock is None
        else int(Fraction(str(clock)) * 1000),
        labels.INSTANCE_MEMORY: info["MemoryInfo"]["SizeInMiB"],
    }


def _network(info: Mapping[str, Any]) -> dict[str, object]:
    network = info["NetworkInfo"]
    # Baselines, not bursts, of all cards together.
    mbps = sum(
        Fraction(str(card.get("BaselineBandwidthInGbps", 0))) * 1000
        for card in network.get("NetworkCards", [])
    )
    return {
        labels.INSTANCE_NETWORK_BANDWIDTH: int(mbps) or None,
        labels.INSTANCE_ENCRYPTION_IN_TRANSIT_SUPPORTED: _text(
            network.get("EncryptionInTransitSupported", False)
        ),
    }


def _storage(info: Mapping[str, Any]) -> dict[str, object]:
    ebs = info.get("EbsInfo", {}).get("EbsOptimizedInfo", {})
    storage = info.get("InstanceStorageInfo", {})
    has_nvme = storage.get("NvmeSupport", "unsupported") != "unsupported"
    return {
        labels.INSTANCE_EBS_BANDWIDTH: ebs.get("MaximumBandwidthInMbps"),
        labels.INSTANCE_LOCAL_NVME: storage.get("TotalSizeInGB") if has_nvme else None,
    }


def _text(value: bool) -> str:
    return "true" if value else "false"
