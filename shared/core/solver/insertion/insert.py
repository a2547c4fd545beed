"""Placing one group at a time under every constraint: exact checks, chosen greedily. The path for what is constrained.

Order (R-44): existing nodes, nodes planned so far, a new node; but free reserved units before nodes that are being
bought. Replicas that do not fit give up one preference and try again (R-47).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from shared.core.scheduling_terms.labels import HOSTNAME
from shared.core.scheduling_terms.resources import NODES
from shared.core.solver.problem.catalogue import LaunchOption
from shared.core.solver.problem.groups import Group
from shared.core.solver.problem.option_order import OrderKey, is_tiny, paid_key, reserved_key
from shared.core.solver.solution.bins import Bin, total_load
from shared.core.solver.solution.candidates import Candidates, Places
from shared.core.solver.solution.domain_assignment import DomainBatch
from shared.core.solver.solution.partial_plan import PartialPlan
from shared.core.solver.solution.residual_capacity import UNLIMITED


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to go about a solve; others are tried when the usual one leaves something over.

    ``counts``: pack by counts first. ``is_frugal``: spare limits rather than money; ``is_roomy``: as if others came to
    fill the node. ``is_thorough``: make room by exchanges. ``order``: who goes first among equal priorities.
    """

    counts: bool = True
    is_frugal: bool = False
    is_roomy: bool = False
    is_thorough: bool = False
    order: str = "dearest"


Admits = Callable[[Bin | LaunchOption], bool]


@dataclass(frozen=True, slots=True)
class Scope:
    """Where replicas may go: everywhere, or where ``admits`` says so.

    ``is_dealt``: they were dealt out to domains, so rules over domains hold once all are placed and need not hold in
    between. ``is_free``: no node is bought for them.
    """

    admits: Admits | None = None
    is_assigned: bool = False
    is_free: bool = False


ANYWHERE = Scope()


