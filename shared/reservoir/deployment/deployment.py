"""Finds and reads the settings file of a deployment."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from reservoir.core.scheduling_terms.labels import closest
from reservoir.deployment.manifests_folder import folder_problem
from reservoir.deployment.settings import DeploymentSettings
from reservoir.manifests.parsing.errors import problems_of
from reservoir.manifests.parsing.load import Document, load_documents
from reservoir.manifests.parsing.problems import ManifestError, Problem, shown
from reservoir.names import DEFAULT_STACK, Table

FOLDER: Final = "deployments"
SUFFIX: Final = ".yaml"
_NAME: Final = re.compile("[a-z]([a-z0-9-]{0,28}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployment: the name of its settings file, the file's folder, and its content."""

    name: str
    path: Path
    settings: DeploymentSettings

    @property
    def stack(self) -> str:
        """The stack's name."""
        return self.settings.stack or f"{DEFAULT_STACK}-{self.name}"

    @property
    def event_bus_name(self) -> str:
        """The outbound bus: ``reservoir`` in the default stack, prefixed with the stack's name in others."""
        return "reservoir" if self.stack == DEFAULT_STACK else f"{self.stack}-reservoir"

    @property
    def instance_role(self) -> str:
        """The role (pattern) that launches may hand to instances.

        One exact name unless the settings say otherwise: a pattern that all stages shared would let each of them hand
        out the roles of the others, and a prefix made of the name would still match a stage whose name is longer.
        """
        return self.settings.instance_role or f"reservoir-{self.name}-node"

    @property
    def manifests(self) -> Path | None:
        """The folder of manifests."""
        if self.settings.manifests is None:
            return None
        return self.path.parent / self.settings.manifests

    @property
    def tables(self) -> dict[Table, str]:
        """The tables to adopt, by what they are for."""
        named = {
            table: getattr(self.settings.tables, table.name.lower()) for table in Table
        }
        return {table: name for table, name in named.items() if name is not None}


def table_field(table: Table) -> str:
    """Return how the settings call a table: ``nodeClaims``."""
    return to_camel(table.name.lower())


def find(chosen: str | None, folder: Path) -> Path:
    """Return the settings file of a deployment given by name or by path; without one, the only one in ``folder``.

    Raises
    ------
    ManifestError
        There is no such file, or none was chosen and there is not exactly one.
    """
    if chosen is not None and (chosen.endswith(SUFFIX) or "/" in chosen):
        return Path(chosen)
    known = {path.stem: path for path in sorted(folder.glob(f"*{SUFFIX}"))}
    if chosen is None and len(known) == 1:
        return next(iter(known.values()))
    if chosen in known:
        return known[chosen]
    wish = (
        f"there is no {folder}/{chosen}{SUFFIX}"
        if chosen is not None
        else "which deployment?"
    )
    if not known:
        raise _refusal(
            f"{wish if chosen else 'there is no deployment'}: a deployment is a settings file"
            f" {folder}/NAME{SUFFIX}; start with a copy of examples/deployments/production.yaml"
        )
    raise _refusal(
        f"{wish} There are {', '.join(known)}"
        if chosen is None
        else f"{wish}; there are {', '.join(known)}",
        None if chosen is None else closest(chosen, known),
    )


def read(path: Path) -> Deployment:
    """Read a settings file.

    Raises
    ------
    ManifestError
        It cannot be read, or something in it is wrong; every problem is named, with its line.
    """
    source = str(path)
    if _NAME.fullmatch(path.stem) is None:
        raise _refusal(
            f"{shown(path.stem)} must be a letter, then at most 29 of a-z, 0-9 and -: it names the deployment",
            source=source,
        )
    try:
        text = path.read_bytes()
    except OSError as error:
        raise _refusal(f"cannot be read: {error.strerror}", source=source) from None
    documents = load_documents(text, source)
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise _refusal("must be one mapping of settings", source=source)
    (document,) = documents
    problems = list(_folder_problems(path, document))
    try:
        settings = DeploymentSettings.model_validate(document.value)
    except ValidationError as error:
        found = problems_of(
            error, DeploymentSettings, line_of=document.line_of, source=source
        )
        raise ManifestError([*found, *problems]) from None
    if problems:
        raise ManifestError(problems)
    return Deployment(path.stem, path, settings)


def _folder_problems(path: Path, document: Document) -> Iterator[Problem]:
    """Return what is wrong with the folder of manifests, whatever else is wrong."""
    named = document.value.get("manifests")
    if not isinstance(named, str) or not named:
        return  # there is none, or the settings' own check refuses it
    message = folder_problem(path.parent / named, shown(named))
    if message is not None:
        yield Problem(
            "manifests",
            "folder",
            message,
            document.line_of(("manifests",)),
            source=str(path),
        )


def _refusal(
    message: str, suggestion: str | None = None, *, source: str = ""
) -> ManifestError:
    return ManifestError(
        [Problem("", "deployment", message, suggestion=suggestion, source=source)]
    )
