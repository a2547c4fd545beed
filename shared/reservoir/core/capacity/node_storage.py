"""How much a node of a class has for replicas: ephemeral storage, and the rest less what the class keeps from them.

The class decides about storage by the size of a volume or by the local disks of the type. EC2 describes types without
their volumes, so a catalogue has Karpenter's default for each. Code that concerns a class's launches uses the types as
the class launches them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from reservoir.core.model.instance_type import InstanceType
from reservoir.core.model.node_class import KubeletAmounts, NodeClass
from reservoir.core.scheduling_terms.labels import INSTANCE_LOCAL_NVME
from reservoir.core.scheduling_terms.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    Resources,
)

_GB: Final = 10**9  # EC2 counts local disks in these
_MILLIS: Final = 1000
_MILLION: Final = 10**6


def as_launched(instance_type: InstanceType, node_class: NodeClass) -> InstanceType:
    """Return the type with what nodes of the class have for replicas."""
    return less_kubelet(_with_storage(instance_type, node_class), node_class.kubelet)


def less_kubelet(
    instance_type: InstanceType, kubelet: KubeletAmounts | None
) -> InstanceType:
    """Return the type without the resources that a class keeps from replicas, and with no more of them than it sets."""
    if kubelet is None:
        return instance_type
    capacity, overhead = instance_type.capacity, instance_type.overhead
    counts = [capacity[PODS]]
    if kubelet.max_pods is not None:
        counts.append(kubelet.max_pods)
    if kubelet.pods_per_core is not None:
        counts.append(kubelet.pods_per_core * capacity[CPU] // _MILLIS)
    memory = max(0, capacity[MEMORY] - overhead[MEMORY])
    evicted = max(
        kubelet.evicted_memory_bytes, -(-memory * kubelet.evicted_memory_ppm // _MILLION)
    )
    kept = {
        CPU: overhead[CPU] + kubelet.reserved_cpu_millis,
        MEMORY: overhead[MEMORY] + kubelet.reserved_memory_bytes + evicted,
    }
    return replace(
        instance_type,
        capacity=Resources.of({**capacity, PODS: min(counts)}),
        overhead=Resources.of({**overhead, **kept}),
    )


def _with_storage(instance_type: InstanceType, node_class: NodeClass) -> InstanceType:
    local = (
        local_bytes(instance_type.requirements.labels())
        if node_class.local_disks_are_storage
        else None
    )
    size = node_class.root_volume_bytes if local is None else local
    # 0: a description without storage
    if size is None or instance_type.capacity[EPHEMERAL_STORAGE] in (0, size):
        return instance_type
    return replace(
        instance_type,
        capacity=Resources.of({**instance_type.capacity, EPHEMERAL_STORAGE: size}),
    )


def local_bytes(labels: Mapping[str, str]) -> int | None:
    """Return the size of a type's local disks, None where it has none."""
    size = labels.get(INSTANCE_LOCAL_NVME)
    return None if size is None else int(size) * _GB


def storage_elsewhere(
    room: Resources, labels: Mapping[str, str], instance_type: InstanceType
) -> int:
    """Return the storage of a node that got another type than the one it was planned with.

    Its volume is the same; local disks are the type's. A node's storage is its local disks if it is as large as these.
    """
    here, there = local_bytes(labels), local_bytes(instance_type.requirements.labels())
    if there is not None and here == room[EPHEMERAL_STORAGE]:
        return there
    return room[EPHEMERAL_STORAGE]
