"""Places replicas whose rules packing by counts cannot keep: one group at a time, with every rule checked exactly.

Each replica takes the first place that the rules allow, in this order (R-44): existing nodes, nodes planned so far, a
new node; but free reserved units before nodes that the plan buys. Replicas that do not fit give up one preference and
try again (R-47). Gangs are placed one after the other in the order of the queue, each with the capacity that earlier
ones left. A gang is placed as a whole or not at all, so two gangs cannot block each other.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reservoir.core.scheduling_terms.labels import HOSTNAME, NETWORK_LABELS, ULTRA_SERVER_ID
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
        key = group.workload.single_topology_key
        return [ANYWHERE] if key is None else self._domains(group, key)

    def _domains(self, group: Group, key: str) -> list[Scope]:
        """Return each domain by itself; only the one where replicas of the gang run already, if some do.

        The smallest part of a network comes first, so that larger gangs find a part.
        """
        state = self.state
        # by domain, those that are free of each reservation
        units: dict[str, dict[str, int]] = {}
        for bin_ in state.bins:
            if key in bin_.labels:
                units.setdefault(bin_.labels[key], {})
        for option in state.catalogue.options:
            domain = option.label(key)
            if domain is not None:
                free_units = state.residual.units.get(option.unit_key, 0)
                units.setdefault(domain, {})[option.unit_key] = free_units
        is_of_network = key in NETWORK_LABELS
        sizes = {
            domain: sum(free.values()) if is_of_network else 0
            for domain, free in units.items()
        }
        there = self._domains_of_running(group, key)
        wanted = units.keys() & there if there else units.keys()
        ordered = sorted(wanted, key=lambda domain: (sizes[domain], domain))
        return [Scope(((key, domain),)) for domain in ordered]

    def _domains_of_running(self, group: Group, key: str) -> set[str | None]:
        """Return where replicas of the gang are that were placed before."""
        gang_key = group.workload.key
        return {
            node.labels.get(key)
            for node in self.state.catalogue.snapshot.nodes
            if not node.deleting
            and any(placed.workload_key == gang_key for placed in node.placements)
        }

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
        """Place the whole gang, in the cheapest domain if it must be in one, or none of it; return whether it fits.

        What would run in a part of an UltraServer runs in one as a whole where one holds it, as its accelerators are
        connected by more than the network.
        """
        scope, is_parted = self._cheapest_scope(group, self.scopes(group))
        if is_parted:
            inside, _ = self._cheapest_scope(group, self._domains(group, ULTRA_SERVER_ID))
            scope = inside or scope
        if scope is not None:
            # The gang fitted in time, and the same steps place all of it again. The deadline must not stop them half
            # way, as part of a gang is worth nothing.
            with self.state.finishing():
                self.place_group(group, scope)
        return scope is not None

    def _cheapest_scope(
        self, group: Group, scopes: Iterable[Scope]
    ) -> tuple[Scope | None, bool]:
        """Return the scope that holds the gang for the least, and whether a part of it would be in an UltraServer."""
        state = self.state
        best: tuple[tuple[int, int], Scope, bool] | None = None
        for scope in scopes:
            mark = state.mark()
            self.place_group(group, scope)
            found = (state.cost(), len(state.bins))
            if not state.remaining[group.index] and (best is None or found < best[0]):
                best = (found, scope, self._is_parted(group))
            state.undo(mark)
        return (None, False) if best is None else best[1:]

    def _is_parted(self, group: Group) -> bool:
        """Whether some of the group is in an UltraServer, and some is not in the same one."""
        servers = {
            bin_.labels.get(ULTRA_SERVER_ID)
            for bin_ in self.state.bins
            if group.index in bin_.contents
        } | self._domains_of_running(group, ULTRA_SERVER_ID)
        return len(servers) > 1

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
