"""What may still be taken: free units of reservations and what pools' limits leave. Copied freely for trials."""

from collections.abc import Mapping

from shared.core.resources import NODES
from shared.core.solver.market import Market, Option

UNLIMITED = 1 << 30


class Supply:
    """Counters of units and limits."""

    __slots__ = ("changes", "limits", "units")

    def __init__(self, units: Mapping[str, int], limits: Mapping[str, Mapping[str, int]]) -> None:
        self.units = dict(units)
        self.limits = {pool: dict(left) for pool, left in limits.items()}
        self.changes = 0  # so that whoever remembers an answer knows when it is old

    @classmethod
    def of(cls, market: Market) -> "Supply":
        """Return what a snapshot leaves: free units, and limits minus the capacity of the pools' nodes (R-57)."""
        units: dict[str, int] = {}
        for option in market.options:
            if option.reservation is not None:
                free = max(0, option.reservation.free_units)
                units[option.reservation.id] = min(free, units.get(option.reservation.id, free))
        limits: dict[str, dict[str, int]] = {}
        for entry in market.entries:
            if entry.pool.limits is not None:
                limits[entry.pool.name] = dict(entry.pool.limits.items())
        capacities = {item.name: item.capacity for item in market.snapshot.instance_types}
        for node in market.snapshot.nodes if limits else ():
            left = limits.get(node.node_pool_name)
            if left is not None:
                capacity = capacities.get(node.instance_type, node.allocatable)
                for name in left:
                    left[name] -= 1 if name == NODES else capacity[name]
        return cls(units, limits)

    def copy(self) -> "Supply":
        """Return an independent copy."""
        return Supply(self.units, self.limits)

    def nodes_left(self, option: Option) -> int:
        """Return how many more nodes of the option units and limits allow."""
        left = UNLIMITED if option.reservation is None else max(0, self.units[option.reservation.id])
        limits = self.limits.get(option.entry.pool.name)
        for name, amount in () if limits is None else limits.items():
            needed = 1 if name == NODES else option.instance_type.capacity[name]
            if needed > 0:
                left = min(left, max(0, amount // needed))
        return left

    def take(self, option: Option, count: int) -> None:
        """Take ``count`` nodes of the option (negative: give them back)."""
        self.changes += 1
        if option.reservation is not None:
            self.units[option.reservation.id] -= count
        limits = self.limits.get(option.entry.pool.name)
        if limits is not None:
            for name in limits:
                limits[name] -= count * (1 if name == NODES else option.instance_type.capacity[name])
