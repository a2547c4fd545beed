"""Substitutes of a planned node: other options of its pool that hold the same replicas, in order of price.

CreateFleet may fall back to them; minValues counts how many different values they have of a label (R-17, R-53); and no
spot node is bought that costs more than an on-demand substitute (R-115). A substitute has the same domains that
topology counted, and takes no more of the pool's limits: R-58 charges the largest option, which is so the chosen one.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import islice
from operator import attrgetter, is_not, or_

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_pool import min_values
from reservoir.core.model.plan import OfferingKey
from reservoir.core.model.policy import MinValuesPolicy
from reservoir.core.scheduling_terms.resources import NODES
from reservoir.core.solver.problem.catalogue import Entry, LaunchOption, OptionCatalogue
from reservoir.core.solver.problem.groups import RelaxedGroup
from reservoir.core.solver.problem.vectors import Sizes, Vector, iter_bits
from reservoir.core.solver.solution.bins import Bin, total_load
from reservoir.core.solver.solution.partial_plan import PartialPlan

_price = attrgetter("price")
_Others = tuple[LaunchOption, ...]


class Substitutes:
    """Finds substitutes among the options of a solve, which are sorted once."""

    def __init__(self, catalogue: OptionCatalogue) -> None:
        self._catalogue = catalogue
        self._most = catalogue.policy.alternatives_max
        self._wanted = {entry.index: min_values(entry.pool) for entry in catalogue.entries}
        self._is_strict = catalogue.policy.min_values_policy is MinValuesPolicy.STRICT
        self._by_domains: dict[object, _Sold] = {}
        self._known: dict[object, _Others] = {}
        self._offered: dict[object, tuple[OfferingKey, ...]] = {}

    # -- minValues: the options that a node may be launched as must have so many distinct values of a label

    def concerns(self, entry: Entry) -> bool:
        """Whether the entry's pool has minValues that must be met."""
        return self._is_strict and bool(self._wanted[entry.index])

    def allowed(
        self, state: PartialPlan, bin_: Bin, relaxed: RelaxedGroup, room: int
    ) -> int:
        """Return how many of ``room`` replicas can join each node so that its minValues can still be met.

        The number is halved until they can, so it may be smaller than the largest that is possible.
        """
        option, group = bin_.option, relaxed.group
        if option is None or not room or not self.concerns(option.entry):
            return room
        load = total_load(state.groups, bin_.contents, len(group.request))
        while room:
            grown = [
                used + asked * room for used, asked in zip(load, group.request, strict=True)
            ]
            if self.holds(
                state, option, grown, {**bin_.levels, group.index: relaxed.level}
            ):
                return room
            room //= 2
        return 0

    def holds(
        self,
        state: PartialPlan,
        option: LaunchOption,
        load: Sequence[int],
        levels: Mapping[int, int],
    ) -> bool:
        """Whether the options that hold ``load`` meet the pool's minValues; ``levels`` are by group index.

        These are the options that the node could be launched as: its own and its alternatives, none of which is cheaper
        (R-28). A reserved node has no alternatives, so every option of the pool counts that could hold its replicas.
        """
        if not self.concerns(option.entry):
            return True
        if option.reservation is None:
            market, most = option.place.capacity_type, self._most
        else:
            market, most = None, None
        hosting = (option, *self._first(most, state, option, tuple(load), levels, market))
        for key, least in self._wanted[option.entry.index].items():
            values = {other.label(key) for other in hosting} - {None}
            if len(values) < least:
                return False
        return True

    # -- alternatives, of which EC2 may choose one

    # Branches: two upper bounds of the price, either of which may be missing.
    def alternatives(self, state: PartialPlan, bin_: Bin) -> tuple[OfferingKey, ...]:
        """Return the offerings on the same market that could replace the bin's; none is cheaper.

        EC2 may choose any of them, so a spot offering is left out if it costs more than the cheapest on-demand offering
        that could replace the bin's; that offering ends the list. Offerings that cost more than a workload's price cap
        leaves are left out too. A pool with minValues has neither bound.
        """
        option = bin_.option
        assert option is not None
        if option.reservation is not None:
            return ()
        market = option.place.capacity_type
        # Options at least as large as this one hold any contents of it, so they are found once for all contents.
        # Smaller ones are looked for only if these are too few.
        found = self._first(
            self._most, state, option, option.allocatable, bin_.levels, market
        )
        if len(found) < self._most or self._wanted[option.entry.index]:
            found = self._first(
                self._most, state, option, self._load(state, bin_), bin_.levels, market
            )
        ceiling = (
            self.cheapest_on_demand(state, bin_) if market is CapacityType.SPOT else None
        )
        margin = None if self._wanted[option.entry.index] else state.price_caps.margin(bin_)
        most = None if margin is None else option.price + margin
        # Bins with equal alternatives get the same tuple object, which other code compares by identity.
        about: object = (id(found), None if ceiling is None else ceiling.index, most)
        if (known := self._offered.get(about)) is None:
            offered = list(found)
            if ceiling is not None:
                cheaper = [other for other in found if other.price <= ceiling.price]
                offered = [*cheaper[: self._most - 1], ceiling]
            keys = tuple(
                [other.key for other in offered if most is None or other.price <= most]
            )
            known = self._offered[about] = self._offered.setdefault(keys, keys)
        return known

    def cheapest_on_demand(self, state: PartialPlan, bin_: Bin) -> LaunchOption | None:
        """Return the on-demand substitute whose price bounds that of spot; None for a pool with minValues."""
        option = bin_.option
        if option is None or self._wanted[option.entry.index]:
            return None
        found = self._first(
            1, state, option, self._load(state, bin_), bin_.levels, CapacityType.ON_DEMAND
        )
        return next(iter(found), None)

    @staticmethod
    def _load(state: PartialPlan, bin_: Bin) -> Vector:
        return tuple(total_load(state.groups, bin_.contents, len(bin_.free)))

    # -- the search for substitutes

    def _first(
        self,
        most: int | None,
        state: PartialPlan,
        option: LaunchOption,
        load: Vector,
        levels: Mapping[int, int],
        market: CapacityType | None,
    ) -> _Others:
        """Return up to ``most`` other options of the pool that hold the load for these groups (levels by index).

        On the option's own market none is cheaper. If ``market`` is None, options of any market, of any domain and with
        any use of the limits are returned.
        """
        kept = () if market is None else state.pinned_labels(levels)
        requirement_sets = tuple(
            sorted(
                {state.groups[index].requirement_sets[at] for index, at in levels.items()}
            )
        )
        key = (most, option.index, load, kept, requirement_sets, market)
        if (known := self._known.get(key)) is None:
            least_price = option.price if market is option.place.capacity_type else 0
            others = self._beside(option, kept, market).holding(
                load, requirement_sets, least_price
            )
            if market is not None:
                others = filter(partial(_takes_no_more, option), others)
            known = self._known[key] = tuple(
                islice(filter(partial(is_not, option), others), most)
            )
        return known

    def _beside(
        self, option: LaunchOption, kept: Sequence[str], market: CapacityType | None
    ) -> "_Sold":
        """Return the options of the same pool on the market that have the same values of these labels."""
        values = [option.label(key) for key in kept]
        key = (option.entry.index, kept, market, *values)
        if (known := self._by_domains.get(key)) is None:
            sold = [it for it in self._catalogue.options if it.entry is option.entry]
            sold = [
                it
                for it in sold
                if market in (None, it.place.capacity_type)
                and list(map(it.label, kept)) == values
            ]
            known = self._by_domains[key] = _Sold(
                sorted(sold, key=attrgetter("price", "index"))
            )
        return known


