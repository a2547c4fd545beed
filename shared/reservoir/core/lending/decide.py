"""How many idle units of each own reservation to lend (EC2: interruptible allocations), and which to take back.

::

    idle    = free + lent           units that nobody here uses or was promised
    lent    = idle - needed - kept  within the windows; 0 outside them
    needed  = what waiting demand, and work that consolidation may move off on-demand and spot nodes, would be launched
              into, if all lent units were back; and other such nodes of the same type that could run in a unit

More is lent only after units have been idle for a while; units are taken back at once. What comes back takes two
minutes' notice and the time that instances need to end.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

from reservoir.core.capacity.offerings import pool_admits
from reservoir.core.model.capacity_reservation import (
    CapacityReservation,
    LentUnits,
    ReservationKind,
)
from reservoir.core.model.node_class import Lending, LendingWindow, NodeClass
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import Plan
from reservoir.core.model.schedule import CronSchedule
from reservoir.core.model.snapshot import Node, Snapshot
from reservoir.core.model.workload import Demand
from reservoir.names import LENDABLE_TAG, LENDABLE_VALUE

# Units are taken back so long before a window ends: a pass may be five minutes away, EC2 gives two minutes' notice, and
# instances take their time to end.
RECALL_LEAD: Final = timedelta(minutes=10)
# Of one reservation in one pass; the next lends more.
UNITS_A_PASS: Final = 20


@dataclass(frozen=True, slots=True)
class LendingChange:
    """How many units of a reservation are to be lent from now on, instead of ``before_count``.

    ``tags`` are for what is lent, where nothing was.
    """

    source: CapacityReservation
    before_count: int
    count: int
    explanation: str
    tags: Mapping[str, str]

    @property
    def is_recall(self) -> bool:
        """Whether units are taken back."""
        return self.count < self.before_count


@dataclass(frozen=True, slots=True)
class LendingInput:
    """What is decided on.

    ``idle_since``: since when a reservation has had a free unit without a pause. ``under_way``: units that were
    promised to be lent, and that EC2's counts may or may not contain yet. ``resting``: reservations of which nothing
    more is lent for now. ``warm``: free units that have a warm node, which are kept free, and not lent. All by
    reservation.
    """

    snapshot: Snapshot
    deployment: str
    idle_since: Mapping[str, datetime | None]
    under_way: Mapping[str, int]
    resting: Set[str] = frozenset()
    warm: Mapping[str, int] = field(default_factory=dict)


def lent_by(reservation: CapacityReservation, deployment: str) -> LentUnits | None:
    """Return what the deployment lends of a reservation; what a person lends is nobody else's business."""
    lent = reservation.lent
    return lent if lent is not None and lent.lent_by == deployment else None


def may_lend(snapshot: Snapshot, deployment: str) -> bool:
    """Whether there is anything to decide: a class lends, or something is lent."""
    return any(it.lending is not None for it in snapshot.node_classes) or any(
        lent_by(it, deployment) is not None for it in snapshot.reservations
    )


def with_lent_units_back(snapshot: Snapshot, deployment: str) -> Snapshot:
    """Return the world in which all lent units are back."""
    return replace(
        snapshot,
        reservations=tuple(_whole(it, deployment) for it in snapshot.reservations),
    )


def _whole(reservation: CapacityReservation, deployment: str) -> CapacityReservation:
    lent = lent_by(reservation, deployment)
    if lent is None:
        return reservation
    return replace(
        reservation,
        total_count=reservation.total_count + lent.count,
        available_count=reservation.available_count + lent.count,
        free_units=reservation.free_units + lent.count,
        lent=None,
    )


