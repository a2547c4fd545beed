"""Filters, selection by id and paging, the same way for every Describe operation."""

import base64
import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from lab.embedded.ec2.api.errors import (
    FILTER_INVALID,
    Ec2Error,
    invalid_combination,
    invalid_value,
)

Item = TypeVar("Item")
# What a filter compares: one value, several of which any may match, or nothing.
Readable = str | int | bool | datetime | None | Iterable[str]
Readers = Mapping[str, Callable[[Item], Readable]]


def select(
    items: Iterable[Item],
    filters: Sequence[dict[str, Any]] | None,
    readers: Readers[Item],
    tags_of: Callable[[Item], Mapping[str, str]],
) -> list[Item]:
    """Return the items that match every filter (each: any of its values, with ``*`` and ``?`` as wildcards).

    ``tag:<key>``, ``tag-key`` and ``tag-value`` work everywhere. An unknown filter is an error: ignoring it would
    return, and let callers terminate, things that they did not ask for.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue`` for a filter that is not known.
    """
    found = list(items)
    for item_filter in filters or ():
        name, patterns = item_filter.get("Name", ""), item_filter.get("Values", [])
        read, matches = _reader(name, readers, tags_of), _matcher(patterns)
        found = [item for item in found if any(map(matches, _texts(read(item))))]
    return found


def named_exactly(filters: Sequence[dict[str, Any]] | None, name: str) -> list[str] | None:
    """Return the only values that a filter lets through, in its order; None if it is not there or has wildcards."""
    for item_filter in filters or ():
        values = item_filter.get("Values", [])
        if item_filter.get("Name") == name and not any(map(_has_wildcard, values)):
            return list(dict.fromkeys(values))
    return None


def _reader(
    name: str, readers: Readers[Item], tags_of: Callable[[Item], Mapping[str, str]]
) -> Callable[[Item], Readable]:
    if name.startswith("tag:"):
        key = name.removeprefix("tag:")
        return lambda item: tags_of(item).get(key)
    if name == "tag-key":
        return lambda item: list(tags_of(item))
    if name == "tag-value":
        return lambda item: list(tags_of(item).values())
    if name in readers:
        return readers[name]
    raise Ec2Error(FILTER_INVALID, f"The filter '{name}' is invalid")


def _texts(value: Readable) -> list[str]:
    if value is None:
        return []
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, str | int):
        return [str(value)]
    if isinstance(value, datetime):
        return [value.strftime("%Y-%m-%dT%H:%M:%S.000Z")]
    return list(value)


def _matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Return what tells whether a text matches any pattern; most have no wildcard, and there may be hundreds."""
    exact = frozenset(pattern for pattern in patterns if not _has_wildcard(pattern))
    wild = [
        re.compile(fnmatch.translate(each.replace("[", "[[]"))).match
        for each in patterns
        if _has_wildcard(each)
    ]
    return lambda text: text in exact or any(matches(text) for matches in wild)


def _has_wildcard(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern


def page(
    items: Sequence[Item],
    parameters: Mapping[str, Any],
    *,
    default: int,
    maximum: int,
    minimum: int = 1,
    with_ids: bool = False,
) -> tuple[list[Item], str | None]:
    """Return one page and the token of the next; ``with_ids`` refuses MaxResults beside ids, as EC2 does.

    Raises
    ------
    Ec2Error
        ``InvalidParameterCombination``, ``InvalidParameterValue``.
    """
    size = parameters.get("MaxResults")
    if size is not None and with_ids:
        raise invalid_combination(
            "The parameter MaxResults cannot be used together with ids in the same request"
        )
    if size is not None and not minimum <= size <= maximum:
        raise invalid_value(
            f"Value ( {size} ) for parameter maxResults is invalid. Expecting a value between {minimum} and {maximum}."
        )
    start = _start(parameters.get("NextToken"), len(items))
    end = start + (size or default)
    token = (
        base64.urlsafe_b64encode(f"from:{end}".encode()).decode()
        if end < len(items)
        else None
    )
    return list(items[start:end]), token


def _start(token: str | None, count: int) -> int:
    if not token:
        return 0
    try:
        prefix, _, number = base64.urlsafe_b64decode(token.encode()).decode().partition(":")
        start = int(number)
    except ValueError as error:
        raise invalid_value("Invalid NextToken") from error
    if prefix != "from" or start > count:
        raise invalid_value("Invalid NextToken")
    return start


def without_empty(result: dict[str, Any]) -> dict[str, Any]:
    """Return ``result`` without its absent members, which EC2 leaves out of an answer."""
    return {name: value for name, value in result.items() if value is not None}
