"""Lending idle units and taking them back, so that no unit is ever promised twice.

::

    leased in the ledger -> EC2 lends them -> the leases settle -> an observation of the source contains it
    EC2 is asked for fewer -> instances in them get two minutes' notice -> an observation finds the units free again

The leases are the intent: a pass that dies is continued by the next, with the same client token and the same number of
lent units. EC2 is read before it is asked for a number: one that was decided on an older view would otherwise lend
units that are promised by now. Taking back needs no lease, and asks for a number, so it is repeated until EC2 shows it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from reservoir.core.capacity.shortage import after_failure
from reservoir.core.capacity.unavailable_offerings import MoveKey
from reservoir.core.lending.decide import (
    LendingChange,
    LendingInput,
    decide_lending,
    lent_by,
    may_lend,
    tags_of,
    units_launched,
    with_bought_work_waiting,
    with_lent_units_back,
)
from reservoir.core.model.capacity_reservation import CapacityReservation, LentUnits
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.warm_nodes.free_units import WarmNodes
from reservoir.manifests.events import ReservationLendingChanged
from reservoir.names import LENT_FROM_TAG, OWNER_TAG
from reservoir.ports.ec2 import UnitLender
from reservoir.ports.errors import AwsError, IdempotencyMismatchError, TransientError
from reservoir.ports.launches import ShortageHistory
from reservoir.ports.messaging import EventPublisher
from reservoir.ports.state import (
    ConflictError,
    NodeClaimStore,
    PlannedCommit,
    ReservationRecord,
)
from reservoir.ports.system import IdFactory
from reservoir.usecases.claims.unit_leases import (
    ASKED_WITHIN,
    NO_MACHINE,
    give_unit_back,
    is_unanswered,
    lease_unit,
    settle_unit,
)

_Solve = Callable[[Snapshot, datetime, SchedulingPolicy], Plan]

# where a lease says into which reservation its unit goes: how many units EC2 is asked to lend in all
_LENT: Final = "lent:"
_IS_LENT: Final = "is lent: "


@dataclass(slots=True)
class Lent:
    """The results for units; ``refused`` maps reservations to EC2's code."""

    lent: int = 0
    recalled: int = 0
    refused: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LendUnits:
    """Lends units and takes them back."""

    claims: NodeClaimStore
    lender: UnitLender
    shortages: ShortageHistory
    publisher: EventPublisher
    ids: IdFactory
    deployment: str
    policy: SchedulingPolicy
    solve: _Solve

    def run(
        self,
        snapshot: Snapshot,
        records: Mapping[str, ReservationRecord],
        warm: WarmNodes,
        now: datetime,
        begun: Sequence[NodeClaim] = (),
    ) -> Lent:
        """Continue what earlier passes have begun, then lend and take back.

        ``snapshot`` has the units of ``warm`` as free ones. ``begun``: the leases of units that were on their way when
        the pass read them; they are read again. Raises ConflictError when other processes keep changing a lease, and
        UnreadableRowsError.
        """
        outcome = Lent()
        if not begun and not may_lend(snapshot, self.deployment):
            return outcome
        # First: anything that another pass begins after this conflicts with what this pass begins.
        turn = self.claims.turn()
        leases = [it for it in self.claims.list_moving() if is_lending(it)]
        known = {it.id: it for it in snapshot.reservations}
        under_way = Counter(it.offering.reservation_id or "" for it in leases)
        given = LendingInput(
            snapshot,
            self.deployment,
            {key: record.idle_since for key, record in records.items()},
            under_way,
            self._resting(known, now),
            {key: len(nodes) for key, nodes in warm.items()},
        )
        wanting = with_bought_work_waiting(snapshot, now)
        changes = decide_lending(given, self._demanded(wanting, now), now)
        recalled = {change.source.id for change in changes if change.is_recall}
        for held in _by_intent(leases):
            source = known.get(held[0].offering.reservation_id or "")
            if source is not None and source.id in recalled:
                source = None
            tags = {} if source is None else tags_of(source, snapshot)
            self._ask(held, source, tags, now, outcome)
        for change in changes:
            if change.is_recall:
                self._recall(change, outcome)
                self._rest(change.source.id, now)
            elif self._lend(change, turn, now, outcome):
                turn += 1
        return outcome

    def recall(
        self,
        snapshot: Snapshot,
        records: Mapping[str, ReservationRecord],
        warm: WarmNodes,
        plan: Plan,
        now: datetime,
    ) -> Lent:
        """Take back what demand needs that a plan has just left waiting.

        ``snapshot`` has the units of ``warm`` as free ones; ``records`` have not.
        """
        outcome = Lent()
        lending = {
            it.id: lent
            for it in snapshot.reservations
            if (lent := lent_by(it, self.deployment)) is not None and lent.target_count > 0
        }
        if not lending or not plan.unplaced:
            return outcome
        demanded = self._demanded(_left(snapshot, plan), now)
        # EC2's count contains what it shows as lent, and the leases for that may still stand beside it.
        leased = Counter(
            it.offering.reservation_id for it in self.claims.list_moving() if is_lending(it)
        )
        taken = units_launched(plan)
        for reservation in sorted(snapshot.reservations, key=lambda it: it.id):
            lent, needed = lending.get(reservation.id), demanded.get(reservation.id, 0)
            if lent is None or needed == 0:
                continue
            promisable = records[reservation.id].balance.free_units
            promisable += len(warm.get(reservation.id, ()))
            free = promisable + leased[reservation.id] - taken.get(reservation.id, 0)
            returning = lent.count - lent.target_count
            missing = needed - max(0, free) - returning
            if missing > 0:
                count = max(0, lent.target_count - missing)
                why = f"demand that waits needs {needed} units"
                change = LendingChange(reservation, lent.target_count, count, why, {})
                self._recall(change, outcome)
        return outcome

    def _demanded(self, snapshot: Snapshot, now: datetime) -> Mapping[str, int]:
        """Return into which reservations waiting demand would be launched if all lent units were back."""
        if not snapshot.demands:
            return {}
        whole = with_lent_units_back(snapshot, self.deployment)
        return units_launched(self.solve(whole, now, self.policy))

    def _resting(
        self, known: Mapping[str, CapacityReservation], now: datetime
    ) -> frozenset[str]:
        """Return of which reservations nothing is lent for now: EC2 refused, or units were needed lately."""
        lendable = [
            key
            for key, it in known.items()
            if it.lent is None or it.lent.lent_by == self.deployment
        ]
        rests = self.shortages.get_many([_key(key) for key in lendable])
        return frozenset(
            key
            for key in lendable
            if (rest := rests.get(_key(key))) is not None and now < rest.until
        )

    def _rest(self, source_id: str, now: datetime) -> None:
        key = _key(source_id)
        known = self.shortages.get_many([key]).get(key)
        self.shortages.put({key: after_failure(known, now)})

    def _lend(self, change: LendingChange, turn: int, now: datetime, outcome: Lent) -> bool:
        """Lease the units and ask EC2; return whether they were leased."""
        more = change.count - change.before_count
        intent = self.ids.new_id("lend")
        leases = [self._lease(change, intent, number, now) for number in range(more)]
        try:
            self.claims.commit(PlannedCommit(claims=tuple(leases), turn=turn))
        except ConflictError:
            return False
        self._ask(leases, change.source, change.tags, now, outcome)
        return True

    def _lease(
        self, change: LendingChange, intent: str, number: int, now: datetime
    ) -> NodeClaim:
        return lease_unit(
            f"{intent}-{number}",
            change.source,
            f"{_LENT}{change.count}",
            f"{_IS_LENT}{change.explanation}",
            now,
            batch_id=intent,
        )

    def _ask(
        self,
        leases: Sequence[NodeClaim],
        source: CapacityReservation | None,
        tags: Mapping[str, str],
        now: datetime,
        outcome: Lent,
    ) -> None:
        """Have EC2 lend the leased units; without a source, or too late, only settle: its count shows what happened."""
        held = [it for it in leases if is_unanswered(it)]
        if not held:
            return
        first, is_lent = held[0], False
        if source is not None and now - first.created_at <= ASKED_WITHIN:
            try:
                is_lent = self._ask_for(first, len(leases), source, tags)
            except IdempotencyMismatchError:
                is_lent = True  # its tags were others when it was asked first: the units were lent then
            except TransientError:
                return  # the next pass asks again
            except AwsError as error:
                outcome.refused[source.id] = error.code
                self._rest(source.id, now)
                for lease in held:
                    give_unit_back(self.claims, lease, now)
                return
        for lease in held:
            settle_unit(self.claims, lease, now)
        if is_lent and source is not None:
            outcome.lent += len(held)
            target = _target(first)
            why = (first.failure or "").removeprefix(f"{NO_MACHINE}{_IS_LENT}")
            change = LendingChange(source, target - len(leases), target, why, {})
            self._publish(change)

    def _ask_for(
        self,
        lease: NodeClaim,
        count: int,
        source: CapacityReservation,
        tags: Mapping[str, str],
    ) -> bool:
        """Ask EC2 for the number that was leased for, and return whether it lends that.

        It is not asked if somebody has changed what is lent since.
        """
        target = _target(lease)
        lent = self.lender.lent(source.id)
        if lent is None:
            if target != count:
                return False
            self.lender.begin(source.id, count, self._tags(source, tags), lease.batch_id)
            return True
        if lent.target_count == target:
            return True  # an earlier answer was lost
        if lent.target_count != target - count or lent.is_changing:
            return False
        self.lender.change(source.id, target)
        return True

    def _tags(
        self, source: CapacityReservation, tags: Mapping[str, str]
    ) -> Mapping[str, str]:
        return {**tags, OWNER_TAG: self.deployment, LENT_FROM_TAG: source.id}

    def _recall(self, change: LendingChange, outcome: Lent) -> None:
        source = change.source
        try:
            shown = self.lender.lent(source.id)
            if not _lends_more_than(shown, change.count):
                return
            self.lender.change(source.id, change.count)
        except TransientError:
            return  # the next pass asks again
        except AwsError as error:
            outcome.refused[source.id] = error.code
            return
        outcome.recalled += change.before_count - change.count
        self._publish(change)

    def _publish(self, change: LendingChange) -> None:
        source = change.source
        self.publisher.publish(
            [
                ReservationLendingChanged(
                    capacity_reservation_id=source.id,
                    instance_type=source.instance_type,
                    zone=source.zone,
                    zone_id=source.zone_id,
                    lent_before=change.before_count,
                    lent_count=change.count,
                    reason=change.explanation,
                )
            ]
        )


