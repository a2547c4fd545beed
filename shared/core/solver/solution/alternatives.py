"""Which other offerings could hold the same replicas: what CreateFleet may fall back to."""

from collections.abc import Iterator
from itertools import islice, takewhile

from shared.core.model.instance_type import CapacityType
from shared.core.model.node_pool import min_values
from shared.core.model.plan import OfferingKey
from shared.core.solver.problem.catalogue import LaunchOption
from shared.core.solver.problem.vectors import Vector
from shared.core.solver.solution.bins import Bin, total_load
from shared.core.solver.solution.partial_plan import PartialPlan
from shared.core.solver.solution.substitutes import Insistence, Substitutes


class Alternatives:
    """Finds other offerings for planned nodes, in price order."""

    def __init__(self, state: PartialPlan) -> None:
        self._state = state
        self._most = state.catalogue.policy.alternatives_max
        self._substitutes = Substitutes(state.catalogue)
        self._memo: dict[tuple[object, ...], tuple[LaunchOption, ...]] = {}
        self._keys: dict[tuple[int, LaunchOption | None], tuple[OfferingKey, ...]] = {}
        # Who asks for variety is not bound by the price on demand.
        self._choosy = {entry.index for entry in state.catalogue.entries if min_values(entry.pool)}

    def of(self, bin_: Bin) -> tuple[OfferingKey, ...]:
        """Return offerings on the same market that could replace the bin's, none cheaper.

        Those of spot are none dearer either than the cheapest on-demand offering that could, which ends the list: EC2
        must not choose a spot pool that costs more (R-115). Who asks for variety (minValues) is not bound by that.
        """
        option = bin_.option
        assert option is not None
        others = self._of_market(bin_)
        ceiling = None
        if option.key.capacity_type is CapacityType.SPOT and option.entry.index not in self._choosy:
            ceiling = next(self._on_demand(bin_, option.price), None)
        known = self._keys.get((id(others), ceiling))  # the memo keeps the list alive
        if known is None:
            kept = [other.key for other in others if ceiling is None or other.price <= ceiling.price]
            if ceiling is not None:
                kept = [*kept[: self._most - 1], ceiling.key]
            known = self._keys[id(others), ceiling] = tuple(kept)
        return known

    def cheaper_on_demand(self, bin_: Bin) -> LaunchOption | None:
        """Return the cheapest on-demand option below the price of the bin's that could hold the same replicas."""
        option = bin_.option
        assert option is not None
        if option.entry.index in self._choosy:
            return None
        found = self._on_demand(bin_, 0)
        return next(takewhile(lambda other: other.price < option.price, found), None)

    def _of_market(self, bin_: Bin) -> tuple[LaunchOption, ...]:
        """Return as many other options of the bin's market as a plan lists, none cheaper."""
        option = bin_.option
        assert option is not None
        if option.reservation is not None:
            return ()
        insistence = Insistence.of(self._state, bin_.levels)
        # Whatever is as large as the option holds any content of it, so those are found once for all contents.
        found = self._first(option, option.allocatable, insistence)
        if len(found) < self._most or option.entry.index in self._choosy:
            found = self._first(option, self._load(bin_), insistence)
        return found

    def _first(self, option: LaunchOption, load: Vector, insistence: Insistence) -> tuple[LaunchOption, ...]:
        """Return as many of the others on the same market as the policy lets a plan list."""
        key = (option.index, load, insistence)
        known = self._memo.get(key)
        if known is None:
            others = self._substitutes.of(option, load, insistence, option.key.capacity_type, option.price)
            known = self._memo[key] = tuple(islice(others, self._most))
        return known

    def _on_demand(self, bin_: Bin, from_price: int) -> Iterator[LaunchOption]:
        """Yield on-demand options that could hold the same replicas, from cheap to dear."""
        option = bin_.option
        assert option is not None
        insistence = Insistence.of(self._state, bin_.levels)
        return self._substitutes.of(option, self._load(bin_), insistence, CapacityType.ON_DEMAND, from_price)

    def _load(self, bin_: Bin) -> Vector:
        return tuple(total_load(self._state.groups, bin_.contents, len(bin_.free)))
