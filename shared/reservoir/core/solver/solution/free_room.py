"""How many replicas each domain holds at no further cost: on existing nodes, planned nodes and free reserved units.

Replicas are assigned to domains by it before they are packed. Room is used up first fit, so a domain may seem to hold a
few replicas less than packing will place there.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import lt

from reservoir.core.scheduling_terms.labels import HOSTNAME
from reservoir.core.solver.problem.groups import RelaxedGroup
from reservoir.core.solver.problem.vectors import UNLIMITED, Vector, copies_that_fit
from reservoir.core.solver.solution.bins import Bin
from reservoir.core.solver.solution.partial_plan import PartialPlan


@dataclass(frozen=True, slots=True, eq=False)
class _Vacancy:
    """``count`` equal nodes, each with ``free`` resources. ``bin_`` is their bin; None for free reserved units."""

    requirement_sets: int
    labels: Mapping[str, str]
    free: Sequence[int]
    count: int
    bin_: Bin | None = None

    def used(self, nodes: int, request: Vector, copies: int) -> "_Vacancy":
        """Return ``nodes`` of the nodes after ``copies`` replicas have been put on each."""
        free = [
            left - asked * copies for left, asked in zip(self.free, request, strict=True)
        ]
        return replace(self, count=nodes, free=free)


class FreeRoom:
    """The vacancies of each domain of a topology key; they are used up one after the other."""

    def __init__(
        self, state: PartialPlan, vacancies: Mapping[str, Sequence[_Vacancy]]
    ) -> None:
        self._state = state
        self._vacancies = dict(vacancies)

    @classmethod
    def of(cls, state: PartialPlan, key: str) -> "FreeRoom":
        """Return the room that some waiting replica of a group with terms could use, by the domains of this key."""
        requests: list[Vector] = []
        for group in state.groups:
            if state.remaining[group.index] and group.equivalence_class.terms:
                requests.append(group.request)
        least = list(map(min, zip(*requests, strict=True)))
        found = defaultdict[str, list[_Vacancy]](list)
        on_nodes = [
            _Vacancy(it.requirement_sets, it.labels, it.free, it.count, it)
            for it in state.bins
        ]
        for vacancy in [*on_nodes, *_on_units(state)]:
            domain = vacancy.labels.get(key)
            if domain is not None and not any(map(lt, vacancy.free, least)):
                found[domain].append(vacancy)
        return cls(state, found)

    def within(self, domain: str) -> "FreeRoom":
        """Return a copy that has only this domain."""
        return FreeRoom(self._state, {domain: self._vacancies.get(domain, ())})

    def by_domain(self, relaxed: RelaxedGroup, wanted: int) -> Counter[str]:
        """Return how many replicas each domain has room for; counting stops once it has reached ``wanted``."""
        found = Counter[str]()
        if not self._vacancies:
            return found
        room = self._room(relaxed)
        for domain, vacancies in self._vacancies.items():
            for vacancy in vacancies:
                if copies := room(vacancy):
                    found[domain] += copies * vacancy.count
                    if found[domain] >= wanted:
                        break
        return found

    def take(self, relaxed: RelaxedGroup, domain: str, wanted: int) -> int:
        """Use a domain's room for up to ``wanted`` replicas; return how many found room."""
        if not self._vacancies.get(domain):
            return 0
        left = wanted
        request = relaxed.group.request
        room = self._room(relaxed)
        vacancies = list[_Vacancy]()
        for vacancy in self._vacancies[domain]:
            copies = room(vacancy) if left else 0
            if not copies:
                vacancies.append(vacancy)
                continue
            full = min(vacancy.count, left // copies)
            rest = left - full * copies if full < vacancy.count else 0
            parts = (
                (full, copies),
                (int(rest > 0), rest),
                (vacancy.count - full - (rest > 0), 0),
            )
            vacancies += [
                vacancy.used(nodes, request, each) for nodes, each in parts if nodes
            ]
            left -= full * copies + rest
        self._vacancies[domain] = vacancies
        return wanted - left

    def _room(self, relaxed: RelaxedGroup) -> Callable[[_Vacancy], int]:
        """Return a function that says how many replicas one node of a vacancy takes."""
        admission = self._state.admission
        request = relaxed.group.request
        accepted = relaxed.requirement_sets
        is_ruled = relaxed.group.matching & self._state.ledger.host_mask or any(
            term.topology_key == HOSTNAME for term in relaxed.constraints
        )
        on_a_new_one = admission.host_room(relaxed, None) if is_ruled else UNLIMITED

        def room(vacancy: _Vacancy) -> int:
            if (
                not vacancy.requirement_sets & accepted
                or vacancy.free[0] < request[0]
                or vacancy.free[1] < request[1]
            ):
                return 0
            fitting = copies_that_fit(request, vacancy.free)
            if vacancy.bin_ is not None and fitting and is_ruled:
                return min(fitting, admission.host_room(relaxed, vacancy.bin_))
            return min(fitting, on_a_new_one)

        return room


def _on_units(state: PartialPlan) -> Iterable[_Vacancy]:
    """Return the free units of each reservation as one vacancy, which meets what any pool's nodes on them meet."""
    units: dict[str, _Vacancy] = {}
    for option in state.catalogue.options:
        if option.reservation is not None and (count := state.residual.nodes_left(option)):
            known = units.get(
                option.unit_key, _Vacancy(0, option.place_labels, option.allocatable, count)
            )
            sets = known.requirement_sets | option.requirement_sets
            units[option.unit_key] = replace(
                known, requirement_sets=sets, count=max(count, known.count)
            )
    return units.values()
