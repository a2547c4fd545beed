"""YAML from users: several documents a file, with line numbers, within bounds.

Events of the parser are turned into values one by one, so that a bomb is refused before it is built. Scalars follow
YAML 1.2's core schema (and JSON): only true and false are booleans, dates stay text. Aliases may be used; what they
expand to counts against the bounds. Merge keys and tags are refused.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from reservoir.core.scheduling_terms.labels import closest
from reservoir.manifests.parsing.problems import (
    Location,
    ManifestError,
    Problem,
    path_of,
    shown,
)
from reservoir.manifests.parsing.structure import (
    DEEPEST,
    MOST_KEYS,
    MOST_VALUES,
    MOST_VALUES_OF_A_FILE,
    check_size,
    refuse,
)
from reservoir.manifests.parsing.variables import commented, unrendered

MOST_DOCUMENTS: Final = 1_000  # of one file
_MOST_COMPLAINTS: Final = 100
_MOST_HINTED: Final = 100  # anchors that a misspelt alias is compared with

_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS: Final = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,40}")
_HEXADECIMAL: Final = re.compile(r"0x[0-9a-fA-F]{1,16}")
_OCTAL: Final = re.compile(r"0o[0-7]{1,22}")
# tried last
_FLOAT: Final = re.compile(
    r"[-+]?(\.[0-9]{1,40}|[0-9]{1,40}(\.[0-9]{0,40})?)([eE][-+]?[0-9]{1,3})?"
)
_MAPPING: Final = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document: its value, its file, and the line of every value in it."""

    value: Any
    source: str = ""
    lines: dict[Location, int] = field(default_factory=dict)

    def line_of(self, location: Location) -> int | None:
        """Return the line of a place, or of the nearest place around it that exists."""
        for length in range(len(location), -1, -1):
            line = self.lines.get(location[:length])
            if line is not None:
                return line
        return None


def load_documents(text: str | bytes, source: str = "") -> tuple[Document, ...]:
    """Read all documents of a file; empty ones are left out.

    Raises
    ------
    ManifestError
        It is not UTF-8, not YAML, or passes a bound.
    """
    documents, problems = load_as_far_as_possible(text, source)
    if problems:
        raise ManifestError(problems)
    return documents


def load_as_far_as_possible(
    text: str | bytes, source: str = ""
) -> tuple[tuple[Document, ...], tuple[Problem, ...]]:
    """Read the documents of a file as far as its parts can be separated, with the mistakes of form.

    A mistake in one place (a field that is given twice, a tag, a merge key) hides no mistake in others.
    """
    documents: list[Document] = []
    problems: list[Problem] = []
    decoded = ""
    try:
        encoded = text.encode() if isinstance(text, str) else text
        check_size(len(encoded), source=source)
        decoded = encoded.decode("utf-8-sig")
        documents.extend(_documents(decoded, source, problems))
        absent = commented(decoded, source)
        if absent:
            return (), (*problems, *absent)
    except ManifestError as error:
        is_form = any(problem.rule == "key" for problem in error.problems)
        problems.extend((is_form and unrendered(decoded, source)) or error.problems)
    except UnicodeError as error:
        problems.append(
            Problem("", "utf-8", f"is not UTF-8 text: {error}"[:200], source=source)
        )
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        message = f"is not YAML: {error.problem or error.context}"[:200]
        problem = Problem("", "yaml", message, line, source=source)
        problems.extend(unrendered(decoded, source) or [problem])
    except yaml.YAMLError as error:
        problems.append(Problem("", "yaml", f"is not YAML: {error}"[:200], source=source))
    return tuple(documents), tuple(problems)


def _documents(text: str, source: str, problems: list[Problem]) -> Iterator[Document]:
    builder: _Builder | None = None
    count = 0
    spent = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, DocumentStartEvent):
            count += 1
            if count > MOST_DOCUMENTS:
                refuse(
                    "size",
                    f"has more than {MOST_DOCUMENTS} documents",
                    line=_line(event),
                    source=source,
                )
            builder = _Builder(
                source, min(MOST_VALUES, MOST_VALUES_OF_A_FILE - spent), problems
            )
        elif builder is not None and builder.take(event):
            spent += builder.count
            if builder.value is not None:
                yield Document(builder.value, source, builder.lines)
            builder = None


@dataclass(slots=True)
class _Open:
    """A list or mapping under construction."""

    value: Any
    location: Location
    anchor: str | None
    line: int
    size: int = 1
    key: str | None = None
    awaits_value: bool = False
    drops_value: bool = False  # its key was refused


