"""What has been decided so far: nodes with their contents, the units and limits left, and the replicas left.

Each step can be undone, in reverse order, by a journal of the opposite steps.
"""

from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from functools import partial
from itertools import count as numbers

from reservoir.core.model.snapshot import Node
from reservoir.core.scheduling_terms.labels import HOSTNAME
from reservoir.core.solver.problem.catalogue import LaunchOption
from reservoir.core.solver.problem.groups import Group, RelaxedGroup, SchedulingProblem
from reservoir.core.solver.problem.nodes import NodeFacts
from reservoir.core.solver.problem.topology import DomainLedger
from reservoir.core.solver.solution.admission import NodeAdmission
from reservoir.core.solver.solution.bins import Bin
from reservoir.core.solver.solution.price_caps import PriceCaps
from reservoir.core.solver.solution.residual_capacity import ResidualCapacity


class PartialPlan:
    """The bins, the capacity left, the replicas left by group, and the topology counts of one solve."""

    def __init__(self, problem: SchedulingProblem, facts: NodeFacts) -> None:
        self.catalogue = problem.catalogue
        self.terms = problem.terms
        self.groups = problem.groups
        self.remaining: list[int] = [group.count for group in self.groups]
        self.ledger = DomainLedger(self.terms)
        self.admission = NodeAdmission(self.groups, self.ledger)
        # The mask of the anti-affinity terms of running replicas.
        self.avoided = 0
        self.bins: list[Bin] = []
        self.residual = ResidualCapacity.of(self.catalogue)
        # whether a linear or integer program could make some packing of the plan cheaper
        self.is_improvable = False
        # indices of groups for which the deadline left no time to try every place
        self.unlooked: set[int] = set()
        self._is_finishing = False
        self._journal: list[Callable[[], object]] = []
        self._uids = numbers()
        self.price_caps = PriceCaps(self.groups, self.bins, facts)
        for node in facts.ordered:
            # The replicas of a node that is being deleted are demand again, and count in no domain.
            if not node.deleting:
                self._add_node(node, facts)

    def _add_node(self, node: Node, facts: NodeFacts) -> None:
        residents = facts.residents(node)
        taints = self.catalogue.snapshot.binding_taints(node)
        for matching, anti_mask, count in residents:
            self.ledger.add(node.labels, taints, matching, anti_mask, count)
            self.avoided |= anti_mask
        if facts.takes_replicas(node):
            bin_ = Bin(
                uid=next(self._uids),
                labels=node.labels,
                requirement_sets=facts.requirement_sets(node),
                free=facts.free(node),
                taints=taints,
                node=node,
                residents=residents,
            )
            self.bins.append(bin_)

    def mark(self) -> int:
        """Return a mark of the present state, for :meth:`undo`."""
        return len(self._journal)

    def undo(self, mark: int) -> None:
        """Return to the state at ``mark``."""
        while len(self._journal) > mark:
            self._journal.pop()()

    def commit(self) -> None:
        """Make the steps so far final: they can no longer be undone."""
        self._journal.clear()

    def open_bin(self, option: LaunchOption, count: int) -> Bin:
        """Plan ``count`` empty nodes of the option and take their units and limits."""
        opened = Bin(
            uid=next(self._uids),
            labels=option.labels,
            requirement_sets=option.requirement_sets,
            free=list(option.allocatable),
            taints=option.entry.taints,
            option=option,
            count=count,
        )
        self._put_in(len(self.bins), opened)
        self._journal.append(partial(self._take_out, opened))
        return opened

    def close_bin(self, bin_: Bin) -> None:
        """Remove a planned bin, which must be empty, and give back its units and limits."""
        self._journal.append(partial(self._put_in, self._take_out(bin_), bin_))

    def _put_in(self, position: int, bin_: Bin) -> None:
        assert bin_.option is not None
        self.bins.insert(position, bin_)
        self.residual.take(bin_.option, bin_.count)

    def _take_out(self, bin_: Bin) -> int:
        """Remove the bin and return the position that it had."""
        assert bin_.option is not None
        position = self.bins.index(bin_)
        del self.bins[position]
        self.residual.take(bin_.option, -bin_.count)
        return position

    def change_option(self, bin_: Bin, option: LaunchOption) -> None:
        """Launch the bin's nodes as another option, which must be of the same pool and the same counted domains."""
        before = bin_.option
        assert before is not None
        self._become(bin_, before, option)
        self._journal.append(partial(self._become, bin_, option, before))

    def _become(self, bin_: Bin, before: LaunchOption, option: LaunchOption) -> None:
        self.residual.take(before, -bin_.count)
        self.residual.take(option, bin_.count)
        bin_.free = [
            free + new - old
            for free, new, old in zip(
                bin_.free, option.allocatable, before.allocatable, strict=True
            )
        ]
        bin_.option = option
        bin_.labels = option.labels
        bin_.requirement_sets = option.requirement_sets

    def split_bin(self, bin_: Bin, count: int) -> Bin:
        """Make ``count`` of a bin's nodes a bin of their own, right behind it."""
        if count == bin_.count:
            return bin_
        other = bin_.split(next(self._uids), count)
        self.bins.insert(self.bins.index(bin_) + 1, other)

        def join() -> None:
            self.bins.remove(other)
            bin_.count += other.count

        self._journal.append(join)
        return other

    def place(self, bin_: Bin, relaxed: RelaxedGroup, per_node: int) -> None:
        """Put ``per_node`` replicas on each node of the bin (negative: take them off)."""
        before = bin_.levels.get(relaxed.group.index, relaxed.level)
        self._move(bin_, relaxed, per_node, max(before, relaxed.level))
        self._journal.append(partial(self._move, bin_, relaxed, -per_node, before))

    def empty(
        self, bin_: Bin, groups: Set[int] | None = None
    ) -> list[tuple[RelaxedGroup, int]]:
        """Take the replicas of these groups (indices; None for all) off the bin.

        Return each group at the level it had there, with the number of its replicas on one node.
        """
        found = [
            (self.groups[index].relaxed[bin_.levels[index]], per_node)
            for index, per_node in bin_.contents.items()
            if groups is None or index in groups
        ]
        for relaxed, per_node in found:
            self.place(bin_, relaxed, -per_node)
        return found

    def _move(self, bin_: Bin, relaxed: RelaxedGroup, per_node: int, level: int) -> None:
        free, group = bin_.free, relaxed.group
        for dimension, asked in enumerate(group.request):
            free[dimension] -= asked * per_node
        if left := bin_.contents.get(group.index, 0) + per_node:
            bin_.contents[group.index], bin_.levels[group.index] = left, level
        else:
            del bin_.contents[group.index], bin_.levels[group.index]
        self.remaining[group.index] -= per_node * bin_.count
        anti_mask = relaxed.constraints.anti_mask
        if group.matching or anti_mask:
            self.ledger.add(
                bin_.labels, bin_.taints, group.matching, anti_mask, per_node * bin_.count
            )
        if group.constraints[-1].spread:
            self.ledger.carry(bin_.labels, group.constraints[-1], per_node * bin_.count)

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """Ignore the deadline meanwhile, so that a decision found in time is completed, however late it is."""
        self._is_finishing = True
        try:
            yield
        finally:
            self._is_finishing = False

    def is_out_of_time(self, *groups: Group) -> bool:
        """Whether the deadline has passed; if so, record that not every place was tried for these groups."""
        if self._is_finishing or not self.catalogue.policy.expired():
            return False
        self.unlooked.update(group.index for group in groups if self.remaining[group.index])
        return True

    def pinned_labels(self, levels: Mapping[int, int]) -> tuple[str, ...]:
        """Return the labels whose values must not change on a node with these groups (levels by group index).

        A rule has counted the groups' replicas in the domains of these labels.
        """
        each = [
            self.groups[index].equivalence_class.pinned_labels[level]
            for index, level in levels.items()
        ]
        # Rules over hosts count on the node itself, which stays the same.
        return tuple(sorted(set[str]().union(*each) - {HOSTNAME}))

    def cost(self) -> int:
        """Return the cost of the planned nodes with their overhead, in atto-USD an hour."""
        overhead = self.catalogue.policy.overhead_atto_usd
        return sum(
            (bin_.option.price + overhead) * bin_.count
            for bin_ in self.bins
            if bin_.option is not None
        )
