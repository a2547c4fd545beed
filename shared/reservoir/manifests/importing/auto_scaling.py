"""Auto Scaling groups, and the launch templates that they name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from reservoir.core.scheduling_terms.labels import INSTANCE_CPU, INSTANCE_MEMORY
from reservoir.manifests.importing.draft import Draft, among, name_of, role_name
from reservoir.manifests.importing.part import SourcePart


@dataclass(frozen=True, slots=True)
class Templates:
    """Launch templates by their ids and names, and those of CloudFormation by the template that they are in."""

    named: dict[str, SourcePart] = field(default_factory=dict)
    logical: dict[tuple[int, str], SourcePart] = field(default_factory=dict)

    def add_logical(self, name: str, data: SourcePart) -> None:
        """Note what a CloudFormation template calls so; another template may have another of that name."""
        self.logical[id(data.document), name] = data

    def get(self, reference: Any, named: SourcePart) -> SourcePart | None:
        """Return what ``named`` refers to: an id, a name, or a logical id of its own CloudFormation template."""
        if isinstance(reference, Mapping):
            return self.logical.get((id(named.document), str(reference.get("Ref", ""))))
        return self.named.get(str(reference))

    def read(self) -> list[SourcePart]:
        """Return the templates that were used, each once, by whatever names."""
        every = [*self.named.values(), *self.logical.values()]
        once = {id(part): part for part in every if part.is_read}
        return list(once.values())


_WANTED: Final = "nodes come with workloads: submit one that wants so many"
_SELECTED_BY_SUBNET: Final = "subnets say it"
_SAID: Final = {
    "minSize": _WANTED,
    "desiredCapacity": _WANTED,
    "targetGroupARNs": "Reservoir registers nothing with load balancers",
    "loadBalancerNames": "Reservoir registers nothing with load balancers",
    "healthCheckType": "a node is healthy while EC2 says so",
    "capacityRebalance": "a spot instance that is to be interrupted is drained anyway",
    "warmPoolConfiguration": "there are no warm pools",
    "launchConfigurationName": "EC2 has retired launch configurations: say in the class what it said",
}
_OF_AWS: Final = (
    "autoScalingGroupARN",
    "availabilityZoneIds",
    "context",
    "createdTime",
    "defaultCooldown",
    "defaultInstanceWarmup",
    "enabledMetrics",
    "healthCheckGracePeriod",
    "instances",
    "predictedCapacity",
    "serviceLinkedRoleARN",
    "status",
    "suspendedProcesses",
    "terminationPolicies",
    "trafficSources",
    "metricsCollection",
)
_ANY: Final = 1 << 30
# AWS's segments in its order (API_DistributionSegment)
_SEGMENTS: Final = {
    "on-demand-capacity-reservation": "reserved",
    "capacity-block": "reserved",
    "interruptible-capacity-reservation": "reserved",
    "on-demand": "on-demand",
}


def from_group(part: SourcePart, templates: Templates, otherwise: str) -> Draft:
    """Read one group, as ``aws autoscaling describe-auto-scaling-groups`` prints it or CloudFormation has it."""
    draft = Draft(name_of(part.text("autoScalingGroupName"), otherwise), part)
    mixed = part.part("mixedInstancesPolicy")
    of_mixed = mixed.part("launchTemplate")
    names = ("launchTemplateId", "launchTemplateName")
    apply_named_template(draft, part.part("launchTemplate"), templates, *names)
    of_both = of_mixed.part("launchTemplateSpecification")
    apply_named_template(draft, of_both, templates, *names)
    overrides = of_mixed.parts("overrides")
    if overrides:
        draft.types, draft.families = [], []
    for override in overrides:
        _override(draft, override)
    _distribution(draft, mixed.part("instancesDistribution"))
    _reservations(draft, part.part("capacityReservationSpecification"))
    draft.subnets += part.texts("vpcZoneIdentifier")
    zones = part.texts("availabilityZones")
    if zones and not draft.subnets:
        draft.requirements.append(among("topology.kubernetes.io/zone", zones))
    most = part.number("maxSize")
    if most:
        draft.limits["nodes"] = str(most)
    lifetime_s = part.number("maxInstanceLifetime")
    if lifetime_s:
        draft.expire_after = f"{lifetime_s}s"
    draft.placement_group = part.text("placementGroup") or draft.placement_group
    draft.tags |= part.pairs("tags")
    part.skip(*_OF_AWS)
    part.say(_SAID)
    return draft


def _override(draft: Draft, override: SourcePart) -> None:
    name = override.text("instanceType")
    if name is not None:
        draft.add_types([name])
    if "instanceRequirements" in override:
        apply_requirements(draft, override.part("instanceRequirements"))
    override.say(
        {"weightedCapacity": "replicas ask for what they need, so types need no weights"}
    )


def _distribution(draft: Draft, part: SourcePart) -> None:
    """Take over which capacity a group buys."""
    base = part.number("onDemandBaseCapacity")
    above = part.number("onDemandPercentageAboveBaseCapacity")
    if above is not None and above < 100:
        draft.capacity_types = ["spot", "on-demand"] if base or above else ["spot"]
        if base or above:
            part.note(
                "onDemandPercentageAboveBaseCapacity",
                "a pool has no shares: it may launch spot and on-demand, the cheapest first",
            )
    for segment in part.parts("distributionSegments"):
        kinds = segment.texts("targetCapacityTypes")
        draft.capacity_types = list(
            dict.fromkeys(_SEGMENTS.get(kind, "on-demand") for kind in kinds)
        )
    part.skip("onDemandAllocationStrategy", "spotAllocationStrategy", "spotInstancePools")
    part.say({"spotMaxPrice": "a price at most is a workload's (maxPricePerHour)"})


def _reservations(draft: Draft, part: SourcePart) -> None:
    """Take over which reservations a group uses, and whether it buys beside them."""
    preference = part.text("capacityReservationPreference")
    target = part.part("capacityReservationTarget")
    ids = target.texts("capacityReservationIds") + target.texts("capacityReservationId")
    groups = target.texts("capacityReservationResourceGroupArns")
    groups += target.texts("capacityReservationResourceGroupArn")
    draft.add_reservations(ids, groups)
    if preference in ("capacity-reservations-only", "capacity-reservations-first"):
        if not draft.reservations:
            draft.uses_open_reservations = True
            part.note(
                "capacityReservationPreference",
                "names no reservation: on-demand launches fall into open ones; select them by tags or ids"
                " (capacityReservationSelectorTerms), so that plans count on them",
            )
        if preference == "capacity-reservations-only" and draft.reservations:
            draft.capacity_types = []


def apply_named_template(
    draft: Draft, named: SourcePart, templates: Templates, *names: str
) -> None:
    """Convert the launch template, if it is in the input too; ``names`` are fields that may name it."""
    given = [name for name in names if name in named]
    references = [named.take(name) for name in given]
    named.skip("version", "overrides")
    for reference in references:
        template = templates.get(reference, named)
        if template is not None:
            apply_template(draft, template)
            return
    if given:
        named.note(
            given[0],
            "is not in the input: add `aws ec2 describe-launch-template-versions` to it",
        )


def apply_template(draft: Draft, data: SourcePart) -> None:
    """Take over a launch template's data."""
    name = data.text("instanceType")
    if name is not None:
        draft.add_types([name])
    if "instanceRequirements" in data:
        apply_requirements(draft, data.part("instanceRequirements"))
    _image(draft, data)
    draft.groups += data.texts("securityGroupIds")
    for interface in data.parts("networkInterfaces"):
        draft.groups += interface.texts("groups")
        interface.skip(*interface.value)
    profile = data.part("iamInstanceProfile")
    named = profile.text("name") or profile.text("arn")
    draft.profile = role_name(named) if named else draft.profile
    for index, mapping in enumerate(data.parts("blockDeviceMappings")):
        draft.disks.append(_disk(mapping, is_root=index == 0))
    options = data.part("metadataOptions")
    draft.http_tokens = options.text("httpTokens")
    draft.hop_limit = options.number("httpPutResponseHopLimit")
    draft.placement_group = data.part("placement").text("groupName")
    market = data.part("instanceMarketOptions")
    kind = market.text("marketType")
    if kind == "spot":
        draft.capacity_types = ["spot"]
    elif kind is not None:
        draft.capacity_types = []
    market.skip("spotOptions")
    _reservations(draft, data.part("capacityReservationSpecification"))
    for specification in data.parts("tagSpecifications"):
        if specification.text("resourceType") == "instance":
            draft.tags |= specification.pairs("tags")
        specification.skip("tags")
    data.skip("ebsOptimized", "keyName")
    data.say(
        {
            "userData": "is for another kind of node: write one that starts what your workloads need",
            "securityGroups": "groups are selected by id, name or tags",
        }
    )


