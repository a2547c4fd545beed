"""Validation errors as problems: a path, a line, a sentence, a suggestion."""

import json
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from reservoir.core.scheduling_terms.labels import closest
from reservoir.core.scheduling_terms.requirement import integer_of
from reservoir.manifests.parsing import nearest
from reservoir.manifests.parsing.fields import Suggest
from reservoir.manifests.parsing.model import IgnoredBecause, Model
from reservoir.manifests.parsing.problems import Location, Problem, Severity, path_of, shown

# A report of thousands of equal mistakes helps no reader and costs memory.
MOST_PROBLEMS: Final = 100

LineOf = Callable[[Location], int | None]

_SENTENCES: Final = {
    "missing": "is required",
    "string_type": "must be a string; put it in quotes",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
}
# kind of error -> where its bound is found
_BOUNDS: Final = {"greater_than_equal": "ge", "less_than_equal": "le"}
_BOOLEANS: Final = {
    "true": "true", "yes": "true", "on": "true", "enabled": "true",
    "false": "false", "no": "false", "off": "false", "disabled": "false",
}  # fmt: skip


def problems_of(
    error: ValidationError,
    model: type[BaseModel],
    *,
    line_of: LineOf,
    subject: str = "",
    source: str = "",
    most: int = MOST_PROBLEMS,
    most_suggestions: int = MOST_PROBLEMS,
) -> list[Problem]:
    """Return every error as a problem, in the order of lines and paths, at most ``most``.

    Finding the value that was probably meant costs most: only the first ``most_suggestions`` problems have one.
    """
    found = [
        _problem(
            details, model, line_of, subject, source, suggests=index < most_suggestions
        )
        for index, details in enumerate(
            error.errors(include_url=False, include_input=True)[:most]
        )
    ]
    found.sort(key=lambda problem: (problem.line or 0, problem.path, problem.rule))
    rest = error.error_count() - len(found)
    if rest > 0:
        found.append(
            Problem("", "more", f"and {rest} more problems", subject=subject, source=source)
        )
    return found


def _problem(
    details: ErrorDetails,
    model: type[BaseModel],
    line_of: LineOf,
    subject: str,
    source: str,
    *,
    suggests: bool,
) -> Problem:
    location = tuple(step for step in details["loc"] if step != "[key]")
    suggestion = _suggestion(details, model, location) if suggests else None
    return Problem(
        path=path_of(location),
        rule=details["type"].replace("_", "-"),
        message=_sentence(details),
        line=line_of(location),
        suggestion=suggestion or None,
        subject=subject,
        source=source,
    )


def _suggestion(
    details: ErrorDetails, model: type[BaseModel], location: Location
) -> str | None:
    suggest: Suggest = details.get("ctx", {}).get("suggest") or partial(
        _nearest_expected, details
    )
    suggestion = suggest()
    if suggestion is None and details["type"] == "unknown-field":
        suggestion = _elsewhere(model, str(location[-1]), path_of(location))
    return suggestion


def _sentence(details: ErrorDetails) -> str:
    context = details.get("ctx", {})
    if "message" in context:
        return str(context["message"])
    if details["input"] is None and details["type"] != "missing":
        return "has no value"
    if details["type"] in ("enum", "literal_error"):
        return f"{shown(details['input'])} is not one of {context['expected']}"
    if details["type"] in ("too_long", "string_too_long"):
        unit = "characters" if details["type"] == "string_too_long" else "entries"
        return f"has more than the {context['max_length']} {unit} that are allowed"
    if details["type"] == "string_type" and isinstance(details["input"], dict | list):
        given = "a mapping" if isinstance(details["input"], dict) else "a list"
        return f"must be a string, and is {given}"
    sentence = _SENTENCES.get(details["type"])
    if sentence is not None:
        return sentence
    return details["msg"][:1].lower() + details["msg"][1:]


def _nearest_expected(details: ErrorDetails) -> str | None:
    kind, given, context = details["type"], details["input"], details.get("ctx", {})
    if kind in _BOUNDS:
        return str(context[_BOUNDS[kind]])
    if kind == "string_type" and isinstance(given, int | float):
        return json.dumps(json.dumps(given))
    if not isinstance(given, str) or len(given) > nearest.LONGEST:
        return None
    if kind == "int_type":
        return given if integer_of(given) is not None else None
    if kind == "bool_type":
        return _BOOLEANS.get(given.lower())
    return _nearest_listed(given, context) if kind in ("enum", "literal_error") else None


def _nearest_listed(given: str, context: Mapping[str, Any]) -> str | None:
    expected = re.findall(r"'([^']*)'", context.get("expected", ""))
    by_lower = {value.lower(): value for value in expected}
    exact = by_lower.get(given.lower())
    return exact if exact is not None else closest(given, expected)


def _elsewhere(model: type[BaseModel], name: str, path: str) -> str | None:
    """Where in the document a field of this name would belong, if at exactly one place, and in no other list."""
    places = [place for place, field in _places(model) if field == name]
    if len(places) != 1 or places[0] == name:
        return None
    of_list, bracket, _ = places[0].rpartition("[]")
    if not bracket or re.sub(r"\[[0-9]+\]", "[]", path).startswith(of_list):
        return places[0]
    return None


@cache
def _places(model: type[BaseModel]) -> tuple[tuple[str, str], ...]:
    return tuple(_walk(model, ""))


def _walk(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str]]:
    for name, info in model.model_fields.items():
        wire_name = info.alias or name
        path = f"{prefix}.{wire_name}" if prefix else wire_name
        yield path, wire_name
        for inner, is_list in _models_in(info.annotation):
            yield from _walk(inner, f"{path}[]" if is_list else path)


def _models_in(
    annotation: Any, is_list: bool = False
) -> Iterator[tuple[type[BaseModel], bool]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, is_list
        return
    for argument in typing.get_args(annotation):
        yield from _models_in(argument, is_list or typing.get_origin(annotation) is list)


def ignored_fields(
    value: Model,
    *,
    line_of: LineOf,
    subject: str = "",
    source: str = "",
    location: Location = (),
) -> Iterator[Problem]:
    """Yield one line for each field that was given and has no effect, or another than in Kubernetes."""
    for name, note in value.notes():
        here = (*location, name)
        yield Problem(
            path_of(here),
            "note",
            note,
            line_of(here),
            None,
            Severity.IGNORED,
            subject,
            source,
        )
    for name, info in type(value).model_fields.items():
        if name not in value.model_fields_set:
            continue
        here = (*location, info.alias or name)
        marker = next(
            (item for item in info.metadata if isinstance(item, IgnoredBecause)), None
        )
        if marker is not None:
            yield Problem(
                path_of(here),
                "ignored",
                marker.reason,
                line_of(here),
                None,
                Severity.IGNORED,
                subject,
                source,
            )
            continue
        for step, member in _members(getattr(value, name)):
            yield from ignored_fields(
                member,
                line_of=line_of,
                subject=subject,
                source=source,
                location=(*here, *step),
            )


def _members(value: object) -> Iterator[tuple[Location, Model]]:
    if isinstance(value, Model):
        yield (), value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            for step, member in _members(item):
                yield (index, *step), member
    elif isinstance(value, Mapping):
        for key, item in value.items():
            for step, member in _members(item):
                yield (key, *step), member
