"""DynamoDB's expressions and numbers, read once; its items, copied as what they are.

MiniStack reads a condition's text again for every item that it is held against, and twice each time; the text is the
same for all of them, and for most calls of a program. What is remembered depends on nothing but the text. It copies an
item four times for an update.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from ministack.services import dynamodb

from lab.embedded.front.item_copies import ItemCopies

REMEMBERED: Final = 4_096


def install() -> None:
    """Put this into MiniStack's DynamoDB."""
    tokens_of = _remembering(dynamodb._tokenize)  # noqa: SLF001 - MiniStack's version is pinned
    dynamodb._tokenize = lambda text: list(tokens_of(text))  # noqa: SLF001 - whoever changes it changes their own
    dynamodb.copy = ItemCopies()
    for name in ("_condition_syntax_error", "_number_size_bytes"):
        setattr(dynamodb, name, _remembering(getattr(dynamodb, name)))


def _remembering(read: Callable[..., Any]) -> Callable[..., Any]:
    remembered = lru_cache(REMEMBERED)(read)

    def read_once(text: Any, *details: str) -> Any:
        # What a request has in a text's place may be anything, a list for instance.
        return (remembered if isinstance(text, str) else read)(text, *details)

    return read_once
