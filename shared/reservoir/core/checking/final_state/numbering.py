"""Numbers for values that are long to compare."""

from collections.abc import Hashable


class Numbering:
    """Gives equal values equal numbers. Something else must keep the values alive: they are known by identity."""

    def __init__(self) -> None:
        self._by_identity: dict[int, int] = {}
        self._by_value: dict[Hashable, int] = {}

    def of(self, value: Hashable) -> int:
        """Return the value's number."""
        known = self._by_identity.get(id(value))
        if known is None:
            known = self._by_identity[id(value)] = self._by_value.setdefault(
                value, len(self._by_value)
            )
        return known