class Insertion:
    """Places groups into a state."""

    def __init__(self, state: PartialPlan, candidates: Candidates, strategy: Strategy = Strategy()) -> None:
        self.state = state
        self.candidates = candidates
        self.strategy = strategy
        self._min_values = candidates.min_values
        self._keeps_floor = True
        self._open_now: tuple[int, bytearray] = (-1, bytearray())  # as of which change of the supply

    def place_group(self, group: Group, scope: Scope = ANYWHERE) -> None:
        """Place as many of the group's remaining replicas as possible, preferences last to go first."""
        for level in range(len(group.levels)):
            if self.state.remaining[group.index] == 0:
                return
            self.place_at(group, level, scope)

    def place_batch(self, batch: DomainBatch) -> None:
        """Place what is left of a batch within its domain, or else leave it."""

        def admits(place: Bin | LaunchOption) -> bool:
            labels = place.labels if isinstance(place, Bin) else self.state.labels_of(place)
            return batch.pin is None or labels.get(batch.pin[0]) == batch.pin[1]

        self.place_at(batch.group, batch.level, Scope(admits, is_assigned=True), batch.count)

    def place_at(self, group: Group, level: int, scope: Scope = ANYWHERE, most: int = UNLIMITED) -> None:
        """Place up to ``most`` replicas with the preferences of one level."""
        stop_at = max(0, self.state.remaining[group.index] - most)
        if self.state.is_out_of_time(group):
            return
        bought = self._fill_bins(group, level, stop_at, scope)
        if bought:
            # Were these filled first, reserved units would be left to the less important.
            self._open_bins(group, level, stop_at, replace(scope, is_free=True))
        for bin_ in bought:
            self._fill_bin(bin_, group, level, stop_at, scope)
        self._open_bins(group, level, stop_at, scope)

    def _fill_bins(self, group: Group, level: int, stop_at: int, scope: Scope) -> list[Bin]:
        """Fill what room there is; return the nodes with room that must wait until reserved units are in use."""
        waiting: list[Bin] = []
        remaining = self.state.remaining
        requirement_sets, (cpu, memory) = group.requirement_sets[level], group.request[:2]
        has_units_first = bool(self.candidates.reserved) and not (scope.is_free or self._is_frugal)
        for bin_ in list(self.state.bins):
            if remaining[group.index] <= stop_at:
                break
            # The cheap questions first: most nodes are full.
            has_room = bin_.free[0] >= cpu and bin_.free[1] >= memory
            if has_room and bin_.requirement_sets & requirement_sets and self.is_open(bin_, group, scope):
                if has_units_first and bin_.is_paid:
                    waiting.append(bin_)
                else:
                    self._fill_bin(bin_, group, level, stop_at, scope)
        return waiting

    def _open_bins(self, group: Group, level: int, stop_at: int, scope: Scope) -> None:
        """Open new nodes as long as there are any for the group."""
        while self.state.remaining[group.index] > stop_at and not self.state.is_out_of_time(group):
            if not self._open_one(group, level, scope, stop_at):
                return

    @staticmethod
    def is_open(bin_: Bin, group: Group, scope: Scope) -> bool:
        """Whether the group may share the bin's nodes, room apart."""
        if scope.admits is not None and not scope.admits(bin_):
            return False
        # A price cap is on the nodes that the workload pays for, so it shares none that are being bought.
        is_capped = group.workload.max_price_micro_usd_per_hour is not None
        return not (is_capped and bin_.is_paid)

    def _fill_bin(self, bin_: Bin, group: Group, level: int, stop_at: int, scope: Scope) -> None:
        """Put as many as possible on the nodes of one bin."""
        state, is_assigned = self.state, scope.is_assigned
        while (wanted := state.remaining[group.index] - stop_at) > 0:
            room = min(wanted, state.room(bin_, group, level, is_assigned=is_assigned))
            room = self.with_choice(bin_, group, level, room)
            if room == 0:
                return
            nodes = min(bin_.count, wanted // room) if is_assigned or self._is_by_host(group, level) else 1
            rest = bin_.count - nodes
            target = bin_ if rest == 0 else state.split_bin(bin_, nodes)
            state.place(target, group, room, level)
            if rest == 0 and self.state.room(bin_, group, level, is_assigned=is_assigned) == 0:
                return

    def with_choice(self, bin_: Bin, group: Group, level: int, room: int) -> int:
        """Return how many of ``room`` replicas leave the bin enough instance types to choose from (minValues)."""
        option = bin_.option
        if option is None or not room or not self._min_values.concerns(option.entry):
            return room
        load = total_load(self.state.groups, bin_.contents, len(group.request))
        while room:
            grown = [used + asked * room for used, asked in zip(load, group.request, strict=True)]
            if self.leaves_choice(option, grown, {**bin_.levels, group.index: level}):
                return room
            room //= 2
        return 0

    def leaves_choice(self, option: LaunchOption, load: Sequence[int], levels: Mapping[int, int]) -> bool:
        """Whether a node with this load of these groups (by relaxation level) can be enough kinds of types."""
        if not self._min_values.concerns(option.entry):
            return True
        groups = [(self.state.groups[index], level) for index, level in levels.items()]
        requirement_sets = sorted({group.requirement_sets[level] for group, level in groups})
        keys = sorted({key for group, level in groups for key in self.state.keys_of(group, level)})
        return self._min_values.holds(
            option, load, requirement_sets, tuple((key, self.state.label(option, key)) for key in keys)
        )

    def _is_by_host(self, group: Group, level: int) -> bool:
        """Whether equal nodes can be filled at once, without looking at topology again in between."""
        constraints = group.constraints[level]
        if any(group.matching >> term & 1 for term in self.state.ledger.carried):
            return False  # others insist on a spread that counts these replicas too
        return not constraints.affinity and all(key == HOSTNAME for key in constraints.topology_keys())

    def _open_one(self, group: Group, level: int, scope: Scope, stop_at: int) -> bool:
        """Open the best new node (or several equal ones) for the group; False when there is none."""
        wanted = self.state.remaining[group.index] - stop_at
        best: tuple[OrderKey, LaunchOption, int] | None = None
        rooms: dict[object, tuple[int, int]] = {}
        for places in self.candidates.by_class(group, level, only_reserved=scope.is_free):
            if places[0][0].reservation is None and self._is_settled(best):
                break  # reserved ones come first, and go first
            if scope.admits is None or scope.admits(places[0][0]):
                room, crowding = self._fresh_room(places[0][0], group, level, rooms, scope.is_assigned)
                found = self._best_of(places, group, level, min(wanted, room), crowding)
                if found is not None and (best is None or found[0] < best[0]):
                    best = found
        if best is None:
            return False
        _, option, copies = best
        nodes = wanted // copies if scope.is_assigned or self._is_by_host(group, level) else 1
        nodes = min(nodes, self._nodes_left(option, group))
        opened = self.state.open_bin(option, nodes)
        self.state.place(opened, group, copies, level)
        return True

    def _is_settled(self, best: tuple[OrderKey, LaunchOption, int] | None) -> bool:
        return best is not None and best[1].reservation is not None and not self._is_frugal

    @property
    def _is_frugal(self) -> bool:
        return self.strategy.is_frugal and bool(self.state.residual.limits)

    def _best_of(
        self, places: Places, group: Group, level: int, most: int, crowding: int
    ) -> tuple[OrderKey, LaunchOption, int] | None:
        """Return the best of options of one kind, of which a fresh node takes up to ``most`` replicas."""
        best: tuple[OrderKey, LaunchOption, int] | None = None
        is_open, held, is_frugal = self._is_open_now(), 0, self._is_frugal
        for option, fitting in places if most else ():
            # From cheap to dear: what holds no more than a cheaper one is no better.
            if not is_open[option.index] or (fitting <= held and not is_frugal):
                continue
            copies = self.copies(option, group, level, min(most, fitting))
            if copies == 0:
                continue
            key = self._key(option, group, copies, crowding)
            if is_frugal:
                # Under a limit even a free unit can cost too much: a larger node might share better what it uses up.
                hoped = fitting if self.strategy.is_roomy else copies
                key = (self._limited_use(option, hoped), -hoped, *key)
            if best is None or key < best[0]:
                best = (key, option, copies)
            held = max(held, copies)
            if held == most and not is_frugal:
                break
        return best

    def copies(self, option: LaunchOption, group: Group, level: int, copies: int) -> int:
        """Return how many of ``copies`` replicas may have a fresh node of the option, everything but topology asked."""
        if self._nodes_left(option, group) == 0:
            return 0
        placed = {group.index: level}
        while copies and not self.leaves_choice(option, [asked * copies for asked in group.request], placed):
            copies //= 2
        return 0 if copies and self._is_below_floor(option, group, level, copies) else copies

    def _is_open_now(self) -> bytearray:
        changes = self.state.residual.changes
        if self._open_now[0] != changes:
            self._open_now = (changes, self.candidates.open_now(self.state.residual))
        return self._open_now[1]

    def _fresh_room(
        self, option: LaunchOption, group: Group, level: int, rooms: dict[object, tuple[int, int]], is_assigned: bool
    ) -> tuple[int, int]:
        """Return topology's room on a fresh node and how crowded its domains are; one computation per domain."""
        constraints = group.constraints[level]
        if not group.matching and constraints.is_free:
            return UNLIMITED, 0
        if is_assigned:
            return self.state.host_room(group, constraints, None), 0
        labels = self.state.labels_of(option)
        domains = tuple(labels.get(counts.topology_key) for counts in self.state.ledger.by_term.values())
        known = rooms.get(domains)
        if known is None:
            crowding = sum(
                self.state.ledger.by_term[term.term].matched.get(labels.get(term.topology_key, ""), 0)
                for term in constraints.spread
                if term.topology_key != HOSTNAME
            )
            room = min(
                self.state.domain_room(labels, group, constraints), self.state.host_room(group, constraints, None)
            )
            known = rooms[domains] = (room, crowding)
        return known

    def _is_below_floor(self, option: LaunchOption, group: Group, level: int, copies: int) -> bool:
        """Whether a policy floor keeps so little work off the reserved slot, when it can be bought elsewhere."""
        if not self._keeps_floor or option.reservation is None:
            return False
        if self._fills(option, [asked * copies for asked in group.request]):
            return False
        return any(other.reservation is None for other, _ in self.candidates.of(group, level))

    @contextmanager
    def below_floor(self) -> Iterator[None]:
        """Let little work have reserved slots meanwhile: what is left over could not be bought elsewhere after all."""
        self._keeps_floor = False
        yield
        self._keeps_floor = True

    def _fills(self, option: LaunchOption, load: Sequence[int]) -> bool:
        """Whether the load is as much of a reserved slot as the policy's floor asks for."""
        floor = self.state.catalogue.policy.reserved_floor_percent
        shares = (100 * used // whole for used, whole in zip(load, option.allocatable, strict=True) if whole)
        return not floor or max(shares, default=0) >= floor

    def free_units(self, load: Sequence[int]) -> list[LaunchOption]:
        """Return the reserved options with units left of which one holds the load, smallest first."""
        units = self.state.residual.units
        found = [
            option
            for option in self.candidates.reserved
            if option.reservation is not None
            and units[option.reservation.id] > 0
            and all(used <= whole for used, whole in zip(load, option.allocatable, strict=True))
            and self._fills(option, load)
        ]
        return sorted(found, key=lambda option: (option.price, option.index))

    def _nodes_left(self, option: LaunchOption, group: Group) -> int:
        left = self.state.residual.nodes_left(option)
        cap = group.workload.max_price_micro_usd_per_hour
        if cap is not None and option.price > 0:
            left = min(left, max(0, self.state.budget_left(group)) // option.price)
        return left

    def _limited_use(self, option: LaunchOption, copies: int) -> float:
        """Return what a replica takes of the pool's limits, as far as they go."""
        limits = self.state.residual.limits.get(option.entry.pool.name, {})
        used = [
            (1 if name == NODES else option.instance_type.capacity[name]) / max(1, left)
            for name, left in limits.items()
        ]
        return max(used, default=0.0) / copies

    def _key(self, option: LaunchOption, group: Group, copies: int, crowding: int) -> OrderKey:
        if option.reservation is None:
            key: OrderKey = (1, *paid_key(option, self.candidates.overhead, copies, crowding))
        else:
            tiny = is_tiny(option, [asked * copies for asked in group.request])
            units = self.state.residual.units[option.reservation.id]
            key = (0, *reserved_key(option, self.candidates.flexibility[option.requirement_sets], units, tiny=tiny))
        return key
