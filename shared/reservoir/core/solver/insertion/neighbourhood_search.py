"""Finds places for replicas that are left over, by taking up to three nodes apart and placing their replicas again.

The strategies never undo a placement, so a replica may be left over although an exchange between two nodes would make
room for it. Large neighbourhood search (Shaw 1998; Pisinger and Ropke 2010) destroys a part of the solution and repairs
it. Here the replica left over is placed together with all replicas of no node, of one, of two or of three nodes, each
on any node with room or on a new one, by a search with backtracking. No replica that had a place loses it. The search
is limited by evaluations, not by time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, combinations
from operator import attrgetter

from reservoir.core.model.workload import Gang
from reservoir.core.scheduling_terms.labels import HOSTNAME, ULTRA_SERVER_ID
from reservoir.core.solver.insertion.insert import Insertion
from reservoir.core.solver.insertion.new_nodes import ANYWHERE, Scope
from reservoir.core.solver.insertion.node_elimination import empty_paid_nodes
from reservoir.core.solver.problem.catalogue import LaunchOption
from reservoir.core.solver.problem.groups import Group
from reservoir.core.solver.solution.bins import Bin
from reservoir.core.solver.solution.priority_inversion import has_inversion

# One evaluation is one replica tried on one place, which takes some 6 microseconds.
_EVALUATIONS_MAX = 20_000
_EVALUATIONS_A_TRIAL = 2000
# Looking whether so many options are open counts as one evaluation.
_OPTIONS_AN_EVALUATION = 200
_NODES_A_TRIAL = 3  # nodes that are taken apart together, at most


@dataclass(frozen=True, slots=True)
class _Replica:
    """One replica that needs a place. ``is_new``: it had none before."""

    group: Group
    scope: Scope
    is_new: bool = False

    @property
    def order(self) -> tuple[bool, bool, bool, list[int], int]:
        """Sort key: replicas that decide where others may be, or have little choice, come first.

        Replicas with affinity to other groups come last, once those groups are placed; replicas with affinity to their
        own group come first. Of the others, new replicas come first, then large ones.
        """
        group = self.group
        sought = group.constraints[-1].affinity
        seeks_others = any(not near.matches_self for near in sought)
        return (
            seeks_others,
            not sought,
            not self.is_new,
            [-amount for amount in group.request],
            group.index,
        )


def _scope_of(gang: Gang, labels: Mapping[str, str]) -> Scope:
    """Return where a replica of a gang may go from a node with these labels, for the gang to stay together."""
    key = gang.single_topology_key or ULTRA_SERVER_ID
    return Scope(((key, labels.get(key)),))


class NeighbourhoodSearch:
    """Makes places for the replicas that are left over."""

    def __init__(self, insertion: Insertion) -> None:
        self._insertion, self._state = insertion, insertion.state
        self._evaluations_left = _EVALUATIONS_MAX
        self._trial_ends_at = 0  # the number of evaluations left at which the trial ends
        # By option index, whether units and limits allowed a node of it when the trial began
        self._is_open = bytearray()

    def serve(self, groups: Sequence[Group]) -> None:
        """Place the groups' remaining replicas one by one until no place can be made for any of them."""
        remaining = self._state.remaining
        while waiting := [group for group in groups if remaining[group.index]]:
            share = self._evaluations_left // len(waiting)
            if not sum([self._make_place(group, share) for group in waiting]):
                return

    def _make_place(self, group: Group, evaluations_max: int) -> bool:
        """Place one replica of the group, or a whole gang; return whether a place could be made."""
        state, ends_at = self._state, max(0, self._evaluations_left - evaluations_max)
        count = self._state.remaining[group.index] if group.workload.gang is not None else 1
        for nodes in self._neighbourhoods():
            for scope in self._insertion.scopes(group):
                if self._evaluations_left <= ends_at or state.is_out_of_time(group):
                    return False
                mark = state.mark()
                if self._fits(
                    [
                        *[_Replica(group, scope, is_new=True)] * count,
                        *self._taken_off(nodes),
                    ]
                ):
                    return True
                state.undo(mark)
        return False

    def _neighbourhoods(self) -> Iterator[Sequence[Bin]]:
        """Yield the sets of nodes to take apart together: no node, then one, two and three."""
        each = chain.from_iterable(
            [bin_] * min(bin_.count, _NODES_A_TRIAL)
            for bin_ in self._state.bins
            if bin_.contents
        )
        nodes = list(each)
        for size in range(_NODES_A_TRIAL + 1):
            yield from combinations(nodes, size)

    def _taken_off(self, nodes: Iterable[Bin]) -> Iterator[_Replica]:
        """Take the nodes apart and yield the replicas that were on them."""
        for bin_ in nodes:
            node = self._state.split_bin(bin_, 1)
            for relaxed, count in self._state.empty(node):
                gang = relaxed.group.workload.gang
                scope = ANYWHERE if gang is None else _scope_of(gang, node.labels)
                yield from [_Replica(relaxed.group, scope)] * count
            if node.option is not None:
                self._state.close_bin(node)

    def _fits(self, replicas: Sequence[_Replica]) -> bool:
        """Place all the replicas and return True; False if not all can be placed (the caller undoes the others)."""
        self._is_open = self._insertion.candidates.open_now(self._state.residual)
        self._evaluations_left -= 1 + len(self._is_open) // _OPTIONS_AN_EVALUATION
        self._trial_ends_at = max(0, self._evaluations_left - _EVALUATIONS_A_TRIAL)
        moved = {replica.group.index for replica in replicas}
        return self._settle(sorted(replicas, key=attrgetter("order")), moved)

    def _settle(self, replicas: Sequence[_Replica], moved: Set[int]) -> bool:
        """Place all the replicas, with backtracking if one finds no place; return whether all could be placed."""
        state = self._state
        if not replicas:
            return self._keeps_rules(moved)
        if state.catalogue.policy.expired():
            return False
        replica, *others = replicas
        known = self._insertion.candidates.distinct(replica.group)
        self._evaluations_left -= len(known) // _OPTIONS_AN_EVALUATION
        places: list[Bin | LaunchOption] = [
            *state.bins,
            *(option for option in known if self._is_open[option.index]),
        ]
        for place in places:
            if self._evaluations_left <= self._trial_ends_at:
                return False
            mark = state.mark()
            if self._put(replica, place) and self._settle(others, moved):
                return True
            state.undo(mark)
        return False

    def _put(self, replica: _Replica, place: Bin | LaunchOption) -> bool:
        """Put a replica on a node of the bin or a new node of the option, giving up as few preferences as possible."""
        group = replica.group
        if isinstance(place, Bin) and (
            place.free[0] < group.request[0] or place.free[1] < group.request[1]
        ):
            return False
        self._evaluations_left -= 1
        is_admitted = replica.scope.admits(place.labels)
        return is_admitted and any(
            self._insertion.put(relaxed, place) for relaxed in group.relaxed
        )

    def _keeps_rules(self, moved: Set[int]) -> bool:
        """Whether the rules hold that can be checked only once all are placed: spread, affinity, priority inversion."""
        if not (self._state.ledger.is_even() and self._is_near()):
            return False
        # Nodes that would be removed at the end of the solve are removed now, as that may move less important replicas
        # onto reserved units.
        empty_paid_nodes(self._insertion)
        return not has_inversion(self._state, moved)

    def _is_near(self) -> bool:
        """Whether each domain in which affinity over domains was required holds a replica that the term selects."""
        by_term, groups = self._state.ledger.by_term, self._state.groups
        for bin_ in self._state.bins:
            for index in bin_.contents:
                for near in groups[index].constraints[-1].affinity:
                    if near.topology_key == HOSTNAME:
                        continue
                    domain = bin_.labels[near.topology_key]
                    if by_term[near.term].matched[domain] <= 0:
                        return False
        return True
