"""The EC2 catalogue for the benches: real types and zones from moto's data, prices from a file or from a formula."""

import gzip
import importlib.util
import json
import os
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from reservoir.core.model.instance_type import CapacityType, InstanceType, Offering
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources

PRICES_VARIABLE: Final = "RESERVOIR_BENCH_PRICES"
GPU: Final = "nvidia.com/gpu"
ZONES: Final = ("us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d", "us-east-1f")
_MIB: Final = 2**20
_PRICE_MODEL: Final = Path(__file__).parent / "data" / "price_model.json"
_NAME: Final = re.compile(r"([a-z]+)(\d+)([a-z0-9-]*)\.(.+)")
_USUAL_CATEGORIES: Final = frozenset({"c", "m", "r"})
_GPU_CATEGORIES: Final = frozenset({"g", "gr", "p"})
# Kubelet's usual reservation of CPU: this many percent of each slice of millicores.
_CPU_RESERVED: Final = (
    (0, 1000, 600),
    (1000, 2000, 100),
    (2000, 4000, 50),
    (4000, 10**9, 25),
)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Instance types with offerings, the zones as (name, id), and which prices were used."""

    instance_types: tuple[InstanceType, ...]
    zones: tuple[tuple[str, str], ...]
    prices: str


def resource(name: str) -> Any:
    """Read one of moto's data files without importing moto (which would cost seconds and memory)."""
    spec = importlib.util.find_spec("moto")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    path = Path(spec.submodule_search_locations[0]) / "ec2" / "resources" / name
    return json.loads(gzip.decompress(path.read_bytes()))


@cache
def offered_zones() -> dict[str, set[str]]:
    """Return in which zones of us-east-1 each type is sold."""
    located: dict[str, set[str]] = {}
    for row in resource("instance_type_offerings/availability-zone/us-east-1.json.gz"):
        located.setdefault(row["InstanceType"], set()).add(row["Location"])
    return located


def _gpus(description: Mapping[str, Any]) -> tuple[str, int]:
    """Return name and number of the NVIDIA GPUs; ("", 0) without."""
    gpus = [
        gpu
        for gpu in description.get("GpuInfo", {}).get("Gpus", ())
        if gpu["Manufacturer"] == "NVIDIA"
    ]
    if gpus:
        return (gpus[0]["Name"], sum(int(gpu.get("Count") or 0) for gpu in gpus))
    return ("", 0)


def _modelled_price(
    name: str, description: Mapping[str, Any], model: Mapping[str, Any]
) -> int:
    """Price one type by the formula of ``worlds/data/price_model.json``, in micro-USD an hour."""
    match = _NAME.fullmatch(name)
    assert match is not None
    generation, variant = int(match[2]), match[3]
    gib = description["MemoryInfo"]["SizeInMiB"] / 1024
    price = (
        model["per_vcpu"] * description["VCpuInfo"]["DefaultVCpus"] + model["per_gib"] * gib
    )
    price *= (
        model["manufacturer_percent"].get(
            description["ProcessorInfo"].get("Manufacturer"), 100
        )
        / 100
    )
    price *= 1 + model["percent_per_generation_after_5"] / 100 * max(0, generation - 5)
    price *= model["network_variant_percent"] / 100 if "n" in variant else 1
    price += model["per_nvme_gb"] * description.get("InstanceStorageInfo", {}).get(
        "TotalSizeInGB", 0
    )
    gpu, count = _gpus(description)
    price += count * model["per_gpu"].get(gpu, model["per_gpu_otherwise"])
    return int(price)


def listed_prices(descriptions: Mapping[str, Any]) -> tuple[dict[str, int], str]:
    """Return on-demand prices in micro-USD an hour, and what they are."""
    path = os.environ.get(PRICES_VARIABLE)
    if path:
        listed = json.loads(Path(path).read_text())
        known = {
            name: round(price * 10**6)
            for name, price in listed.items()
            if name in descriptions
        }
        return known, f"on-demand from {Path(path).name}, spot synthetic"
    model = json.loads(_PRICE_MODEL.read_text())
    wanted = [name for name in descriptions if _NAME.fullmatch(name)]
    return {
        name: _modelled_price(name, descriptions[name], model) for name in wanted
    }, "modelled, spot synthetic"


def _is_wanted(name: str, description: Mapping[str, Any]) -> bool:
    """c, m and r from generation 5 on, and NVIDIA accelerators; no bare metal."""
    match = _NAME.fullmatch(name)
    if match is None or "metal" in match[4] or description["BareMetal"]:
        return False
    if match[1] in _USUAL_CATEGORIES:
        return int(match[2]) >= 5
    return match[1] in _GPU_CATEGORIES and _gpus(description)[1] > 0


def _pods(description: Mapping[str, Any]) -> int:
    """Return how many pods the network interfaces of the type can serve."""
    network = description["NetworkInfo"]
    card = network["NetworkCards"][network.get("DefaultNetworkCardIndex", 0)]
    interfaces = card["MaximumNetworkInterfaces"]
    return int(interfaces * (network["Ipv4AddressesPerInterface"] - 1) + 2)


