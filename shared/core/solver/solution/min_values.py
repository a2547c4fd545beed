"""minValues: how many distinct values of a label the types of a node must leave to choose from (R-17, R-53)."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import le

from shared.core.model.node_pool import min_values
from shared.core.model.policy import MinValuesPolicy
from shared.core.scheduling_terms.resources import NODES
from shared.core.solver.problem.catalogue import Entry, LaunchOption, OptionCatalogue
from shared.core.solver.problem.groups import RelaxedGroup
from shared.core.solver.solution.bins import Bin, total_load
from shared.core.solver.solution.partial_plan import PartialPlan

Domains = tuple[tuple[str, str | None], ...]


class MinValues:
    """Answers whether enough kinds of instance types could hold a content, for pools that ask for it."""

    def __init__(self, catalogue: OptionCatalogue) -> None:
        self._catalogue = catalogue
        self._wanted: dict[int, dict[str, int]] = {}
        self._memo: dict[object, bool] = {}
        self._by_price: dict[object, list[LaunchOption]] = {}
        self._labels: dict[int, dict[str, str]] = {}  # of the keys that the option's pool asks for, by option
        if catalogue.policy.min_values_policy is MinValuesPolicy.STRICT:
            for entry in catalogue.entries:
                self._wanted[entry.index] = min_values(entry.pool)

    def concerns(self, entry: Entry) -> bool:
        """Whether the entry's pool asks for anything."""
        return bool(self._wanted.get(entry.index))

    def allowed(self, state: PartialPlan, bin_: Bin, relaxed: RelaxedGroup, room: int) -> int:
        """Return how many of ``room`` replicas leave the bin enough instance types to choose from."""
        option, group = bin_.option, relaxed.group
        if option is None or not room or not self.concerns(option.entry):
            return room
        load = total_load(state.groups, bin_.contents, len(group.request))
        while room:
            grown = [used + asked * room for used, asked in zip(load, group.request, strict=True)]
            if self.holds(state, option, grown, {**bin_.levels, group.index: relaxed.level}):
                return room
            room //= 2
        return 0

    def holds(self, state: PartialPlan, option: LaunchOption, load: Sequence[int], levels: Mapping[int, int]) -> bool:
        """Whether the types that hold ``load`` for these groups (by relaxation level) have enough distinct values.

        Labels that topology counted on stay as the option has them.
        """
        if not self.concerns(option.entry):
            return True
        present = [state.groups[index].relaxed[level] for index, level in levels.items()]
        requirement_sets = tuple(sorted({relaxed.requirement_sets for relaxed in present}))
        keys = sorted({key for relaxed in present for key in state.pinned_labels.of(relaxed)})
        kept = tuple((key, state.label(option, key)) for key in keys)
        key = (option.index, tuple(load), requirement_sets, kept)
        known = self._memo.get(key)
        if known is None:
            known = self._memo[key] = self._count(option, load, requirement_sets, kept)
        return known

    # Branches: comprehensions of a line each around one count.
    def _count(self, option: LaunchOption, load: Sequence[int], requirement_sets: Sequence[int], kept: Domains) -> bool:
        """Count over what the node could be launched as: itself and its alternatives, which are none cheaper (R-28).

        A reserved node has no alternatives; it counts every type of the pool that could hold its replicas.
        """
        wanted = self._wanted[option.entry.index]
        most = self._catalogue.policy.alternatives_max if option.reservation is None else None
        hosting = (
            other
            for other in self._others(option, kept)
            if all(other.requirement_sets & requirement_set for requirement_set in requirement_sets)
            and all(map(le, load, other.allocatable))
        )
        found: dict[str, set[str]] = {key: set() for key in wanted}
        for other in chain((option,), islice(hosting, most)):
            for key, value in self._values(other, wanted).items():
                found[key].add(value)
            if all(len(found[key]) >= least for key, least in wanted.items()):
                return True
        return False

    # Branches: reserved nodes count the pool, others their market within limits.
    def _others(self, option: LaunchOption, kept: Domains) -> Iterator[LaunchOption]:
        """Yield what a node of the option counts beside itself, in price order."""
        ordered = self._in_price_order(option, kept)
        if option.reservation is not None:
            yield from (other for other in ordered if other is not option)
            return
        start = bisect_left(ordered, (option.price, -1), key=_by_price)
        # Limits were charged for the option, so no alternative may be larger.
        limits = [name for name in option.entry.pool.limits or () if name != NODES]
        mine = option.instance_type.capacity
        for other in islice(ordered, start, None):
            if other is not option and all(other.instance_type.capacity[name] <= mine[name] for name in limits):
                yield other

    def _in_price_order(self, option: LaunchOption, kept: Domains) -> Sequence[LaunchOption]:
        """Return the options of the same pool: all of them for a reserved one, else those of its market and domains."""
        is_reserved = option.reservation is not None
        kind = (option.entry.index, *((None,) if is_reserved else (option.key.capacity_type, kept)))
        if kind not in self._by_price:
            same = (other for other in self._catalogue.options if other.entry is option.entry)
            alike = (other for other in same if is_reserved or self._is_alike(other, option, kept))
            self._by_price[kind] = sorted(alike, key=_by_price)
        return self._by_price[kind]

    def _is_alike(self, other: LaunchOption, option: LaunchOption, kept: Domains) -> bool:
        if other.reservation is not None or other.key.capacity_type is not option.key.capacity_type:
            return False
        labels = self._catalogue.labels(other) if kept else {}
        return all(labels.get(key) == value for key, value in kept)

    def _values(self, option: LaunchOption, wanted: dict[str, int]) -> dict[str, str]:
        known = self._labels.get(option.index)
        if known is None:
            labels = self._catalogue.labels(option)
            known = self._labels[option.index] = {key: labels[key] for key in wanted if key in labels}
        return known


def _by_price(option: LaunchOption) -> tuple[int, int]:
    return option.price, option.index
