"""Node groups of EKS: as AWS describes them, and as eksctl's ClusterConfig has them."""

from collections.abc import Mapping
from typing import Any, Final

from reservoir.manifests.importing.auto_scaling import (
    Templates,
    apply_named_template,
)
from reservoir.manifests.importing.draft import (
    ARCHITECTURE,
    ZONE,
    Draft,
    alias_of,
    among,
    name_of,
    role_name,
)
from reservoir.manifests.importing.part import SourcePart

_WANTED: Final = "nodes come with workloads: submit one that wants so many"
_CLUSTER: Final = "Reservoir's nodes join no cluster"
_EFFECTS: Final = {
    "no_schedule": "NoSchedule",
    "no_execute": "NoExecute",
    "prefer_no_schedule": "PreferNoSchedule",
}
_OF_EKS: Final = (
    "nodegroupArn",
    "clusterName",
    "version",
    "releaseVersion",
    "createdAt",
    "modifiedAt",
    "status",
    "resources",
    "health",
    "nodeRepairConfig",
)


def from_nodegroup(part: SourcePart, templates: Templates, otherwise: str) -> Draft:
    """Read one node group, as ``aws eks describe-nodegroup`` prints it or CloudFormation has it."""
    draft = Draft(name_of(part.text("nodegroupName"), otherwise), part)
    draft.capacity_types = _bought(part.text("capacityType"))
    apply_named_template(draft, part.part("launchTemplate"), templates, "id", "name")
    draft.add_types(part.texts("instanceTypes"))
    kind = part.text("amiType") or ""
    draft.image = draft.image or alias_of(kind)
    _architecture(draft, kind)
    if draft.image is None and kind:
        part.note("amiType", "has no alias here: name an image of your own")
    draft.subnets += part.texts("subnets")
    role = part.text("nodeRole")
    draft.role = role_name(role) if role else None
    draft.root_gib = part.number("diskSize")
    _scaling(draft, part.part("scalingConfig"))
    draft.labels |= part.pairs("labels")
    draft.taints += [_taint(each) for each in part.parts("taints")]
    draft.tags |= part.pairs("tags")
    part.skip(*_OF_EKS)
    part.say(
        {
            "remoteAccess": "log in by Systems Manager",
            "updateConfig": "replacement is bounded by the pool's disruption budgets",
            "warmPoolConfig": "there are no warm pools",
        }
    )
    return draft


def from_eksctl(part: SourcePart, group: SourcePart, otherwise: str) -> Draft:
    """Read one node group of eksctl's."""
    draft = Draft(name_of(group.text("name"), otherwise), group)
    draft.capacity_types = ["spot"] if group.flag("spot") else ["on-demand"]
    draft.add_types(group.texts("instanceType") + group.texts("instanceTypes"))
    if draft.types == ["mixed"] or draft.families == ["mixed"]:
        draft.types, draft.families = [], []
    _mixed(draft, group)
    _selector(draft, group.part("instanceSelector"))
    _eksctl_image(draft, group)
    _eksctl_network(draft, part, group)
    _eksctl_disk(draft, group)
    iam = group.part("iam")
    role, profile = iam.text("instanceRoleARN"), iam.text("instanceProfileARN")
    draft.role = role_name(role) if role else None
    draft.profile = role_name(profile) if profile and not role else None
    iam.say(
        {
            "withAddonPolicies": "policies are the role's",
            "attachPolicyARNs": "policies are the role's",
        }
    )
    _scaling(draft, group)
    reservation = group.part("capacityReservation")
    target = reservation.part("capacityReservationTarget")
    draft.add_reservations(
        target.texts("capacityReservationID"),
        target.texts("capacityReservationResourceGroupARN"),
    )
    draft.uses_open_reservations = (
        reservation.text("capacityReservationPreference") == "open"
    )
    if group.part("instanceMarketOptions").text("marketType") == "capacity-block":
        draft.capacity_types = []
    draft.labels |= group.pairs("labels")
    draft.taints += _eksctl_taints(group)
    draft.tags |= group.pairs("tags")
    draft.placement_group = group.part("placement").text("groupName")
    group.say(
        {
            "ssh": "log in by Systems Manager",
            "updateConfig": "replacement is bounded by the pool's disruption budgets",
            "preBootstrapCommands": _CLUSTER,
            "overrideBootstrapCommand": _CLUSTER,
            "kubeletExtraConfig": _CLUSTER,
            "maxPodsPerNode": _CLUSTER,
            "asgSuspendProcesses": "there is no Auto Scaling group",
            "targetGroupARNs": "Reservoir registers nothing with load balancers",
            "launchTemplate": "add what it says by hand",
        }
    )
    return draft


def _bought(kind: str | None) -> list[str]:
    if kind == "SPOT":
        return ["spot"]
    return [] if kind == "CAPACITY_BLOCK" else ["on-demand"]


def _scaling(draft: Draft, part: SourcePart) -> None:
    most = part.number("maxSize")
    if most:
        draft.limits["nodes"] = str(most)
    part.say({"minSize": _WANTED, "desiredSize": _WANTED, "desiredCapacity": _WANTED})


