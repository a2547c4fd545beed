"""Taking a few nodes apart and packing them anew, so that who is left over finds a place: a bounded, exact search.

The strategies never take anything back, so a replica may stay over although an exchange between two nodes would make
room. Large neighbourhood search (Shaw 1998; Pisinger and Ropke 2010) destroys a part of the solution and repairs it.
Here it goes first, then everybody from one node, from two or from three, each to any node with room or to a new one.
Nobody who had a place loses it. Effort is counted in evaluations, never in time.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, combinations
from operator import attrgetter

from shared.core.solver.insertion.insert import ANYWHERE, Insertion
from shared.core.solver.insertion.loose_nodes import LooseNodes
from shared.core.solver.insertion.node_elimination import empty_paid_nodes
from shared.core.solver.problem.catalogue import LaunchOption
from shared.core.solver.problem.groups import Group, RelaxedGroup
from shared.core.solver.solution.bins import Bin
from shared.core.solver.solution.priority_inversion import has_inversion

# One evaluation is one replica tried on one place, some 15 microseconds.
_EVALUATIONS_MAX = 10_000
_EVALUATIONS_A_TRIAL = 300
_OPTIONS_AN_EVALUATION = 200  # finding out which options are open costs time too
_NODES_A_TRIAL = 3

_Pins = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class _Replica:
    """One replica that looks for a place, within the domains that it is pinned to.

    ``is_served``: it had a reserved unit. ``is_new``: it had no place at all.
    """

    group: Group
    pins: _Pins = ()
    is_served: bool = False
    is_new: bool = False

    @property
    def order(self) -> tuple[bool, list[int], int]:
        """Sort key: who is new goes first (mostly it has no place), then the largest."""
        return not self.is_new, [-amount for amount in self.group.request], self.group.index

    @property
    def seeks_company(self) -> bool:
        """Whether it wants to be near to others."""
        return bool(self.group.constraints[-1].affinity)


@dataclass(slots=True)
class _Trial:
    """Replicas that look for a place, what they were given so far, and what is known not to lead anywhere."""

    replicas: Sequence[_Replica]
    evaluations: int
    is_open: bytearray  # by option index, whether there was a unit, and limits left one, when the trial began
    options: dict[int, list[LaunchOption]] = field(default_factory=dict)  # by group, what is open to it
    nodes: list[Bin] = field(default_factory=list)
    seen: set[object] = field(default_factory=set)


class NeighbourhoodSearch:
    """Makes places for what is left over."""

    def __init__(self, insertion: Insertion) -> None:
        self._insertion, self._state = insertion, insertion.state
        self._evaluations = _EVALUATIONS_MAX
        self._loose = LooseNodes(self._state)

    def serve(self, groups: Sequence[Group]) -> None:
        """Find places for the groups' remaining replicas, until none of them can have one."""
        remaining, found = self._state.remaining, True
        while found:
            found = False
            waiting = [group for group in groups if remaining[group.index]]
            for tried, group in enumerate(waiting):
                share = self._evaluations // (len(waiting) - tried)
                while remaining[group.index] and self._make_place(group, share):
                    found = True

    def _make_place(self, group: Group, evaluations_max: int) -> bool:
        """Place one replica of the group, or all of a gang."""
        state, remaining = self._state, self._state.remaining[group.index]
        wanted = [_Replica(group, is_new=True)] * (remaining if group.workload.gang is not None else 1)
        evaluations_left = max(0, self._evaluations - evaluations_max)
        for nodes in self._neighbourhoods():
            if self._evaluations <= evaluations_left or state.is_out_of_time(group):
                return False
            mark = state.mark()
            if any(self._fits(replicas) for replicas in _orders([*wanted, *self._taken_off(nodes)])):
                return True
            state.undo(mark)
        return False

    def _fits(self, replicas: Sequence[_Replica]) -> bool:
        """Place all of the replicas, or none."""
        is_open = self._insertion.candidates.open_now(self._state.residual)
        self._evaluations -= 1 + len(is_open) // _OPTIONS_AN_EVALUATION
        trial = _Trial(replicas, min(_EVALUATIONS_A_TRIAL, self._evaluations), is_open)
        self._evaluations -= trial.evaluations
        is_placed = self._settle(trial)
        self._evaluations += trial.evaluations
        return is_placed

    def _options(self, trial: _Trial, group: Group) -> list[LaunchOption]:
        """Return what could be launched for the group."""
        found = trial.options.get(group.index)
        if found is None:
            known = self._insertion.candidates.pareto_optimal(group)
            found = trial.options[group.index] = [option for option in known if trial.is_open[option.index]]
            trial.evaluations -= len(known) // _OPTIONS_AN_EVALUATION
        return found

    def _neighbourhoods(self) -> Iterator[Sequence[Bin]]:
        """Yield nodes to take apart together, few first."""
        loose = [bin_ for bin_ in self._state.bins if bin_.contents and self._loose.has(bin_)]
        each = list(chain.from_iterable([bin_] * min(bin_.count, _NODES_A_TRIAL) for bin_ in loose))
        known: set[object] = set()
        for size in range(_NODES_A_TRIAL + 1):
            for nodes in combinations(each, size):
                alike = tuple(map(_likeness, nodes))
                if alike not in known:
                    known.add(alike)
                    yield nodes

    def _taken_off(self, nodes: Iterable[Bin]) -> list[_Replica]:
        """Take the nodes apart; return who was on them."""
        state = self._state
        found: list[tuple[Group, int, Bin]] = []
        for bin_ in nodes:
            node = state.split_bin(bin_, 1)
            found += [(relaxed.group, count, node) for relaxed, count in state.empty(node)]
            if node.option is not None:
                state.close_bin(node)
        followed = self._followed() if self._loose.near else frozenset()
        replicas: list[_Replica] = []
        for group, count, node in found:
            is_served = node.option is not None and node.option.reservation is not None
            replicas += [_Replica(group, self._pins(group, node, followed), is_served)] * count
        return replicas

    def _followed(self) -> frozenset[tuple[int, str | None]]:
        """Return the terms and domains where somebody wants to be near to somebody."""
        return frozenset(
            (near.term, bin_.labels.get(near.topology_key))
            for bin_ in self._state.bins
            for index in bin_.contents
            for near in self._state.groups[index].constraints[-1].affinity
        )

    def _pins(self, group: Group, node: Bin, followed: Set[tuple[int, str | None]]) -> _Pins:
        """Return the domains that a replica must not leave, because others are there for its sake."""
        by_term = self._state.ledger.by_term.items()
        homes = ((term, counts.topology_key, node.labels.get(counts.topology_key)) for term, counts in by_term)
        return tuple(
            (key, home) for term, key, home in homes if group.matching >> term & 1 and (term, home) in followed
        )

    def _settle(self, trial: _Trial) -> bool:
        """Place all replicas of a trial that have no place yet, going back where one has none."""
        state = self._state
        if len(trial.nodes) == len(trial.replicas):
            return self._keeps_rules(trial)
        if state.catalogue.policy.expired():
            return False
        replica = trial.replicas[len(trial.nodes)]
        places: list[Bin | LaunchOption] = [*state.bins, *self._options(trial, replica.group)]
        for place in places:
            if trial.evaluations <= 0:
                return False
            mark = state.mark()
            node = self._put(trial, replica, place)
            if node is not None:
                trial.nodes.append(node)
                reached = tuple(sorted(_likeness(bin_) for bin_ in {item.uid: item for item in trial.nodes}.values()))
                if reached not in trial.seen:
                    trial.seen.add(reached)
                    if self._settle(trial):
                        return True
                trial.nodes.pop()
            state.undo(mark)
        return False

    def _put(self, trial: _Trial, replica: _Replica, place: Bin | LaunchOption) -> Bin | None:
        """Put one replica on a node or on a new node, with as few preferences given up as that takes."""
        state, group = self._state, replica.group
        if not place.requirement_sets & group.requirement_sets[-1]:
            return None
        if isinstance(place, LaunchOption):
            if state.residual.nodes_left(place) < 1:
                return None
        elif place.free[0] < group.request[0] or place.free[1] < group.request[1]:
            return None
        trial.evaluations -= 1
        labels = state.labels_at(place)
        if any(labels.get(key) != domain for key, domain in chain(replica.pins, self._home(group))):
            return None
        for relaxed in group.relaxed:
            node = self._node(relaxed, place)
            if node is not None:
                state.place(node, relaxed, 1)
                return node
        return None

    def _node(self, relaxed: RelaxedGroup, place: Bin | LaunchOption) -> Bin | None:
        """Return a node of the place that takes a replica at this level of relaxation, or None."""
        state = self._state
        if isinstance(place, LaunchOption):
            if not self._insertion.new_nodes.copies(place, relaxed, 1):
                return None
            place = state.open_bin(place, 1)
            if state.admission.room(place, relaxed):
                return place
            state.close_bin(place)
            return None
        if not self._insertion.is_open(place, relaxed.group, ANYWHERE) or not state.admission.room(place, relaxed):
            return None
        is_allowed = self._insertion.candidates.min_values.allowed(state, place, relaxed, 1)
        return state.split_bin(place, 1) if is_allowed else None

    def _home(self, group: Group) -> _Pins:
        """Return the domain that a gang is in already, if it must be in one."""
        gang = group.workload.gang
        if gang is None or gang.single_topology_key is None:
            return ()
        key = gang.single_topology_key
        for bin_ in self._state.bins:
            if group.index in bin_.contents:
                return ((key, bin_.labels.get(key)),)
        return ()

    def _keeps_rules(self, trial: _Trial) -> bool:
        """Whether what only shows in the end holds: even spreads, and no reserved unit for the less important."""
        if not self._state.ledger.is_even():
            return False
        if len({group.priority for group in self._state.groups}) < 2:
            return True
        # What will be done without in the end may hand a unit to the less important.
        empty_paid_nodes(self._insertion)
        moved = {replica.group.index for replica in trial.replicas if replica.is_served}
        return not has_inversion(self._state, moved)


def _orders(replicas: Sequence[_Replica]) -> Iterator[list[_Replica]]:
    """Yield orders to place replicas in. Who seeks company may go where others are, or decide where they are."""
    usual = sorted(replicas, key=attrgetter("order"))
    yield usual
    last = sorted(usual, key=attrgetter("seeks_company"))
    if last != usual:
        yield last
    first = sorted(usual, key=lambda replica: not replica.seeks_company)
    if first != usual:
        yield first


def _likeness(bin_: Bin) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Return what is equal for planned nodes that are interchangeable; existing nodes are all different."""
    option = bin_.option
    return (-bin_.uid if option is None else option.index, tuple(sorted(bin_.contents.items())))
