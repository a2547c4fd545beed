"""Placing one group at a time under every constraint: exact checks, chosen greedily. The path for what is constrained.

Order (R-44): existing nodes, nodes planned so far, a new node; but free reserved units before nodes that are being
bought. Replicas that do not fit give up one preference and try again (R-47).
"""

from dataclasses import replace

from shared.core.scheduling_terms.labels import HOSTNAME
from shared.core.solver.insertion.new_nodes import NewNodes, Scope, Strategy
from shared.core.solver.insertion.reserved_floor import ReservedFloor
from shared.core.solver.problem.catalogue import LaunchOption
from shared.core.solver.problem.groups import Group, RelaxedGroup
from shared.core.solver.problem.vectors import UNLIMITED
from shared.core.solver.solution.bins import Bin
from shared.core.solver.solution.candidates import Candidates
from shared.core.solver.solution.domain_assignment import DomainBatch
from shared.core.solver.solution.partial_plan import PartialPlan

ANYWHERE = Scope()


class Insertion:
    """Places groups into a state."""

    def __init__(self, state: PartialPlan, candidates: Candidates, strategy: Strategy) -> None:
        self.state = state
        self.candidates = candidates
        self.strategy = strategy
        self.floor = ReservedFloor(state, candidates)
        self.new_nodes = NewNodes(state, candidates, strategy, self.floor)

    def place_group(self, group: Group, scope: Scope = ANYWHERE) -> None:
        """Place as many of the group's remaining replicas as possible, preferences last to go first."""
        for relaxed in group.relaxed:
            if self.state.remaining[group.index] == 0:
                return
            self.place_at(relaxed, scope)

    def place_batch(self, batch: DomainBatch) -> None:
        """Place what is left of a batch within its domain, or else leave it."""

        def admits(place: Bin | LaunchOption) -> bool:
            return batch.pin is None or place.labels.get(batch.pin[0]) == batch.pin[1]

        self.place_at(batch.relaxed, Scope(admits, is_assigned=True), batch.count)

    def place_at(self, relaxed: RelaxedGroup, scope: Scope = ANYWHERE, most: int = UNLIMITED) -> None:
        """Place up to ``most`` replicas with the preferences of one level."""
        stop_at = max(0, self.state.remaining[relaxed.group.index] - most)
        if self.state.is_out_of_time(relaxed.group):
            return
        bought = self._fill_bins(relaxed, stop_at, scope)
        if bought:
            # Were these filled first, reserved units would be left to the less important.
            self._open_bins(relaxed, stop_at, replace(scope, is_free=True))
        for bin_ in bought:
            self._fill_bin(bin_, relaxed, stop_at, scope)
        self._open_bins(relaxed, stop_at, scope)

    def put(self, relaxed: RelaxedGroup, place: Bin | LaunchOption, *, is_assigned: bool = False) -> Bin | None:
        """Put one replica on a node of the bin, or on a new node of the option; return it, None if a rule forbids."""
        state, mark = self.state, self.state.mark()
        if isinstance(place, LaunchOption):
            if not self.new_nodes.copies(place, relaxed, 1):
                return None
            place = state.open_bin(place, 1)
        is_open = self.is_open(place, relaxed.group)
        room = min(1, state.admission.room(place, relaxed, is_assigned=is_assigned)) if is_open else 0
        if not self.candidates.substitutes.allowed(state, place, relaxed, room):
            state.undo(mark)
            return None
        node = state.split_bin(place, 1)
        state.place(node, relaxed, 1)
        return node

    # Branches: asked for each node and group: the cheap refusals first, in one loop.
    def _fill_bins(self, relaxed: RelaxedGroup, stop_at: int, scope: Scope) -> list[Bin]:
        """Fill what room there is; return the nodes with room that must wait until reserved units are in use."""
        waiting: list[Bin] = []
        remaining, group = self.state.remaining, relaxed.group
        requirement_sets, (cpu, memory) = relaxed.requirement_sets, group.request[:2]
        has_units_first = bool(self.candidates.reserved) and not (scope.is_free or self.new_nodes.is_frugal)
        for bin_ in list(self.state.bins):
            if remaining[group.index] <= stop_at:
                break
            # The cheap questions first: most nodes are full.
            has_room = bin_.free[0] >= cpu and bin_.free[1] >= memory
            if has_room and bin_.requirement_sets & requirement_sets and self.is_open(bin_, group, scope):
                if has_units_first and bin_.is_paid:
                    waiting.append(bin_)
                else:
                    self._fill_bin(bin_, relaxed, stop_at, scope)
        return waiting

    def _open_bins(self, relaxed: RelaxedGroup, stop_at: int, scope: Scope) -> None:
        """Open new nodes as long as there are any for the group."""
        group = relaxed.group
        while self.state.remaining[group.index] > stop_at and not self.state.is_out_of_time(group):
            if not self._open_one(relaxed, scope, stop_at):
                return

    @staticmethod
    def is_open(bin_: Bin, group: Group, scope: Scope = ANYWHERE) -> bool:
        """Whether the group may share the bin's nodes, room apart."""
        if scope.admits is not None and not scope.admits(bin_):
            return False
        # A price cap is on the nodes that the workload pays for, so it shares none that are being bought.
        return not (group.is_price_capped and bin_.is_paid)

    def _fill_bin(self, bin_: Bin, relaxed: RelaxedGroup, stop_at: int, scope: Scope) -> None:
        """Put as many as possible on the nodes of one bin."""
        state, is_assigned = self.state, scope.is_assigned
        while (wanted := state.remaining[relaxed.group.index] - stop_at) > 0:
            room = min(wanted, state.admission.room(bin_, relaxed, is_assigned=is_assigned))
            room = self.candidates.substitutes.allowed(state, bin_, relaxed, room)
            if room == 0:
                return
            nodes = min(bin_.count, wanted // room) if is_assigned or self._is_by_host(relaxed) else 1
            rest = bin_.count - nodes
            target = bin_ if rest == 0 else state.split_bin(bin_, nodes)
            state.place(target, relaxed, room)
            if rest == 0 and self.state.admission.room(bin_, relaxed, is_assigned=is_assigned) == 0:
                return

    def _is_by_host(self, relaxed: RelaxedGroup) -> bool:
        """Whether equal nodes can be filled at once, without looking at topology again in between."""
        constraints = relaxed.constraints
        if any(relaxed.group.matching >> spread.term & 1 for spread in self.state.ledger.carried):
            return False  # others insist on a spread that counts these replicas too
        return not constraints.affinity and all(term.topology_key == HOSTNAME for term in constraints)

    def _open_one(self, relaxed: RelaxedGroup, scope: Scope, stop_at: int) -> bool:
        """Open the best new node (or several equal ones) for the group; False when there is none."""
        group = relaxed.group
        wanted = self.state.remaining[group.index] - stop_at
        found = self.new_nodes.best(relaxed, scope, wanted)
        if found is None:
            return False
        option, copies = found
        nodes = wanted // copies if scope.is_assigned or self._is_by_host(relaxed) else 1
        opened = self.state.open_bin(option, min(nodes, self.new_nodes.nodes_left(option, group)))
        self.state.place(opened, relaxed, copies)
        return True
