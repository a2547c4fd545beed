"""The launch options that could hold a replica, by class; they are found once for all states of a solve.

Options of one class have the same pool, the same reservation and the same domains, and differ only in size and price.
So within a class an option matters only if it holds more replicas than every cheaper one.
"""

from collections import defaultdict
from collections.abc import Sequence, Set
from math import inf
from operator import attrgetter
from typing import NamedTuple

from reservoir.core.scheduling_terms.labels import HOSTNAME
from reservoir.core.scheduling_terms.resources import counted
from reservoir.core.solver.problem.catalogue import LaunchOption, OptionCatalogue
from reservoir.core.solver.problem.groups import Group, RelaxedGroup
from reservoir.core.solver.problem.vectors import Vector, copies_that_fit
from reservoir.core.solver.solution.residual_capacity import ResidualCapacity
from reservoir.core.solver.solution.substitutes import Substitutes

# Launch options, each with the number of a group's replicas that one node holds.
Places = list[tuple[LaunchOption, int]]


def _cheapest(bought: Sequence[LaunchOption]) -> list[LaunchOption]:
    """Return, of options with the same requirement sets and size, the first."""
    found: dict[tuple[int, Vector], LaunchOption] = {}
    for option in bought:
        found.setdefault((option.requirement_sets, option.allocatable), option)
    return list(found.values())


class _Accepting(NamedTuple):
    """Options and their distinct sizes, of which there are far fewer than options."""

    options: Sequence[LaunchOption]
    sizes: Set[Vector]


class Candidates:
    """The launch options of a catalogue, as each group may use them."""

    def __init__(self, catalogue: OptionCatalogue, groups: Sequence[Group]) -> None:
        self.catalogue = catalogue
        self.substitutes = Substitutes(catalogue)
        self.overhead = catalogue.policy.overhead_atto_usd
        self.reserved = [
            option for option in catalogue.options if option.reservation is not None
        ]
        # How many groups accept each mask of requirement sets: there are many options, but few different masks.
        self.flexibility: dict[int, int] = {}
        for mask in {option.requirement_sets for option in self.reserved}:
            served = [bool(group.requirement_sets[-1] & mask) for group in groups]
            self.flexibility[mask] = sum(served)
        bought = [option for option in catalogue.options if option.reservation is None]
        self._ordered = [*self.reserved, *sorted(bought, key=attrgetter("price", "index"))]
        pinned: set[str] = set()
        for group in groups:
            pinned.update(*group.equivalence_class.pinned_labels)
        self._keys = sorted(pinned - {HOSTNAME})
        self._classes: dict[int, tuple[object, ...]] = {}  # by option index
        self._candidates: dict[tuple[int, Vector, bool], Places] = {}
        self._accepting: dict[tuple[int, bool], _Accepting] = {}
        self._by_class: dict[tuple[int, Vector, bool], list[Places]] = {}
        self._distinct: dict[tuple[int, Vector], list[LaunchOption]] = {}
        self._limited: dict[str, list[tuple[int, Vector]]] = {}
        self._cheapest = _cheapest(self._ordered[len(self.reserved) :])

    def of(self, relaxed: RelaxedGroup, *, only_reserved: bool = False) -> Places:
        """Return the options that could hold one replica: reserved ones first, then the others, cheapest first."""
        mask, request = relaxed.requirement_sets, relaxed.group.request
        key = (mask, request, only_reserved)
        if (known := self._candidates.get(key)) is None:
            known = self._candidates[key] = []
            accepting = self._accepting_of(mask, only_reserved=only_reserved)
            held = {size: copies_that_fit(request, size) for size in accepting.sizes}
            if any(held.values()):
                for option in accepting.options:
                    if fitting := held[option.allocatable]:
                        known.append((option, fitting))
        return known

    def _accepting_of(self, mask: int, *, only_reserved: bool) -> _Accepting:
        """Return the options that meet one of these requirement sets.

        The answer is kept, as many groups differ in their requests alone.
        """
        about = mask, only_reserved
        if (known := self._accepting.get(about)) is None:
            among = self.reserved if only_reserved else self._ordered
            options = [option for option in among if option.requirement_sets & mask]
            sizes = {option.allocatable for option in options}
            known = self._accepting[about] = _Accepting(options, sizes)
        return known

    def by_class(
        self, relaxed: RelaxedGroup, *, only_reserved: bool = False
    ) -> list[Places]:
        """Return the same options in the same order, as one list for each class; each reservation is a class."""
        about = (relaxed.requirement_sets, relaxed.group.request, only_reserved)
        if (known := self._by_class.get(about)) is None:
            classes = defaultdict[object, Places](list)
            for place in self.of(relaxed, only_reserved=only_reserved):
                classes[self._class_of(place[0])].append(place)
            known = self._by_class[about] = list(classes.values())
        return known

    def distinct(self, group: Group) -> list[LaunchOption]:
        """Return the cheapest option of each class and size that could hold one replica with all preferences given up.

        Reserved ones come first, then those of heavier pools, then the cheapest.
        """
        about = (group.requirement_sets[-1], group.request)
        if (known := self._distinct.get(about)) is None:
            found: dict[object, LaunchOption] = {}
            for option, _ in self.of(group.relaxed[-1]):
                found.setdefault(
                    (self._class_of(option), option.requirement_sets, option.allocatable),
                    option,
                )
            known = sorted(
                found.values(),
                key=lambda it: (it.reservation is None, it.entry.tier, it.price),
            )
            self._distinct[about] = known
        return known

    def _class_of(self, option: LaunchOption) -> tuple[object, ...]:
        if (known := self._classes.get(option.index)) is None:
            domains = [option.label(key) for key in self._keys]
            known = self._classes[option.index] = (
                option.entry.index,
                option.unit_key,
                *domains,
            )
        return known

    def dearness(self, group: Group) -> float:
        """Return a sort key: groups whose replica costs the most to buy come first.

        Groups that no option on sale accepts come before all others.
        """
        least, most = inf, 0
        for option in self._cheapest:
            if option.requirement_sets & group.requirement_sets[-1]:
                fitting = min(
                    copies_that_fit(group.request, option.allocatable), group.count
                )
                if fitting > most:
                    most = fitting
                    least = min(least, (option.price + self.overhead) / most)
                if most == group.count:
                    break
        return -least

    def open_now(self, residual: ResidualCapacity) -> bytearray:
        """Return, by option index, 1 if units and limits allow one more node of the option, else 0."""
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
        """Return (option index, amounts) of each option of a pool: what a node takes of the limits of these names."""
        if pool not in self._limited:
            needs: list[tuple[int, Vector]] = []
            for option in self.catalogue.options:
                if option.entry.pool.name == pool:
                    capacity = option.instance_type.capacity
                    needed = tuple(counted(capacity, name) for name in names)
                    needs.append((option.index, needed))
            self._limited[pool] = needs
        return self._limited[pool]
