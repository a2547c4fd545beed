"""Whether a node leaves enough kinds of instance types to choose from (minValues), replica by replica."""

from collections.abc import Mapping, Sequence

from shared.core.solver.problem.catalogue import LaunchOption
from shared.core.solver.problem.groups import RelaxedGroup
from shared.core.solver.problem.min_values import MinValues
from shared.core.solver.solution.bins import Bin, total_load
from shared.core.solver.solution.partial_plan import PartialPlan


class TypeVariety:
    """Asks minValues about nodes with what is, or would be, on them."""

    def __init__(self, state: PartialPlan, min_values: MinValues) -> None:
        self._state = state
        self._min_values = min_values

    def allowed(self, bin_: Bin, relaxed: RelaxedGroup, room: int) -> int:
        """Return how many of ``room`` replicas leave the bin enough instance types to choose from (minValues)."""
        option, group = bin_.option, relaxed.group
        if option is None or not room or not self._min_values.concerns(option.entry):
            return room
        load = total_load(self._state.groups, bin_.contents, len(group.request))
        while room:
            grown = [used + asked * room for used, asked in zip(load, group.request, strict=True)]
            if self.holds(option, grown, {**bin_.levels, group.index: relaxed.level}):
                return room
            room //= 2
        return 0

    def holds(self, option: LaunchOption, load: Sequence[int], levels: Mapping[int, int]) -> bool:
        """Whether a node with this load of these groups (by relaxation level) can be enough kinds of types."""
        if not self._min_values.concerns(option.entry):
            return True
        present = [self._state.groups[index].relaxed[level] for index, level in levels.items()]
        requirement_sets = sorted({relaxed.requirement_sets for relaxed in present})
        keys = sorted({key for relaxed in present for key in self._state.pinned_labels.of(relaxed)})
        return self._min_values.holds(
            option, load, requirement_sets, tuple((key, self._state.label(option, key)) for key in keys)
        )
