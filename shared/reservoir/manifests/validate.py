"""Documents as manifests: everything that is wrong, at once."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from reservoir.core.scheduling_terms.labels import closest
from reservoir.manifests.kinds.node_class import NodeClassManifest
from reservoir.manifests.kinds.node_pool import NodePoolManifest
from reservoir.manifests.kinds.team import TeamManifest
from reservoir.manifests.kinds.workload import WorkloadManifest
from reservoir.manifests.parsing.errors import MOST_PROBLEMS, ignored_fields, problems_of
from reservoir.manifests.parsing.kubernetes import (
    objects_in,
    placeholders,
    what_to_do_instead,
    without_bookkeeping,
)
from reservoir.manifests.parsing.load import Document, load_as_far_as_possible
from reservoir.manifests.parsing.problems import Problem, errors_of, path_of, shown

Manifest: TypeAlias = NodePoolManifest | NodeClassManifest | TeamManifest | WorkloadManifest
ManifestModel: TypeAlias = (
    type[NodePoolManifest]
    | type[NodeClassManifest]
    | type[TeamManifest]
    | type[WorkloadManifest]
)

# kind -> (API version, model)
KINDS: Final[Mapping[str, tuple[str, ManifestModel]]] = {
    "NodePool": ("karpenter.sh/v1", NodePoolManifest),
    "EC2NodeClass": ("karpenter.k8s.aws/v1", NodeClassManifest),
    "Team": ("reservoir/v1", TeamManifest),
    "Workload": ("reservoir/v1", WorkloadManifest),
}


@dataclass(frozen=True, slots=True)
class Read:
    """A valid manifest with the document that it was read from."""

    manifest: Manifest
    document: Document

    @property
    def identity(self) -> tuple[str, str]:
        """Kind and name; for workloads namespace/name."""
        return identity_of(self.manifest)


def identity_of(manifest: Manifest) -> tuple[str, str]:
    """Return kind and name of a manifest; for workloads namespace/name."""
    if isinstance(manifest, WorkloadManifest):
        return manifest.kind, f"{manifest.metadata.namespace}/{manifest.metadata.name}"
    return manifest.kind, manifest.metadata.name


@dataclass(frozen=True, slots=True)
class Reading:
    """All valid manifests, all problems and ignored fields, and the documents with errors.

    ``unread_kinds``: documents with errors may be objects of these kinds; all kinds where not even that is known.
    """

    manifests: tuple[Read, ...]
    problems: tuple[Problem, ...]
    refused: tuple[Document, ...] = ()
    unread_kinds: frozenset[str] = frozenset()


def read_files(files: Iterable[tuple[str, str | bytes]]) -> Reading:
    """Read manifests from files given as (name, content).

    Everything that is wrong is reported at once; only where that is more than ``MOST_PROBLEMS`` errors, what follows is
    not looked at any more.
    """
    manifests: list[Read] = []
    problems: list[Problem] = []
    refused: list[Document] = []
    unread_kinds: set[str] = set()
    for source, content in files:
        loaded, complaints = load_as_far_as_possible(content, source)
        problems.extend(complaints)
        if errors_of(complaints):
            unread_kinds.update(KINDS)
        documents = [item for document in loaded for item in objects_in(document)]
        for index, document in enumerate(documents):
            if len(problems) > MOST_PROBLEMS and len(errors_of(problems)) > MOST_PROBLEMS:
                message = f"{len(documents) - index} documents were not looked at: too much is wrong already"
                problems.append(
                    Problem("", "more", message, document.line_of(()), source=source)
                )
                unread_kinds.update(KINDS)
                break
            found, wrong = read_document(document)
            problems.extend(wrong)
            if found is None:
                refused.append(document)
                unread_kinds.update(_possible_kinds(document))
            else:
                manifests.append(Read(found, document))
    problems.extend(_repeated(manifests))
    return Reading(
        tuple(manifests), tuple(problems), tuple(refused), frozenset(unread_kinds)
    )


def read_document(document: Document) -> tuple[Manifest | None, list[Problem]]:
    """Read one document; None when it has errors."""
    value = document.value
    if not isinstance(value, dict):
        message = "must be a mapping with apiVersion, kind, metadata and spec"
        return None, [
            Problem(
                "", "manifest", message, document.line_of(()) or 1, source=document.source
            )
        ]
    kind, wrong = _kind_of(document)
    if kind is None:
        return None, wrong
    version, model = KINDS[kind]
    if value.get("apiVersion") != version:
        wrong.append(
            _wrong_value(document, "apiVersion", value.get("apiVersion"), [version])
        )
    # Problems of kind and version are reported already: the rest is read as the kind that was probably meant.
    meant = replace(document, value={**value, "kind": kind, "apiVersion": version})
    subject = subject_of(meant.value)
    cleaned, notes = without_bookkeeping(meant, subject)
    wrong += sorted(
        placeholders(cleaned, subject),
        key=lambda problem: (problem.line or 0, problem.path),
    )
    line_of, source = document.line_of, document.source
    try:
        manifest = model.model_validate(cleaned.value)
    except ValidationError as error:
        told = {problem.path for problem in wrong}
        found = problems_of(error, model, line_of=line_of, subject=subject, source=source)
        return None, [*wrong, *(problem for problem in found if problem.path not in told)]
    ignored = ignored_fields(manifest, line_of=line_of, subject=subject, source=source)
    return None if wrong else manifest, [*wrong, *notes, *ignored]


def _possible_kinds(document: Document) -> Collection[str]:
    """Return the kinds that a document with errors may be of."""
    given = document.value.get("kind") if isinstance(document.value, dict) else None
    return (given,) if isinstance(given, str) and given in KINDS else KINDS


def _kind_of(document: Document) -> tuple[str | None, list[Problem]]:
    """Return the kind that is meant, if one can be, and what is wrong with it."""
    given = document.value.get("kind")
    if isinstance(given, str) and given in KINDS:
        return given, []
    instead = what_to_do_instead(document.value)
    if instead is not None:
        message = f"{given} is not served: {instead}"
        return None, [
            Problem(
                "kind",
                "not-served",
                message,
                document.line_of(("kind",)),
                source=document.source,
            )
        ]
    problem = _wrong_value(document, "kind", given, KINDS)
    return problem.suggestion, [problem]


def _wrong_value(
    document: Document, name: str, value: object, known: Iterable[str]
) -> Problem:
    options = list(known)
    hint = closest(value, options) if isinstance(value, str) else None
    if hint is None and len(options) == 1:
        hint = options[0]
    message = (
        "is required"
        if value is None
        else f"{shown(value)} is not one of {', '.join(options)}"
    )
    return Problem(
        path_of((name,)),
        name,
        message,
        document.line_of((name,)),
        hint,
        source=document.source,
    )


def subject_of(value: Mapping[str, Any]) -> str:
    """Return how problems name an object: kind and name, as far as it has one that can be shown."""
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    text = (
        name
        if isinstance(name, str)
        and name.isascii()
        and name.isprintable()
        and len(name) <= 253
        else "?"
    )
    return f"{value['kind']}/{text}"


def _repeated(manifests: Sequence[Read]) -> Iterable[Problem]:
    seen: dict[tuple[str, str], Read] = {}
    for read in manifests:
        first = seen.setdefault(read.identity, read)
        if first is not read:
            line = read.document.line_of(("metadata", "name"))
            place = f"{first.document.source}:{first.document.line_of(('metadata', 'name'))}".lstrip(
                ":"
            )
            yield Problem(
                "metadata.name",
                "repeated",
                f"is given more than once; first at {place}",
                line,
                subject="/".join(read.identity),
                source=read.document.source,
            )