def with_bought_work_waiting(snapshot: Snapshot, now: datetime) -> Snapshot:
    """Return the world in which work that is paid for beside reservations waits, if it may be moved into a unit."""
    bought = _bought_that_moves(snapshot)
    ids = {node.claim_id for node in bought}
    waiting: Counter[str] = Counter()
    for placed in chain.from_iterable(node.placements for node in bought):
        waiting[placed.workload_key] += placed.count
    demands = {it.workload.key: it for it in snapshot.demands}
    for key in sorted(waiting.keys() & snapshot.workloads.keys()):
        known = demands.get(key) or Demand(snapshot.workloads[key], 0, now)
        demands[key] = replace(known, pending_count=known.pending_count + waiting[key])
    nodes = tuple(node for node in snapshot.nodes if node.claim_id not in ids)
    return replace(snapshot, nodes=nodes, demands=tuple(demands.values()))


def _bought_that_moves(snapshot: Snapshot) -> list[Node]:
    """Return nodes that are paid for beside reservations, and whose work may be moved."""
    moving = {it.name for it in snapshot.node_pools if it.moves_work}
    return [
        node
        for node in snapshot.nodes
        if node.reservation_id is None
        and not node.deleting
        and node.node_pool_name in moving
    ]


def units_launched(plan: Plan) -> Mapping[str, int]:
    """Return how many nodes a plan launches into each reservation."""
    units: Counter[str] = Counter()
    for launch in plan.launches:
        if launch.offering.reservation_id is not None:
            units[launch.offering.reservation_id] += launch.count
    return units


def decide_lending(
    given: LendingInput, demanded: Mapping[str, int], now: datetime
) -> tuple[LendingChange, ...]:
    """Decide on every reservation, by id.

    ``demanded``: units by reservation that demand which waits, and work that is paid for beside reservations, would be
    launched into, with all lent units back.
    """
    changes = []
    for reservation in sorted(given.snapshot.reservations, key=lambda it: it.id):
        terms = _LendingTerms.of(reservation, given.snapshot)
        change = _change(
            reservation, terms, given, demanded.get(reservation.id, 0), now=now
        )
        if change is not None:
            changes.append(change)
    return tuple(changes)


@dataclass(frozen=True, slots=True)
class _LendingTerms:
    """What the classes that select a reservation say about lending it.

    ``lendings`` is empty unless each of them lends. ``nodes_outside``: nodes that are paid for although they could run
    in a unit of it, and whose work stays on them.
    """

    lendings: Sequence[Lending]
    nodes_outside: int
    is_static: bool  # whether a static pool takes its free units
    is_known: bool  # whether each class can be read

    @classmethod
    def of(cls, reservation: CapacityReservation, snapshot: Snapshot) -> "_LendingTerms":
        classes = _selecting(reservation, snapshot)
        pools = {
            it.name: it
            for it in snapshot.node_pools
            if it.node_class_name in classes and pool_admits(it, reservation)
        }
        lendings = [it.lending for it in classes.values() if it.lending is not None]
        return cls(
            lendings if len(lendings) == len(classes) else (),
            _nodes_outside(reservation, snapshot, pools),
            any(it.is_static for it in pools.values()),
            all(_is_readable(it) for it in snapshot.node_classes),
        )

    def is_open(self, now: datetime) -> bool:
        """Whether units are lent now, and still when units that are taken back now have come back."""
        back_at = now + RECALL_LEAD
        return bool(self.lendings) and all(
            _is_open(it.windows, now) and _is_open(it.windows, back_at)
            for it in self.lendings
        )

    @property
    def keep_free(self) -> int:
        """Units that are not lent."""
        return max(it.keep_free for it in self.lendings)

    @property
    def after(self) -> timedelta:
        """For how long units are idle before more are lent."""
        return timedelta(seconds=max(it.after_s for it in self.lendings))


def _selecting(
    reservation: CapacityReservation, snapshot: Snapshot
) -> Mapping[str, NodeClass]:
    """Return the classes that could launch into a reservation, by name and in its order."""
    return {
        it.name: it
        for it in sorted(snapshot.node_classes, key=lambda it: it.name)
        if reservation.id in it.status.reservation_ids and it.may_use(reservation)
    }


