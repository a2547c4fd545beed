"""Values that EC2 does not have, also in documents with errors: one round reports both."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from reservoir.core.scheduling_terms import labels
from reservoir.manifests.known_values import KnownValues
from reservoir.manifests.parsing import nearest
from reservoir.manifests.parsing.load import Document
from reservoir.manifests.parsing.problems import Location, Problem, Severity, path_of, shown
from reservoir.manifests.validate import KINDS, subject_of

_MOST_DOUBTS: Final = 20  # each is compared with all names that are known


def doubts_in(document: Document, known: KnownValues) -> Iterator[Problem]:
    """Yield values in its requirements and node selectors that nothing in EC2 has."""
    if isinstance(document.value, dict) and document.value.get("kind") in KINDS:
        yield from islice(_doubts_in(document, known), _MOST_DOUBTS)


def _doubts_in(document: Document, known: KnownValues) -> Iterator[Problem]:
    for location, key, value in _asked(document.value, ()):
        among = known.of(labels.stable_key(key), value)
        if among:
            yield Problem(
                path=path_of(location),
                rule="unknown-value",
                message=f"{labels.stable_key(key)} {shown(value)} is not offered {known.where}",
                line=document.line_of(location),
                suggestion=labels.closest(value, among)
                if len(value) <= nearest.LONGEST
                else None,
                severity=Severity.WARNING,
                subject=subject_of(document.value),
                source=document.source,
            )


def _asked(part: Any, at: Location) -> Iterator[tuple[Location, str, str]]:
    """Yield where a value is, the label that it is of, and the value; whatever else is wrong there."""
    if isinstance(part, list):
        for index, each in enumerate(part):
            yield from _asked(each, (*at, index))
    elif isinstance(part, dict):
        yield from _values_of(part, at)
        for name, each in part.items():
            yield from _asked(each, (*at, name))


def _values_of(
    part: Mapping[str, Any], at: Location
) -> Iterator[tuple[Location, str, str]]:
    key, values = part.get("key"), part.get("values")
    if isinstance(key, str) and isinstance(values, list):
        yield from (
            ((*at, "values", n), key, value)
            for n, value in enumerate(values)
            if isinstance(value, str)
        )
    elif at[-1:] == ("nodeSelector",):
        yield from (
            ((*at, name), name, value)
            for name, value in part.items()
            if isinstance(value, str)
        )
