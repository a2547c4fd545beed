"""Which other offerings could hold the same replicas: what CreateFleet may fall back to."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from math import inf
from operator import gt

from shared.core.model.instance_type import CapacityType
from shared.core.model.plan import OfferingKey
from shared.core.scheduling_terms.resources import NODES
from shared.core.solver.problem.catalogue import LaunchOption, RequirementSet
from shared.core.solver.problem.groups import EquivalenceClass, Group, RelaxedGroup
from shared.core.solver.solution.bins import Bin, total_load
from shared.core.solver.solution.partial_plan import PartialPlan

_A_LITTLE_LESS = 1 - 1e-9  # than a sum of rounded numbers

_Market = tuple[int, CapacityType, tuple[str, ...]]  # pool entry, capacity type, labels that stay
_Needs = tuple[frozenset[str], int]  # labels that must stay, acceptable requirement sets


class Alternatives:
    """Finds other offerings for planned nodes, in price order."""

    def __init__(self, state: PartialPlan) -> None:
        self._state = state
        self._most = state.catalogue.policy.alternatives_max
        self._memo: dict[tuple[object, ...], tuple[LaunchOption, ...]] = {}
        self._keys: dict[tuple[int, LaunchOption | None], tuple[OfferingKey, ...]] = {}
        self._least_price: dict[tuple[_Market, tuple[str | None, ...]], tuple[float, float]] = {}
        self._sorted: dict[_Market, dict[tuple[str | None, ...], tuple[list[int], list[LaunchOption]]]] = {}
        self._by_market: dict[object, list[LaunchOption]] = {}
        self._kinds: dict[_Needs, int] = {}
        self._bits: dict[tuple[Group | EquivalenceClass, int], int] = {}
        self._by_kinds: dict[int, tuple[tuple[str, ...], tuple[int, ...]]] = {}
        self._without_team = _without_team(state.catalogue.requirement_sets)
        self._choosy = {
            entry.index
            for entry in state.catalogue.entries
            if any(item.min_values for item in entry.pool.requirements.values())
        }
        for option in state.catalogue.options:
            if option.reservation is None:
                self._by_market.setdefault((option.entry.index, option.key.capacity_type), []).append(option)

    def _in_price_order(self, market: _Market, domains: tuple[str | None, ...]) -> tuple[list[int], list[LaunchOption]]:
        """Return the prices and the options of a pool's market in these domains of the labels that stay."""
        known = self._sorted.get(market)
        if known is None:
            entry, capacity_type, keys = market
            options = self._by_market.get((entry, capacity_type), [])
            options.sort(key=lambda option: (option.price, option.index))
            known = self._sorted[market] = {}
            for option in options:
                prices, same = known.setdefault(tuple([self._state.label(option, key) for key in keys]), ([], []))
                prices.append(option.price)
                same.append(option)
        return known.get(domains, ([], []))

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
            ceiling = self._cheapest_on_demand(bin_, option.price)
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
        found = self._cheapest_on_demand(bin_, 0, below=option.price)
        return found if found is not None and found.price < option.price else None

    def _cheapest_on_demand(self, bin_: Bin, from_price: int, below: int | None = None) -> LaunchOption | None:
        """Return the cheapest on-demand option from a price on that could hold the same replicas."""
        assert bin_.option is not None
        load = total_load(self._state.groups, bin_.contents, len(bin_.option.allocatable))
        # Most options that cost less than this are too small, and nearly always this is more than the spot node costs.
        least = self._least_cost(bin_, load)
        if least == inf or (below is not None and least >= below):
            return None
        start = max(from_price, int(least))
        return next(self.others(bin_, CapacityType.ON_DEMAND, load, from_price=start), None)

    def _least_cost(self, bin_: Bin, load: Sequence[int]) -> float:
        """Return less than any on-demand option of the bin's domains costs that holds the load; inf without any."""
        assert bin_.option is not None
        kept, _ = self._kept_and_wishes(self._kinds_on(bin_))
        market = (bin_.option.entry.index, CapacityType.ON_DEMAND, kept)
        domains = tuple([self._state.label(bin_.option, key) for key in kept])
        known = self._least_price.get((market, domains))
        if known is None:
            _, options = self._in_price_order(market, domains)
            cpu, memory = (
                min((option.price / size for option in options if (size := option.allocatable[part])), default=inf)
                for part in (0, 1)
            )
            known = self._least_price[market, domains] = (cpu, memory)
        least = max((used * price for used, price in zip(load, known, strict=False) if used), default=0.0)
        return least * _A_LITTLE_LESS

    def _of_market(self, bin_: Bin) -> tuple[LaunchOption, ...]:
        """Return as many other options of the bin's market as a plan lists, none cheaper."""
        option = bin_.option
        assert option is not None
        if option.reservation is not None:
            return ()
        kinds = self._kinds_on(bin_)
        # Whatever is as large as the option holds any content of it, so those are found once for all contents.
        known = self._memo.get((option.index, kinds))
        if known is None:
            known = self._memo[option.index, kinds] = self._first(bin_, option.allocatable)
        if len(known) < self._most or option.entry.index in self._choosy:
            load = tuple(total_load(self._state.groups, bin_.contents, len(option.allocatable)))
            known = self._memo.get((option.index, kinds, load))
            if known is None:
                known = self._memo[option.index, kinds, load] = self._first(bin_, load)
        return known

    def _first(self, bin_: Bin, load: Sequence[int]) -> tuple[LaunchOption, ...]:
        """Return as many of the others on the same market as the policy lets a plan list."""
        assert bin_.option is not None
        others = self.others(bin_, bin_.option.key.capacity_type, load)
        return tuple(islice(others, self._most))

    # Branches: asked of thousands of options: the cheap refusals first, in one loop.
    def others(
        self, bin_: Bin, capacity_type: CapacityType, load: Sequence[int] = (), *, from_price: int | None = None
    ) -> Iterator[LaunchOption]:
        """Yield options of the bin's pool and this market that could hold the same replicas, from cheap to dear.

        None is cheaper than ``from_price``, if that is not given than the bin's own.

        They stay in the domains that topology counted, and within the capacity that the pool's limits were charged
        for (R-58 charges the largest; this way the chosen one is the largest).
        """
        option = bin_.option
        assert option is not None
        load = load or total_load(self._state.groups, bin_.contents, len(option.allocatable))
        kept, requirement_sets = self._kept_and_wishes(self._kinds_on(bin_))
        domains = tuple([self._state.label(option, key) for key in kept])
        prices, options = self._in_price_order((option.entry.index, capacity_type, kept), domains)
        accepted: dict[int, bool] = {}  # options are many, the requirement sets that they meet alike
        for other in options[bisect_left(prices, option.price if from_price is None else from_price) :]:
            if other.requirement_sets not in accepted:
                accepted[other.requirement_sets] = all(
                    other.requirement_sets & requirement_set for requirement_set in requirement_sets
                )
            if other is option or not accepted[other.requirement_sets] or any(map(gt, load, other.allocatable)):
                continue
            if self._is_within_limits(other, option):
                yield other

    def _is_within_limits(self, other: LaunchOption, option: LaunchOption) -> bool:
        """Whether a node of the other takes no more of what the pool's limits are on."""
        limits = self._state.residual.limits.get(option.entry.pool.name)
        if not limits:
            return True
        mine, largest = other.instance_type.capacity, option.instance_type.capacity
        return all(mine[name] <= largest[name] for name in limits if name != NODES)

    def _kinds_on(self, bin_: Bin) -> int:
        """Return the mask of the kinds of replicas on the bin; nodes are many, kinds few."""
        kinds = 0
        groups, bits = self._state.groups, self._bits
        for index, level in bin_.levels.items():
            group = groups[index]
            # Gangs may insist on one domain, others are as their kind.
            alike = group if group.is_alone else group.equivalence_class
            kinds |= bits.get((alike, level)) or self._find_bit(alike, group.relaxed[level])
        return kinds

    def _kept_and_wishes(self, kinds: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Return the labels that must stay under replicas of these kinds, and their requirement sets."""
        known = self._by_kinds.get(kinds)
        if known is None:
            found = [kind for kind, number in self._kinds.items() if kinds >> number & 1]
            keys = frozenset().union(*(keys for keys, _ in found))
            known = self._by_kinds[kinds] = (
                tuple(sorted(keys)),
                tuple(sorted({requirement_set for _, requirement_set in found})),
            )
        return known

    def _find_bit(self, alike: Group | EquivalenceClass, relaxed: RelaxedGroup) -> int:
        """Return a bit for what matters of a relaxed group."""
        # What can be bought is the same for all teams, and found once for all.
        wishes = 0
        for bit, alike_bit in enumerate(self._without_team):
            if relaxed.requirement_sets >> bit & 1:
                wishes |= 1 << alike_bit
        kind = (self._state.pinned_labels.of(relaxed), wishes)
        found = self._bits[alike, relaxed.level] = 1 << self._kinds.setdefault(kind, len(self._kinds))
        return found


def _without_team(requirement_sets: Sequence[RequirementSet]) -> list[int]:
    """Return for each requirement set the first that differs in its team at most."""
    first: dict[RequirementSet, int] = {}
    found = []
    for bit, each in enumerate(requirement_sets):
        of_team = each.selection.team_name is not None
        plain = replace(each, selection=replace(each.selection, team_name=None)) if of_team else each
        found.append(first.setdefault(plain, bit))
    return found
