"""Placing one group at a time under every constraint: exact checks, chosen greedily. The path for what is constrained.

Order (R-44): existing nodes, nodes planned so far, a new node; but free reserved units before nodes that are being
bought. Replicas that do not fit give up one preference and try again (R-47). Gangs are decided one after the other in
queue order, each on what earlier ones left: one never holds part of what it needs, so two cannot block each other.
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
    """Places groups into a state."""

    def __init__(
        self, state: PartialPlan, candidates: Candidates, strategy: Strategy
    ) -> None:
        self.state = state
        self.candidates = candidates
        self.strategy = strategy
        self.new_nodes = NewNodes(state, candidates, strategy)

    def scopes(self, group: Group) -> list[Scope]:
        """Return where the group may go: each domain by itself if it is a gang that must be in one."""
        key, state = group.workload.single_topology_key, self.state
        if key is None:
            return [ANYWHERE]
        places: list[Bin | LaunchOption] = [*state.bins, *state.catalogue.options]
        domains = {
            domain for place in places if (domain := place.labels.get(key)) is not None
        }
        return [Scope(((key, domain),)) for domain in sorted(domains)]

    def staying(self, bin_: Bin, levels: Mapping[int, int]) -> Scope:
        """Return where groups (by index) at these levels may go from a node without leaving a domain that was counted.

        Leaving one could make it the emptiest of a spread; if none is left, rules hold again once all have moved.
        """
        pins = tuple(
            (key, bin_.labels.get(key)) for key in self.state.pinned_labels(levels)
        )
        return Scope(pins, is_assigned=True, is_free=True)

    def place_gang(self, group: Group) -> bool:
        """Place all of the gang, in the cheapest domain if it must be in one, or nothing; return whether it was."""
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
            # It was whole in time, and the same steps again make it whole: a part of it would be worth nothing.
            with state.finishing():
                self.place_group(group, best[1])
        return best is not None

    def place_group(self, group: Group, scope: Scope = ANYWHERE) -> None:
        """Place as many of the group's remaining replicas as possible, preferences last to go first."""
        for relaxed in group.relaxed:
            self.place_at(relaxed, scope)

    def place_batch(self, batch: DomainBatch) -> None:
        """Place what is left of a batch within its domain, or else leave it."""
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
            # Were bought nodes filled first, reserved units would be left to the less important.
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
        """Put one replica on a node of the bin, or on a new node of the option; return it, None if a rule forbids."""
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

    # Branches: asked for each node and group: the cheap refusals first, in one loop.
    def _fill_bins(
        self, relaxed: RelaxedGroup, stop_at: int, scope: Scope, bins: Iterable[Bin]
    ) -> None:
        """Put as many as possible on these nodes."""
        state, group = self.state, relaxed.group
        requirement_sets, (cpu, memory) = relaxed.requirement_sets, group.request[:2]
        is_bulk = self._is_bulk(relaxed, scope)
        if state.is_out_of_time(group):
            return
        for bin_ in bins:
            if state.remaining[group.index] <= stop_at:
                return
            # The cheap questions first: most nodes are full.
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
        """Open the best new nodes for the group, as long as there are any."""
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
        """Return how many of ``most`` replicas one node of the bin takes by every rule."""
        room = min(most, self.state.admission.room(bin_, relaxed, is_assigned=is_assigned))
        return self.candidates.substitutes.allowed(self.state, bin_, relaxed, room)

    def _is_bulk(self, relaxed: RelaxedGroup, scope: Scope) -> bool:
        """Whether equal nodes can be filled at once, without looking at topology again in between."""
        constraints = relaxed.constraints
        if scope.is_assigned:
            return True
        if any(
            relaxed.group.matching >> spread.term & 1
            for spread in self.state.ledger.carried
        ):
            return False  # others insist on a spread that counts these replicas too
        return not constraints.affinity and all(
            term.topology_key == HOSTNAME for term in constraints
        )