def _image(draft: Draft, data: SourcePart) -> None:
    image = data.text("imageId")
    if image is None:
        return
    parameter = image.removeprefix("resolve:ssm:")
    if parameter.startswith("/"):
        draft.image = {"ssmParameter": parameter}
    elif image.startswith("ami-"):
        draft.image = {"id": image}
    else:
        data.note("imageId", "is no image's id")


def _disk(mapping: SourcePart, *, is_root: bool) -> dict[str, Any]:
    ebs = mapping.part("ebs")
    said: dict[str, Any] = {}
    size = ebs.number("volumeSize")
    if size is not None:
        said["volumeSize"] = f"{size}Gi"
    for name in ("volumeType", "snapshotId"):
        text = ebs.text(name)
        if text is not None:
            said[name] = text
    for name in ("iops", "throughput"):
        number = ebs.number(name)
        if number is not None:
            said[name] = number
    if "encrypted" in ebs:
        said["encrypted"] = ebs.flag("encrypted")
    if "deleteOnTermination" in ebs:
        said["deleteOnTermination"] = ebs.flag("deleteOnTermination")
    key = ebs.text("kmsKeyId")
    if key is not None:
        said["kmsKeyID"] = key
    device = mapping.text("deviceName") or "/dev/xvda"
    disk: dict[str, Any] = {"deviceName": device, "ebs": said}
    return {**disk, "rootVolume": True} if is_root else disk


