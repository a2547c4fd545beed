"""Compute environments of AWS Batch."""

from typing import Final

from reservoir.manifests.importing.auto_scaling import Templates, apply_named_template
from reservoir.manifests.importing.draft import (
    ARCHITECTURE,
    Draft,
    alias_of,
    among,
    name_of,
    role_name,
)
from reservoir.manifests.importing.part import SourcePart

_JOBS: Final = "nodes come with workloads, and go with them"
_ARCHITECTURES: Final = {
    "default_x86_64": "amd64",
    "default_arm64": "arm64",
    "optimal": "amd64",
}
_CATEGORIES: Final = ("c", "m", "r")


def from_environment(
    part: SourcePart, templates: Templates, otherwise: str
) -> Draft | None:
    """Read one environment, as ``aws batch describe-compute-environments`` prints it or CloudFormation has it."""
    draft = Draft(name_of(part.text("computeEnvironmentName"), otherwise), part)
    resources = part.part("computeResources")
    kind = (resources.text("type") or "").upper()
    if kind.startswith("FARGATE") or not resources.value:
        part.note("computeResources", "has no instances: there is nothing to import")
        resources.skip(*resources.value)
        part.skip(*part.value)
        return None
    draft.capacity_types = ["spot"] if kind == "SPOT" else ["on-demand"]
    _types(draft, resources)
    launch = resources.part("launchTemplate")
    names = ("launchTemplateId", "launchTemplateName")
    apply_named_template(draft, launch, templates, *names)
    draft.subnets += resources.texts("subnets")
    draft.groups += resources.texts("securityGroupIds")
    _image(draft, resources)
    profile = resources.text("instanceRole")
    draft.profile = role_name(profile) if profile else draft.profile
    draft.placement_group = resources.text("placementGroup") or draft.placement_group
    most = resources.number("maxvCpus")
    if most:
        draft.limits["cpu"] = str(most)
    draft.tags |= resources.pairs("tags")
    resources.skip("allocationStrategy", "spotIamFleetRole", "ec2KeyPair")
    resources.say(
        {
            "minvCpus": _JOBS,
            "desiredvCpus": _JOBS,
            "bidPercentage": "a price at most is a workload's (maxPricePerHour)",
            "updateToLatestImageVersion": "an alias or parameter is always the latest image",
        }
    )
    part.skip(
        "type",
        "state",
        "status",
        "statusReason",
        "computeEnvironmentArn",
        "ecsClusterArn",
        "serviceRole",
        "uuid",
        "containerOrchestrationType",
        "replaceComputeEnvironment",
        "tags",
    )
    part.say(
        {
            "eksConfiguration": "Reservoir's nodes join no cluster",
            "updatePolicy": "replacement is bounded by the pool's disruption budgets",
            "unmanagedvCpus": "Reservoir shares nothing out between queues of Batch",
        }
    )
    return draft


def _types(draft: Draft, resources: SourcePart) -> None:
    named = resources.texts("instanceTypes")
    draft.add_types([name for name in named if name not in _ARCHITECTURES])
    wide = [name for name in named if name in _ARCHITECTURES]
    if wide:
        architectures = sorted({_ARCHITECTURES[name] for name in wide})
        draft.requirements.append(among(ARCHITECTURE, architectures))
        category = "karpenter.k8s.aws/instance-category"
        draft.requirements.append(among(category, _CATEGORIES))
        message = (
            f"is Batch's choice of types: the pool allows all of {', '.join(_CATEGORIES)}"
        )
        if draft.types or draft.families:
            message = "is Batch's choice of types: the pool has only those that are named beside it"
            draft.requirements.pop()
        resources.note("instanceTypes", message)


def _image(draft: Draft, resources: SourcePart) -> None:
    image = resources.text("imageId")
    for each in resources.parts("ec2Configuration"):
        image = image or each.text("imageIdOverride")
        kind = each.text("imageType") or ""
        each.skip("imageKubernetesVersion", "imageIdOverride")
        draft.image = draft.image or alias_of(kind)
        if "NVIDIA" in kind and image is None:
            each.note(
                "imageType", "has drivers, which the alias's image has not: name your own"
            )
    if image is not None and image.startswith("ami-"):
        draft.image = {"id": image}
