"""Chooses the launch option of a new node for a group: free reserved units first, then the least cost for a replica.

The options that could hold a replica are looked at class by class, the cheapest first, and ranked by one total order
(``option_order``).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

from reservoir.core.scheduling_terms.resources import counted
from reservoir.core.solver.problem.catalogue import LaunchOption
from reservoir.core.solver.problem.groups import Group, RelaxedGroup
from reservoir.core.solver.problem.option_order import (
    OrderKey,
    is_tiny,
    paid_key,
    reserved_key,
)
from reservoir.core.solver.problem.vectors import UNLIMITED, largest_share
from reservoir.core.solver.solution.candidates import Candidates, Places
from reservoir.core.solver.solution.partial_plan import PartialPlan


@dataclass(frozen=True, slots=True)
class Strategy:
    """How a solve places replicas; other strategies are tried if the usual one leaves replicas over.

    ``packs``: pack by counts before insertion. ``improves``: spend time on cheaper packings, as plans with a
    certificate do. ``is_frugal``: spare limits rather than money. ``is_thorough``: end each priority with neighbourhood
    search. ``order``: which groups of one priority come first.
    """

    packs: bool = True
    improves: bool = False
    is_frugal: bool = False
    is_thorough: bool = False
    order: str = "dearest"


@dataclass(frozen=True, slots=True)
class Scope:
    """Where replicas may go: on nodes that have all the labels and values of ``pins``.

    ``is_assigned``: the replicas were assigned to domains, so rules over domains hold once all are placed and are not
    checked in between. ``is_free``: no node is bought for them.
    """

    pins: tuple[tuple[str, str | None], ...] = ()
    is_assigned: bool = False
    is_free: bool = False

    def admits(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels is in the scope."""
        for key, domain in self.pins:  # noqa: SIM110 # asked of thousands of nodes, and all() takes four times as long
            if labels.get(key) != domain:
                return False
        return True


ANYWHERE = Scope()
# The sort key of an option, the option, and how many replicas a node of it takes.
_RankedOption = tuple[OrderKey, LaunchOption, int]


