"""A set of requirements by label key, and the two questions asked of it: compatible? intersecting? (R-10 to R-13)."""

from collections.abc import (
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    Set,
    ValuesView,
)
from functools import lru_cache

from reservoir.core.scheduling_terms.labels import closest
from reservoir.core.scheduling_terms.requirement import Operator, Requirement


class Requirements(Mapping[str, Requirement]):
    """Requirements by key: immutable, hashable, iterated sorted by key. Reading a missing key gives Exists (R-10)."""

    __slots__ = ("_by_key", "_hash")

    def __init__(self, by_key: Mapping[str, Requirement]) -> None:
        self._by_key: dict[str, Requirement] = {key: by_key[key] for key in sorted(by_key)}
        self._hash: int | None = None

    @classmethod
    def of(cls, *requirements: Requirement) -> "Requirements":
        """Make a set; several requirements on one key intersect."""
        by_key = {requirement.key: requirement for requirement in requirements}
        return cls(
            by_key if len(by_key) == len(requirements) else _intersected({}, requirements)
        )

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> "Requirements":
        """Require exactly these label values."""
        return cls.of(*[_exactly(key, value) for key, value in labels.items()])

    def add(self, *requirements: Requirement) -> "Requirements":
        """Return this set with more requirements, intersected with those already there."""
        return (
            Requirements(_intersected(self._by_key, requirements)) if requirements else self
        )

    def merged(self, other: "Requirements") -> "Requirements":
        """Return both sets together, intersected key by key."""
        if not other:
            return self
        if not self:
            return other
        return Requirements(_intersected(self._by_key, other.values()))

    def without(self, keys: Set[str]) -> "Requirements":
        """Return this set without its requirements for ``keys``."""
        return Requirements(
            {
                key: requirement
                for key, requirement in self._by_key.items()
                if key not in keys
            }
        )

    def compatible(
        self, wanted: "Requirements", allow_undefined: Set[str] = frozenset()
    ) -> str | None:
        """Say why ``wanted`` cannot be met by nodes that this set describes, or None when it can (R-11).

        A key of ``wanted`` that this set does not define is a reason unless it is in ``allow_undefined`` or ``wanted``
        is content without the label. Claims being built allow the well-known keys; existing nodes allow none (R-13).
        """
        key = self._undefined(wanted, allow_undefined)
        if key is not None:
            return f"label {key} has no known values{self._hint(key, allow_undefined)}"
        return self.intersects(wanted)

    def admits(
        self, wanted: "Requirements", allow_undefined: Set[str] = frozenset()
    ) -> bool:
        """Whether ``compatible`` finds no reason; without the words, which cost a thousand times more."""
        return self._undefined(wanted, allow_undefined) is None and self.meets(wanted)

    def _undefined(self, wanted: "Requirements", allowed: Set[str]) -> str | None:
        for key, requirement in wanted.items():
            if (
                key not in self._by_key
                and key not in allowed
                and not requirement.allows_absence
            ):
                return key
        return None

    def intersects(self, other: "Requirements") -> str | None:
        """Say which common key has no common value, or None when there is none such.

        Two requirements that are both content without the label never conflict (R-11).
        """
        key = self._conflict(other)
        return None if key is None else f"{self[key]} does not meet {other[key]}"

    def meets(self, other: "Requirements") -> bool:
        """Whether ``intersects`` finds nothing; without the words, which cost more than the question."""
        return self._conflict(other) is None

    def _conflict(self, other: "Requirements") -> str | None:
        # not through the methods: this is asked for each type of each pool
        fewer, more = self._by_key, other._by_key
        if len(fewer) > len(more):
            fewer, more = more, fewer
        for key, requirement in fewer.items():
            counterpart = more.get(key)
            if counterpart is None or requirement.has_intersection(counterpart):
                continue
            if not (requirement.allows_absence and counterpart.allows_absence):
                return key
        return None

    def _hint(self, key: str, allow_undefined: Set[str]) -> str:
        suggestion = closest(key, [*self._by_key, *allow_undefined])
        return "" if suggestion is None else f"; did you mean {suggestion}?"

    def labels(self) -> dict[str, str]:
        """Return the keys that have exactly one value left, with it."""
        return {
            key: next(iter(requirement.values))
            for key, requirement in self._by_key.items()
            if not requirement.complement and len(requirement.values) == 1
        }

    def __getitem__(self, key: str) -> Requirement:
        requirement = self._by_key.get(key)
        return Requirement(key, True, frozenset()) if requirement is None else requirement

    # Mapping's own versions of these use __getitem__, which makes up absent keys (and is slower).
    def get(self, key: str, default: Requirement | None = None) -> Requirement | None:  # type: ignore[override] # no other default makes sense
        """Return the requirement for ``key``, or ``default`` where the set does not define it."""
        return self._by_key.get(key, default)

    def keys(self) -> KeysView[str]:
        """Return the keys that the set defines."""
        return self._by_key.keys()

    def items(self) -> ItemsView[str, Requirement]:
        """Return the keys with their requirements."""
        return self._by_key.items()

    def values(self) -> ValuesView[Requirement]:
        """Return the requirements."""
        return self._by_key.values()

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Requirements):
            return self._by_key == other._by_key
        return NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self._by_key.values()))
        return self._hash

    def __str__(self) -> str:
        return ", ".join(str(requirement) for requirement in self._by_key.values())

    def __repr__(self) -> str:
        return f"Requirements({self})"


@lru_cache(4096)  # thousands of nodes have the same few labels
def _exactly(key: str, value: str) -> Requirement:
    return Requirement.new(key, Operator.IN, (value,))


def _intersected(
    start: Mapping[str, Requirement], requirements: Iterable[Requirement]
) -> dict[str, Requirement]:
    by_key = dict(start)
    for requirement in requirements:
        present = by_key.get(requirement.key)
        by_key[requirement.key] = (
            requirement if present is None else present.intersection(requirement)
        )
    return by_key
