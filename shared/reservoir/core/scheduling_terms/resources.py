"""Amounts of resources by name: what a replica requests, what an instance type has, what a pool may use."""

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Final

from reservoir.core.scheduling_terms.quantity import (
    byte_count,
    cpu_millis,
    format_bytes,
    format_count,
    format_cpu,
    whole_count,
)

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
NODES: Final = "nodes"
ACCELERATORS: Final = frozenset(
    {
        "nvidia.com/gpu",
        "amd.com/gpu",
        "aws.amazon.com/neuron",
        "aws.amazon.com/neuroncore",
        "habana.ai/gaudi",
    }
)
_BYTES: Final = frozenset({MEMORY, EPHEMERAL_STORAGE})
_MILLION: Final = 10**6


def _is_bytes(name: str) -> bool:
    return name in _BYTES or name.startswith("hugepages-")


class Resources(Mapping[str, int]):
    """An immutable, hashable vector of integers by resource name.

    Units: "cpu" in millicores, "memory", "ephemeral-storage" and huge pages in bytes, every other name a whole count.
    Reading a name that is absent gives 0. An entry of 0 is kept, because a limit of 0 ("none of it") is not the same as
    no limit. Values may be negative (what remains of an exceeded limit). Iteration is sorted by name.
    """

    __slots__ = ("_amounts", "_hash")

    def __init__(self, amounts: Mapping[str, int] | None = None) -> None:
        self._amounts: dict[str, int] = (
            {name: amounts[name] for name in sorted(amounts)} if amounts else {}
        )
        self._hash: int | None = None

    @classmethod
    def of(cls, amounts: Mapping[str, int]) -> "Resources":
        """Make a vector from amounts in the units above."""
        return cls(amounts)

    @classmethod
    def parse(cls, quantities: Mapping[str, str | int]) -> "Resources":
        """Read Kubernetes quantities, e.g. ``{"cpu": "90", "memory": "1000Gi", "nvidia.com/gpu": 8}``.

        Raises
        ------
        QuantityError
            A quantity cannot be read, or an extended resource is not a whole number.
        """
        return cls({name: _parsed(name, quantity) for name, quantity in quantities.items()})

    def formatted(self) -> dict[str, str]:
        """Write the vector back as Kubernetes quantities; :meth:`parse` of the result is equal to this vector."""
        return {name: _formatted(name, amount) for name, amount in self._amounts.items()}

    @staticmethod
    def formatted_amount(name: str, amount: int) -> str:
        """Write one amount of a limit, which may also be one of nodes."""
        return str(amount) if name == NODES else _formatted(name, amount)

    def __getitem__(self, name: str) -> int:
        return self._amounts.get(name, 0)

    def amounts(self, names: Iterable[str]) -> list[int]:
        """Return the amounts of these names, in their order."""
        known = self._amounts
        return [known.get(name, 0) for name in names]

    def keys(self) -> KeysView[str]:
        """Return the names that have an entry."""
        return self._amounts.keys()

    def items(self) -> ItemsView[str, int]:
        """Return the entries."""
        return self._amounts.items()

    def values(self) -> ValuesView[int]:
        """Return the amounts of the entries."""
        return self._amounts.values()

    def __contains__(self, name: object) -> bool:
        return name in self._amounts

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Resources):
            return self._amounts == other._amounts
        return NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self._amounts.items()))
        return self._hash

    def __add__(self, other: "Resources") -> "Resources":
        return Resources(
            {name: self[name] + other[name] for name in self.keys() | other.keys()}
        )

    def __sub__(self, other: "Resources") -> "Resources":
        return Resources(
            {name: self[name] - other[name] for name in self.keys() | other.keys()}
        )

    def __mul__(self, factor: int) -> "Resources":
        return Resources({name: amount * factor for name, amount in self._amounts.items()})

    def fits_in(self, available: "Resources") -> bool:
        """Whether this request fits (R-54): each amount is there, and nothing that is there is already overdrawn.

        A request of 0 fits even where the resource is unknown.
        """
        there = available._amounts
        # no generator: this is asked hundreds of thousands of times
        for name, amount in self._amounts.items():
            if amount > there.get(name, 0):
                return False
        return not there or min(there.values()) >= 0

    def dominant_share_of(self, room: "Resources") -> int:
        """Return the largest part of any resource of an empty node that this request takes, in millionths; 1 at least.

        Of what a node does not have, nothing is taken there.
        """
        parts = [
            amount * _MILLION // room[name]
            for name, amount in self._amounts.items()
            if room[name] > 0
        ]
        return max([1, *parts])

    def missing(self, available: "Resources") -> "Resources":
        """Return what lacks for this request to fit; empty when nothing does."""
        shortfall = {
            name: amount - available[name] for name, amount in self._amounts.items()
        }
        return Resources({name: amount for name, amount in shortfall.items() if amount > 0})

    def __repr__(self) -> str:
        return f"Resources({self.formatted()})"


def _parsed(name: str, quantity: str | int) -> int:
    if name == CPU:
        return cpu_millis(quantity)
    return byte_count(quantity) if _is_bytes(name) else whole_count(quantity)


def _formatted(name: str, amount: int) -> str:
    if name == CPU:
        return format_cpu(amount)
    return format_bytes(amount) if _is_bytes(name) else format_count(amount)


def counted(capacity: Resources, name: str) -> int:
    """Return what a node with this capacity takes of a pool's limit: one of ``nodes``, all it has of a resource."""
    return 1 if name == NODES else capacity[name]
