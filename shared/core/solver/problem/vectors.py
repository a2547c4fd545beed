"""Resources as tuples of integers, in one fixed order of names per solve."""

from collections.abc import Iterable
from typing import Final

from shared.core.scheduling_terms.resources import CPU, MEMORY, PODS, Resources

Vector = tuple[int, ...]
PODS_INDEX: Final = 2  # of every vector
UNLIMITED: Final = 1 << 30  # replicas or nodes: more than there ever are


class Dimensions:
    """The resource names that any replica asks for: cpu, memory and pods first, the others sorted."""

    def __init__(self, requests: Iterable[Resources]) -> None:
        asked: set[str] = set()
        # Workloads that were read together share equal requests, so identity spares comparing them.
        for request in {id(request): request for request in requests}.values():
            asked.update([name for name, amount in request.items() if amount > 0])
        self.names: tuple[str, ...] = (CPU, MEMORY, PODS, *sorted(asked - {CPU, MEMORY, PODS}))
        self._requests: dict[int, tuple[Resources, Vector]] = {}  # by identity, which lasts as long as the entry
        self._capacities: dict[int, tuple[Resources, Vector]] = {}

    def request(self, resources: Resources) -> Vector:
        """Return what one replica takes: its requests, and one pod even where they do not say so (R-54)."""
        known = self._requests.get(id(resources))
        if known is None:
            asked = [max(1, resources[PODS]) if name == PODS else resources[name] for name in self.names]
            known = self._requests[id(resources)] = (resources, tuple(asked))
        return known[1]

    def capacity(self, resources: Resources) -> Vector:
        """Return what a node has; nothing of a resource that it does not name, pods included (R-54)."""
        known = self._capacities.get(id(resources))  # nodes that were read together share equal sizes
        if known is None:
            known = self._capacities[id(resources)] = (resources, tuple(resources.amounts(self.names)))
        return known[1]


def largest_share(load: Iterable[int], size: Iterable[int]) -> float:
    """Return the part of a node that a load uses of the resource it uses most."""
    return max((used / whole for used, whole in zip(load, size, strict=True) if whole), default=0.0)


def copies_that_fit(request: Vector, free: Iterable[int]) -> int:
    """How many times ``request`` fits into ``free``; a resource that is not asked for never limits."""
    fitting = UNLIMITED
    for asked, available in zip(request, free, strict=True):
        if asked > 0:
            copies = available // asked
            if copies < fitting:
                fitting = copies
    return max(0, fitting)
