"""The policy's floor: so little work leaves a reserved slot alone that it would use less than this part of it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from shared.core.solver.problem.catalogue import LaunchOption
from shared.core.solver.problem.groups import RelaxedGroup
from shared.core.solver.problem.vectors import largest_share
from shared.core.solver.solution.candidates import Candidates
from shared.core.solver.solution.partial_plan import PartialPlan


class ReservedFloor:
    """Says which work may have which reserved slot."""

    def __init__(self, state: PartialPlan, candidates: Candidates) -> None:
        self._state = state
        self._candidates = candidates
        self._is_kept = True

    def keeps_off(self, option: LaunchOption, relaxed: RelaxedGroup, copies: int) -> bool:
        """Whether the floor keeps so little work off the reserved slot, as it can be bought elsewhere."""
        if not self._is_kept or option.reservation is None:
            return False
        if self._fills(option, [asked * copies for asked in relaxed.group.request]):
            return False
        return any(other.reservation is None for other, _ in self._candidates.of(relaxed))

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Let little work have reserved slots meanwhile: what is left over could not be bought elsewhere after all."""
        self._is_kept = False
        yield
        self._is_kept = True

    def _fills(self, option: LaunchOption, load: Sequence[int]) -> bool:
        """Whether the load is as much of a reserved slot as the policy's floor asks for."""
        floor = self._state.catalogue.policy.reserved_floor_percent
        return not floor or 100 * largest_share(load, option.allocatable) >= floor

    def free_units(self, load: Sequence[int]) -> list[LaunchOption]:
        """Return the reserved options with units left of which one holds the load, smallest first."""
        units = self._state.residual.units
        found = [
            option
            for option in self._candidates.reserved
            if units[option.unit_key] > 0
            and all(used <= whole for used, whole in zip(load, option.allocatable, strict=True))
            and self._fills(option, load)
        ]
        return sorted(found, key=lambda option: (option.price, option.index))
