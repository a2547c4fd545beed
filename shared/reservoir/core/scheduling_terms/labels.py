"""Label keys that the product knows, and what they mean.

Names and meaning are Karpenter's (well-known labels, R-9, R-12, R-16), so that its manifests mean the same here.
"""

import difflib
from collections.abc import Iterable
from typing import Final

ARCH: Final = "kubernetes.io/arch"
OS: Final = "kubernetes.io/os"
HOSTNAME: Final = "kubernetes.io/hostname"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
WINDOWS_BUILD: Final = "node.kubernetes.io/windows-build"
REGION: Final = "topology.kubernetes.io/region"
ZONE: Final = "topology.kubernetes.io/zone"
ZONE_ID: Final = "topology.k8s.aws/zone-id"

NODE_POOL: Final = "karpenter.sh/nodepool"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
# an annotation, on workloads and nodes
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"

_AWS: Final = "karpenter.k8s.aws/"
_AUTO_MODE: Final = "eks.amazonaws.com/"
_OWN_DOMAINS: Final = frozenset({"karpenter.sh", "karpenter.k8s.aws"})
NODE_CLASS: Final = _AWS + "ec2nodeclass"
CAPACITY_RESERVATION_ID: Final = _AWS + "capacity-reservation-id"
CAPACITY_RESERVATION_TYPE: Final = _AWS + "capacity-reservation-type"
CAPACITY_RESERVATION_INTERRUPTIBLE: Final = _AWS + "capacity-reservation-interruptible"
CAPACITY_RESERVATION_SETTING: Final = _AWS + "capacity-reservation-setting"
INSTANCE_HYPERVISOR: Final = _AWS + "instance-hypervisor"
INSTANCE_ENCRYPTION_IN_TRANSIT_SUPPORTED: Final = (
    _AWS + "instance-encryption-in-transit-supported"
)
INSTANCE_CATEGORY: Final = _AWS + "instance-category"
INSTANCE_FAMILY: Final = _AWS + "instance-family"
INSTANCE_GENERATION: Final = _AWS + "instance-generation"
INSTANCE_SIZE: Final = _AWS + "instance-size"
INSTANCE_CAPABILITY_FLEX: Final = _AWS + "instance-capability-flex"
INSTANCE_TENANCY: Final = _AWS + "instance-tenancy"
INSTANCE_CPU: Final = _AWS + "instance-cpu"
INSTANCE_CPU_MANUFACTURER: Final = _AWS + "instance-cpu-manufacturer"
INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ: Final = (
    _AWS + "instance-cpu-sustained-clock-speed-mhz"
)
INSTANCE_MEMORY: Final = _AWS + "instance-memory"
INSTANCE_EBS_BANDWIDTH: Final = _AWS + "instance-ebs-bandwidth"
INSTANCE_NETWORK_BANDWIDTH: Final = _AWS + "instance-network-bandwidth"
INSTANCE_LOCAL_NVME: Final = _AWS + "instance-local-nvme"
INSTANCE_PODS: Final = _AWS + "instance-pods"
INSTANCE_GPU_NAME: Final = _AWS + "instance-gpu-name"
INSTANCE_GPU_MANUFACTURER: Final = _AWS + "instance-gpu-manufacturer"
INSTANCE_GPU_COUNT: Final = _AWS + "instance-gpu-count"
INSTANCE_GPU_MEMORY: Final = _AWS + "instance-gpu-memory"
INSTANCE_ACCELERATOR_NAME: Final = _AWS + "instance-accelerator-name"
INSTANCE_ACCELERATOR_MANUFACTURER: Final = _AWS + "instance-accelerator-manufacturer"
INSTANCE_ACCELERATOR_COUNT: Final = _AWS + "instance-accelerator-count"
# of types with parts of GPUs: "0.125"; whole GPUs lack it
GPU_FRACTION: Final = "reservoir/gpu-fraction"
# nodes for enclaves; no instance type has it here
NITRO_SANDBOX: Final = _AWS + "nitro-sandbox"
PLACEMENT_GROUP_ID: Final = _AWS + "placement-group-id"
PLACEMENT_GROUP_PARTITION: Final = _AWS + "placement-group-partition"

# Where a node is in its zone's network, from the top, as AWS's cloud provider and EKS name it; and its UltraServer, as
# HyperPod does. EC2 tells them of some types: of reservations in part before a launch, of instances once they run.
NETWORK_NODE_LAYERS: Final = (
    "topology.k8s.aws/network-node-layer-1",
    "topology.k8s.aws/network-node-layer-2",
    "topology.k8s.aws/network-node-layer-3",
)
ULTRA_SERVER_ID: Final = "topology.k8s.aws/ultraserver-id"
NETWORK_LABELS: Final = frozenset({*NETWORK_NODE_LAYERS, ULTRA_SERVER_ID})

# Labels that only nodes in a reservation carry; other offerings say DoesNotExist for them.
RESERVATION_LABELS: Final = frozenset(
    {
        CAPACITY_RESERVATION_ID,
        CAPACITY_RESERVATION_TYPE,
        CAPACITY_RESERVATION_INTERRUPTIBLE,
        CAPACITY_RESERVATION_SETTING,
    }
)

