"""Which option a new node for a group should be: free reserved units first, then what is cheapest for a replica."""

from collections.abc import Callable
from dataclasses import dataclass

from shared.core.scheduling_terms.labels import HOSTNAME
from shared.core.solver.insertion.reserved_floor import ReservedFloor
from shared.core.solver.problem.catalogue import LaunchOption, counted
from shared.core.solver.problem.groups import Group, RelaxedGroup
from shared.core.solver.problem.option_order import OrderKey, is_tiny, paid_key, reserved_key
from shared.core.solver.problem.vectors import UNLIMITED
from shared.core.solver.solution.bins import Bin
from shared.core.solver.solution.candidates import Candidates, Places
from shared.core.solver.solution.partial_plan import PartialPlan


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to go about a solve; others are tried when the usual one leaves something over.

    ``packs``: pack by counts first. ``is_frugal``: spare limits rather than money; ``is_roomy``: as if others came to
    fill the node. ``is_thorough``: make room by exchanges. ``order``: who goes first among equal priorities.
    """

    packs: bool = True
    is_frugal: bool = False
    is_roomy: bool = False
    is_thorough: bool = False
    order: str = "dearest"


Admits = Callable[[Bin | LaunchOption], bool]


@dataclass(frozen=True, slots=True)
class Scope:
    """Where replicas may go: everywhere, or where ``admits`` says so.

    ``is_assigned``: they were assigned to domains, so rules over domains hold once all are placed and need not hold in
    between. ``is_free``: no node is bought for them.
    """

    admits: Admits | None = None
    is_assigned: bool = False
    is_free: bool = False


class NewNodes:
    """Chooses new nodes, given what has been decided so far."""

    def __init__(self, state: PartialPlan, candidates: Candidates, strategy: Strategy, floor: ReservedFloor) -> None:
        self._state = state
        self._candidates = candidates
        self._strategy = strategy
        self._floor = floor
        self._open_now: tuple[int, bytearray] = (-1, bytearray())  # as of which change of the residual capacity

    def best(self, relaxed: RelaxedGroup, scope: Scope, wanted: int) -> tuple[LaunchOption, int] | None:
        """Return the best option for ``wanted`` replicas, and how many of them one node takes; None without any."""
        best: tuple[OrderKey, LaunchOption, int] | None = None
        rooms: dict[object, tuple[int, int]] = {}
        for places in self._candidates.by_class(relaxed, only_reserved=scope.is_free):
            if places[0][0].reservation is None and self._is_settled(best):
                break  # reserved ones come first, and go first
            if scope.admits is None or scope.admits(places[0][0]):
                room, crowding = self._fresh_room(places[0][0], relaxed, rooms, scope.is_assigned)
                found = self._best_of(places, relaxed, min(wanted, room), crowding)
                if found is not None and (best is None or found[0] < best[0]):
                    best = found
        return None if best is None else best[1:]

    def _is_settled(self, best: tuple[OrderKey, LaunchOption, int] | None) -> bool:
        return best is not None and best[1].reservation is not None and not self.is_frugal

    @property
    def is_frugal(self) -> bool:
        """Whether limits are to be spared rather than money."""
        return self._strategy.is_frugal and bool(self._state.residual.limits)

    # Branches: one search, from cheap to dear; each condition passes an option over or ends it.
    def _best_of(
        self, places: Places, relaxed: RelaxedGroup, most: int, crowding: int
    ) -> tuple[OrderKey, LaunchOption, int] | None:
        """Return the best of options of one kind, of which a fresh node takes up to ``most`` replicas."""
        best: tuple[OrderKey, LaunchOption, int] | None = None
        is_open, held, is_frugal = self._is_open_now(), 0, self.is_frugal
        for option, fitting in places if most else ():
            # From cheap to dear: what holds no more than a cheaper one is no better.
            if not is_open[option.index] or (fitting <= held and not is_frugal):
                continue
            copies = self.copies(option, relaxed, min(most, fitting))
            if copies == 0:
                continue
            key = self._key(option, relaxed.group, copies, fitting, crowding)
            if best is None or key < best[0]:
                best = (key, option, copies)
            held = max(held, copies)
            if held == most and not is_frugal:
                break
        return best

    def copies(self, option: LaunchOption, relaxed: RelaxedGroup, copies: int) -> int:
        """Return how many of ``copies`` replicas may have a fresh node of the option, everything but topology asked."""
        group = relaxed.group
        if self.nodes_left(option, group) == 0:
            return 0
        placed = {group.index: relaxed.level}
        holds = self._candidates.substitutes.holds
        while copies and not holds(self._state, option, [it * copies for it in group.request], placed):
            copies //= 2
        return 0 if copies and self._floor.keeps_off(option, relaxed, copies) else copies

    def _is_open_now(self) -> bytearray:
        changes = self._state.residual.changes
        if self._open_now[0] != changes:
            self._open_now = (changes, self._candidates.open_now(self._state.residual))
        return self._open_now[1]

    def _fresh_room(
        self, option: LaunchOption, relaxed: RelaxedGroup, rooms: dict[object, tuple[int, int]], is_assigned: bool
    ) -> tuple[int, int]:
        """Return topology's room on a fresh node and how crowded its domains are; one computation per domain."""
        constraints = relaxed.constraints
        if not relaxed.group.matching and constraints.is_free:
            return UNLIMITED, 0
        if is_assigned:
            return self._state.admission.host_room(relaxed, None), 0
        labels = option.labels
        domains = tuple(labels.get(counts.topology_key) for counts in self._state.ledger.by_term.values())
        known = rooms.get(domains)
        if known is None:
            crowding = sum(
                self._state.ledger.by_term[term.term].matched.get(labels.get(term.topology_key, ""), 0)
                for term in constraints.spread
                if term.topology_key != HOSTNAME
            )
            room = min(
                self._state.admission.domain_room(labels, relaxed),
                self._state.admission.host_room(relaxed, None),
            )
            known = rooms[domains] = (room, crowding)
        return known

    def nodes_left(self, option: LaunchOption, group: Group) -> int:
        """Return how many more nodes of the option capacity and the group's price cap allow."""
        left = self._state.residual.nodes_left(option)
        is_charged = option.reservation is None or group.workload.max_price_micro_usd_per_hour is not None
        if group.is_price_capped and is_charged and option.price > 0:
            left = min(left, max(0, self._state.budget_left(group)) // option.price)
        return left

    def _limited_use(self, option: LaunchOption, copies: int) -> float:
        """Return what a replica takes of the pool's limits, as far as they go."""
        limits = self._state.residual.limits.get(option.entry.pool.name, {})
        used = [counted(option.instance_type.capacity, name) / max(1, left) for name, left in limits.items()]
        return max(used, default=0.0) / copies

    def _key(self, option: LaunchOption, group: Group, copies: int, fitting: int, crowding: int) -> OrderKey:
        """Sort options for ``copies`` replicas a node, of which ``fitting`` would fit there."""
        if option.reservation is None:
            key: OrderKey = (1, *paid_key(option, self._candidates.overhead, copies, crowding))
        else:
            tiny = is_tiny(option, [asked * copies for asked in group.request])
            units = self._state.residual.units[option.unit_key]
            key = (0, *reserved_key(option, self._candidates.flexibility[option.requirement_sets], units, tiny=tiny))
        if not self.is_frugal:
            return key
        # Under a limit even a free unit can cost too much: a larger node might share better what it uses up.
        hoped = fitting if self._strategy.is_roomy else copies
        return (self._limited_use(option, hoped), -hoped, *key)
