"""GPUs and other accelerators of instance types, by the names that their device plugins give them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from reservoir.core.scheduling_terms import labels

_GPU_RESOURCES: Final = {
    "NVIDIA": "nvidia.com/gpu",
    "AMD": "amd.com/gpu",
    "Habana": "habana.ai/gaudi",
}
_NEURON: Final = "aws.amazon.com/neuron"
_NEURON_CORE: Final = "aws.amazon.com/neuroncore"
# Accelerators that EC2 lists for inference are of several makers; only AWS's own are Neuron devices.
_INFERENCE_RESOURCES: Final = {"AWS": _NEURON, "Qualcomm": "qualcomm.com/qaic"}

# Types whose Neuron devices EC2's answer leaves out, in the form of NeuronInfo.NeuronDevices. Source: AWS Neuron
# documentation, "Amazon EC2 Trn2 Architecture" (16 Trainium2 of 8 NeuronCores and 96 GiB each, in Trn2 and each of the
# four instances of a Trn2 UltraServer), as of November 2026. EC2's own answer about a type comes before this list.
_NOT_DESCRIBED: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "trn2u.48xlarge": (
        {
            "Name": "Trainium2",
            "Count": 16,
            "CoreInfo": {"Count": 8, "Version": 3},
            "MemoryInfo": {"SizeInMiB": 98_304},
        },
    ),
}


def accelerators(info: Mapping[str, Any]) -> dict[str, int]:
    """Count accelerators by the resource that replicas request."""
    found: dict[str, int] = {}

    def add(resource: str | None, count: int) -> None:
        if resource is not None and count > 0:
            found[resource] = found.get(resource, 0) + count

    for gpu in _gpus(info):
        add(_GPU_RESOURCES.get(gpu.get("Manufacturer", "")), gpu_count(gpu))
    devices = _neuron_devices(info)
    for device in devices:
        count = device.get("Count", 0)
        add(_NEURON, count)
        add(_NEURON_CORE, count * device.get("CoreInfo", {}).get("Count", 0))
    for accelerator in info.get("InferenceAcceleratorInfo", {}).get("Accelerators", []):
        resource = _INFERENCE_RESOURCES.get(accelerator.get("Manufacturer", ""))
        if resource != _NEURON or not devices:
            add(resource, accelerator.get("Count", 0))
    return found


def accelerator_labels(info: Mapping[str, Any]) -> dict[str, object]:
    """Return Karpenter's labels about GPUs and accelerators, and ours about parts of GPUs; None for missing facts."""
    gpus = _gpus(info)
    first = gpus[0] if gpus else {}
    devices = _neuron_devices(info) or info.get("InferenceAcceleratorInfo", {}).get(
        "Accelerators", []
    )
    device = devices[0] if devices else {}
    size = first.get("GpuPartitionSize", 1)
    return {
        labels.INSTANCE_GPU_NAME: _label_text(first.get("Name")),
        labels.INSTANCE_GPU_MANUFACTURER: _label_text(first.get("Manufacturer")),
        labels.INSTANCE_GPU_COUNT: sum(map(gpu_count, gpus)) or None,
        # of each, or of each part
        labels.INSTANCE_GPU_MEMORY: first.get("MemoryInfo", {}).get("SizeInMiB"),
        labels.GPU_FRACTION: None if size == 1 else str(size),
        labels.INSTANCE_ACCELERATOR_NAME: _label_text(device.get("Name")),
        # Neuron devices are AWS's own; only the older list names the maker.
        labels.INSTANCE_ACCELERATOR_MANUFACTURER: _label_text(
            device.get("Manufacturer", "AWS")
        )
        if device
        else None,
        labels.INSTANCE_ACCELERATOR_COUNT: sum(each.get("Count", 0) for each in devices)
        or None,
    }


def gpu_count(gpu: Mapping[str, Any]) -> int:
    """Return how many devices a guest sees: EC2 shows 0 GPUs for a type that has a part of one."""
    count: int = gpu.get("LogicalGpuCount") or gpu.get("Count", 0)
    return count


def _gpus(info: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = info.get("GpuInfo", {}).get("Gpus", [])
    return found


def _neuron_devices(info: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    told: Sequence[Mapping[str, Any]] = info.get("NeuronInfo", {}).get("NeuronDevices", [])
    return told or _NOT_DESCRIBED.get(info["InstanceType"], ())


def _label_text(value: str | None) -> str | None:
    """Write a name as Karpenter's labels do: lower case, hyphens for spaces."""
    return None if value is None else value.lower().replace(" ", "-")
