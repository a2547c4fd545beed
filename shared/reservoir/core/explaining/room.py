"""Where a group still finds room, whatever rules over domains say: on nodes, and in what units and limits leave."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reservoir.core.scheduling_terms.resources import Resources, counted
from reservoir.core.solver.problem.catalogue import LaunchOption
from reservoir.core.solver.problem.groups import Group
from reservoir.core.solver.problem.vectors import copies_that_fit
from reservoir.core.solver.solution.partial_plan import PartialPlan
from reservoir.core.solver.solution.residual_capacity import ResidualCapacity


@dataclass(frozen=True, slots=True)
class Room:
    """``per_node`` replicas on each new node of an option, or ``per_node`` on a node that is there already."""

    labels: Mapping[str, str]
    per_node: int
    option: LaunchOption | None = None


def rooms_of(state: PartialPlan, group: Group) -> list[Room]:
    """Return all room for a group that accepts it, full or not; rules between hosts count, those over domains not."""
    relaxed = group.relaxed[-1]
    found = [
        Room(bin_.labels, room * bin_.count)
        for bin_ in state.bins
        if bin_.is_open_to(group)
        and (room := state.admission.room(bin_, relaxed, is_assigned=True))
    ]
    at_most = state.admission.host_room(relaxed, None)
    for option in state.catalogue.options:
        if option.requirement_sets & relaxed.requirement_sets:
            per_node = min(at_most, copies_that_fit(group.request, option.allocatable))
            if per_node:
                found.append(Room(option.labels, per_node, option))
    return found


def left_in(
    rooms: Iterable[Room], residual: ResidualCapacity
) -> Iterator[tuple[Room, int]]:
    """Yield room with the replicas that it holds, each for itself, where units and limits leave any."""
    for room in rooms:
        nodes = 1 if room.option is None else residual.nodes_left(room.option)
        if nodes > 0:
            yield room, nodes * room.per_node


def held_by(rooms: Sequence[Room], residual: ResidualCapacity, count: int) -> int:
    """Return how many of ``count`` replicas all room holds together; what takes least of its pool's limits first."""
    rest, left = count, residual.copy()
    for room in sorted(rooms, key=lambda room: _share_of_limits(room, residual)):
        nodes = 1
        if room.option is not None:
            nodes = min(left.nodes_left(room.option), -(-rest // room.per_node))
            left.take(room.option, nodes)
        rest = max(0, rest - nodes * room.per_node)
    return count - rest


def _share_of_limits(room: Room, residual: ResidualCapacity) -> float:
    """Return the part that a replica takes of what its pool's limits leave, of the one of which it takes most."""
    if room.option is None:
        return -1
    limits = residual.limits.get(room.option.entry.pool.name, {})
    capacity = room.option.instance_type.capacity
    shares = (counted(capacity, name) / left for name, left in limits.items() if left > 0)
    return max(shares, default=0.0) / room.per_node


def amount_left(name: str, left: int) -> str:
    """Return what a limit leaves, as a sentence ends with it."""
    return f"{Resources.formatted_amount(name, left)} left"