def apply_requirements(draft: Draft, part: SourcePart) -> None:
    """Take over what EC2's instance requirements have in common with requirements on labels."""
    for name, key in (("vCpuCount", INSTANCE_CPU), ("memoryMiB", INSTANCE_MEMORY)):
        bounds = part.part(name)
        least, most = bounds.number("min"), bounds.number("max")
        if least:
            draft.requirements.append(_bound(key, "Gt", least - 1))
        if most is not None and most < _ANY:
            draft.requirements.append(_bound(key, "Lt", most + 1))
    makers = {"intel": "intel", "amd": "amd", "amazon-web-services": "aws"}
    wanted = [makers[each] for each in part.texts("cpuManufacturers") if each in makers]
    if wanted:
        draft.requirements.append(
            among("karpenter.k8s.aws/instance-cpu-manufacturer", wanted)
        )
    allowed = part.texts("allowedInstanceTypes")
    draft.add_types([name.removesuffix(".*") for name in allowed if "*" not in name[:-1]])
    if any("*" in name.removesuffix(".*") for name in allowed):
        part.note(
            "allowedInstanceTypes", "of patterns, only whole families have a counterpart"
        )
    if part.texts("instanceGenerations") == ["current"]:
        part.note(
            "instanceGenerations",
            "current generations are not distinguished: allow families",
        )


def _bound(key: str, operator: str, value: int) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": [str(value)]}
