"""Reacts to events of AWS: interruptions, state changes, scheduled maintenance, reservations.

Events are hints, and may be late or doubled: instances are read again, and only what EC2 confirms has an effect.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import Final

from reservoir.core.capacity.shortage import after_ending
from reservoir.core.capacity.unavailable_offerings import BootKey
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance import SPOT_LIFECYCLE, Instance
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import DrainReason, NodeClaim, correlation_ids_of
from reservoir.core.model.plan import OfferingKey
from reservoir.core.node_life.drain import (
    INTERRUPTION_NOTICE,
    InstanceStatusPolicy,
    RebalancePolicy,
    maintenance_deadline,
)
from reservoir.core.node_life.notice import Notice, NoticeKind
from reservoir.manifests.events import ReservationIdle
from reservoir.ports.ec2 import InstanceReader
from reservoir.ports.errors import AwsError
from reservoir.ports.launches import ShortageHistory
from reservoir.ports.messaging import EventPublisher
from reservoir.ports.state import NodeClaimStore, OfferingStore, ReservationStore
from reservoir.ports.system import Clock
from reservoir.usecases.claims import unreadable
from reservoir.usecases.discovery.freed_units import FreedUnits
from reservoir.usecases.discovery.reservation_starts import ReservationStarts
from reservoir.usecases.draining.block_drains import BlockDrains
from reservoir.usecases.draining.draining import Draining, DrainRequest, Moves
from reservoir.usecases.draining.termination_batcher import TerminationBatcher
from reservoir.usecases.node_life.leave_spot import LeaveSpot
from reservoir.usecases.node_life.node_life import NodeLife

# A warning that arrives this late is about a machine that has long been dealt with; EC2 itself gives two minutes.
_STALE_AFTER: Final = timedelta(minutes=15)
# for users, who would otherwise take it for insufficient capacity
_INTERRUPTED: Final = "EC2 interrupts its instances"
_INTERRUPTIONS: Final = frozenset(
    {NoticeKind.SPOT_INTERRUPTION, NoticeKind.RESERVATION_INTERRUPTION}
)
# AWS Health reports a reservation that was used to less than a fifth for at least this long.
_UNDERUTILIZED_FOR: Final = timedelta(hours=24)


@dataclass(slots=True)
class ReactReport:
    """Counts of one run. ``failed_instance_ids``: their notices must come again."""

    by_kind: Counter[NoticeKind] = field(default_factory=Counter)
    foreign_count: int = 0
    drained_count: int = 0
    suspected_count: int = 0  # reservations that have become suspected of broken units
    early_count: int = 0  # nodes that ended before they ran
    blocked_count: int = 0  # classes that rest because their nodes do
    started_count: int = 0  # reservations that were seen to begin
    unread_count: int = 0  # readings of reservations that EC2 refused
    failed_instance_ids: set[str] = field(default_factory=set)
    # of the workloads on the nodes that it was about
    correlation_ids: list[str] = field(default_factory=list)


_Answer = tuple[DrainReason, datetime | None]  # a deadline of None: the usual grace


@dataclass(frozen=True, slots=True)
class _Warned:
    """A notice about a node that EC2 still shows alive, or does not show yet (``instance`` is None)."""

    claim: NodeClaim
    instance: Instance | None
    notice: Notice

    @property
    def is_on_spot(self) -> bool:
        """Whether it is a spot instance, by EC2's word where it has one."""
        if self.instance is None:
            return self.claim.offering.capacity_type is CapacityType.SPOT
        return self.instance.lifecycle == SPOT_LIFECYCLE

    def is_about_spot(self, kinds: Set[NoticeKind]) -> bool:
        """Whether notices of these kinds mean that the offering of the node is running short."""
        is_spot = self.is_on_spot and self.claim.offering.capacity_type is CapacityType.SPOT
        return is_spot and self.notice.kind in kinds

    @property
    def interrupted_reservation_id(self) -> str | None:
        """The reservation that EC2 takes back."""
        if self.notice.kind is not NoticeKind.RESERVATION_INTERRUPTION:
            return None
        if self.instance is None:
            return self.claim.offering.reservation_id
        return self.instance.capacity_reservation_id