class NewNodes:
    """Chooses new nodes, given what has been decided so far."""

    def __init__(
        self, state: PartialPlan, candidates: Candidates, strategy: Strategy
    ) -> None:
        self._state = state
        self._candidates = candidates
        self._strategy = strategy
        self._has_floor = True
        # the number of changes of the residual capacity, and the options that were open then
        self._open_now = (-1, bytearray())

    def best(
        self, relaxed: RelaxedGroup, scope: Scope, wanted: int
    ) -> tuple[LaunchOption, int] | None:
        """Return the best option for ``wanted`` replicas, and how many of them one node takes; None without any."""
        classes = self._candidates.by_class(relaxed, only_reserved=scope.is_free)
        offers = chain.from_iterable(
            self._offers(places, relaxed, scope, wanted) for places in classes
        )
        best = min(offers, key=itemgetter(0), default=None)
        return None if best is None else best[1:]

    @contextmanager
    def without_floor(self) -> Iterator[None]:
        """Ignore the policy's reserved floor meanwhile: other replicas may join those that are too few for a slot."""
        self._has_floor = False
        try:
            yield
        finally:
            self._has_floor = True

    @property
    def is_frugal(self) -> bool:
        """Whether the strategy spares limits rather than money, and there are limits."""
        return self._strategy.is_frugal and bool(self._state.residual.limits)

    def _offers(
        self, places: Places, relaxed: RelaxedGroup, scope: Scope, wanted: int
    ) -> Iterator[_RankedOption]:
        """Yield the options of one class that may be best; they differ only in size and price."""
        labels, is_open = places[0][0].labels, self._is_open_now()
        crowd = self._state.ledger.crowd(labels, relaxed.constraints)
        is_frugal, held = self.is_frugal, 0
        most = (
            min(wanted, self._room(labels, relaxed, scope.is_assigned))
            if scope.admits(labels)
            else 0
        )
        for option, fitting in places if most else ():
            # Options come cheapest first, so one that holds no more than an earlier one is no better, except where
            # limits are to be spared.
            if is_open[option.index] and (held < fitting or is_frugal):
                copies = self.copies(option, relaxed, min(most, fitting))
                held = max(held, copies)
                if copies:
                    yield self._key(option, relaxed.group, copies, crowd), option, copies
                if held == most and not is_frugal:
                    return

    def _is_open_now(self) -> bytearray:
        changes = self._state.residual.changes
        if self._open_now[0] != changes:
            self._open_now = (changes, self._candidates.open_now(self._state.residual))
        return self._open_now[1]

    def copies(self, option: LaunchOption, relaxed: RelaxedGroup, copies: int) -> int:
        """Return how many of ``copies`` replicas a new node of the option may take under all rules but topology."""
        group = relaxed.group
        if self.nodes_left(option, group) == 0:
            return 0
        placed = {group.index: relaxed.level}
        substitutes = self._candidates.substitutes
        while copies and not substitutes.holds(
            self._state, option, [it * copies for it in group.request], placed
        ):
            copies //= 2
        return 0 if self._is_too_little(option, relaxed, copies) else copies

    def _is_too_little(
        self, option: LaunchOption, relaxed: RelaxedGroup, copies: int
    ) -> bool:
        """Whether the policy's floor denies so few replicas the reserved slot: they can be bought elsewhere."""
        floor = self._state.catalogue.policy.reserved_floor_percent
        if not (self._has_floor and floor) or option.reservation is None:
            return False
        used = largest_share(
            [asked * copies for asked in relaxed.group.request], option.allocatable
        )
        return 100 * used < floor and any(
            other.reservation is None for other, _ in self._candidates.of(relaxed)
        )

    def _room(
        self, labels: Mapping[str, str], relaxed: RelaxedGroup, is_assigned: bool
    ) -> int:
        """Return how many replicas topology allows on a new node with these labels."""
        if not relaxed.group.matching and relaxed.constraints.is_free:
            return UNLIMITED
        room = self._state.admission.host_room(relaxed, None)
        if is_assigned:
            return room
        return min(room, self._state.admission.domain_room(labels, relaxed))

    def nodes_left(self, option: LaunchOption, group: Group) -> int:
        """Return how many more nodes of the option the residual capacity and the group's price cap allow."""
        left = self._state.residual.nodes_left(option)
        is_charged = (
            option.reservation is None
            or group.workload.max_price_micro_usd_per_hour is not None
        )
        if group.is_price_capped and is_charged and option.price > 0:
            left = min(left, max(0, self._state.price_caps.left(group)) // option.price)
        return left

    def _limited_use(self, option: LaunchOption, copies: int) -> float:
        """Return the largest part that a replica takes of what is left of one of the pool's limits."""
        limits = self._state.residual.limits.get(option.entry.pool.name, {})
        used = [
            counted(option.instance_type.capacity, name) / max(1, left)
            for name, left in limits.items()
        ]
        return max(used, default=0.0) / copies

    def _key(self, option: LaunchOption, group: Group, copies: int, crowd: int) -> OrderKey:
        """Return the sort key of an option with ``copies`` replicas on a node.

        Of options that are bought from one tier, those in the emptiest domains of a spread come first.
        """
        if option.reservation is None:
            key: OrderKey = (
                1,
                option.entry.tier,
                crowd,
                *paid_key(option, self._candidates.overhead, copies),
            )
        else:
            tiny = is_tiny(
                largest_share(
                    [asked * copies for asked in group.request], option.allocatable
                )
            )
            units = self._state.residual.units[option.unit_key]
            key = (
                0,
                *reserved_key(
                    option,
                    self._candidates.flexibility[option.requirement_sets],
                    units,
                    tiny=tiny,
                ),
            )
        if not self.is_frugal:
            return key
        # Under a limit even a free unit can cost too much: on a larger node a replica may take less of the limit.
        return (self._limited_use(option, copies), -copies, *key)
