"""How many more nodes a plan may have: by free reserved units, pools' limits and spot pools' shares.

The counters are small and are copied for each trial.
"""

from collections import defaultdict
from collections.abc import Mapping

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.plan import OfferingKey
from reservoir.core.scheduling_terms.resources import counted
from reservoir.core.solver.problem.catalogue import LaunchOption, OptionCatalogue
from reservoir.core.solver.problem.vectors import UNLIMITED


class ResidualCapacity:
    """The units left by reservation, the amounts left of each pool's limits, and the nodes left of each spot pool.

    Spot pools have no bound until :meth:`bound_spot` sets one.
    """

    def __init__(
        self, units: Mapping[str, int], limits: Mapping[str, Mapping[str, int]]
    ) -> None:
        self.units = dict(units)
        self.limits = {pool: dict(left) for pool, left in limits.items()}
        # A caller that keeps an answer compares this number to see whether the answer is still true.
        self.changes = 0
        self._spot: defaultdict[OfferingKey, int] | None = None

    @classmethod
    def of(cls, catalogue: OptionCatalogue) -> "ResidualCapacity":
        """Return what a snapshot leaves: free units, and each pool's limits minus the capacity of its nodes (R-57)."""
        units: dict[str, int] = {}
        for option in catalogue.options:
            if option.reservation is not None:
                free = max(0, option.reservation.free_units)
                units[option.unit_key] = min(free, units.get(option.unit_key, free))
        pools = [entry.pool for entry in catalogue.entries]
        limits = {
            pool.name: dict(pool.limits.items())
            for pool in pools
            if pool.limits is not None
        }
        capacities = {
            item.name: item.capacity for item in catalogue.snapshot.instance_types
        }
        for node in catalogue.snapshot.nodes if limits else ():
            left = limits.get(node.node_pool_name, {})
            capacity = capacities.get(node.instance_type, node.allocatable)
            for name in left:
                left[name] -= counted(capacity, name)
        return cls(units, limits)

    def copy(self) -> "ResidualCapacity":
        """Return an independent copy."""
        copied = ResidualCapacity(self.units, self.limits)
        copied._spot = None if self._spot is None else self._spot.copy()
        return copied

    def bound_spot(self, most: int, nodes: Mapping[OfferingKey, int]) -> None:
        """Allow each spot pool at most ``most`` nodes from now on; ``nodes`` is the number that each has already."""
        self.changes += 1
        self._spot = defaultdict(
            lambda: most, {key: most - count for key, count in nodes.items()}
        )

    def spot_left(self, key: OfferingKey) -> int:
        """Return how many more nodes the spot pool's share allows in this offering."""
        if self._spot is None or key.capacity_type is not CapacityType.SPOT:
            return UNLIMITED
        return max(0, self._spot[key])

    def nodes_left(self, option: LaunchOption) -> int:
        """Return how many more nodes of the option units, limits and shares allow."""
        left = (
            UNLIMITED if option.reservation is None else max(0, self.units[option.unit_key])
        )
        for name, amount in self.limits.get(option.entry.pool.name, {}).items():
            needed = counted(option.instance_type.capacity, name)
            if needed > 0:
                left = min(left, max(0, amount // needed))
        return left if self._spot is None else min(left, self.spot_left(option.key))

    def take(self, option: LaunchOption, count: int) -> None:
        """Take ``count`` nodes of the option (negative: give them back)."""
        self.changes += 1
        if option.reservation is not None:
            self.units[option.unit_key] -= count
        elif self._spot is not None:
            self._spot[option.key] -= count
        limits = self.limits.get(option.entry.pool.name, {})
        for name in limits:
            limits[name] -= count * counted(option.instance_type.capacity, name)