@dataclass(frozen=True, slots=True)
class React:
    """The reaction use case. Whatever in it ends nodes asks through ``terminations``."""

    claims: NodeClaimStore
    reservations: ReservationStore
    offerings: OfferingStore
    shortages: ShortageHistory
    instances: InstanceReader
    leave_spot: LeaveSpot
    life: NodeLife
    draining: Draining
    blocks: BlockDrains
    terminations: TerminationBatcher
    freed: FreedUnits
    starts: ReservationStarts
    publisher: EventPublisher
    clock: Clock
    rebalance: RebalancePolicy = RebalancePolicy.IGNORE
    instance_status: InstanceStatusPolicy = InstanceStatusPolicy.REPLACE

    def run(self, notices: Sequence[Notice]) -> ReactReport:
        """Handle a batch of notices: one reading of their claims, one of their instances, one call that ends nodes.

        Raises UnreadableRowsError for claims that cannot be read again.
        """
        report = ReactReport(by_kind=Counter(notice.kind for notice in notices))
        now = self.clock.now()
        instance_ids = set(chain.from_iterable(notice.instance_ids for notice in notices))
        shown = self.instances.get_many(instance_ids) if instance_ids else {}
        known, lost = self._claims_of(instance_ids, shown)
        report.foreign_count = len(instance_ids - known.keys() - lost)
        report.correlation_ids = correlation_ids_of(known.values())
        with self.terminations.batch():
            if known:
                ours = {key: shown[key] for key in known if key in shown}
                self._react_to_instances(notices, known, ours, now, report)
            if any(notice.kind is NoticeKind.RESERVATION_CHANGED for notice in notices):
                self._react_to_reservations(notices, now)
        due = _reservations_named(
            notice for notice in notices if notice.kind is NoticeKind.RESERVATION_DUE
        )
        if due:
            self._look_for_starts(due, report, now)
        idle = self._idle(
            [
                notice
                for notice in notices
                if notice.kind is NoticeKind.RESERVATION_UNDERUTILIZED
            ]
        )
        if idle:
            self.publisher.publish(idle)
        return report

    def _claims_of(
        self, instance_ids: Set[str], shown: Mapping[str, Instance]
    ) -> tuple[Mapping[str, NodeClaim], frozenset[str]]:
        """Return claims by instance id, and the instances whose claims cannot be read.

        Instances name their claims: those are read by the hundred, and only the rest is looked up one by one. A tag is
        a hint; the claim itself says which instance it has. Claims are read after instances, so they know at least as
        much.
        """
        tagged = {key: it.claim_id for key, it in shown.items() if it.claim_id is not None}
        named = unreadable.claims_named(self.claims, set(tagged.values()))
        known = {
            key: named[tag]
            for key, tag in tagged.items()
            if tag in named and named[tag].instance_id == key
        }
        rest, lost = unreadable.claims_by_instance(self.claims, instance_ids - known.keys())
        return {**known, **rest}, lost

    def _look_for_starts(
        self, reservation_ids: Set[str], report: ReactReport, now: datetime
    ) -> None:
        try:
            report.started_count = self.starts.run(now, reservation_ids)
        except AwsError:  # discovery reads the same each minute, and alarms when it cannot
            report.unread_count += 1

    def _idle(self, notices: Sequence[Notice]) -> list[ReservationIdle]:
        """Pass on that AWS has seen a reservation nearly unused, where that is still so."""
        found = []
        sightings: set[tuple[str, datetime]] = set()
        for notice in notices:
            sightings.update(
                (reservation_id, notice.at) for reservation_id in notice.reservation_ids
            )
        for reservation_id, seen_at in sorted(sightings):
            record = unreadable.reservation(self.reservations, reservation_id)
            if record is not None and record.reservation.available_count > 0:
                found.append(
                    ReservationIdle(
                        capacity_reservation_id=reservation_id,
                        instance_type=record.reservation.instance_type,
                        zone=record.reservation.zone,
                        zone_id=record.reservation.zone_id,
                        total_count=record.reservation.total_count,
                        idle_count=record.reservation.available_count,
                        idle_since=seen_at - _UNDERUTILIZED_FOR,
                    )
                )
        return found

    def _react_to_instances(
        self,
        notices: Sequence[Notice],
        known: Mapping[str, NodeClaim],
        shown: Mapping[str, Instance],
        now: datetime,
        report: ReactReport,
    ) -> None:
        followed = self.life.apply(list(known.values()), shown, now)
        early = followed.early
        report.early_count, report.blocked_count = early.ended_count, early.blocked_count
        report.suspected_count = early.suspected_count
        self.freed.observe(followed.freed_reservation_ids, now)
        warned: list[_Warned] = []
        for key in sorted(known):
            warned.extend(_warnings(known[key], shown.get(key), notices, now))
        self._remember_shortages(warned, now)
        requests = self._requests(warned, now)
        drained = self.draining.begin_drains(requests) if requests else Moves()
        report.drained_count = len(drained.moved)
        lost = followed.lost.union(drained.lost)
        report.failed_instance_ids |= {
            instance_id for instance_id, claim in known.items() if claim.id in lost
        }

    def _remember_shortages(self, warned: Sequence[_Warned], now: datetime) -> None:
        """Remember what the warnings say about capacity, each offering and reservation once, before drains (R-162)."""
        telling = {NoticeKind.SPOT_INTERRUPTION}
        if self.rebalance is RebalancePolicy.LAUNCH_BEFORE_DRAIN:
            # else its replacement may be bought in the same pool
            telling.add(NoticeKind.REBALANCE)
        on_spot = {
            each.claim.id: each.claim for each in warned if each.is_about_spot(telling)
        }
        if on_spot:
            self._rest_spot({claim.offering for claim in on_spot.values()}, now)
            self.leave_spot.note([on_spot[key] for key in sorted(on_spot)], now)
        refused_at: dict[str, datetime] = {}
        for each in warned:
            if each.interrupted_reservation_id is not None:
                known = refused_at.get(each.interrupted_reservation_id, each.notice.at)
                refused_at[each.interrupted_reservation_id] = max(known, each.notice.at)
        for reservation_id in sorted(refused_at):
            # S-83
            self.reservations.mark_exhausted(
                reservation_id, refused_at=refused_at[reservation_id]
            )

    def _rest_spot(self, offerings: Set[OfferingKey], now: datetime) -> None:
        """Let spot offerings rest, longer each time that they are interrupted within hours of the last rest (R-162)."""
        known = self.shortages.get_many([BootKey(offering) for offering in offerings])
        rests = {
            offering: after_ending(known.get(BootKey(offering)), now)
            for offering in offerings
        }
        self.shortages.put({BootKey(offering): rest for offering, rest in rests.items()})
        by_until: dict[datetime, set[OfferingKey]] = {}
        for offering, rest in rests.items():
            by_until.setdefault(rest.until, set()).add(offering)
        for until in sorted(by_until):
            self.offerings.mark_unavailable(
                by_until[until], until=until, reason=_INTERRUPTED
            )

    def _requests(self, warned: Sequence[_Warned], now: datetime) -> list[DrainRequest]:
        """Return the drain that the most urgent warning about each node asks for."""
        interrupted = sorted(
            {key for each in warned if (key := each.interrupted_reservation_id) is not None}
        )
        records = [unreadable.reservation(self.reservations, key) for key in interrupted]
        kinds = {
            record.reservation.id: record.reservation.kind
            for record in records
            if record is not None
        }
        blocks = {
            key for key, kind in kinds.items() if kind is ReservationKind.CAPACITY_BLOCK
        }
        answers: dict[str, list[_Answer]] = {}
        for each in warned:
            answer = self._answer(each, blocks, now)
            if answer is not None:
                answers.setdefault(each.claim.id, []).append(answer)
        claims = {each.claim.id: each.claim for each in warned}
        return [
            DrainRequest(claims[key], *min(found, key=partial(_urgency, now)))
            for key, found in answers.items()
        ]

    def _answer(self, warned: _Warned, blocks: Set[str], now: datetime) -> _Answer | None:
        """Return why and until when to drain."""
        notice = warned.notice
        if notice.kind is NoticeKind.SPOT_INTERRUPTION and warned.is_on_spot:
            return DrainReason.INTERRUPTION, notice.at + INTERRUPTION_NOTICE
        if warned.interrupted_reservation_id is not None:
            is_block = warned.interrupted_reservation_id in blocks
            reason = (
                DrainReason.CAPACITY_BLOCK_ENDING if is_block else DrainReason.INTERRUPTION
            )
            return reason, notice.due_at or notice.at + INTERRUPTION_NOTICE
        if notice.kind is NoticeKind.SCHEDULED_CHANGE:
            if self.instance_status is InstanceStatusPolicy.REPORT:
                # the minute's sweep finds the same maintenance, and counts it once
                return None
            if (
                notice.due_at is not None
                and maintenance_deadline(notice.due_at, now) is None
            ):
                return None  # there is time: the minute's sweep asks what runs there
            return DrainReason.SCHEDULED_CHANGE, maintenance_deadline(notice.due_at, now)
        if (
            notice.kind is NoticeKind.REBALANCE
            and self.rebalance is RebalancePolicy.LAUNCH_BEFORE_DRAIN
        ):
            return DrainReason.REBALANCE, None
        return None

    def _react_to_reservations(self, notices: Sequence[Notice], now: datetime) -> None:
        """Look at the drains of blocks that were named.

        Discovery is woken by the same event through a rule of its own, and wakes the planner if it finds more. A pass
        before that would find nothing, and the one that can use the reservation would wait for its end.
        """
        named = _reservations_named(notices)
        live = (
            [
                claim
                for claim in self.claims.list_live()
                if claim.offering.reservation_id in named
            ]
            if named
            else []
        )
        if live:
            self.blocks.run(live, now)


def _reservations_named(notices: Iterable[Notice]) -> frozenset[str]:
    return frozenset(chain.from_iterable(notice.reservation_ids for notice in notices))


def _warnings(
    claim: NodeClaim, instance: Instance | None, notices: Sequence[Notice], now: datetime
) -> Iterator[_Warned]:
    """Yield the warnings about a node that still matter.

    EC2 may warn of an interruption before it shows the instance: two minutes are too few to wait until it does.
    """
    if instance is not None and (instance.is_gone or instance.is_stopped):
        return
    is_new = claim.is_live and now - claim.created_at <= _STALE_AFTER
    for notice in notices:
        is_timely = (
            claim.instance_id in notice.instance_ids and notice.at >= now - _STALE_AFTER
        )
        if is_timely and (
            instance is not None or (is_new and notice.kind in _INTERRUPTIONS)
        ):
            yield _Warned(claim, instance, notice)


def _urgency(now: datetime, answer: _Answer) -> tuple[bool, datetime, DrainReason]:
    reason, deadline = answer
    return deadline is None, deadline or now, reason
