"""Bounds on the shape of untrusted input, checked before anything looks at its meaning."""

import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from reservoir.manifests.parsing.problems import Location, ManifestError, Problem, path_of

LARGEST_INPUT_BYTES: Final = 2**20
DEEPEST: Final = 32
MOST_VALUES: Final = 20_000  # scalars, lists and mappings of one document
MOST_VALUES_OF_A_FILE: Final = 100_000
# A message costs its reader time before it is known to be one: the queue may be open to hostile senders too.
LARGEST_MESSAGE_BYTES: Final = 128 * 1024
MOST_VALUES_OF_A_MESSAGE: Final = 4_000
MOST_KEYS: Final = 1_000  # of one mapping
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_INTEGERS: Final = range(-(2**63), 2**63)


def check_size(
    size_bytes: int, *, most: int = LARGEST_INPUT_BYTES, source: str = ""
) -> None:
    """Refuse input of more bytes than are read.

    Raises
    ------
    ManifestError
        It is larger.
    """
    if size_bytes > most:
        refuse("size", f"has {size_bytes} bytes; at most {most} are read", source=source)


def check_structure(
    value: Any, *, most_values: int = MOST_VALUES, source: str = ""
) -> None:
    """Refuse a document that is nested too deep, too large, or holds a number beyond 64 bits.

    Raises
    ------
    ManifestError
        With the first place at which a bound is passed.
    """
    for count, (location, item) in enumerate(_walk(value, most_values), start=1):
        if count > most_values:
            refuse("size", f"has more than {most_values} values", source=source)
        if len(location) > DEEPEST:
            refuse(
                "depth",
                f"is nested deeper than {DEEPEST} levels",
                location[:4],
                source=source,
            )
        if isinstance(item, dict) and len(item) > MOST_KEYS:
            refuse("size", f"has more than {MOST_KEYS} fields", location, source=source)
        if isinstance(item, int) and item not in _INTEGERS:
            refuse("integer", "is a number beyond 64 bits", location, source=source)
        if not _is_text(item) or not all(
            map(_is_text, item if isinstance(item, dict) else ())
        ):
            refuse(
                "unicode",
                "holds half of a surrogate pair, which is no character",
                location,
                source=source,
            )


def _walk(root: Any, most_values: int) -> Iterator[tuple[Location, Any]]:
    """All values with their places, without recursion and without holding more than the pending ones."""
    pending: list[tuple[Location, Any]] = [((), root)]
    while pending:
        location, item = pending.pop()
        yield location, item
        if isinstance(item, dict):
            pending.extend(((*location, key), member) for key, member in item.items())
        elif isinstance(item, list):
            pending.extend(
                ((*location, index), member)
                for index, member in enumerate(item[: most_values + 1])
            )


def _is_text(value: Any) -> bool:
    """Whether a value, if it is text, can be written as UTF-8."""
    return not isinstance(value, str) or value.isascii() or not _SURROGATE.search(value)


def refuse(
    rule: str,
    message: str,
    location: Location = (),
    *,
    line: int | None = None,
    source: str = "",
) -> NoReturn:
    """Raise a ManifestError with one problem."""
    raise ManifestError([Problem(path_of(location), rule, message, line, source=source)])
