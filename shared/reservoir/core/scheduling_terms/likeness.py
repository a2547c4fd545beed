"""Which of many values are alike: equal in all fields, except those that are named as not mattering."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import filterfalse
from operator import attrgetter
from types import UnionType
from typing import Any, Final, Generic, TypeVar, get_args, get_origin

T = TypeVar("T")

# types of values that are compared at once
_SHORT: Final = frozenset({int, str, bool, type(None)})


class Likeness(Generic[T]):
    """Distinguishes values of a dataclass by all fields but some, each named with the reason why it cannot matter.

    So a field that is added to the class distinguishes values from its first day. With one field too many, answers are
    computed more often than need be; with one too few, the answer for one value would be used for another.
    """

    def __init__(self, kind: type[T], irrelevant: Mapping[str, str]) -> None:
        compared = [field for field in fields(kind) if field.compare]  # type: ignore[arg-type] # a dataclass
        unknown = irrelevant.keys() - {field.name for field in compared}
        assert not unknown, f"{kind.__name__} has no {', '.join(sorted(unknown))}"
        types = {
            field.name: field.type for field in compared if field.name not in irrelevant
        }
        self.names = tuple(types)
        self._parts: Callable[[T], tuple[Any, ...]] = _values_of(self.names)
        self._short_parts = _values_of(
            [*filter(lambda name: _is_short(types[name]), types)]
        )
        self._long_parts = _values_of(
            [*filterfalse(lambda name: _is_short(types[name]), types)]
        )
        self._has_mappings = Mapping in map(get_origin, types.values())

    def key(self, value: T) -> Hashable:
        """Return a key that is equal for values that are alike."""
        parts = self._parts(value)
        if not self._has_mappings:
            return parts
        return tuple(
            [
                tuple(sorted(part.items())) if isinstance(part, Mapping) else part
                for part in parts
            ]
        )

    def numbers(self, values: Iterable[T]) -> list[int]:
        """Return a number for each value, the same for values that are alike; numbers count from 0.

        Comparing long parts takes time, and most values share theirs: an object that occurs often is compared once.
        """
        of_the_same: dict[tuple[object, ...], int] = {}
        of_equals: dict[Hashable, int] = {}
        found = []
        for value in values:
            about = (*self._short_parts(value), *map(id, self._long_parts(value)))
            number = of_the_same.get(about)
            if number is None:
                number = of_the_same[about] = of_equals.setdefault(
                    self.key(value), len(of_equals)
                )
            found.append(number)
        return found


def _is_short(kind: object) -> bool:
    return _SHORT.issuperset(get_args(kind) if isinstance(kind, UnionType) else (kind,))


def _values_of(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        # which returns no tuple for one name, and takes none for nothing
        return attrgetter(*names)
    return lambda value: tuple([getattr(value, name) for name in names])
