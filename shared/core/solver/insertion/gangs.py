"""Gangs: all replicas or none, optionally in one domain. Tried on the state itself and undone when incomplete.

Gangs are decided one after the other in queue order, each on what earlier ones left. A gang never holds part of what
it needs, so two gangs cannot block each other for ever.
"""

from shared.core.solver.insertion.insert import ANYWHERE, Insertion
from shared.core.solver.insertion.new_nodes import Scope
from shared.core.solver.problem.catalogue import LaunchOption
from shared.core.solver.problem.groups import Group
from shared.core.solver.solution.bins import Bin
from shared.core.solver.solution.partial_plan import PartialPlan


def place_gang(insertion: Insertion, group: Group) -> bool:
    """Place all of the gang or nothing; return whether it was placed."""
    gang = group.workload.gang
    assert gang is not None
    if gang.single_topology_key is None:
        return _try(insertion, group, ANYWHERE)
    best: tuple[int, int, str] | None = None
    for domain in _domains(insertion.state, gang.single_topology_key):
        mark = insertion.state.mark()
        before = insertion.state.cost()
        if _try(insertion, group, _within(gang.single_topology_key, domain)):
            found = (insertion.state.cost() - before, len(insertion.state.bins), domain)
            best = found if best is None or found < best else best
            insertion.state.undo(mark)
    if best is None:
        return False
    return _try(insertion, group, _within(gang.single_topology_key, best[2]))


def _try(insertion: Insertion, group: Group, scope: Scope) -> bool:
    mark = insertion.state.mark()
    insertion.place_group(group, scope)
    if insertion.state.remaining[group.index] == 0:
        return True
    insertion.state.undo(mark)
    return False


def _domains(state: PartialPlan, topology_key: str) -> list[str]:
    places: list[Bin | LaunchOption] = [*state.bins, *state.catalogue.options]
    found = {place.labels.get(topology_key) for place in places}
    return sorted(domain for domain in found if domain is not None)


def _within(topology_key: str, domain: str) -> Scope:
    def admits(place: Bin | LaunchOption) -> bool:
        return place.labels.get(topology_key) == domain

    return Scope(admits)
