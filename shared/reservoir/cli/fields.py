r"""Fields of printed documents, in the part of kubectl's JSONPath that people use.

A path is ``.metadata.name``, ``.status.holders[0].units``, ``.items[*].spec.zone`` or ``.metadata.labels['a.b/c']``. A
template is text with paths in braces (``{.metadata.name}``), texts in quotes (``{"\n"}``) and repetitions
(``{range .items[*]}{.metadata.name}{"\n"}{end}``).
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

_STEP: Final = re.compile(r"\.([^.\[\]{}'\"\s]+)|\[(\*|-?\d+)\]|\['([^']*)'\]")
_ACTION: Final = re.compile(r"\{((?:[^{}'\"]|'[^']*'|\"(?:[^\"\\]|\\.)*\")*)\}")
_EVERY: Final = "*"


class FieldsError(ValueError):
    """A path or template cannot be understood."""


@dataclass(frozen=True, slots=True)
class Path:
    """Steps into a document: keys, places in lists, and every place of a list."""

    steps: tuple[str | int, ...]
    everywhere: frozenset[int] = frozenset()  # which of the steps are [*]

    @classmethod
    def parse(cls, text: str) -> "Path":
        """Read a path, with or without its braces and ``$``; raises FieldsError."""
        inner = text.strip().removeprefix("{").removesuffix("}").strip().removeprefix("$")
        steps: list[str | int] = []
        everywhere: set[int] = set()
        at = 0
        while at < len(inner):
            match = _STEP.match(inner, at)
            if match is None:
                raise FieldsError(
                    f"{text!a} is not a path such as .metadata.name or .items[*].status.state"
                )
            key, place, quoted = match.groups()
            if place == _EVERY:
                everywhere.add(len(steps))
            steps.append(
                int(place)
                if place is not None and place != _EVERY
                else key or quoted or _EVERY
            )
            at = match.end()
        return cls(tuple(steps), frozenset(everywhere))

    def find(self, document: Any) -> list[Any]:
        """Return the values that are found: none, one, or one for each place of a list."""
        found = [document]
        for number, step in enumerate(self.steps):
            found = list(
                chain.from_iterable(self._next(each, number, step) for each in found)
            )
        return found

    def _next(self, value: Any, number: int, step: str | int) -> Iterator[Any]:
        if number in self.everywhere:
            yield from (
                value.values()
                if isinstance(value, Mapping)
                else value
                if isinstance(value, list)
                else ()
            )
        elif isinstance(step, int):
            if isinstance(value, list) and -len(value) <= step < len(value):
                yield value[step]
        elif isinstance(value, Mapping) and step in value:
            yield value[step]


def written(value: Any) -> str:
    """Return a value as kubectl writes it: a text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def sort_key(values: Sequence[Any]) -> tuple[int, float, str]:
    """Return the key by which rows are sorted: rows that lack it first, then numbers, then texts."""
    if not values or values[0] is None:
        return 0, 0.0, ""
    value = values[0]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return 1, float(value), ""
    return 2, 0.0, written(value)


@dataclass(frozen=True, slots=True)
class Template:
    """A template of texts, paths and repetitions."""

    parts: tuple["str | Path | Repeated", ...]

    @classmethod
    def parse(cls, text: str) -> "Template":
        """Read a template; raises FieldsError."""
        tokens = list(_tokens(text if "{" in text else f"{{{text}}}"))
        parts, rest = _parts(tokens, 0, is_inner=False)
        if rest != len(tokens):
            raise FieldsError("{end} without {range ...}")
        return cls(parts)

    def render(self, document: Any) -> str:
        """Return the text for a document."""
        return "".join(map(str, self._rendered(document)))

    def _rendered(self, document: Any) -> Iterator[str]:
        for part in self.parts:
            if isinstance(part, str):
                yield part
            elif isinstance(part, Path):
                yield " ".join(map(written, part.find(document)))
            else:
                yield from (part.template.render(each) for each in part.path.find(document))


@dataclass(frozen=True, slots=True)
class Repeated:
    """A template for each value that a path finds."""

    path: Path
    template: Template


def _tokens(text: str) -> Iterator[tuple[bool, str]]:
    """Yield plain texts, and the contents of braces (True)."""
    at = 0
    for match in _ACTION.finditer(text):
        if match.start() > at:
            yield False, text[at : match.start()]
        yield True, match[1].strip()
        at = match.end()
    rest = text[at:]
    if "{" in rest or "}" in rest:
        raise FieldsError(f"a brace of {text!a} has no other")
    if rest:
        yield False, rest


def _parts(
    tokens: Sequence[tuple[bool, str]], at: int, *, is_inner: bool
) -> tuple[tuple["str | Path | Repeated", ...], int]:
    """Return the parts up to the end, or to the ``{end}`` of a repetition, and where it goes on."""
    parts: list[str | Path | Repeated] = []
    while at < len(tokens):
        is_action, text = tokens[at]
        at += 1
        if not is_action:
            parts.append(text)
        elif text == "end":
            return tuple(parts), at if is_inner else at - 1
        elif text.startswith("range "):
            inner, at = _parts(tokens, at, is_inner=True)
            parts.append(Repeated(Path.parse(text.removeprefix("range ")), Template(inner)))
        elif text[:1] in ("'", '"'):
            parts.append(str(ast.literal_eval(text)))
        else:
            parts.append(Path.parse(text))
    if is_inner:
        raise FieldsError("{range ...} without {end}")
    return tuple(parts), at


@dataclass(frozen=True, slots=True)
class CustomColumn:
    """A column of ``-o custom-columns=TITLE:PATH,...``."""

    title: str
    path: Path

    def text(self, document: Any) -> str:
        """Return the text of the column for a document."""
        return ",".join(map(written, self.path.find(document))) or "<none>"


def custom_columns(text: str) -> tuple[CustomColumn, ...]:
    """Read the columns; raises FieldsError."""
    found = [each.partition(":") for each in text.split(",") if each]
    if not found or not all(title and path for title, _, path in found):
        raise FieldsError(
            f"{text!a} is not a list of columns such as NAME:.metadata.name,STATE:.status.state"
        )
    return tuple(CustomColumn(title, Path.parse(path)) for title, _, path in found)
