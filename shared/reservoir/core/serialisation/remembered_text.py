"""Texts of values that are written more than once, in one text or from text to text."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

# A value whose text has at most so many pieces is remembered as one text.
_PIECES_MAX: Final = 2000
_REMEMBERED_MAX: Final = 4096


class Text(list[str]):
    """Pieces of text, to be joined in the end; ``known`` are values by identity (they are alive while written)."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[int, str] = {}
        self.kept: dict[int, tuple[Any, str]] = {}  # values that the next text may have too


class LastText:
    """What the last text kept. One process has one, so that it holds no more than a snapshot's nodes."""

    kept: Mapping[int, tuple[Any, str]] = MappingProxyType({})


Write = Callable[[Any, Text], None]


def written_once(write: Write) -> Write:
    """Return a writer that makes the text of a value once, however often the same one is met."""

    def write_once(value: Any, text: Text) -> None:
        known = text.known.get(id(value))
        if known is not None:
            text.append(known)
            return
        start = len(text)
        write(value, text)
        if len(text) - start <= _PIECES_MAX:
            text.known[id(value)] = joined = "".join(text[start:])
            text[start:] = [joined]

    return write_once


def written_once_a_process(write: Write) -> Write:
    """Return a writer that makes the text of a value once, also for the snapshots of later passes.

    It keeps each value alive beside its text, so that no other value can have its identity.
    """
    remembered: dict[int, tuple[Any, str]] = {}

    def write_remembered(value: Any, text: Text) -> None:
        known = remembered.get(id(value))
        if known is not None:
            text.append(known[1])
            return
        start = len(text)
        write(value, text)
        joined = "".join(text[start:])
        text[start:] = [joined]
        if len(remembered) >= _REMEMBERED_MAX:
            remembered.clear()
        remembered[id(value)] = (value, joined)

    return write_remembered


def written_once_while_used(write: Write) -> Write:
    """Return a writer that makes the text of a value once, for as long as each next text has the same value too.

    It keeps each value alive beside its text, so that no other value can have its identity.
    """

    def write_kept(value: Any, text: Text) -> None:
        known = LastText.kept.get(id(value))
        if known is None:
            start = len(text)
            write(value, text)
            known = value, "".join(text[start:])
            del text[start:]
        text.kept[id(value)] = known
        text.append(known[1])

    return write_kept
