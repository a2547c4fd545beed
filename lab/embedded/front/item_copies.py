"""Copies of JSON values, which is what DynamoDB's items are, at a third of what ``copy.deepcopy`` takes for them.

``deepcopy`` remembers every object that it has seen, for values that contain themselves; JSON has none.
"""

import copy
from typing import Any, Final

_UNCHANGEABLE: Final = frozenset({str, int, float, bool, type(None)})


class ItemCopies:
    """The module ``copy``, but for how it copies JSON values."""

    def deepcopy(self, value: Any) -> Any:
        """Return a copy that shares nothing changeable with ``value``."""
        kind = type(value)
        if kind in _UNCHANGEABLE:
            return value
        if kind is dict:
            return {name: self.deepcopy(each) for name, each in value.items()}
        if kind is list:
            return [self.deepcopy(each) for each in value]
        return copy.deepcopy(value)

    def __getattr__(self, name: str) -> Any:
        return getattr(copy, name)
