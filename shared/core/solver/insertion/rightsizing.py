"""Smaller nodes once all is placed: replicas change places so that a node that is paid for can be of a cheaper type.

Packing fills one node after the other, so the last ones get what is left over: much CPU beside little memory, or the
other way round. A replica that goes to a node with room, or changes places with a smaller one there, often lets its
node be the next smaller type. Nobody changes domain, and no other node has to grow.
"""

from collections.abc import Iterator, Sequence
from operator import attrgetter, le, sub

from shared.core.solver.insertion.insert import Insertion
from shared.core.solver.insertion.loose_nodes import LooseNodes
from shared.core.solver.insertion.node_elimination import fullness
from shared.core.solver.problem.catalogue import LaunchOption
from shared.core.solver.problem.groups import RelaxedGroup
from shared.core.solver.solution.bins import Bin
from shared.core.solver.solution.partial_plan import PartialPlan

# Looking at five nodes counts one, comparing two replicas too; so many take about 5 ms.
_EVALUATIONS_MAX = 5000
# Of more nodes than this, the few that could be smaller are no part of the cost to speak of.
_NODES_MAX = 300
# So many cheaper types are tried for a node, the dearest first.
_TYPES_MAX = 4


def rightsize_paid_nodes(insertion: Insertion) -> None:
    """Launch paid nodes as cheaper types where an exchange of replicas makes room for that, the emptiest first."""
    state = insertion.state
    if len(state.bins) > _NODES_MAX:
        return
    exchanges = _Exchanges(insertion)
    for bin_ in sorted(exchanges.among, key=lambda bin_: (fullness(bin_), bin_.uid)):
        while exchanges.evaluations_left > 0 and not state.catalogue.policy.expired() and exchanges.shrink(bin_):
            pass


class _Exchanges:
    """Finds the exchanges that let a node be of a cheaper type."""

    def __init__(self, insertion: Insertion) -> None:
        self._insertion, self._state = insertion, insertion.state
        self._substitutes = insertion.candidates.substitutes
        self._cheaper = _CheaperTypes(insertion.state)
        loose = LooseNodes(insertion.state)
        self.among = [bin_ for bin_ in insertion.state.bins if self._is_bought(bin_) and loose.has(bin_)]
        self._uids = {bin_.uid for bin_ in self.among}
        self.evaluations_left = _EVALUATIONS_MAX

    def _is_bought(self, bin_: Bin) -> bool:
        """Whether the nodes are being bought; under minValues, what a node may be depends on all that it holds."""
        return bin_.is_paid and bin_.option is not None and not self._substitutes.concerns(bin_.option.entry)

    def shrink(self, bin_: Bin) -> bool:
        """Let one of the bin's nodes be cheaper, if an exchange allows it; return whether one did."""
        state = self._state
        assert bin_.option is not None
        load = [size - free for size, free in zip(bin_.option.allocatable, bin_.free, strict=True)]
        for option in self._cheaper.than(bin_.option) if bin_.contents else ():
            need = tuple(map(sub, load, option.allocatable))
            for other, gone, come in self._fitting(bin_, need) if state.residual.nodes_left(option) else ():
                mark = state.mark()
                node, home = state.split_bin(bin_, 1), state.split_bin(other, 1)
                arriving = None if come is None else self._replica(home, come)
                if self._exchange(node, option, home, self._replica(node, gone), arriving):
                    return True
                state.undo(mark)
        return False

    def _replica(self, bin_: Bin, index: int) -> RelaxedGroup:
        return self._state.groups[index].relaxed[bin_.levels[index]]

    # Branches: asked for each pair of nodes: the cheap refusals first, in one loop.
    def _fitting(self, bin_: Bin, need: Sequence[int]) -> Iterator[tuple[Bin, int, int | None]]:
        """Yield to which other node a replica of which group could go, and of which one could come instead.

        That is as far as resources go: ``need`` has to be free on the bin's node then, in each of them.
        """
        groups, (cpu, memory) = self._state.groups, need[:2]
        leaving = [index for index in bin_.contents if all(map(le, need, groups[index].request))]
        self.evaluations_left -= len(self._state.bins) // 5 if leaving else 0
        for other in self._state.bins if leaving else ():
            free = other.free
            if free[0] < cpu or free[1] < memory or other is bin_:
                continue
            arriving = list(other.contents) if other.uid in self._uids else []
            self.evaluations_left -= len(leaving) * (1 + len(arriving))
            for gone in leaving:
                asked = groups[gone].request
                if all(map(le, asked, free)):
                    yield other, gone, None
                for come in arriving:
                    theirs = groups[come].request
                    if asked[0] - theirs[0] < cpu or asked[1] - theirs[1] < memory:
                        continue
                    moved = tuple(map(sub, asked, theirs))
                    if all(map(le, need, moved)) and all(map(le, moved, free)):
                        yield other, gone, come

    def _exchange(
        self, node: Bin, option: LaunchOption, other: Bin, gone: RelaxedGroup, come: RelaxedGroup | None
    ) -> bool:
        """Have the replicas change places and the node be of the option; return whether every rule allows it."""
        state, before = self._state, node.labels
        kept = state.pinned_labels(node.levels)
        state.place(node, gone, -1)
        state.change_option(node, option)
        if any(node.labels.get(key) != before.get(key) for key in kept):
            return False
        if come is not None:
            state.place(other, come, -1)
        return self._joins(other, gone, node) and (
            bool(node.contents) if come is None else self._joins(node, come, other)
        )

    def _joins(self, bin_: Bin, relaxed: RelaxedGroup, left: Bin) -> bool:
        """Put a replica that left another node on a node that admits it; return whether it does."""
        state = self._state
        kept = state.pinned_labels({relaxed.group.index: relaxed.level})
        if any(bin_.labels.get(key) != left.labels.get(key) for key in kept):
            return False
        return self._insertion.put(relaxed, bin_, is_assigned=True) is not None


class _CheaperTypes:
    """What a node could be instead that costs less; of options that hold less than another of them, none."""

    def __init__(self, state: PartialPlan) -> None:
        self._options = state.catalogue.options
        self._at: dict[int, list[LaunchOption]] = {}  # by place (its labels' identity) of a pool, from dear to cheap
        self._known: dict[int, list[LaunchOption]] = {}

    def than(self, option: LaunchOption) -> list[LaunchOption]:
        """Return some of the pool and the place that are open to all whom the option is open to, dearest first."""
        found = self._known.get(option.index)
        if found is None:
            found = self._known[option.index] = []
            for other in self._same_place(option):
                is_open = other.price < option.price and not option.requirement_sets & ~other.requirement_sets
                if is_open and not any(all(map(le, other.allocatable, kept.allocatable)) for kept in found):
                    found.append(other)
                    if len(found) == _TYPES_MAX:
                        break
        return found

    def _same_place(self, option: LaunchOption) -> list[LaunchOption]:
        place = option.place_labels
        known = self._at.get(id(place))
        if known is None:
            found = [other for other in self._options if other.place_labels is place]
            known = self._at[id(place)] = sorted(found, key=attrgetter("price", "index"), reverse=True)
        return known
