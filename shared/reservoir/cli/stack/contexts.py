"""Named deployments: the file of contexts in the user's own folder, as kubectl has one."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml
from pydantic import Field, ValidationError

from reservoir.cli.console import fail, report
from reservoir.cli.options import CONTEXT_VARIABLE
from reservoir.core.scheduling_terms.labels import closest
from reservoir.manifests.parsing.errors import problems_of
from reservoir.manifests.parsing.load import load_documents
from reservoir.manifests.parsing.model import Model
from reservoir.manifests.parsing.problems import ManifestError, Problem
from reservoir.manifests.parsing.structure import LARGEST_INPUT_BYTES

FILE_VARIABLE: Final = "RESERVOIR_CONFIG"


class Context(Model):
    """Where a deployment is, and with which profile it is reached."""

    stack: str
    region: str | None = None
    profile: str | None = None
    endpoint_url: str | None = None


class Contexts(Model):
    """All contexts by name, and the one that is used by default."""

    current_context: str | None = None
    contexts: dict[str, Context] = Field(default_factory=dict)

    def named(self, name: str, why: str) -> Context:
        """Return a context; end the command where there is none of that name. ``why``: what named it."""
        if name not in self.contexts:
            hint = closest(name, self.contexts)
            known = f"did you mean {hint}?" if hint else _known(self.contexts)
            fail(f"{why}: there is no context {name}; {known}")
        return self.contexts[name]


def path_of(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where contexts are kept: ``RESERVOIR_CONFIG``, else in the folder for settings of users."""
    if environment.get(FILE_VARIABLE):
        return Path(environment[FILE_VARIABLE])
    # as in freedesktop.org's Base Directory Specification
    folder = environment.get("XDG_CONFIG_HOME", "")
    base = Path(folder) if Path(folder).is_absolute() else Path("~/.config").expanduser()
    return base / "reservoir" / "config.yaml"


def load(path: Path) -> Contexts:
    """Return the contexts of a file; none where there is no file. Raises OSError or ManifestError."""
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST_INPUT_BYTES + 1)
    except FileNotFoundError:
        return Contexts()
    documents = load_documents(text, str(path))
    if not documents:
        return Contexts()
    document = documents[0]
    if len(documents) > 1 or not isinstance(document.value, dict):
        message = "must be one mapping, with currentContext and contexts"
        raise ManifestError([Problem("", "config", message, source=str(path))])
    try:
        return Contexts.model_validate(document.value)
    except ValidationError as error:
        found = problems_of(error, Contexts, line_of=document.line_of, source=str(path))
        raise ManifestError(found) from None


def read(path: Path) -> Contexts:
    """Return the contexts of a file, as ``load`` does; ends the command when they cannot be read."""
    try:
        return load(path)
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror}")
    except ManifestError as error:
        report(error.problems)
        fail(f"the contexts in {path} cannot be read")


def write(path: Path, contexts: Contexts) -> None:
    """Replace the file as a whole, so that no other command finds half of it; a link to it stays a link."""
    values = contexts.model_dump(by_alias=True, exclude_none=True)
    target = path.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=target.parent, delete=False
        ) as written:
            yaml.safe_dump(values, written, sort_keys=True)
        Path(written.name).replace(target)
    except OSError as error:
        fail(f"cannot write {path}: {error.strerror}")


def chosen(name: str | None) -> Context | None:
    """Return the context of that name, else the current one; None where there is neither."""
    path = path_of()
    contexts = read(path)
    if name is not None:
        return contexts.named(name, f"--context or {CONTEXT_VARIABLE}")
    if contexts.current_context is not None:
        return contexts.named(contexts.current_context, f"currentContext in {path}")
    return None


def names() -> list[str]:
    """Return the names for completion; none for a file that cannot be read."""
    try:
        return sorted(load(path_of()).contexts)
    except (OSError, ManifestError):
        return []


def _known(contexts: Mapping[str, Context]) -> str:
    if not contexts:
        return "reservoir config set-context makes one"
    return f"there are {', '.join(sorted(contexts))}"
