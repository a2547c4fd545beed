"""Queues of AWS ParallelCluster (version 3): a pool for each compute resource."""

from collections.abc import Iterator
from typing import Any, Final

from reservoir.manifests.importing.draft import Draft, alias_of, name_of, role_name
from reservoir.manifests.importing.part import SourcePart

_SLURM: Final = "Slurm stays Slurm's: see Reservoir's integration for it"
_NODES: Final = "nodes come with workloads: submit one that wants so many"


def from_cluster(part: SourcePart) -> Iterator[Draft]:
    """Read a cluster's configuration."""
    image = part.part("image")
    scheduling = part.part("scheduling")
    system, ami = image.text("os"), image.text("customAmi")
    for queue in scheduling.parts("slurmQueues"):
        of_queue = queue.part("image").text("customAmi") or ami
        name = queue.text("name")
        common = _SlurmQueue(queue, of_queue, system)
        resources = queue.parts("computeResources")
        for resource in resources:
            own = resource.text("name") if len(resources) > 1 else None
            full = "-".join(each for each in (name, own) if each)
            yield common.draft(resource, name_of(full, "queue"))
        _finish_queue(queue)
    scheduling.skip("scheduler")
    scheduling.say(
        {
            "slurmSettings": _SLURM,
            "awsBatchQueues": "import the environment that Batch describes",
            "awsBatchSettings": "import the environment that Batch describes",
            "schedulerDefinition": _SLURM,
        }
    )
    part.skip("region")
    part.say(
        {
            "headNode": "the head node stays where it is",
            "loginNodes": "login nodes stay where they are",
            "sharedStorage": "what nodes mount is their user data's",
            "monitoring": "the head node stays where it is",
            "tags": "tag the class by hand, with what its nodes shall have",
            "directoryService": _SLURM,
            "additionalPackages": "what nodes have is their image's",
            "iam": "name the role of the nodes in the class",
            "imds": "metadataOptions of the class, by default httpTokens: required",
            "customS3Bucket": "nothing is put there",
            "devSettings": _SLURM,
        }
    )


class _SlurmQueue:
    """What compute resources of a queue have in common."""

    def __init__(self, queue: SourcePart, image: str | None, system: str | None) -> None:
        self._queue = queue
        networking = queue.part("networking")
        self._subnets = networking.texts("subnetIds")
        self._groups = networking.texts("securityGroups")
        self._groups += networking.texts("additionalSecurityGroups")
        group = networking.part("placementGroup")
        self._placement_group = group.text("name") or group.text("id")
        if group.flag("enabled") and self._placement_group is None:
            group.note(
                "enabled", "a class names its placement group; gangs may ask for one place"
            )
        self._kind = (queue.text("capacityType") or "ONDEMAND").upper()
        self._targets = _targets(queue)
        iam = queue.part("iam")
        self._role, self._profile = iam.text("instanceRole"), iam.text("instanceProfile")
        iam.say(
            {
                "additionalIamPolicies": "policies are the role's",
                "s3Access": "policies are the role's",
            }
        )
        storage = queue.part("computeSettings").part("localStorage")
        self._root = storage.part("rootVolume")
        storage.say({"ephemeralVolume": "user data formats local disks"})
        self._image, self._system = image, system

    def draft(self, resource: SourcePart, name: str) -> Draft:
        draft = Draft(name, resource)
        draft.add_types(resource.texts("instanceType"))
        for each in resource.parts("instances"):
            draft.add_types(each.texts("instanceType"))
        draft.capacity_types = {"SPOT": ["spot"], "CAPACITY_BLOCK": []}.get(
            self._kind, ["on-demand"]
        )
        ids, groups = _targets(resource)
        ids, groups = (ids, groups) if ids or groups else self._targets
        draft.add_reservations(ids, groups)
        draft.subnets, draft.groups = list(self._subnets), list(self._groups)
        own = resource.part("networking").part("placementGroup")
        draft.placement_group = own.text("name") or self._placement_group
        own.skip("enabled")
        draft.role = role_name(self._role) if self._role else None
        draft.profile = role_name(self._profile) if self._profile else None
        if self._image is not None and self._image.startswith("ami-"):
            draft.image = {"id": self._image}
        elif self._system is not None:
            draft.image = alias_of(self._system)
        _root_disk(draft, self._root)
        most = resource.number("maxCount")
        if most:
            draft.limits["nodes"] = str(most)
        draft.tags |= resource.pairs("tags")
        resource.say(
            {
                "minCount": _NODES,
                "spotPrice": "a price at most is a workload's (maxPricePerHour)",
                "efa": "a node's network interfaces are its class's",
                "disableSimultaneousMultithreading": "a node has all of its type's threads",
                "schedulableMemory": _SLURM,
                "customSlurmSettings": _SLURM,
                "healthChecks": "a node is healthy while EC2 says so",
                "dynamicNodePriority": _SLURM,
                "staticNodePriority": _SLURM,
            }
        )
        return draft


def _targets(part: SourcePart) -> tuple[list[str], list[str]]:
    target = part.part("capacityReservationTarget")
    return (
        target.texts("capacityReservationId"),
        target.texts("capacityReservationResourceGroupArn"),
    )


def _root_disk(draft: Draft, root: SourcePart) -> None:
    draft.root_gib = root.number("size")
    said: dict[str, Any] = {}
    kind = root.text("volumeType")
    if kind is not None:
        said["volumeType"] = kind
    for name in ("iops", "throughput"):
        number = root.number(name)
        if number:
            said[name] = number
    if "encrypted" in root:
        said["encrypted"] = root.flag("encrypted")
    draft.root = said


def _finish_queue(queue: SourcePart) -> None:
    queue.say(
        {
            "allocationStrategy": "the cheapest of what fits is launched",
            "customActions": "what a node runs at its start is its class's userData",
            "jobExclusiveAllocation": _SLURM,
            "customSlurmSettings": _SLURM,
            "healthChecks": "a node is healthy while EC2 says so",
            "tags": "tag the class by hand, with what its nodes shall have",
        }
    )