class _Builder:
    """Builds one document out of events."""

    def __init__(self, source: str, most_values: int, problems: list[Problem]) -> None:
        self._problems = problems
        self.value: Any = None
        self.lines: dict[Location, int] = {}
        self.count = 0  # of values so far
        self._most_values = most_values
        self._source = source
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}

    def take(self, event: Event) -> bool:
        """Take an event; True when the document is complete."""
        if isinstance(event, ScalarEvent):
            return self._scalar(event)
        if isinstance(event, AliasEvent):
            return self._alias(event)
        if isinstance(event, MappingStartEvent | SequenceStartEvent):
            self._start(event)
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            done = self._stack.pop()
            if done.anchor is not None:
                self._anchors[done.anchor] = (done.value, done.size)
            return self._add(done.value, done.size, done.line)
        return False

    def _start(self, event: MappingStartEvent | SequenceStartEvent) -> None:
        is_mapping = isinstance(event, MappingStartEvent)
        line = self._checked(event, "map" if is_mapping else "seq")
        self._spend(1, line)
        if self._expects_key():
            self._refuse("key", "a list or mapping cannot be a key", line)
        location = self._here()
        if len(location) >= DEEPEST:
            self._refuse("depth", f"is nested deeper than {DEEPEST} levels", line)
        self.lines[location] = line
        self._stack.append(_Open({} if is_mapping else [], location, event.anchor, line))

    def _scalar(self, event: ScalarEvent) -> bool:
        line = self._checked(event, "str")
        self._spend(1, line)
        if self._expects_key():
            self._key(event.value, line, plain=event.implicit[0])
            return False
        value = self._plain(event.value, line) if event.implicit[0] else event.value
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, 1)
        self.lines[self._here()] = line
        return self._add(value, 1, line)

    def _alias(self, event: AliasEvent) -> bool:
        line = _line(event)
        known = self._anchors.get(event.anchor or "")
        if known is None:
            message = f"{shown(event.anchor)} is not the name of anything above"
            self._complain(
                "alias",
                message,
                line,
                closest(event.anchor or "", list(self._anchors)[:_MOST_HINTED]),
            )
        value, size = known or (None, 1)
        self._spend(size, line)
        if self._expects_key():
            self._refuse("key", "an alias cannot be a key", line)
        self.lines[self._here()] = line
        return self._add(value, size, line)

    def _key(self, text: str, line: int, *, plain: bool) -> None:
        mapping = self._stack[-1]
        if plain and text == "<<":
            self._complain(
                "merge-key", "merge keys are not supported; write the fields out", line
            )
            mapping.drops_value = True
        if text in mapping.value:
            self._complain("duplicate", f"{shown(text)} is given more than once", line)
        if len(mapping.value) >= MOST_KEYS:
            self._refuse("size", f"has more than {MOST_KEYS} fields", line)
        mapping.key, mapping.awaits_value = text, True

    def _add(self, value: Any, size: int, line: int) -> bool:
        if not self._stack:
            self.value = value
            return True
        parent = self._stack[-1]
        parent.size += size
        if isinstance(parent.value, list):
            parent.value.append(value)
        else:
            if parent.key is None:
                self._refuse("key", "is a value without a key", line)
            if not parent.drops_value:
                parent.value[parent.key] = value
            parent.awaits_value = parent.drops_value = False
        return False

    def _expects_key(self) -> bool:
        return (
            bool(self._stack)
            and isinstance(self._stack[-1].value, dict)
            and not self._stack[-1].awaits_value
        )

    def _here(self) -> Location:
        if not self._stack:
            return ()
        parent = self._stack[-1]
        if isinstance(parent.value, list):
            return (*parent.location, len(parent.value))
        return (
            (*parent.location, parent.key or "") if parent.awaits_value else parent.location
        )

    def _checked(
        self, event: ScalarEvent | MappingStartEvent | SequenceStartEvent, kind: str
    ) -> int:
        """Refuse explicit tags: they ask a reader to make something else of the text."""
        line = _line(event)
        if event.tag not in (None, "!", _MAPPING + kind):
            self._complain("tag", f"the tag {shown(event.tag)} is not supported", line)
        return line

    def _plain(self, text: str, line: int) -> Any:
        if text in _NULL:
            return None
        if text in _BOOLEANS:
            return _BOOLEANS[text]
        number = _number(text)
        if isinstance(number, int) and not -(2**63) <= number < 2**63:
            self._complain("integer", f"{shown(text)} is a number beyond 64 bits", line)
            return 0
        return text if number is None else number

    def _spend(self, size: int, line: int) -> None:
        self.count += size
        if self.count > self._most_values:
            message = f"has more than {MOST_VALUES} values in a document or {MOST_VALUES_OF_A_FILE} in a file"
            self._refuse("size", message, line)

    def _complain(
        self, rule: str, message: str, line: int, suggestion: str | None = None
    ) -> None:
        """Report a problem, and read on, up to a number of problems that helps no reader any more."""
        path = path_of(self._here()[:DEEPEST])
        problem = Problem(path, rule, message, line, suggestion, source=self._source)
        if len(self._problems) >= _MOST_COMPLAINTS:
            raise ManifestError([problem])
        self._problems.append(problem)

    def _refuse(self, rule: str, message: str, line: int) -> NoReturn:
        path = path_of(self._here()[:DEEPEST])
        raise ManifestError([Problem(path, rule, message, line, source=self._source)])


def _number(text: str) -> int | float | None:
    if _INTEGER.fullmatch(text):
        return int(text)
    if _HEXADECIMAL.fullmatch(text):
        return int(text, 16)
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else None
    return None


def _line(event: Event) -> int:
    return 0 if event.start_mark is None else int(event.start_mark.line) + 1