def _architecture(draft: Draft, kind: str) -> None:
    lowered = kind.lower()
    if "arm" in lowered:
        draft.requirements.append(among(ARCHITECTURE, ["arm64"]))
    elif "x86" in lowered and not draft.types and not draft.families:
        draft.requirements.append(among(ARCHITECTURE, ["amd64"]))


def _taint(part: SourcePart) -> dict[str, str]:
    effect = part.text("effect") or "NoSchedule"
    value = part.text("value")
    taint = {"key": part.text("key") or "", "effect": _EFFECTS.get(effect.lower(), effect)}
    return taint if value is None else {**taint, "value": value}


def _eksctl_taints(group: SourcePart) -> list[dict[str, str]]:
    """Return taints of the newer form, a list, or of the older one, ``key: value:effect``."""
    given = group.take("taints")
    if isinstance(given, list):
        return [_taint(each) for each in group.parts("taints")]
    found = []
    for key, text in (given or {}).items():
        value, _, effect = str(text).rpartition(":")
        found.append({"key": key, "value": value, "effect": effect})
    return found


def _mixed(draft: Draft, group: SourcePart) -> None:
    """Take over an unmanaged group's ``instancesDistribution``."""
    mixed = group.part("instancesDistribution")
    draft.add_types(mixed.texts("instanceTypes"))
    above = mixed.number("onDemandPercentageAboveBaseCapacity")
    base = mixed.number("onDemandBaseCapacity")
    if above is not None and above < 100:
        draft.capacity_types = ["spot", "on-demand"] if base or above else ["spot"]
    mixed.skip("spotAllocationStrategy", "spotInstancePools", "capacityRebalance")
    mixed.say({"maxPrice": "a price at most is a workload's (maxPricePerHour)"})


def _selector(draft: Draft, part: SourcePart) -> None:
    for name, key in (
        ("vCPUs", "karpenter.k8s.aws/instance-cpu"),
        ("gpus", "karpenter.k8s.aws/instance-gpu-count"),
    ):
        number = part.number(name)
        if number:
            draft.requirements.append(among(key, [str(number)]))
    memory = (part.text("memory") or "").lower().removesuffix("gib").removesuffix("gb")
    if memory.isdecimal():
        mebibytes = str(int(memory) * 1024)
        draft.requirements.append(among("karpenter.k8s.aws/instance-memory", [mebibytes]))
    architecture = part.text("cpuArchitecture")
    if architecture:
        value = "arm64" if architecture == "arm64" else "amd64"
        draft.requirements.append(among(ARCHITECTURE, [value]))


def _eksctl_image(draft: Draft, group: SourcePart) -> None:
    image, family = group.text("ami"), group.text("amiFamily")
    if image is not None and image.startswith("ami-"):
        draft.image = {"id": image}
    elif family is not None:
        draft.image = alias_of(family)
        if draft.image is None:
            group.note("amiFamily", "has no alias here: name an image of your own")


def _eksctl_network(draft: Draft, cluster: SourcePart, group: SourcePart) -> None:
    """Subnets may be named by id, by zone, or by a name that the cluster gives them."""
    by_name = _subnets_of(cluster.value)
    zones = group.texts("availabilityZones")
    for name in group.texts("subnets"):
        if name.startswith("subnet-"):
            draft.subnets.append(name)
        elif name in by_name:
            draft.subnets.append(by_name[name])
        else:
            zones.append(name)
    if zones:
        draft.requirements.append(among(ZONE, zones))
    groups = group.part("securityGroups")
    draft.groups += groups.texts("attachIDs")
    groups.skip("withShared", "withLocal")
    group.say(
        {
            "privateNetworking": "a class selects its subnets",
            "volumeName": "the root disk is the image's",
        }
    )
    if group.flag("efaEnabled"):
        group.note("efaEnabled", "a node's network interfaces are its class's")


def _subnets_of(cluster: Mapping[str, Any]) -> dict[str, str]:
    """Return the ids of a cluster's subnets by the names that it gives them."""
    found: dict[str, str] = {}
    vpc = cluster.get("vpc")
    subnets = vpc.get("subnets") if isinstance(vpc, dict) else None
    for visibility in ("private", "public"):
        named = subnets.get(visibility) if isinstance(subnets, dict) else None
        for name, said in named.items() if isinstance(named, dict) else ():
            if isinstance(said, dict) and isinstance(said.get("id"), str):
                found.setdefault(str(name), said["id"])
    return found


def _eksctl_disk(draft: Draft, group: SourcePart) -> None:
    draft.root_gib = group.number("volumeSize")
    kind = group.text("volumeType")
    root: dict[str, Any] = {} if kind is None else {"volumeType": kind}
    for name, field in (("volumeIOPS", "iops"), ("volumeThroughput", "throughput")):
        number = group.number(name)
        if number:
            root[field] = number
    if "volumeEncrypted" in group:
        root["encrypted"] = group.flag("volumeEncrypted")
    key = group.text("volumeKmsKeyID")
    if key is not None:
        root["kmsKeyID"] = key
    draft.root = root
