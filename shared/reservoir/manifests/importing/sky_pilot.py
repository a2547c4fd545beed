"""Tasks of SkyPilot: a workload, and the pool and class that it may run on."""

import re
from collections.abc import Iterator
from typing import Any, Final

from reservoir.manifests.importing.draft import ZONE, Draft, among, name_of
from reservoir.manifests.importing.part import SourcePart

_NODES_OF_AWS: Final = {
    # SkyPilot's names of accelerators on AWS, and EC2's families
    "a10g": ["g5"],
    "a100": ["p4d"],
    "a100-80gb": ["p4de"],
    "b200": ["p6-b200"],
    "h100": ["p5"],
    "h200": ["p5e", "p5en"],
    "k80": ["p2"],
    "l4": ["g6"],
    "l40s": ["g6e"],
    "t4": ["g4dn"],
    "t4g": ["g5g"],
    "v100": ["p3"],
    "v100-32gb": ["p3dn"],
    "trainium": ["trn1"],
    "inferentia": ["inf1"],
}
_DEVICE: Final = {
    "trainium": "aws.amazon.com/neuron",
    "inferentia": "aws.amazon.com/neuron",
}
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([gG][bB]?)?\+?")
_RUN: Final = "what runs is the node's agent's"
_ELSEWHERE: Final = "Reservoir has EC2 in one region"


def from_task(part: SourcePart, reservations: list[str], otherwise: str) -> Iterator[Any]:
    """Yield the workload of a task, and the draft that it fits; of tasks for several clouds, AWS's part counts."""
    name = name_of(part.text("name"), otherwise)
    resources = part.part("resources")
    draft = Draft(name, part)
    requests: dict[str, Any] = {}
    _choice(draft, requests, resources, _cloud_of(resources))
    alternatives = [*resources.parts("anyOf"), *resources.parts("ordered")]
    default = _bought(resources, "on-demand")
    kinds = [] if alternatives else [default]
    for choice in alternatives:
        cloud = _cloud_of(choice)
        if cloud in ("", "aws"):
            kinds.append(_bought(choice, default))
            _choice(draft, requests, choice, cloud)
        else:
            choice.note("", f"{cloud} has no counterpart: {_ELSEWHERE}")
            choice.skip(*choice.value)
    draft.capacity_types = sorted(set(kinds or [default]), reverse=True)
    draft.add_reservations(reservations, [])
    draft.root_gib = resources.number("diskSize")
    draft.tags |= resources.pairs("labels")
    resources.say(
        {
            "ports": "security groups are the class's",
            "diskTier": "volumeType of the class's blockDeviceMappings",
            "autostop": "nodes end when they are not needed",
            "jobRecovery": "replicas whose node goes are demand again",
            "spotRecovery": "replicas whose node goes are demand again",
            "acceleratorArgs": _ELSEWHERE,
            "networkTier": "a node's network interfaces are its class's",
        }
    )
    count = part.number("numNodes") or 1
    spec: dict[str, Any] = {"replicas": count}
    if count > 1:
        spec["gang"] = True
    if requests:
        spec["resources"] = {"requests": requests}
    part.say(
        {
            "run": _RUN,
            "setup": "what a node has is its image's and its class's userData",
            "workdir": _RUN,
            "envs": _RUN,
            "secrets": _RUN,
            "fileMounts": _RUN,
            "storageMounts": _RUN,
            "volumes": _RUN,
            "service": "replicas of a service are the workload's replicas, set by you",
            "config": "name the network and the role in the class",
            "eventCallback": _RUN,
            "experimental": _RUN,
        }
    )
    yield draft
    yield {
        "apiVersion": "reservoir/v1",
        "kind": "Workload",
        "metadata": {"namespace": "default", "name": name},
        "spec": spec,
    }


def reservations_of(config: SourcePart) -> list[str]:
    """Return the reservations that SkyPilot's own configuration uses, and name the rest."""
    aws = config.part("aws")
    found = aws.texts("specificReservations")
    aws.say(
        {
            "prioritizeReservations": "reserved capacity always goes first",
            "vpcName": "a class selects subnets by id or tags",
            "useInternalIps": "a class selects subnets by id or tags",
            "securityGroupName": "a class selects groups by id, name or tags",
            "labels": "tag the class by hand, with what its nodes shall have",
            "remoteIdentity": "name the role of the nodes in the class",
            "sshProxyCommand": "log in by Systems Manager",
            "diskEncrypted": "encrypted of the class's blockDeviceMappings",
        }
    )
    return found


def _bought(choice: SourcePart, default: str) -> str:
    if "useSpot" not in choice:
        return default
    return "spot" if choice.flag("useSpot") else "on-demand"


def _cloud_of(choice: SourcePart) -> str:
    named = choice.text("infra") or choice.text("cloud") or ""
    cloud = named.partition("/")[0].lower()
    return "" if cloud == "*" else cloud


def _choice(draft: Draft, requests: dict[str, Any], choice: SourcePart, cloud: str) -> None:
    """Convert one set of resources; those for another cloud are wanted here too."""
    if cloud not in ("", "aws"):
        choice.note("infra" if "infra" in choice else "cloud", _ELSEWHERE)
    place = (choice.text("infra") or "").split("/") if cloud == "aws" else []
    zone = choice.text("zone") or (place[2] if len(place) > 2 else None)
    choice.skip("cloud", "infra")
    choice.say({"region": "the region is the deployment's"})
    draft.add_types(choice.texts("instanceType"))
    if zone and zone != "*":
        draft.requirements.append(among(ZONE, [zone]))
    for key, field in (("cpu", "cpus"), ("memory", "memory")):
        found = _AMOUNT.match(choice.text(field) or "")
        if found is not None:
            requests[key] = found[1] if key == "cpu" else f"{found[1]}Gi"
    _take_accelerators(draft, requests, choice)
    image = choice.text("imageId")
    if image is not None and image.startswith("ami-"):
        draft.image = {"id": image}
    elif image is not None:
        choice.note("imageId", "is no image of EC2's")


def _take_accelerators(draft: Draft, requests: dict[str, Any], choice: SourcePart) -> None:
    """Take the first accelerator that EC2 has: several are alternatives, and a workload asks for one kind."""
    wanted = list(_accelerators(choice))
    known = [(name, count) for name, count in wanted if name.lower() in _NODES_OF_AWS]
    for name, _ in wanted:
        if name.lower() not in _NODES_OF_AWS:
            choice.note("accelerators", f"{name} is not known as one that EC2 has")
    if not known or not {"nvidia.com/gpu", "aws.amazon.com/neuron"}.isdisjoint(requests):
        return
    name, count = known[0]
    draft.add_types(_NODES_OF_AWS[name.lower()])
    requests[_DEVICE.get(name.lower(), "nvidia.com/gpu")] = count
    for other, _ in known[1:]:
        choice.note("accelerators", f"{other} is an alternative: only {name} was taken")


def _accelerators(choice: SourcePart) -> Iterator[tuple[str, int]]:
    """Yield accelerators with counts: ``A100:8``, a list of such, or a mapping."""
    given = choice.take("accelerators")
    if isinstance(given, dict):
        named = [f"{name}:{count}" for name, count in given.items()]
    else:
        named = [
            str(each) for each in (given if isinstance(given, list) else [given]) if each
        ]
    for each in named:
        name, _, count = each.partition(":")
        yield name, int(count) if count.isdecimal() and int(count) > 0 else 1
