"""Makes paid nodes of a finished plan cheaper: replicas move or change places so that a node can be of a cheaper type.

Packing fills one node after the other, so the last nodes get the replicas left over, which may need much CPU and little
memory or the reverse. If one of them moves to a node with room, or changes places with a smaller replica there, its
node can often be of the next smaller type. No replica leaves a domain in which a rule counts it, and no other node
grows.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import attrgetter, le, sub

from reservoir.core.scheduling_terms.labels import HOSTNAME
from reservoir.core.solver.insertion.insert import Insertion
from reservoir.core.solver.insertion.node_elimination import fullness
from reservoir.core.solver.problem.catalogue import LaunchOption
from reservoir.core.solver.problem.groups import RelaxedGroup
from reservoir.core.solver.problem.vectors import mask_of
from reservoir.core.solver.solution.bins import Bin
from reservoir.core.solver.solution.partial_plan import PartialPlan

# An evaluation is the comparison of two replicas, or a look at five nodes. So many take about 5 ms.
_EVALUATIONS_MAX = 5000
# In a plan of more nodes, the few that could be smaller hardly lower its cost.
_NODES_MAX = 300
# Cheaper types that are tried for a node, the dearest first.
_TYPES_MAX = 4


# Branches: which nodes may become smaller, and one loop that ends when evaluations or time are used up.
def rightsize_paid_nodes(insertion: Insertion) -> None:
    """Change paid nodes to cheaper types if moving or swapping a replica allows it, the emptiest nodes first."""
    state = insertion.state
    if len(state.bins) > _NODES_MAX or state.catalogue.policy.expired():
        return
    swaps = _Swaps(insertion)
    # Nodes of pools with minValues stay as they are: which types such a node may be depends on all its replicas.
    is_choosy = insertion.candidates.substitutes.concerns
    paid = [
        bin_
        for bin_ in state.bins
        if bin_.is_paid and bin_.option and not is_choosy(bin_.option.entry)
    ]
    for bin_ in sorted(paid, key=lambda bin_: (fullness(bin_), bin_.uid)):
        while (
            swaps.evaluations_left > 0
            and not state.catalogue.policy.expired()
            and swaps.shrink(bin_)
        ):
            pass


class _Swaps:
    """Finds moves and swaps of replicas after which a node can be of a cheaper type (shift and swap, Osman 1993)."""

    def __init__(self, insertion: Insertion) -> None:
        self._insertion, self._state = insertion, insertion.state
        self._fixed = _fixed(insertion.state)
        self._cheaper_types: dict[int, list[LaunchOption]] = {}  # by option index
        self._sold_at = defaultdict[object, list[LaunchOption]](list)  # by pool and place
        for option in sorted(
            self._state.catalogue.options, key=attrgetter("price", "index"), reverse=True
        ):
            self._sold_at[_pool_and_place(option)].append(option)
        self.evaluations_left = _EVALUATIONS_MAX

    def shrink(self, bin_: Bin) -> bool:
        """Change one of the bin's nodes to a cheaper type if a move or swap allows it; return whether one did."""
        state = self._state
        assert bin_.option is not None
        load = [
            size - free
            for size, free in zip(bin_.option.allocatable, bin_.free, strict=True)
        ]
        if not bin_.contents:
            return False
        for option in self._cheaper(bin_.option):
            if not state.residual.nodes_left(option):
                continue
            need = tuple(map(sub, load, option.allocatable))
            for other, gone, come in self._fitting(bin_, need):
                mark = state.mark()
                node, home = state.split_bin(bin_, 1), state.split_bin(other, 1)
                arriving = None if come is None else self._replica(home, come)
                if self._swap(node, option, home, self._replica(node, gone), arriving):
                    return True
                state.undo(mark)
        return False

    def _replica(self, bin_: Bin, index: int) -> RelaxedGroup:
        return self._state.groups[index].relaxed[bin_.levels[index]]

    # Branches: one loop, run for each pair of nodes, in which the cheap checks come first.
    def _fitting(
        self, bin_: Bin, need: Sequence[int]
    ) -> Iterator[tuple[Bin, int, int | None]]:
        """Yield (other node, group of the replica that goes there, group of the one that comes instead or None).

        Groups are indices. Only resources are checked: the exchange must free at least ``need`` on the bin's node.
        """
        groups, (cpu, memory) = self._state.groups, need[:2]
        movable = [index for index in bin_.contents if index not in self._fixed]
        leaving = [index for index in movable if all(map(le, need, groups[index].request))]
        if not leaving:
            return
        self.evaluations_left -= len(self._state.bins) // 5
        for other in self._state.bins:
            free = other.free
            if free[0] < cpu or free[1] < memory or other is bin_:
                continue
            arriving: list[int] = []
            if other.is_paid:
                arriving = [index for index in other.contents if index not in self._fixed]
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

    def _swap(
        self,
        node: Bin,
        option: LaunchOption,
        other: Bin,
        gone: RelaxedGroup,
        come: RelaxedGroup | None,
    ) -> bool:
        """Move or swap the replicas and change the node to the option; return whether every rule allows it."""
        state, scope = self._state, self._insertion.staying(node, node.levels)
        state.place(node, gone, -1)
        state.change_option(node, option)
        if not scope.admits(node.labels):
            return False
        if come is not None:
            state.place(other, come, -1)
        return self._joins(other, gone, node) and (
            bool(node.contents) if come is None else self._joins(node, come, other)
        )

    def _joins(self, bin_: Bin, relaxed: RelaxedGroup, left: Bin) -> bool:
        """Put a replica that left the node ``left`` on this one; return whether every rule allows it."""
        scope = self._insertion.staying(left, {relaxed.group.index: relaxed.level})
        return (
            scope.admits(bin_.labels)
            and self._insertion.put(relaxed, bin_, is_assigned=True) is not None
        )

    def _cheaper(self, option: LaunchOption) -> list[LaunchOption]:
        """Return a few cheaper options of the same pool and place, the dearest first.

        They meet all requirement sets that the option meets. An option is left out if one before it is at least as
        large in every resource.
        """
        if (found := self._cheaper_types.get(option.index)) is None:
            found = self._cheaper_types[option.index] = []
            for other in self._sold_at[_pool_and_place(option)]:
                is_open_to_all = not option.requirement_sets & ~other.requirement_sets
                if other.price >= option.price or not is_open_to_all:
                    continue
                if any(all(map(le, other.allocatable, it.allocatable)) for it in found):
                    continue
                found.append(other)
                if len(found) == _TYPES_MAX:
                    break
        return found


def _pool_and_place(option: LaunchOption) -> tuple[object, ...]:
    """Return a key that options have in common if they are of one pool and in one place."""
    return option.entry.index, *option.place_labels.items()


def _fixed(state: PartialPlan) -> set[int]:
    """Return the indices of the groups whose replicas stay on their nodes.

    These are groups with a price cap, which was charged for the node; groups with affinity over hosts; and groups that
    the affinity of another group over hosts selects.
    """
    sought = 0  # the mask of affinity terms
    for group in state.groups:
        for constraints in group.constraints:
            sought |= mask_of(near.term for near in constraints.affinity)
    sought &= state.ledger.host_mask
    fixed: set[int] = set()
    for group in state.groups:
        affinity = group.constraints[0].affinity
        has_host_affinity = any(near.topology_key == HOSTNAME for near in affinity)
        is_sought = bool(group.matching & sought)
        if group.is_price_capped or has_host_affinity or is_sought:
            fixed.add(group.index)
    return fixed
