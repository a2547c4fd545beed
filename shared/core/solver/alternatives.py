"""Which other offerings could hold the same replicas: what CreateFleet may fall back to."""

from bisect import bisect_left

from shared.core.labels import HOSTNAME
from shared.core.plan import OfferingKey
from shared.core.resources import NODES
from shared.core.solver.market import Option
from shared.core.solver.state import Bin, State, total_load


class Alternatives:
    """Finds alternatives of planned nodes, in price order."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._sorted: dict[object, tuple[list[int], list[Option]]] = {}
        self._memo: dict[object, tuple[OfferingKey, ...]] = {}
        by_market: dict[object, list[Option]] = {}
        for option in state.market.options:
            if option.reservation is None:
                by_market.setdefault((option.entry.index, option.key.capacity_type), []).append(option)
        for market, options in by_market.items():
            options.sort(key=lambda option: (option.price, option.index))
            self._sorted[market] = ([option.price for option in options], options)

    def of(self, bin_: Bin) -> tuple[OfferingKey, ...]:
        """Return offerings on the same market and in the same pool that could replace the bin's, none cheaper.

        They stay in the domains that topology counted, and within the capacity that the pool's limits were charged
        for (R-58 charges the largest; this way the chosen one is the largest).
        """
        option = bin_.option
        assert option is not None
        if option.reservation is not None:
            return ()
        groups = self._state.groups
        load = tuple(total_load(groups, bin_.contents, len(option.allocatable)))
        kept = self._kept_keys(bin_)
        wishes = tuple(sorted({groups[index].alternatives[level] for index, level in bin_.levels.items()}))
        memo_key = (option.index, load, kept, wishes)
        known = self._memo.get(memo_key)
        if known is None:
            known = self._memo[memo_key] = tuple(self._search(option, load, kept, wishes))
        return known

    def _search(
        self, option: Option, load: tuple[int, ...], kept: tuple[str, ...], wishes: tuple[int, ...]
    ) -> list[OfferingKey]:
        prices, options = self._sorted[(option.entry.index, option.key.capacity_type)]
        labels = self._state.labels_of(option)
        limits = [name for name in self._state.supply.limits.get(option.entry.pool.name, ()) if name != NODES]
        found: list[OfferingKey] = []
        for other in options[bisect_left(prices, option.price) :]:
            if len(found) == self._state.market.policy.alternatives_max:
                break
            if other is option or not all(other.alternatives & wish for wish in wishes):
                continue
            if any(used > whole for used, whole in zip(load, other.allocatable, strict=True)):
                continue
            if kept and any(self._state.labels_of(other).get(key) != labels.get(key) for key in kept):
                continue
            largest = option.instance_type.capacity
            if all(other.instance_type.capacity[name] <= largest[name] for name in limits):
                found.append(other.key)
        return found

    def _kept_keys(self, bin_: Bin) -> tuple[str, ...]:
        """Return the labels that must not change, because some constraint counted on them."""
        keys: set[str] = set()
        state = self._state
        for index, level in bin_.levels.items():
            group = state.groups[index]
            constraints = group.constraints[level]
            keys.update(constraints.topology_keys())
            keys.update(
                counts.topology_key for term, counts in state.ledger.by_term.items() if group.matching >> term & 1
            )
            gang = group.workload.gang
            if gang is not None and gang.single_topology_key is not None:
                keys.add(gang.single_topology_key)
        return tuple(sorted(keys - {HOSTNAME}))
