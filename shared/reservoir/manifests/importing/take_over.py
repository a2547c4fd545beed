"""Configurations of other systems as manifests, whatever they are of."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from reservoir.manifests.importing import karpenter, parallel_cluster, sky_pilot
from reservoir.manifests.importing.auto_scaling import Templates, from_group
from reservoir.manifests.importing.batch import from_environment
from reservoir.manifests.importing.cloud_formation import (
    is_template,
    with_defaults,
    written_out,
)
from reservoir.manifests.importing.draft import Draft
from reservoir.manifests.importing.eks import from_eksctl, from_nodegroup
from reservoir.manifests.importing.part import SourcePart, folded
from reservoir.manifests.parsing.kubernetes import objects_in
from reservoir.manifests.parsing.load import Document, load_as_far_as_possible
from reservoir.manifests.parsing.problems import Problem
from reservoir.manifests.validate import subject_of

FORMS: Final = (
    "Karpenter's NodePools and EC2NodeClasses, EKS node groups (AWS's and eksctl's), Auto Scaling groups, compute"
    " environments of AWS Batch, ParallelCluster's configuration, SkyPilot's tasks"
)
_GROUP: Final = "AWS::AutoScaling::AutoScalingGroup"
_ENVIRONMENT: Final = "AWS::Batch::ComputeEnvironment"
_NODEGROUP: Final = "AWS::EKS::Nodegroup"
_TEMPLATE: Final = "AWS::EC2::LaunchTemplate"
_OF_A_TASK: Final = frozenset({"resources", "run", "num_nodes"})


@dataclass(frozen=True, slots=True)
class Imported:
    """Manifests as they can be applied, and notes about their sources."""

    manifests: list[dict[str, Any]]
    problems: list[Problem]


@dataclass(slots=True)
class _Import:
    """The results so far, of all files."""

    problems: list[Problem] = field(default_factory=list)
    parts: list[SourcePart] = field(default_factory=list)
    templates: Templates = field(default_factory=Templates)
    reservations: list[str] = field(default_factory=list)
    manifests: list[dict[str, Any]] = field(default_factory=list)


def take_over(files: Iterable[tuple[str, str | bytes]]) -> Imported:
    """Read files, given as (name, content), of any of ``FORMS``, and return what they are here.

    Launch templates may be anywhere among them, and so may SkyPilot's own configuration.
    """
    reading = _Import()
    documents: list[Document] = []
    for source, content in files:
        loaded, complaints = load_as_far_as_possible(_readable(content), source)
        reading.problems.extend(complaints)
        for document in loaded:
            documents.extend(objects_in(document))
    whole = [
        with_defaults(it) if is_template(it.value) else it
        for it in documents
        if isinstance(it.value, dict)
    ]
    for document in documents:
        if not isinstance(document.value, dict):
            reading.problems.append(_unknown(document))
    for document in whole:
        _note_templates(reading, document)
    for document in whole:
        if _is_config_of_sky_pilot(document.value):
            reading.reservations += sky_pilot.reservations_of(_root(reading, document))
    for document in whole:
        _document(reading, document)
    for part in [*reading.parts, *reading.templates.read()]:
        part.finish()
    # what several share is read more than once
    return Imported(_distinct(reading.manifests), list(dict.fromkeys(reading.problems)))


def _readable(content: str | bytes) -> str | bytes:
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else content
    plain = written_out(text)
    return content if plain == text else plain


def _document(reading: _Import, document: Document) -> None:
    value = document.value
    names = {folded(name) for name in value}
    if {"kind", "apiversion"} <= names and value.get("kind") != "ClusterConfig":
        root = _root(reading, document, subject_of(value))
        found = karpenter.from_object(document, root)
        reading.parts.remove(root)
        reading.manifests += [] if found is None else [found]
    elif "launchtemplateversions" in names or _is_config_of_sky_pilot(value):
        return
    else:
        drafts = list(_drafts(reading, _root(reading, document), names))
        for draft in drafts:
            reading.manifests += draft.manifests() if isinstance(draft, Draft) else [draft]


def _drafts(reading: _Import, root: SourcePart, names: set[str]) -> Iterator[Any]:
    """Yield what a document holds: drafts, and manifests that need nothing more."""
    if root.value.get("kind") == "ClusterConfig":
        yield from _eksctl(root)
        return
    if is_template(root.value):
        yield from _cloudformation(reading, root)
        return
    for name, read in _BY_FIELD.items():
        if name in names:
            yield from read(reading, root)
            return
    if not _OF_A_TASK.isdisjoint(root.value):
        yield from sky_pilot.from_task(root, reading.reservations, "task")
        return
    reading.parts.remove(root)
    reading.problems.append(_unknown(root.document))


def _nodegroup(reading: _Import, root: SourcePart) -> Iterator[Draft]:
    part = root.part("nodegroup") if "nodegroup" in root else root
    yield from_nodegroup(part, reading.templates, "nodes")


def _groups(reading: _Import, root: SourcePart) -> Iterator[Draft]:
    several = root.parts("autoScalingGroups")
    for group in several or [root]:
        yield from_group(group, reading.templates, "group")


def _environments(reading: _Import, root: SourcePart) -> Iterator[Draft]:
    several = root.parts("computeEnvironments")
    for environment in several or [root]:
        draft = from_environment(environment, reading.templates, "batch")
        if draft is not None:
            yield draft


def _cluster(_reading: _Import, root: SourcePart) -> Iterator[Draft]:
    yield from parallel_cluster.from_cluster(root)


def _eksctl(root: SourcePart) -> Iterator[Draft]:
    for name in ("managedNodeGroups", "nodeGroups"):
        for group in root.parts(name):
            yield from_eksctl(root, group, "nodes")
    # All else is the cluster's.
    root.skip(*root.value)


def _cloudformation(reading: _Import, root: SourcePart) -> Iterator[Draft]:
    resources = root.part("resources")
    for name in resources.value:
        resource = resources.part(name)
        kind, properties = resource.take("type"), resource.part("properties")
        if kind == _GROUP:
            yield from_group(properties, reading.templates, name.lower())
        elif kind == _ENVIRONMENT:
            yield from filter(
                None, [from_environment(properties, reading.templates, name.lower())]
            )
        elif kind == _NODEGROUP:
            yield from_nodegroup(properties, reading.templates, name.lower())
        else:
            properties.skip(*properties.value)
        resource.skip(*resource.value)
    root.skip(*root.value)


def _note_templates(reading: _Import, document: Document) -> None:
    """Note launch templates by all that they may be called."""
    value, known = document.value, reading.templates.named
    root = SourcePart(document, (), value, reading.problems)
    for version in root.parts("launchTemplateVersions"):
        data = version.part("launchTemplateData")
        is_default = version.flag("defaultVersion")
        for field_name in ("launchTemplateId", "launchTemplateName"):
            name = version.text(field_name)
            if name is not None and (is_default or name not in known):
                known[name] = data
    if not is_template(value):
        return
    resources = root.part("resources")
    for name in resources.value:
        resource = resources.part(name)
        if resource.take("type") == _TEMPLATE:
            properties = resource.part("properties")
            data = properties.part("launchTemplateData")
            reading.templates.add_logical(name, data)
            physical = properties.take("launchTemplateName")
            if isinstance(physical, str):
                known[physical] = data


def _is_config_of_sky_pilot(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("aws"), dict) and not {"resources", "run"} & value.keys()


def _root(reading: _Import, document: Document, subject: str = "") -> SourcePart:
    root = SourcePart(document, (), document.value, reading.problems, subject)
    reading.parts.append(root)
    return root


def _unknown(document: Document) -> Problem:
    message = f"is of no form that can be imported: {FORMS}"
    return Problem("", "form", message, document.line_of(()), source=document.source)


# The first field that a document has decides which format it is.
_BY_FIELD: Final[Mapping[str, Callable[[_Import, SourcePart], Iterator[Any]]]] = {
    "scheduling": _cluster,
    "nodegroup": _nodegroup,
    "nodegroupname": _nodegroup,
    "autoscalinggroups": _groups,
    "autoscalinggroupname": _groups,
    "computeenvironments": _environments,
    "computeresources": _environments,
}


def _distinct(manifests: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give each object a name of its own; a pool goes on naming its class, which comes after it."""
    taken: set[tuple[str, str]] = set()
    pending: list[dict[str, Any]] = []
    done: list[dict[str, Any]] = []
    for manifest in manifests:
        kind, metadata = manifest.get("kind"), manifest.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        fresh = _free_name(str(name), str(kind), taken)
        if fresh != name and isinstance(metadata, dict):
            metadata["name"] = fresh
            for pool in pending if kind == "EC2NodeClass" else []:
                pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = fresh
        taken.add((str(kind), fresh))
        pending = [*pending, manifest] if kind == "NodePool" else []
        done.append(manifest)
    return done


def _free_name(name: str, kind: str, taken: set[tuple[str, str]]) -> str:
    number, fresh = 2, name
    while (kind, fresh) in taken:
        fresh, number = f"{name}-{number}", number + 1
    return fresh
