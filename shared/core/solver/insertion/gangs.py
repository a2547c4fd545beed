"""Gangs: all replicas or none, optionally in one domain. Tried on the state itself and undone when incomplete.

Gangs are decided one after the other in queue order, each on what earlier ones left. A gang never holds part of what
it needs, so two gangs cannot block each other for ever.
"""

from shared.core.solver.insertion.insert import ANYWHERE, Placer, Scope
from shared.core.solver.problem.catalogue import Option
from shared.core.solver.problem.groups import Group
from shared.core.solver.solution.bins import Bin
from shared.core.solver.solution.partial_plan import State


def place_gang(placer: Placer, group: Group) -> bool:
    """Place all of the gang or nothing; return whether it was placed."""
    gang = group.workload.gang
    assert gang is not None
    if gang.single_topology_key is None:
        return _try(placer, group, ANYWHERE)
    best: tuple[int, int, str] | None = None
    for domain in _domains(placer.state, gang.single_topology_key):
        mark = placer.state.mark()
        before = placer.state.cost()
        if _try(placer, group, _within(placer.state, gang.single_topology_key, domain)):
            found = (placer.state.cost() - before, len(placer.state.bins), domain)
            best = found if best is None or found < best else best
            placer.state.undo(mark)
    if best is None:
        return False
    return _try(placer, group, _within(placer.state, gang.single_topology_key, best[2]))


def _try(placer: Placer, group: Group, scope: Scope) -> bool:
    mark = placer.state.mark()
    placer.place_group(group, scope)
    if placer.state.remaining[group.index] == 0:
        return True
    placer.state.undo(mark)
    return False


def _domains(state: State, topology_key: str) -> list[str]:
    found = {bin_.labels[topology_key] for bin_ in state.bins if topology_key in bin_.labels}
    for option in state.market.options:
        labels = state.labels_of(option)
        if topology_key in labels:
            found.add(labels[topology_key])
    return sorted(found)


def _within(state: State, topology_key: str, domain: str) -> Scope:
    def admits(place: Bin | Option) -> bool:
        labels = place.labels if isinstance(place, Bin) else state.labels_of(place)
        return labels.get(topology_key) == domain

    return Scope(admits)
