"""Prices of the emulated EC2: a formula of our own, so that they are plausible, consistent and nobody's price list.

On-demand, per hour, in micro-USD: a rate per vCPU, per GiB of memory and per TB of local disk, times a factor of the
processor (Arm cheapest, then AMD, then Intel), plus a rate per accelerator. Spot is 30 % to 60 % of that, fixed for
each type and zone by a hash, so a test sees the same zone cheapest in every run.
"""

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from lab.embedded.ec2.market.catalogue import architectures, instance_types

MICRO_USD_PER_VCPU: Final = 28_000
MICRO_USD_PER_GIB: Final = 5_000
MICRO_USD_PER_DISK_TB: Final = 45_000
MICRO_USD_BURSTABLE_VCPU_DISCOUNT: Final = 8_000

# Percent of the Intel price for processor and memory.
_ARM_PERCENT: Final = 80
_AMD_PERCENT: Final = 90
_INTEL_PERCENT: Final = 100

# Per accelerator and hour; the order of magnitude of the public market, rounded to figures of our own.
_MICRO_USD_PER_ACCELERATOR: Final[Mapping[str, int]] = {
    "T4": 330_000,
    "T4G": 260_000,
    "A10G": 620_000,
    "L4": 560_000,
    "L40S": 1_300_000,
    "V100": 1_900_000,
    "A100": 2_300_000,
    "H100": 4_600_000,
    "H200": 5_200_000,
    "B200": 9_500_000,
    "B300": 11_500_000,
    "Trainium": 800_000,
    "Trainium2": 1_900_000,
    "Inferentia": 180_000,
    "Inferentia2": 380_000,
}
_MICRO_USD_OTHER_ACCELERATOR: Final = 900_000

SPOT_LOWEST_PERCENT: Final = 30
SPOT_SPREAD_PERCENT: Final = 31


@cache
def on_demand_micro_usd_per_hour(instance_type: str) -> int:
    """Return the on-demand price of a Linux instance; KeyError for a type that does not exist."""
    info = instance_types()[instance_type]
    vcpus = info["VCpuInfo"]["DefaultVCpus"]
    per_vcpu = MICRO_USD_PER_VCPU
    if info.get("BurstablePerformanceSupported"):
        per_vcpu -= MICRO_USD_BURSTABLE_VCPU_DISCOUNT
    memory = info["MemoryInfo"]["SizeInMiB"] * MICRO_USD_PER_GIB // 1024
    machine = (vcpus * per_vcpu + memory) * _processor_percent(instance_type) // 100
    disk = (
        info.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0)
        * MICRO_USD_PER_DISK_TB
        // 1000
    )
    accelerators = sum(
        count * _MICRO_USD_PER_ACCELERATOR.get(name, _MICRO_USD_OTHER_ACCELERATOR)
        for name, count in _accelerators(info)
    )
    return int(machine + disk + accelerators)


@cache
def spot_micro_usd_per_hour(instance_type: str, zone: str) -> int:
    """Return the undisturbed Spot price of a type in a zone."""
    digest = hashlib.sha256(f"{instance_type}/{zone}".encode()).digest()
    percent = SPOT_LOWEST_PERCENT + int.from_bytes(digest[:4], "big") % SPOT_SPREAD_PERCENT
    return max(1, on_demand_micro_usd_per_hour(instance_type) * percent // 100)


def usd(micro_usd: int) -> str:
    """Return micro-USD as the decimal text that the price APIs carry."""
    return f"{micro_usd // 1_000_000}.{micro_usd % 1_000_000:06d}"


def _processor_percent(instance_type: str) -> int:
    if "arm64" in architectures(instance_type):
        return _ARM_PERCENT
    generation = (
        instance_type.split(".")[0]
        .lstrip("abcdefghijklmnopqrstuvwxyz")
        .lstrip("0123456789")
    )
    return _AMD_PERCENT if generation.startswith("a") else _INTEL_PERCENT


def _accelerators(info: Mapping[str, Any]) -> list[tuple[str, int]]:
    gpus = info.get("GpuInfo", {}).get("Gpus", [])
    neurons = info.get("NeuronInfo", {}).get("NeuronDevices", [])
    others = (
        info.get("InferenceAcceleratorInfo", {}).get("Accelerators", [])
        if not neurons
        else []
    )
    return [
        (device.get("Name", ""), device.get("Count", 1))
        for device in (*gpus, *neurons, *others)
    ]
