"""Documents as manifests: everything that is wrong, at once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

from pydantic import ValidationError

from shared.core.scheduling_terms.labels import closest
from shared.manifests.kinds.node_class import NodeClassManifest
from shared.manifests.kinds.node_pool import NodePoolManifest
from shared.manifests.kinds.team import TeamManifest
from shared.manifests.kinds.workload import WorkloadManifest
from shared.manifests.parsing.errors import MOST_PROBLEMS, ignored_fields, problems_of
from shared.manifests.parsing.load import Document, load_documents
from shared.manifests.parsing.problems import ManifestError, Problem, errors_of, path_of, shown
from shared.manifests.parsing.structure import refuse

Manifest: TypeAlias = NodePoolManifest | NodeClassManifest | TeamManifest | WorkloadManifest
ManifestModel: TypeAlias = (
    type[NodePoolManifest] | type[NodeClassManifest] | type[TeamManifest] | type[WorkloadManifest]
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
    """All manifests that are valid, and everything that is wrong or without effect."""

    manifests: tuple[Read, ...]
    problems: tuple[Problem, ...]


def read_files(files: Iterable[tuple[str, str | bytes]]) -> Reading:
    """Read manifests from files given as (name, content).

    Everything that is wrong is reported at once; only where that is more than ``MOST_PROBLEMS`` errors, what follows is
    not looked at any more.
    """
    manifests: list[Read] = []
    problems: list[Problem] = []
    for source, content in files:
        try:
            documents = load_documents(content, source)
        except ManifestError as error:
            problems.extend(error.problems)
            continue
        for index, document in enumerate(documents):
            if len(problems) > MOST_PROBLEMS and len(errors_of(problems)) > MOST_PROBLEMS:
                message = f"{len(documents) - index} documents were not looked at: too much is wrong already"
                problems.append(Problem("", "more", message, document.line_of(()), source=source))
                break
            found, complaints = read_document(document)
            problems.extend(complaints)
            if found is not None:
                manifests.append(Read(found, document))
    problems.extend(_repeated(manifests))
    return Reading(tuple(manifests), tuple(problems))


def read_document(document: Document) -> tuple[Manifest | None, list[Problem]]:
    """Read one document; None when it has errors."""
    try:
        model = _model_of(document)
    except ManifestError as error:
        return None, list(error.problems)
    subject = _subject(document.value)
    try:
        manifest = model.model_validate(document.value)
    except ValidationError as error:
        return None, problems_of(error, model, line_of=document.line_of, subject=subject, source=document.source)
    return manifest, list(ignored_fields(manifest, line_of=document.line_of, subject=subject, source=document.source))


def _model_of(document: Document) -> ManifestModel:
    value, source = document.value, document.source
    if not isinstance(value, dict):
        refuse("manifest", "must be a mapping with apiVersion, kind, metadata and spec", line=1, source=source)
    kind, version = value.get("kind"), value.get("apiVersion")
    known = KINDS.get(kind) if isinstance(kind, str) else None
    if known is None:
        _refuse_value(document, "kind", kind, KINDS)
    if version != known[0]:
        _refuse_value(document, "apiVersion", version, [known[0]])
    return known[1]


def _refuse_value(document: Document, name: str, value: object, known: Iterable[str]) -> NoReturn:
    options = list(known)
    hint = closest(value, options) if isinstance(value, str) else None
    if hint is None and len(options) == 1:
        hint = options[0]
    message = "is required" if value is None else f"{shown(value)} is not one of {', '.join(options)}"
    problem = Problem(path_of((name,)), name, message, document.line_of((name,)), hint, source=document.source)
    raise ManifestError([problem])


def _subject(value: Mapping[str, Any]) -> str:
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    text = name if isinstance(name, str) and name.isascii() and name.isprintable() and len(name) <= 253 else "?"
    return f"{value['kind']}/{text}"


def _repeated(manifests: Sequence[Read]) -> Iterable[Problem]:
    seen: dict[tuple[str, str], Read] = {}
    for read in manifests:
        first = seen.setdefault(read.identity, read)
        if first is not read:
            line = read.document.line_of(("metadata", "name"))
            place = f"{first.document.source}:{first.document.line_of(('metadata', 'name'))}".lstrip(":")
            yield Problem(
                "metadata.name",
                "repeated",
                f"is given more than once; first at {place}",
                line,
                subject="/".join(read.identity),
                source=read.document.source,
            )