def _capacity(description: Mapping[str, Any]) -> tuple[Resources, Resources]:
    """Return capacity and overhead: 7.5 % of memory for the hypervisor, kubelet's reservation, 100 MiB of eviction."""
    cpu = description["VCpuInfo"]["DefaultVCpus"] * 1000
    memory = description["MemoryInfo"]["SizeInMiB"] * _MIB * 925 // 1000
    pods, gpus = _pods(description), _gpus(description)[1]
    reserved_cpu = sum(
        max(0, min(high, cpu) - low) * per_myriad // 10_000
        for low, high, per_myriad in _CPU_RESERVED
    )
    capacity = {"cpu": cpu, "memory": memory, "pods": pods} | ({GPU: gpus} if gpus else {})
    overhead = {"cpu": reserved_cpu, "memory": (11 * pods + 255 + 100) * _MIB}
    return Resources.of(capacity), Resources.of(overhead)


def _requirements(name: str, description: Mapping[str, Any]) -> Requirements:
    """Return what is true of every instance of the type."""
    match = _NAME.fullmatch(name)
    assert match is not None
    arm = "arm64" in description["ProcessorInfo"]["SupportedArchitectures"]
    gpu, gpus = _gpus(description)
    facts = {
        labels.ARCH: "arm64" if arm else "amd64",
        labels.OS: "linux",
        labels.INSTANCE_TYPE: name,
        labels.INSTANCE_CATEGORY: match[1],
        labels.INSTANCE_FAMILY: name.split(".")[0],
        labels.INSTANCE_GENERATION: match[2],
        labels.INSTANCE_SIZE: match[4],
        labels.INSTANCE_CPU: str(description["VCpuInfo"]["DefaultVCpus"]),
        labels.INSTANCE_MEMORY: str(description["MemoryInfo"]["SizeInMiB"]),
    }
    if gpus:
        facts |= {
            labels.INSTANCE_GPU_NAME: gpu.lower().replace(" ", "-"),
            labels.INSTANCE_GPU_COUNT: str(gpus),
        }
    absent = () if gpus else (labels.INSTANCE_GPU_NAME, labels.INSTANCE_GPU_COUNT)
    return Requirements.of(
        *(Requirement.new(key, Operator.IN, (value,)) for key, value in facts.items()),
        *(Requirement.new(key, Operator.DOES_NOT_EXIST) for key in absent),
    )


def _offerings(
    price: int, zones: Sequence[tuple[str, str]], discount: float, rng: random.Random
) -> tuple[Offering, ...]:
    """Offer a type on demand in each of its zones and, in nearly all, on the spot market at a synthetic price."""
    offerings = [
        Offering(zone, zone_id, CapacityType.ON_DEMAND, price) for zone, zone_id in zones
    ]
    for zone, zone_id in zones:
        if rng.random() < 0.92:
            spot = max(1, round(price * min(0.9, discount * rng.uniform(0.88, 1.15))))
            offerings.append(Offering(zone, zone_id, CapacityType.SPOT, spot))
    return tuple(offerings)


@cache
def ec2_catalogue(seed: int = 7, largest: int = 850) -> Catalogue:
    """Return at most ``largest`` real types; spot discounts (40 to 70 % a family) are drawn with ``seed``."""
    descriptions = resource("instance_types.json.gz")
    located = offered_zones()
    prices, source = listed_prices(descriptions)
    rng = random.Random(seed)
    zone_ids = {zone: f"use1-az{'abcdef'.index(zone[-1]) + 1}" for zone in ZONES}
    discounts: dict[str, float] = {}
    found = []
    for name in sorted(prices):
        zones = [(zone, zone_ids[zone]) for zone in ZONES if zone in located.get(name, ())]
        if not zones or not _is_wanted(name, descriptions[name]):
            continue
        discount = discounts.setdefault(name.split(".")[0], rng.uniform(0.30, 0.60))
        capacity, overhead = _capacity(descriptions[name])
        found.append(
            InstanceType(
                name=name,
                requirements=_requirements(name, descriptions[name]),
                capacity=capacity,
                overhead=overhead,
                offerings=_offerings(prices[name], zones, discount, rng),
                on_demand_price_micro_usd_per_hour=prices[name],
            )
        )
    kept = _thinned(found, largest, rng)
    return Catalogue(tuple(kept), tuple(sorted(zone_ids.items())), source)


def _thinned(
    instance_types: Sequence[InstanceType], largest: int, rng: random.Random
) -> list[InstanceType]:
    """Drop whole families without accelerators, drawn at random, until at most ``largest`` types are left."""
    families = sorted(
        {name.name.split(".")[0] for name in instance_types if not name.capacity[GPU]}
    )
    rng.shuffle(families)
    kept = list(instance_types)
    while len(kept) > largest:
        dropped = families.pop()
        kept = [
            instance_type
            for instance_type in kept
            if instance_type.name.split(".")[0] != dropped
        ]
    return kept
