"""Taking a few nodes apart and packing them anew, so that who is left over finds a place: a bounded, exact search.

The strategies never take anything back, so a replica may stay over although an exchange between two nodes would make
room. Large neighbourhood search (Shaw 1998; Pisinger and Ropke 2010) destroys a part of the solution and repairs it.
Here it goes first, then everybody from one node, from two or from three, each to any node with room or to a new one.
Nobody who had a place loses it. Effort is counted in evaluations, never in time.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import chain, combinations
from operator import attrgetter

from shared.core.solver.insertion.insert import Insertion
from shared.core.solver.insertion.loose_nodes import LooseNodes
from shared.core.solver.insertion.node_elimination import empty_paid_nodes
from shared.core.solver.problem.catalogue import LaunchOption
from shared.core.solver.problem.groups import Group
from shared.core.solver.solution.bins import Bin
from shared.core.solver.solution.priority_inversion import has_inversion

# One evaluation is one replica tried on one place, some 6 microseconds.
_EVALUATIONS_MAX = 20_000
_EVALUATIONS_A_TRIAL = 1000
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


@dataclass(frozen=True, slots=True)
class _Trial:
    """One attempt to place some replicas."""

    is_open: bytearray  # by option index, whether there was a unit, and limits left one, when the trial began
    evaluations_left: int  # to the search, when the trial ends
    served: Set[int]  # the groups that had reserved units


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
        served = {replica.group.index for replica in replicas if replica.is_served}
        return self._settle(_Trial(is_open, max(0, self._evaluations - _EVALUATIONS_A_TRIAL), served), replicas)

    def _neighbourhoods(self) -> Iterator[Sequence[Bin]]:
        """Yield nodes to take apart together, few first."""
        loose = [bin_ for bin_ in self._state.bins if bin_.contents and self._loose.has(bin_)]
        each = list(chain.from_iterable([bin_] * min(bin_.count, _NODES_A_TRIAL) for bin_ in loose))
        for size in range(_NODES_A_TRIAL + 1):
            yield from combinations(each, size)

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

    def _settle(self, trial: _Trial, replicas: Sequence[_Replica]) -> bool:
        """Place all of the replicas, going back where one has none; if that is not possible, leave all as it is."""
        state = self._state
        if not replicas:
            return self._keeps_rules(trial.served)
        if state.catalogue.policy.expired():
            return False
        replica, *others = replicas
        known = self._insertion.candidates.distinct(replica.group)
        self._evaluations -= len(known) // _OPTIONS_AN_EVALUATION
        places: list[Bin | LaunchOption] = [*state.bins, *(option for option in known if trial.is_open[option.index])]
        for place in places:
            if self._evaluations <= trial.evaluations_left:
                return False
            mark = state.mark()
            if self._put(replica, place) and self._settle(trial, others):
                return True
            state.undo(mark)
        return False

    def _put(self, replica: _Replica, place: Bin | LaunchOption) -> bool:
        """Put a replica on a node or on a new node, with as few preferences given up as that takes."""
        group = replica.group
        if not place.requirement_sets & group.requirement_sets[-1]:
            return False
        if isinstance(place, Bin) and (place.free[0] < group.request[0] or place.free[1] < group.request[1]):
            return False
        self._evaluations -= 1
        labels = place.labels
        if any(labels.get(key) != domain for key, domain in chain(replica.pins, self._home(group))):
            return False
        return any(self._insertion.put(relaxed, place) for relaxed in group.relaxed)

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

    def _keeps_rules(self, served: Set[int]) -> bool:
        """Whether what only shows in the end holds: even spreads, and no reserved unit for the less important."""
        if not self._state.ledger.is_even():
            return False
        # What will be done without in the end may hand a unit to the less important.
        empty_paid_nodes(self._insertion)
        return not has_inversion(self._state, served)


def _orders(replicas: Sequence[_Replica]) -> Iterator[list[_Replica]]:
    """Yield orders to place replicas in. Who seeks company may go where others are, or decide where they are."""
    usual = sorted(replicas, key=attrgetter("order"))
    yield usual
    if any(replica.seeks_company for replica in usual):
        yield sorted(usual, key=attrgetter("seeks_company"))
        yield sorted(usual, key=lambda replica: not replica.seeks_company)
