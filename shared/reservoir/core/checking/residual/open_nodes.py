"""Where a replica might still go in a plan's final state."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import OfferingKey
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources


@dataclass(frozen=True, slots=True)
class OpenNodes:
    """Nodes that a replica might still go to: ``units`` equal ones with ``free`` resources each."""

    subject: str
    units: int
    free: Resources
    description: Requirements
    undefined: frozenset[str]
    # workloads already there, whose requirements must go on holding
    carried: tuple[str, ...]
    capacity_type: CapacityType
    domains: Mapping[str, str]
    pool: NodePool | None = None  # of a node that would have to be launched
    key: OfferingKey | None = None


def wants_many(pool: NodePool | None) -> bool:
    """Whether minValues may forbid more on a node: a replica more leaves fewer types to choose from."""
    return pool is not None and any(item.min_values for item in pool.requirements.values())


def once_where_limited(rooms: Iterable[OpenNodes]) -> Iterator[OpenNodes]:
    """Yield one new node of each pool with limits: the first may have used them up."""
    limited: set[str] = set()
    for room in rooms:
        if room.pool is None or room.pool.limits is None:
            yield room
        elif room.pool.name not in limited:
            limited.add(room.pool.name)
            yield room