def _nodes_outside(
    reservation: CapacityReservation, snapshot: Snapshot, pools: Mapping[str, NodePool]
) -> int:
    place = (reservation.instance_type, reservation.zone_id)
    return sum(
        (node.instance_type, node.zone_id) == place
        and node.reservation_id is None
        and node.node_pool_name in pools
        and not pools[node.node_pool_name].moves_work
        and not node.deleting
        for node in snapshot.nodes
    )


def _is_readable(node_class: NodeClass) -> bool:
    """Whether a class is as it was applied: one that cannot be read has no hash of its fields."""
    return node_class.static_hash != ""


def _is_open(windows: Iterable[LendingWindow], at: datetime) -> bool:
    found = tuple(windows)
    return not found or any(_contains(it, at) for it in found)


def _contains(window: LendingWindow, at: datetime) -> bool:
    schedule = CronSchedule.parse(window.schedule, window.time_zone)
    return schedule.latest_start(at, at - timedelta(seconds=window.duration_s)) is not None


# Branches: what is never lent, then taking back, then what has to be true before more is lent.
def _change(
    reservation: CapacityReservation,
    terms: _LendingTerms,
    given: LendingInput,
    demanded_count: int,
    *,
    now: datetime,
) -> LendingChange | None:
    lent = lent_by(reservation, given.deployment)
    is_lent_by_a_person = lent is None and reservation.lent is not None
    if reservation.stale or not reservation.is_active(now) or is_lent_by_a_person:
        return None
    before = 0 if lent is None else lent.target_count
    if not terms.is_open(now) or terms.is_static:
        return _closed(reservation, terms, before)
    needed = demanded_count + terms.nodes_outside
    under_way = given.under_way.get(reservation.id, 0)
    idle = _free(reservation) + (0 if lent is None else lent.count) + under_way
    wanted = max(0, idle - needed - terms.keep_free)
    if wanted < before:
        why = f"{needed} units are needed and {terms.keep_free} are kept free"
        return LendingChange(reservation, before, wanted, why, {})
    is_changing = lent is not None and lent.is_changing
    since = given.idle_since.get(reservation.id)
    if under_way or is_changing or since is None or now - since < terms.after:
        return None
    if reservation.id in given.resting or not is_lendable(reservation):
        return None
    free = _free(reservation)
    empty = free - given.warm.get(reservation.id, 0)
    spare = free - needed - terms.keep_free
    more = min(wanted - before, spare, empty, UNITS_A_PASS)
    why = f"{free} units have been idle since {since.isoformat()}"
    tags = terms.lendings[0].tags
    return (
        LendingChange(reservation, before, before + more, why, tags) if more > 0 else None
    )


def _free(reservation: CapacityReservation) -> int:
    return max(0, reservation.free_units)


def tags_of(reservation: CapacityReservation, snapshot: Snapshot) -> Mapping[str, str]:
    """Return the tags for what is lent of a reservation, as the first class by name that lends it says."""
    lendings = _LendingTerms.of(reservation, snapshot).lendings
    return lendings[0].tags if lendings else {}


def is_lendable(it: CapacityReservation) -> bool:
    """Whether EC2 lends units of it, and its owner allows it by a tag, which EC2 shows to the owner only."""
    return (
        it.tags.get(LENDABLE_TAG) == LENDABLE_VALUE
        and it.kind is ReservationKind.DEFAULT
        and it.end_at is None
        and it.split_from is None
        and it.refusal is None
    )


def _closed(
    reservation: CapacityReservation, terms: _LendingTerms, before: int
) -> LendingChange | None:
    """Take everything back, unless a class that may lend cannot be read: its borrowers are left alone."""
    if before == 0 or not terms.is_known:
        return None
    why = "a static pool takes its units" if terms.is_static else "it is not lent now"
    return LendingChange(reservation, before, 0, why, {})