def is_lending(lease: NodeClaim) -> bool:
    """Whether a unit on its way is lent, and goes into no other reservation of ours."""
    return (lease.moves_to or "").startswith(_LENT)


def _target(lease: NodeClaim) -> int:
    return int((lease.moves_to or "").removeprefix(_LENT))


def _key(source_id: str) -> MoveKey:
    return MoveKey(source_id, _LENT)


def _by_intent(leases: Iterable[NodeClaim]) -> list[list[NodeClaim]]:
    """Return the leases that were made together, each group in order."""
    found: dict[str, list[NodeClaim]] = defaultdict(list)
    for lease in sorted(leases, key=lambda it: it.id):
        found[lease.batch_id].append(lease)
    return [found[key] for key in sorted(found)]


def _left(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """Return the world after a plan: what it left waiting, and the units that it did not take."""
    waiting: Counter[str] = Counter()
    for unplaced in plan.unplaced:
        waiting[unplaced.workload_key] += unplaced.count
    taken = units_launched(plan)
    return replace(
        snapshot,
        demands=tuple(
            replace(it, pending_count=min(it.pending_count, waiting[it.workload.key]))
            for it in snapshot.demands
            if waiting[it.workload.key] > 0
        ),
        reservations=tuple(
            replace(it, free_units=max(0, it.free_units - taken.get(it.id, 0)))
            for it in snapshot.reservations
        ),
    )


def _lends_more_than(shown: LentUnits | None, count: int) -> bool:
    return shown is not None and shown.target_count > count