# Keys that a pool need not define for a workload to require them: the offering will.
WELL_KNOWN: Final = RESERVATION_LABELS | frozenset(
    {
        *NETWORK_LABELS,
        ARCH,
        OS,
        INSTANCE_TYPE,
        WINDOWS_BUILD,
        REGION,
        ZONE,
        ZONE_ID,
        NODE_POOL,
        NODE_CLASS,
        CAPACITY_TYPE,
        INSTANCE_HYPERVISOR,
        INSTANCE_ENCRYPTION_IN_TRANSIT_SUPPORTED,
        INSTANCE_CATEGORY,
        INSTANCE_FAMILY,
        INSTANCE_GENERATION,
        INSTANCE_SIZE,
        INSTANCE_CAPABILITY_FLEX,
        INSTANCE_TENANCY,
        INSTANCE_CPU,
        INSTANCE_CPU_MANUFACTURER,
        INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ,
        INSTANCE_MEMORY,
        INSTANCE_EBS_BANDWIDTH,
        INSTANCE_NETWORK_BANDWIDTH,
        INSTANCE_LOCAL_NVME,
        INSTANCE_PODS,
        INSTANCE_GPU_NAME,
        INSTANCE_GPU_MANUFACTURER,
        INSTANCE_GPU_COUNT,
        INSTANCE_GPU_MEMORY,
        INSTANCE_ACCELERATOR_NAME,
        INSTANCE_ACCELERATOR_MANUFACTURER,
        INSTANCE_ACCELERATOR_COUNT,
        GPU_FRACTION,
        NITRO_SANDBOX,
        PLACEMENT_GROUP_ID,
        PLACEMENT_GROUP_PARTITION,
    }
)

# Labels that every node has: a workload that wants them absent wants no node. Others depend on the type, as EC2
# describes it.
OF_EVERY_NODE: Final = frozenset(
    {
        ARCH,
        OS,
        INSTANCE_TYPE,
        REGION,
        ZONE,
        ZONE_ID,
        NODE_POOL,
        NODE_CLASS,
        CAPACITY_TYPE,
        INSTANCE_HYPERVISOR,
        INSTANCE_ENCRYPTION_IN_TRANSIT_SUPPORTED,
        INSTANCE_FAMILY,
        INSTANCE_SIZE,
        INSTANCE_CAPABILITY_FLEX,
        INSTANCE_CPU,
        INSTANCE_MEMORY,
        INSTANCE_PODS,
    }
)

# Values that a well-known label can have at all; a value outside is a typing error, not a wish.
KNOWN_VALUES: Final = {
    ARCH: ("amd64", "arm64"),
    OS: ("linux", "windows"),
    CAPACITY_TYPE: ("on-demand", "reserved", "spot"),
    CAPACITY_RESERVATION_TYPE: ("capacity-block", "default"),
    CAPACITY_RESERVATION_INTERRUPTIBLE: ("false", "true"),
    CAPACITY_RESERVATION_SETTING: ("open", "target"),
    INSTANCE_TENANCY: ("dedicated", "default"),
}

# How a node came into its reservation: launched into it by id, or as a plain launch that EC2 matched to an open one.
RESERVATION_SETTING_TARGET: Final = "target"
RESERVATION_SETTING_OPEN: Final = "open"

# Older names of the same thing, rewritten wherever a requirement is made.
_STABLE_KEYS: Final = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    "topology.ebs.csi.aws.com/zone": ZONE,
    "beta.kubernetes.io/arch": ARCH,
    "beta.kubernetes.io/os": OS,
    "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
    # EKS Auto Mode's names of Karpenter's labels
    **{
        _AUTO_MODE + key.removeprefix(_AWS): key
        for key in WELL_KNOWN - {NODE_CLASS}
        if key.startswith(_AWS)
    },
}
_STABLE_VALUES: Final = {ARCH: {"x86_64": "amd64", "aarch64": "arm64"}}

# Labels under these are Karpenter's own; any other, also under kubernetes.io, may be a team's label.
_RESTRICTED_DOMAINS: Final = ("karpenter.sh", "karpenter.k8s.aws")


def stable_key(key: str) -> str:
    """Return the stable name of a label key (R-9)."""
    return _STABLE_KEYS.get(key, key)


def stable_value(key: str, value: str) -> str:
    """Return the normal spelling of a value of the (stable) key (R-9)."""
    spellings = _STABLE_VALUES.get(key)
    return value if spellings is None else spellings.get(value, value)


def is_of_auto_mode(key: str) -> bool:
    """Whether a label is EKS Auto Mode's own and has no counterpart: no node has it."""
    return key.startswith(_AUTO_MODE) and key not in _STABLE_KEYS


def is_of_other_provider(key: str) -> bool:
    """Whether a label is set by Karpenter for another cloud, such as ``karpenter.azure.com/sku-family``."""
    where = domain(key)
    return where.startswith("karpenter.") and where not in _OWN_DOMAINS


def domain(key: str) -> str:
    """Return the part of a key before its slash, or nothing."""
    prefix, slash, _ = key.partition("/")
    return prefix if slash else ""


def restriction(key: str) -> str | None:
    """Say why users may not require or set this key, or None when they may (R-16)."""
    if key == HOSTNAME:
        return f"{HOSTNAME} names one node and is chosen at launch"
    if key in WELL_KNOWN:
        return None
    label_domain = domain(key)
    for restricted in _RESTRICTED_DOMAINS:
        if _is_within(label_domain, restricted):
            return f"the domain {restricted} is reserved and {key} is not one of its known labels"
    return None


def _is_within(label_domain: str, parent: str) -> bool:
    return label_domain == parent or label_domain.endswith("." + parent)


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that ``name`` was probably meant to be, or None.

    Ties go to the lexicographically first, and very long names are not compared (the cost grows with their length).
    """
    if len(name) > 253:  # the longest label key that Kubernetes allows
        return None
    matches = difflib.get_close_matches(name, sorted(set(known)), n=1, cutoff=0.75)
    return matches[0] if matches and matches[0] != name else None
