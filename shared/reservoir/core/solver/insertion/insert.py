"""Places replicas whose rules packing by counts cannot keep: one group at a time, with every rule checked exactly.

Each replica takes the first place that the rules allow, in this order (R-44): existing nodes, nodes planned so far, a
new node; but free reserved units before nodes that the plan buys. Replicas that do not fit give up one preference and
try again (R-47). Gangs are placed one after the other in the order of the queue, each with the capacity that earlier
ones left. A gang is placed as a whole or not at all, so two gangs cannot block each other.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reservoir.core.scheduling_terms.labels import HOSTNAME
from reservoir.core.solver.insertion.new_nodes import ANYWHERE, NewNodes, Scope, Strategy
from reservoir.core.solver.problem.catalogue import LaunchOption
from reservoir.core.solver.problem.groups import Group, RelaxedGroup
from reservoir.core.solver.problem.vectors import UNLIMITED
from reservoir.core.solver.solution.bins import Bin
from reservoir.core.solver.solution.candidates import Candidates
from reservoir.core.solver.solution.domain_assignment import DomainBatch
from reservoir.core.solver.solution.partial_plan import PartialPlan


class Insertion:
    """Places groups into a partial plan."""

    def __init__(
        self, state: PartialPlan, candidates: Candidates, strategy: Strategy
    ) -> None:
        self.state = state
        self.candidates = candidates
        self.strategy = strategy
        self.new_nodes = NewNodes(state, candidates, strategy)

    def scopes(self, group: Group) -> list[Scope]:
        """Return the scopes to try for the group: one for each domain if it is a gang that must be in one domain."""
        key, state = group.workload.single_topology_key, self.state
        if key is None:
            return [ANYWHERE]
        places: list[Bin | LaunchOption] = [*state.bins, *state.catalogue.options]
        domains = {
            domain for place in places if (domain := place.labels.get(key)) is not None
        }
        return [Scope(((key, domain),)) for domain in sorted(domains)]

    def staying(self, bin_: Bin, levels: Mapping[int, int]) -> Scope:
        """Return the scope in which groups that leave a node stay in its counted domains.

        ``levels`` are relaxation levels by group index. If a replica left such a domain, the domain could become the
        emptiest of a spread. As long as all stay, the rules hold again once all have moved. No node is bought for them.
        """
        pins = tuple(
            (key, bin_.labels.get(key)) for key in self.state.pinned_labels(levels)
        )
        return Scope(pins, is_assigned=True, is_free=True)

    def place_gang(self, group: Group) -> bool:
        """Place the whole gang, in the cheapest domain if it must be in one, or none of it; return whether it fits."""
        state = self.state
        best: tuple[tuple[int, int], Scope] | None = None
        for scope in self.scopes(group):
            mark = state.mark()
            self.place_group(group, scope)
            found = (state.cost(), len(state.bins))
            if not state.remaining[group.index] and (best is None or found < best[0]):
                best = (found, scope)
            state.undo(mark)
        if best is not None:
            # The gang fitted in time, and the same steps place all of it again. The deadline must not stop them half
            # way, as part of a gang is worth nothing.
            with state.finishing():
                self.place_group(group, best[1])
        return best is not None

    def place_group(self, group: Group, scope: Scope = ANYWHERE) -> None:
        """Place as many of the group's remaining replicas as possible, giving up one preference after the other."""
        for relaxed in group.relaxed:
            self.place_at(relaxed, scope)

    def place_batch(self, batch: DomainBatch) -> None:
        """Place as many replicas of a batch as possible within its domain."""
        pins = () if batch.pin is None else (batch.pin,)
        self.place_at(batch.relaxed, Scope(pins, is_assigned=True), batch.count)

    def place_at(
        self, relaxed: RelaxedGroup, scope: Scope = ANYWHERE, most: int = UNLIMITED
    ) -> int:
        """Place up to ``most`` replicas with the preferences of one level; return how many."""
        state, before = self.state, self.state.remaining[relaxed.group.index]
        stop_at = max(0, before - most)
        if state.is_out_of_time(relaxed.group):
            return 0
        if self.candidates.reserved and not (scope.is_free or self.new_nodes.is_frugal):
            # If nodes that the plan buys were filled first, reserved units would be left to less important work.
            self._fill_bins(
                relaxed, stop_at, scope, [bin_ for bin_ in state.bins if not bin_.is_paid]
            )
            self._open_bins(relaxed, stop_at, replace(scope, is_free=True))
        self._fill_bins(relaxed, stop_at, scope, list(state.bins))
        self._open_bins(relaxed, stop_at, scope)
        return before - state.remaining[relaxed.group.index]

    def put(
        self, relaxed: RelaxedGroup, place: Bin | LaunchOption, *, is_assigned: bool = False
    ) -> Bin | None:
        """Put one replica on a node of the bin, or on a new node of the option.

        Return the node, as a bin of its own; None if a rule forbids it.
        """
        state, mark = self.state, self.state.mark()
        if isinstance(place, LaunchOption):
            if not self.new_nodes.copies(place, relaxed, 1):
                return None
            place = state.open_bin(place, 1)
        if not place.is_open_to(relaxed.group) or not self._room(
            place, relaxed, 1, is_assigned=is_assigned
        ):
            state.undo(mark)
            return None
        node = state.split_bin(place, 1)
        state.place(node, relaxed, 1)
        return node

    # Branches: one loop, called for each node and group, in which the cheap checks come first.
    def _fill_bins(
        self, relaxed: RelaxedGroup, stop_at: int, scope: Scope, bins: Iterable[Bin]
    ) -> None:
        """Put replicas on these nodes until only ``stop_at`` of the group remain or no node takes more."""
        state, group = self.state, relaxed.group
        requirement_sets, (cpu, memory) = relaxed.requirement_sets, group.request[:2]
        is_bulk = self._is_bulk(relaxed, scope)
        if state.is_out_of_time(group):
            return
        for bin_ in bins:
            if state.remaining[group.index] <= stop_at:
                return
            # The cheap checks come first, as most nodes are full.
            if (
                bin_.free[0] < cpu
                or bin_.free[1] < memory
                or not bin_.requirement_sets & requirement_sets
            ):
                continue
            if not bin_.is_open_to(group) or not scope.admits(bin_.labels):
                continue
            while (wanted := state.remaining[group.index] - stop_at) > 0:
                room = self._room(bin_, relaxed, wanted, is_assigned=scope.is_assigned)
                if not room:
                    break
                nodes = min(bin_.count, wanted // room) if is_bulk else 1
                state.place(state.split_bin(bin_, nodes), relaxed, room)

    def _open_bins(self, relaxed: RelaxedGroup, stop_at: int, scope: Scope) -> None:
        """Put replicas on new nodes, the best option first, until only ``stop_at`` remain or no option is left."""
        state, group = self.state, relaxed.group
        while (
            wanted := state.remaining[group.index] - stop_at
        ) > 0 and not state.is_out_of_time(group):
            found = self.new_nodes.best(relaxed, scope, wanted)
            if found is None:
                return
            option, copies = found
            nodes = wanted // copies if self._is_bulk(relaxed, scope) else 1
            opened = state.open_bin(
                option, min(nodes, self.new_nodes.nodes_left(option, group))
            )
            state.place(opened, relaxed, copies)

    def _room(
        self, bin_: Bin, relaxed: RelaxedGroup, most: int, *, is_assigned: bool
    ) -> int:
        """Return how many of ``most`` replicas one node of the bin takes under every rule, minValues included."""
        room = min(most, self.state.admission.room(bin_, relaxed, is_assigned=is_assigned))
        return self.candidates.substitutes.allowed(self.state, bin_, relaxed, room)

    def _is_bulk(self, relaxed: RelaxedGroup, scope: Scope) -> bool:
        """Whether equal nodes can be filled at once: filling one does not change what topology allows on another."""
        constraints = relaxed.constraints
        if scope.is_assigned:
            return True
        if any(
            relaxed.group.matching >> spread.term & 1
            for spread in self.state.ledger.carried
        ):
            return False  # placed replicas carry a spread that counts these replicas too
        return not constraints.affinity and all(
            term.topology_key == HOSTNAME for term in constraints
        )
