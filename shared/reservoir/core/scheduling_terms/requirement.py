"""One requirement on one label: a set of values, or the set of all but some values (R-1 to R-8)."""

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from reservoir.core.scheduling_terms.labels import stable_key, stable_value

LARGEST_INTEGER: Final = 2**63 - 1
SMALLEST_INTEGER: Final = -(2**63)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}")


class Operator(StrEnum):
    """How a requirement compares a label with its values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"
    GTE = "Gte"
    LTE = "Lte"


_BOUNDS: Final = frozenset({Operator.GT, Operator.LT, Operator.GTE, Operator.LTE})


class RequirementError(ValueError):
    """An operator was given values that it cannot compare with."""


@dataclass(frozen=True, slots=True)
class RequirementEntry:
    """A requirement as a manifest writes it. ``values`` are sorted."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    min_values: int | None = None


def integer_of(text: str) -> int | None:
    """Read a 64-bit decimal integer, ASCII digits only; None when it is not one."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if SMALLEST_INTEGER <= number <= LARGEST_INTEGER else None


@dataclass(frozen=True, slots=True)
class Requirement:
    """The values that a label may have.

    ``complement`` False: exactly ``values`` (none: the label must not exist). ``complement`` True: anything but
    ``values`` and, where there are bounds, only integers within ``gte`` and ``lte`` (both inclusive).
    ``min_values`` asks for that many distinct values among the instance types that remain (R-17); it does not change
    which values are allowed.
    """

    key: str
    complement: bool
    values: frozenset[str]
    gte: int | None = None
    lte: int | None = None
    min_values: int | None = None

    @classmethod
    def new(
        cls,
        key: str,
        operator: Operator,
        values: Iterable[str] = (),
        min_values: int | None = None,
    ) -> "Requirement":
        """Make a requirement from its written form; deprecated keys and values are rewritten (R-9).

        Raises
        ------
        RequirementError
            Gt, Lt, Gte or Lte without exactly one integer.
        """
        key = stable_key(key)
        listed = frozenset(stable_value(key, value) for value in values)
        if operator in _BOUNDS:
            return cls._bounded(key, operator, listed, min_values)
        if operator is Operator.IN:
            return cls(key, False, listed, None, None, min_values)
        if operator is Operator.NOT_IN:
            return cls(key, True, listed, None, None, min_values)
        return cls(key, operator is Operator.EXISTS, frozenset(), None, None, min_values)

    @classmethod
    def _bounded(
        cls, key: str, operator: Operator, listed: frozenset[str], min_values: int | None
    ) -> "Requirement":
        bound = integer_of(next(iter(listed))) if len(listed) == 1 else None
        if bound is None:
            raise RequirementError(f"{operator} needs exactly one integer")
        if operator in (Operator.GT, Operator.GTE):
            return cls._within(
                key, frozenset(), bound + (operator is Operator.GT), None, min_values
            )
        return cls._within(
            key, frozenset(), None, bound - (operator is Operator.LT), min_values
        )

    @classmethod
    def _within(
        cls,
        key: str,
        excluded: frozenset[str],
        gte: int | None,
        lte: int | None,
        min_values: int | None,
    ) -> "Requirement":
        """Everything but ``excluded`` between the bounds; bounds that leave no 64-bit integer leave nothing (R-2)."""
        lowest = SMALLEST_INTEGER if gte is None else gte
        highest = LARGEST_INTEGER if lte is None else lte
        if lowest > highest:
            return cls(key, False, frozenset(), None, None, min_values)
        kept = frozenset(value for value in excluded if _is_within(value, gte, lte))
        return cls(key, True, kept, gte, lte, min_values)

    @property
    def is_bounded(self) -> bool:
        """Whether only integers within bounds are allowed."""
        return self.gte is not None or self.lte is not None

    @property
    def operator(self) -> Operator:
        """The operator that describes the set (R-6); bounds do not show, as in Karpenter."""
        if self.complement:
            return Operator.NOT_IN if self.values else Operator.EXISTS
        return Operator.IN if self.values else Operator.DOES_NOT_EXIST

    @property
    def allows_absence(self) -> bool:
        """Whether a node without the label satisfies this: NotIn without bounds, or DoesNotExist.

        A lower or upper bound asks for a number, so it asks for the label; Karpenter loses that when an exclusion is
        added to a bound and would launch a node that the workload then cannot use.
        """
        if self.complement:
            return bool(self.values) and not self.is_bounded
        return not self.values

    def has(self, value: str) -> bool:
        """Whether ``value`` is allowed."""
        if self.complement:
            return value not in self.values and _is_within(value, self.gte, self.lte)
        return value in self.values

    def has_intersection(self, other: "Requirement") -> bool:
        """Whether some value is allowed by both; the same truth as an intersection that is not empty (R-5)."""
        if not self.complement:
            if not other.complement:
                return not self.values.isdisjoint(other.values)
            return any(other.has(value) for value in self.values)
        if not other.complement:
            return any(self.has(value) for value in other.values)
        gte, lte = _highest(self.gte, other.gte), _lowest(self.lte, other.lte)
        return gte is None or lte is None or gte <= lte

    def intersection(self, other: "Requirement") -> "Requirement":
        """Return the values allowed by both (R-3); both must be about the same key."""
        min_values = _highest(self.min_values, other.min_values)
        if self.complement and other.complement:
            gte, lte = _highest(self.gte, other.gte), _lowest(self.lte, other.lte)
            return self._within(self.key, self.values | other.values, gte, lte, min_values)
        plain, filtering = (other, self) if self.complement else (self, other)
        kept = frozenset(value for value in plain.values if filtering.has(value))
        return Requirement(self.key, False, kept, None, None, min_values)

    def any_value(self) -> str:
        """Return one allowed value, always the same one; "" when there is none (R-7, without its randomness).

        A plain set gives its lexicographically first value; a complement the first integer that is not excluded,
        counted up from the lower bound, else down from the upper bound, else up from 0.
        """
        if not self.complement:
            return min(self.values, default="")
        start, step = (
            (self.lte, -1)
            if self.gte is None and self.lte is not None
            else (self.gte or 0, 1)
        )
        candidates = (str(start + step * offset) for offset in range(len(self.values) + 1))
        return next((candidate for candidate in candidates if self.has(candidate)), "")

    def to_entries(self) -> tuple[RequirementEntry, ...]:
        """Write the requirement back (R-6); intersecting the entries gives this requirement again."""
        entries = []
        if self.gte is not None:
            entries.append(
                RequirementEntry(self.key, Operator.GTE, (str(self.gte),), self.min_values)
            )
        if self.lte is not None:
            entries.append(
                RequirementEntry(self.key, Operator.LTE, (str(self.lte),), self.min_values)
            )
        if self.values or not entries:
            entries.append(
                RequirementEntry(
                    self.key, self.operator, tuple(sorted(self.values)), self.min_values
                )
            )
        return tuple(entries)

    def __len__(self) -> int:
        return sys.maxsize - len(self.values) if self.complement else len(self.values)

    def __bool__(self) -> bool:
        # a requirement is a fact even when it allows no value; ask len() for that
        return True

    def __str__(self) -> str:
        return " and ".join(
            f"{entry.key} {entry.operator}"
            + (f" [{', '.join(entry.values)}]" if entry.values else "")
            for entry in self.to_entries()
        )


def _is_within(value: str, gte: int | None, lte: int | None) -> bool:
    if gte is None and lte is None:
        return True
    number = integer_of(value)
    return (
        number is not None
        and (gte is None or number >= gte)
        and (lte is None or number <= lte)
    )


def _highest(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return right if left is None else left
    return max(left, right)


def _lowest(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return right if left is None else left
    return min(left, right)