class _Sold:
    """Options, the cheapest first, with masks of those that meet the same requirement sets."""

    def __init__(self, options: Sequence[LaunchOption]) -> None:
        self.options = options
        self._sizes = Sizes(option.allocatable for option in options)
        self._meeting = defaultdict[int, int](int)  # masks by requirement sets
        for position, option in enumerate(options):
            self._meeting[option.requirement_sets] |= 1 << position

    def holding(
        self, load: Vector, requirement_sets: Iterable[int], least_price: int
    ) -> Iterator[LaunchOption]:
        """Yield the options that hold the load, cost at least ``least_price``, and suit each group.

        An option suits a group if it meets one of the group's requirement sets; ``requirement_sets`` has a mask for
        each.
        """
        mask = self._sizes.holding(load) & -1 << bisect_left(
            self.options, least_price, key=_price
        )
        for wanted in requirement_sets:
            mask &= reduce(
                or_, [meeting for met, meeting in self._meeting.items() if met & wanted], 0
            )
        return map(self.options.__getitem__, iter_bits(mask))


def _takes_no_more(option: LaunchOption, other: LaunchOption) -> bool:
    """Whether the other option takes no more of any resource that the pool limits."""
    taken, allowed = other.instance_type.capacity, option.instance_type.capacity
    return all(
        taken[name] <= allowed[name]
        for name in option.entry.pool.limits or ()
        if name != NODES
    )
