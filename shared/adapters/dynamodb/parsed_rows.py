"""Rows that are read again and again, most of them as they were a minute ago."""

from collections.abc import Callable, Collection, Sequence
from typing import Generic, TypeVar

from shared.adapters.dynamodb.table import Attributes, text
from shared.names import KEY

T = TypeVar("T")


class ParsedRows(Generic[T]):
    """What rows said when they were read last: one that is as it was, byte for byte, is not parsed again.

    Nothing in it can be stale, because every row is read and compared as a whole; what it says is frozen, so that
    passes may share it.
    """

    def __init__(self, decode: Callable[[Attributes], T]) -> None:
        self._decode = decode
        self._known: dict[str, tuple[Attributes, T]] = {}

    def __call__(self, row: Attributes) -> T:
        """Return what a row says."""
        known = self._known.get(text(row, KEY))
        if known is None or known[0] != row:
            known = self._known[text(row, KEY)] = row, self._decode(row)
        return known[1]

    def cuts(self, parts: int, least: int) -> Sequence[str]:
        """Return keys that cut what was read last into as many parts; none if it was fewer rows than ``least``."""
        keys = sorted(self._known) if len(self._known) >= least else []
        return [keys[len(keys) * part // parts] for part in range(1, parts)] if keys else []

    def keep(self, keys: Collection[str], spare: int = 0) -> None:
        """Forget all other rows, once they are more than ``spare``."""
        if len(self._known) > len(keys) + spare:
            self._known = {key: self._known[key] for key in keys if key in self._known}
