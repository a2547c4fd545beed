"""minValues: how many distinct values of a label the types of a node must leave to choose from (R-17, R-53)."""

from collections.abc import Mapping, Sequence
from itertools import chain, islice

from shared.core.model.node_pool import min_values
from shared.core.model.policy import MinValuesPolicy
from shared.core.solver.problem.catalogue import Entry, LaunchOption, OptionCatalogue
from shared.core.solver.problem.groups import RelaxedGroup
from shared.core.solver.solution.bins import Bin, total_load
from shared.core.solver.solution.partial_plan import PartialPlan
from shared.core.solver.solution.substitutes import Insistence, Substitutes


class MinValues:
    """Answers whether enough kinds of instance types could hold a content, for pools that ask for it."""

    def __init__(self, catalogue: OptionCatalogue) -> None:
        self._catalogue = catalogue
        self._wanted: dict[int, dict[str, int]] = {}
        self._memo: dict[object, bool] = {}
        if catalogue.policy.min_values_policy is MinValuesPolicy.STRICT:
            for entry in catalogue.entries:
                self._wanted[entry.index] = min_values(entry.pool)
        self._substitutes = Substitutes(catalogue)

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
        insistence = Insistence.of(state, levels)
        key = (option.index, tuple(load), insistence)
        known = self._memo.get(key)
        if known is None:
            known = self._memo[key] = self._count(option, load, insistence)
        return known

    def _count(self, option: LaunchOption, load: Sequence[int], insistence: Insistence) -> bool:
        """Count over what the node could be launched as: itself and its alternatives, which are none cheaper (R-28).

        A reserved node has no alternatives; it counts every type of the pool that could hold its replicas.
        """
        wanted = self._wanted[option.entry.index]
        if option.reservation is None:
            market, most = option.key.capacity_type, self._catalogue.policy.alternatives_max
            hosting = islice(self._substitutes.of(option, load, insistence, market, option.price), most)
        else:
            hosting = islice(self._substitutes.in_pool(option, load, insistence), None)
        found: dict[str, set[str]] = {key: set() for key in wanted}
        for other in chain((option,), hosting):
            for key, values in found.items():
                value = self._catalogue.label(other, key)
                if value is not None:
                    values.add(value)
            if all(len(found[key]) >= least for key, least in wanted.items()):
                return True
        return False
