"""Which other offerings could hold the same replicas: what CreateFleet may fall back to."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import gt

from shared.core.instance_type import CapacityType
from shared.core.plan import OfferingKey
from shared.core.resources import NODES
from shared.core.solver.market import Option
from shared.core.solver.state import Bin, State, total_load

_Market = tuple[int, CapacityType, tuple[tuple[str, str | None], ...]]  # pool entry, capacity type, labels that stay
_Kind = tuple[frozenset[str], int]  # labels that must stay, acceptable wishes


class Alternatives:
    """Finds other offerings for planned nodes, in price order."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._memo: dict[object, tuple[OfferingKey, ...]] = {}
        self._sorted: dict[_Market, tuple[list[int], list[Option]]] = {}
        self._by_market: dict[object, list[Option]] = {}
        self._kinds: dict[tuple[int, int], _Kind] = {}
        self._by_kinds: dict[frozenset[_Kind], tuple[tuple[str, ...], tuple[int, ...]]] = {}
        for option in state.market.options:
            if option.reservation is None:
                self._by_market.setdefault((option.entry.index, option.key.capacity_type), []).append(option)

    def _in_price_order(self, market: _Market) -> tuple[list[int], list[Option]]:
        """Return the prices and the options of a pool's market with these labels."""
        known = self._sorted.get(market)
        if known is None:
            entry, capacity_type, labels = market
            options = [
                option
                for option in self._by_market.get((entry, capacity_type), ())
                if all(self._state.label(option, key) == value for key, value in labels)
            ]
            options.sort(key=lambda option: (option.price, option.index))
            known = self._sorted[market] = [option.price for option in options], options
        return known

    def of(self, bin_: Bin) -> tuple[OfferingKey, ...]:
        """Return offerings on the same market that could replace the bin's, none cheaper."""
        option = bin_.option
        assert option is not None
        if option.reservation is not None:
            return ()
        most = self._state.market.policy.alternatives_max
        kept, wishes = self._kept_and_wishes(bin_)
        # Whatever is as large as the option holds any content of it, so those are found once for all contents.
        known = self._found((option.index, kept, wishes), bin_, option.allocatable)
        if len(known) < most or any(item.min_values for item in option.entry.pool.requirements.values()):
            load = tuple(total_load(self._state.groups, bin_.contents, len(option.allocatable)))
            known = self._found((option.index, kept, wishes, load), bin_, load)
        return known

    def _found(self, key: object, bin_: Bin, load: Sequence[int]) -> tuple[OfferingKey, ...]:
        known = self._memo.get(key)
        if known is None:
            assert bin_.option is not None
            others = self.others(bin_, bin_.option.key.capacity_type, load)
            found = islice(others, self._state.market.policy.alternatives_max)
            known = self._memo[key] = tuple(other.key for other in found)
        return known

    def others(self, bin_: Bin, capacity_type: CapacityType, load: Sequence[int] = ()) -> Iterator[Option]:
        """Yield options of the bin's pool and this market that could hold the same replicas, none cheaper.

        They stay in the domains that topology counted, and within the capacity that the pool's limits were charged
        for (R-58 charges the largest; this way the chosen one is the largest).
        """
        option = bin_.option
        assert option is not None
        load = load or total_load(self._state.groups, bin_.contents, len(option.allocatable))
        kept, wishes = self._kept_and_wishes(bin_)
        domains = tuple((key, self._state.label(option, key)) for key in kept)
        limits = [name for name in self._state.supply.limits.get(option.entry.pool.name, ()) if name != NODES]
        largest = option.instance_type.capacity
        prices, options = self._in_price_order((option.entry.index, capacity_type, domains))
        accepted: dict[int, bool] = {}  # options are many, the wishes that they meet alike
        for other in options[bisect_left(prices, option.price) :]:
            if other.alternatives not in accepted:
                accepted[other.alternatives] = all(other.alternatives & wish for wish in wishes)
            if other is option or not accepted[other.alternatives] or any(map(gt, load, other.allocatable)):
                continue
            if all(other.instance_type.capacity[name] <= largest[name] for name in limits):
                yield other

    def _kept_and_wishes(self, bin_: Bin) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Return the labels that must stay under the bin's replicas, and their wishes; nodes are many, kinds few."""
        kinds = frozenset([self._kind(placed) for placed in bin_.levels.items()])
        known = self._by_kinds.get(kinds)
        if known is None:
            keys = frozenset().union(*(keys for keys, _ in kinds))
            known = self._by_kinds[kinds] = tuple(sorted(keys)), tuple(sorted({wish for _, wish in kinds}))
        return known

    def _kind(self, placed: tuple[int, int]) -> _Kind:
        """Return what matters of a group at a level."""
        known = self._kinds.get(placed)
        if known is None:
            group, level = self._state.groups[placed[0]], placed[1]
            known = self._kinds[placed] = (self._state.keys_of(group, level), group.alternatives[level])
        return known
