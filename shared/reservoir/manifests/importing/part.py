"""A part of another system's configuration: values that are read are converted, and the others are named."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from reservoir.manifests.parsing.load import Document
from reservoir.manifests.parsing.problems import Location, Problem, Severity, path_of


def folded(name: object) -> str:
    """Return a field's name as it is compared: AWS's command line, CloudFormation and others write it differently."""
    return str(name).replace("_", "").replace("-", "").lower()


@dataclass(slots=True)
class SourcePart:
    """A mapping in a document. ``notes`` are all parts' of a file."""

    document: Document
    location: Location
    value: Mapping[str, Any]
    notes: list[Problem]
    subject: str = ""
    _names: dict[str, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _inner: list["SourcePart"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._names = {folded(name): name for name in self.value}

    def __contains__(self, name: str) -> bool:
        return self.value.get(self._names.get(folded(name), "")) is not None

    def take(self, name: str) -> Any:
        """Return a field's value, whatever it is; None if it is absent."""
        self._taken.add(folded(name))
        return self.value.get(self._names.get(folded(name), ""))

    def text(self, name: str) -> str | None:
        """Return a text or number as a text."""
        value = self.take(name)
        if isinstance(value, Mapping | list):
            self.note(name, "is not a plain value, and nothing here can resolve it")
            return None
        return None if value is None or value == "" else str(value)

    def number(self, name: str) -> int | None:
        """Return a whole number."""
        text = self.text(name)
        return int(text) if text is not None and text.isdecimal() else None

    def flag(self, name: str) -> bool:
        """Return whether it is true."""
        return str(self.take(name)).lower() == "true"

    def texts(self, name: str) -> list[str]:
        """Return a list of texts; one with commas is a list too."""
        value = self.take(name)
        listed = value.split(",") if isinstance(value, str) else value
        if listed is None or isinstance(listed, Mapping):
            return [] if listed is None else self._unresolved(name)
        items = listed if isinstance(listed, list) else [listed]
        texts = [
            str(item).strip() for item in items if not isinstance(item, Mapping | list)
        ]
        if len(texts) < len(items):
            self._unresolved(name)
        # a lone comma is what CloudFormation splits a text by
        return [text for text in texts if any(map(str.isalnum, text))]

    def pairs(self, name: str) -> dict[str, str]:
        """Return keys with values: a mapping, or a list of ``Key`` and ``Value``."""
        value = self.take(name)
        if isinstance(value, Mapping):
            return {str(key): str(item) for key, item in value.items()}
        found = {}
        for item in self.parts(name):
            key, text = item.text("key"), item.text("value")
            item.skip("propagateAtLaunch", "resourceId", "resourceType")
            if key is not None:
                found[key] = text or ""
        return found

    def part(self, name: str) -> "SourcePart":
        """Return the part of that name; an empty one if it is absent."""
        value = self.take(name)
        location = (*self.location, self._names.get(folded(name), name))
        return self._open(location, value if isinstance(value, Mapping) else {})

    def parts(self, name: str) -> list["SourcePart"]:
        """Return the mappings of a list."""
        value = self.take(name)
        return list(self._listed(name, value)) if isinstance(value, list) else []

    def skip(self, *names: str) -> None:
        """Take fields that say nothing about capacity."""
        self._taken.update(map(folded, names))

    def note(
        self,
        name: str,
        message: str,
        *,
        severity: Severity = Severity.WARNING,
        rule: str = "import",
    ) -> None:
        """Say something of a field; without a name, of the part itself."""
        field_name = self._names.get(folded(name), name)
        location = (*self.location, field_name) if name else self.location
        self.notes.append(
            Problem(
                path_of(location),
                rule,
                message,
                self.document.line_of(location),
                severity=severity,
                subject=self.subject,
                source=self.document.source,
            )
        )

    def say(self, why: Mapping[str, str]) -> None:
        """Say of fields, where they are there, why they have no counterpart."""
        for name, message in why.items():
            if name in self and folded(name) not in self._taken:
                self._taken.add(folded(name))
                self.note(name, message, severity=Severity.IGNORED, rule="no-counterpart")

    @property
    def is_read(self) -> bool:
        """Whether anybody has read of it."""
        return bool(self._taken)

    def finish(self) -> None:
        """Name all values that were not read, here and further in."""
        for key, name in self._names.items():
            if key not in self._taken and self.value[name] not in (None, "", [], {}):
                message = "has no counterpart here"
                self.note(name, message, severity=Severity.IGNORED, rule="no-counterpart")
        for inner in self._inner:
            inner.finish()

    def _listed(self, name: str, value: list[Any]) -> Iterator["SourcePart"]:
        for index, item in enumerate(value):
            if isinstance(item, Mapping):
                location = (*self.location, self._names.get(folded(name), name), index)
                yield self._open(location, item)

    def _open(self, location: Location, value: Mapping[str, Any]) -> "SourcePart":
        opened = SourcePart(self.document, location, value, self.notes, self.subject)
        self._inner.append(opened)
        return opened

    def _unresolved(self, name: str) -> list[str]:
        self.note(name, "holds what is not a plain value, and nothing here can resolve it")
        return []
