"""What a replica could be launched on: found once for all states of a solve, alike options together.

Options of one kind differ in nothing that rules over domains, pool weights or limits' owners see, only in size and
price. So of each kind only those matter that hold more than every cheaper one.
"""

from collections import defaultdict
from collections.abc import Sequence
from math import inf
from operator import ge

from shared.core.scheduling_terms.labels import HOSTNAME
from shared.core.scheduling_terms.resources import NODES
from shared.core.solver.problem.catalogue import LaunchOption, OptionCatalogue, counted
from shared.core.solver.problem.groups import Demands, Group, RelaxedGroup
from shared.core.solver.problem.vectors import Vector, copies_that_fit
from shared.core.solver.solution.residual_capacity import ResidualCapacity
from shared.core.solver.solution.substitutes import Substitutes

Places = list[tuple[LaunchOption, int]]  # options with how many replicas of a group one node holds


class Candidates:
    """The options of a market as groups see them."""

    def __init__(self, catalogue: OptionCatalogue, demands: Demands) -> None:
        self.catalogue = catalogue
        self.reserved = [option for option in catalogue.options if option.reservation is not None]
        self.flexibility = _flexibility(self.reserved, demands.groups)
        self.substitutes = Substitutes(catalogue)
        self.overhead = catalogue.policy.overhead_atto_usd
        bought = [option for option in catalogue.options if option.reservation is None]
        # Reserved ones first, in the market's order, then from cheap to dear.
        self._ordered = [*self.reserved, *sorted(bought, key=lambda option: (option.price, option.index))]
        keys = {key.topology_key for key in demands.terms.keys}
        gangs = [group.workload.gang for group in demands.groups if group.workload.gang is not None]
        keys |= {gang.single_topology_key for gang in gangs if gang.single_topology_key is not None}
        self._keys = tuple(sorted(keys - {HOSTNAME}))
        self._kinds: dict[int, int] = {}  # by option
        self._numbers: dict[object, int] = {}  # of kinds
        self._candidates: dict[tuple[int, Vector], Places] = {}
        self._by_class: dict[tuple[int, Vector, bool], list[Places]] = {}
        self._pareto_optimal: dict[tuple[int, Vector], list[LaunchOption]] = {}
        self._worth_having = bytearray()
        self._dearness: dict[tuple[int, Vector, int], float] = {}
        self._limited: dict[str, list[tuple[int, Vector]]] = {}

    def of(self, relaxed: RelaxedGroup) -> Places:
        """Return the options that could hold one replica, reserved ones first, then from cheap to dear."""
        mask, request = relaxed.requirement_sets, relaxed.group.request
        known = self._candidates.get((mask, request))
        if known is None:
            known = self._candidates[mask, request] = self._holding(mask, request, self._ordered)
        return known

    @staticmethod
    def _holding(mask: int, request: Vector, options: Sequence[LaunchOption]) -> Places:
        held: dict[Vector, int] = {}  # options are many, sizes few
        found = []
        for option in options:
            if option.requirement_sets & mask:
                fitting = held.get(option.allocatable)
                if fitting is None:
                    fitting = held[option.allocatable] = copies_that_fit(request, option.allocatable)
                if fitting:
                    found.append((option, fitting))
        return found

    def by_class(self, relaxed: RelaxedGroup, *, only_reserved: bool = False) -> list[Places]:
        """Return the candidates by kind, each reservation as one of its own; in the same order."""
        about = (relaxed.requirement_sets, relaxed.group.request, only_reserved)
        if about not in self._by_class:
            kinds = defaultdict[int, Places](list)
            mask, request = about[:2]
            places = self._holding(mask, request, self.reserved) if only_reserved else self.of(relaxed)
            for place in places:
                kinds[self._kind(place[0])].append(place)
            self._by_class[about] = list(kinds.values())
        return self._by_class[about]

    def pareto_optimal(self, group: Group) -> list[LaunchOption]:
        """Return the candidates but those to which another one of their kind is preferable in every respect.

        Reserved ones first, then heavier pools, then from cheap to dear. Preferences do not matter.
        """
        about = (group.requirement_sets[-1], group.request)
        if about not in self._pareto_optimal:
            if not self._worth_having:
                self._worth_having = self._pareto_optimal_flags()
            candidates = (option for option, _ in self.of(group.relaxed[-1]))
            found = [option for option in candidates if self._worth_having[option.index]]
            found.sort(key=lambda option: (option.reservation is None, option.entry.tier, option.price))
            self._pareto_optimal[about] = found
        return self._pareto_optimal[about]

    def _pareto_optimal_flags(self) -> bytearray:
        """Return, by option index, whether no other option of its kind is preferable whatever it is for."""
        found = bytearray(len(self.catalogue.options))
        kept: dict[object, list[LaunchOption]] = {}
        most: dict[object, int] = {}  # CPU of those kept
        for option in self._ordered:
            kind, cpu = (self._kind(option), option.requirement_sets), option.allocatable[0]
            alike = kept.setdefault(kind, [])
            # From cheap to dear, sizes mostly grow: most need no comparison.
            is_larger = cpu > most.get(kind, -1) or self.substitutes.concerns(option.entry)
            if is_larger or not any(_is_no_worse(other, option) for other in reversed(alike)):
                alike.append(option)
                most[kind] = max(cpu, most.get(kind, cpu))
                found[option.index] = 1
        return found

    def _kind(self, option: LaunchOption) -> int:
        known = self._kinds.get(option.index)
        if known is None:
            about = (option.entry.index, option.unit_key, *[option.label(key) for key in self._keys])
            known = self._kinds[option.index] = self._numbers.setdefault(about, len(self._numbers))
        return known

    def dearness(self, group: Group) -> float:
        """Sort key: what one replica costs where it must be paid for, dearest first; those with no choice lead."""
        count = group.count
        about = (group.requirement_sets[-1], group.request, count)
        if about not in self._dearness:
            least, most = inf, 0
            for option, fitting in self.of(group.relaxed[-1]):
                if option.reservation is None and fitting > most:
                    most = min(fitting, count)
                    least = min(least, (option.price + self.overhead) / most)
                    if most == count:
                        break
            self._dearness[about] = -least
        return self._dearness[about]

    def open_now(self, residual: ResidualCapacity) -> bytearray:
        """Return, by option index, whether units and limits leave a node of the option."""
        found = bytearray(b"\1") * len(self.catalogue.options)
        for pool, limits in residual.limits.items():
            left = tuple(limits.values())
            for index, needed in self._needs(pool, tuple(limits)):
                for need, amount in zip(needed, left, strict=True):
                    if need > amount and need > 0:
                        found[index] = 0
        for option in self.reserved:
            assert option.reservation is not None
            if residual.units[option.unit_key] <= 0:
                found[option.index] = 0
        return found

    def _needs(self, pool: str, names: Sequence[str]) -> list[tuple[int, Vector]]:
        """Return what a node of each option of a pool takes of its limits."""
        if pool not in self._limited:
            self._limited[pool] = [
                (option.index, tuple(counted(option.instance_type.capacity, name) for name in names))
                for option in self.catalogue.options
                if option.entry.pool.name == pool
            ]
        return self._limited[pool]


def _is_no_worse(option: LaunchOption, other: LaunchOption) -> bool:
    """Whether a node of the option, which is not dearer, holds no less and takes no more of the pool's limits."""
    limits = [name for name in option.entry.pool.limits or () if name != NODES]
    mine, theirs = option.instance_type.capacity, other.instance_type.capacity
    return all(map(ge, option.allocatable, other.allocatable)) and all(mine[name] <= theirs[name] for name in limits)


def _flexibility(reserved: Sequence[LaunchOption], groups: Sequence[Group]) -> dict[int, int]:
    """Return how many groups each mask of requirement sets serves."""
    masks = {option.requirement_sets for option in reserved}
    return {mask: sum(1 for group in groups if group.requirement_sets[-1] & mask) for mask in masks}
