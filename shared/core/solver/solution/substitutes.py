"""Which other options could hold what a node holds, in price order; alternatives are chosen, and minValues counted, so.

Substitutes stay in the domains that topology counted, and within the capacity that the pool's limits were charged for
(R-58 charges the largest; this way the chosen one is the largest).
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, le

from shared.core.model.instance_type import CapacityType
from shared.core.scheduling_terms.resources import NODES
from shared.core.solver.problem.catalogue import LaunchOption, OptionCatalogue
from shared.core.solver.solution.partial_plan import PartialPlan

_price = attrgetter("price")
_Domains = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Insistence:
    """What replicas on a node insist on: labels that must not change, and of each requirement set one bit of a mask."""

    kept: tuple[str, ...]
    requirement_sets: tuple[int, ...]

    @classmethod
    def of(cls, state: PartialPlan, levels: Mapping[int, int]) -> "Insistence":
        """Return what groups (by index) insist on at their levels of relaxation."""
        requirement_sets = {state.groups[index].requirement_sets[level] for index, level in levels.items()}
        return cls(state.pinned_labels.under(levels), tuple(sorted(requirement_sets)))


class Substitutes:
    """Finds them among the options of a market, which are sorted once."""

    def __init__(self, catalogue: OptionCatalogue) -> None:
        self._catalogue = catalogue
        self._of_entry: dict[int, list[LaunchOption]] = {}
        self._by_domains: dict[object, dict[_Domains, list[LaunchOption]]] = {}

    def of(
        self,
        option: LaunchOption,
        load: Sequence[int],
        insistence: Insistence,
        capacity_type: CapacityType,
        from_price: int,
    ) -> Iterator[LaunchOption]:
        """Yield what can be bought on this market of the option's pool, none cheaper than ``from_price``."""
        kept = insistence.kept
        domains = tuple([self._catalogue.label(option, key) for key in kept])
        options = self._in_domains(option.entry.index, capacity_type, kept).get(domains, [])
        limits = [name for name in option.entry.pool.limits or () if name != NODES]
        largest = option.instance_type.capacity
        for other in self._holding(options[bisect_left(options, from_price, key=_price) :], load, insistence):
            capacity = other.instance_type.capacity
            if other is not option and all(capacity[name] <= largest[name] for name in limits):
                yield other

    def in_pool(self, option: LaunchOption, load: Sequence[int], insistence: Insistence) -> Iterator[LaunchOption]:
        """Yield whatever else the option's pool has that could hold the load, wherever and on whichever market."""
        found = self._holding(self._in_price_order(option.entry.index), load, insistence)
        return (other for other in found if other is not option)

    @staticmethod
    def _holding(
        options: Sequence[LaunchOption], load: Sequence[int], insistence: Insistence
    ) -> Iterator[LaunchOption]:
        accepted: dict[int, bool] = {}  # options are many, the requirement sets that they meet alike
        for other in options:
            met = other.requirement_sets
            if met not in accepted:
                accepted[met] = all(met & requirement_set for requirement_set in insistence.requirement_sets)
            if accepted[met] and all(map(le, load, other.allocatable)):
                yield other

    def _in_price_order(self, entry: int) -> list[LaunchOption]:
        known = self._of_entry.get(entry)
        if known is None:
            known = [option for option in self._catalogue.options if option.entry.index == entry]
            known.sort(key=attrgetter("price", "index"))
            self._of_entry[entry] = known
        return known

    def _in_domains(
        self, entry: int, capacity_type: CapacityType, kept: tuple[str, ...]
    ) -> Mapping[_Domains, list[LaunchOption]]:
        """Return what can be bought on a market of a pool, by its domains of the labels that stay."""
        market = (entry, capacity_type, kept)
        known = self._by_domains.get(market)
        if known is None:
            known = self._by_domains[market] = {}
            for option in self._in_price_order(entry):
                if option.reservation is None and option.key.capacity_type is capacity_type:
                    domains = tuple([self._catalogue.label(option, key) for key in kept])
                    known.setdefault(domains, []).append(option)
        return known
