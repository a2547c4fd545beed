"""The state ports in memory: one lock, whole transactions, the same conditions as the tables."""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from lab.fakes.stores.launches import MemoryShortageHistory
from reservoir.core.capacity.idle import idle_since
from reservoir.core.capacity.ledger import (
    Balance,
    exhausted,
    holds_open_lease,
    is_moving,
    observed,
    relieved,
)
from reservoir.core.capacity.ledger import absorbed as lease_absorbed
from reservoir.core.capacity.ledger import settled as lease_settled
from reservoir.core.capacity.unavailable_offerings import (
    Place,
    Rests,
    Unavailable,
    with_shortages,
)
from reservoir.core.model.capacity_reservation import (
    CapacityReservation,
    ObservedReservation,
    RefusedUnits,
)
from reservoir.core.model.decision_summary import DecisionSummary
from reservoir.core.model.instance_type import InstanceType
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.serialisation.json_codec import dumps
from reservoir.core.sharing.planning_groups import PlanningTurn, planning_turn_row
from reservoir.core.sharing.reading_turns import DemandReading
from reservoir.ports.errors import RowsRefusedError
from reservoir.ports.history import Decision
from reservoir.ports.state import (
    COMMIT_ITEMS_MAX,
    TURN_ROW,
    ConflictError,
    PlannedCommit,
    ReservationRecord,
    UnreadableRowsError,
    WorkloadRecord,
)
from reservoir.ports.system import Clock

ROW_BYTES_MAX = 400 * 1024  # DynamoDB's


class MemoryState:
    """All tables. ``before_write`` is called before each write: tests raise from it to crash a caller there."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.lock = threading.RLock()
        self.workload_rows: dict[str, WorkloadRecord] = {}
        self.reservation_rows: dict[str, ReservationRecord] = {}
        self.claim_rows: dict[str, NodeClaim] = {}
        # keys of rows that a newer release wrote, or that were damaged
        self.unreadable: set[str] = set()
        self.turn = 0
        self.planning_turns: dict[str, PlanningTurn] = {}
        self.write_count = 0
        self.before_write: Callable[[], None] = lambda: None
        self.workloads = MemoryWorkloads(self)
        self.reservations = MemoryReservations(self)
        self.node_claims = MemoryNodeClaims(self)
        self.offerings = MemoryOfferings(self)
        self.decisions = MemoryDecisions(self)
        self.shortage_history = MemoryShortageHistory()

    def require_readable(self, *keys: str) -> None:
        """Refuse to say what rows hold that cannot be read."""
        lost = self.unreadable.intersection(keys)
        if lost:
            raise UnreadableRowsError(sorted(lost))

    def wrote(self) -> None:
        """Count a write that is about to happen."""
        self.before_write()
        self.write_count += 1


class MemoryWorkloads:
    """Implements ``WorkloadStore``."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    def get(self, key: str) -> WorkloadRecord | None:
        with self._state.lock:
            self._state.require_readable(key)
            record = self._state.workload_rows.get(key)
        expired = (
            record is not None
            and record.expires_at is not None
            and record.expires_at <= self._state.clock.now()
        )
        return None if expired else record

    def get_many(self, keys: Collection[str]) -> Mapping[str, WorkloadRecord]:
        self._state.require_readable(*keys)
        return {
            key: record
            for key in sorted(set(keys))
            if (record := self.get(key)) is not None
        }

    def placed_revisions(self) -> Mapping[str, int]:
        with self._state.lock:
            rows = self._state.workload_rows.items()
            return {key: record.revision for key, record in rows if record.placed_count > 0}

    def get_placed(
        self, keys: Collection[str], revisions: Mapping[str, int]
    ) -> Mapping[str, WorkloadRecord]:
        del revisions  # nothing is remembered here
        return self.get_many(keys)

    def read_waiting(
        self, choose: Callable[[Collection[str]], DemandReading]
    ) -> tuple[WorkloadRecord, ...]:
        return chosen(self.list_needing_planning(), choose)

    def list_needing_planning(self) -> tuple[WorkloadRecord, ...]:
        with self._state.lock:
            keys = sorted(self._state.workload_rows.keys() - self._state.unreadable)
        return tuple(
            record
            for key in keys
            if (record := self.get(key)) is not None and record.needs_planning
        )

    def put(
        self, record: WorkloadRecord, *, expected_revision: int | None
    ) -> WorkloadRecord:
        with self._state.lock:
            stored = self.get(record.key)
            if (None if stored is None else stored.revision) != expected_revision:
                raise ConflictError([record.key])
            if len(dumps(record).encode()) > ROW_BYTES_MAX:
                raise RowsRefusedError("ValidationException", "PutItem", [record.key])
            self._state.wrote()
            written = replace(record, revision=(expected_revision or 0) + 1)
            self._state.workload_rows[record.key] = written
            return written


def chosen(
    waiting: Sequence[WorkloadRecord], choose: Callable[[Collection[str]], DemandReading]
) -> tuple[WorkloadRecord, ...]:
    """Return the records that a reading takes of those that wait, by key."""
    by_key = {record.key: record for record in waiting}
    reading = choose(by_key.keys())
    read: set[str] = set()
    while page := reading.next_page():
        reading.took({key: len(dumps(by_key[key])) for key in page})
        read.update(page)
    return tuple(by_key[key] for key in sorted(read))


class MemoryReservations:
    """Implements ``ReservationStore``."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    def get(self, reservation_id: str) -> ReservationRecord | None:
        with self._state.lock:
            self._state.require_readable(reservation_id)
            return self._state.reservation_rows.get(reservation_id)

    def list_current(self) -> tuple[ReservationRecord, ...]:
        with self._state.lock:
            rows = self._state.reservation_rows
            records = [rows[key] for key in sorted(rows.keys() - self._state.unreadable)]
        return tuple(record for record in records if record.is_current)

    def save_observation(
        self,
        reservation: ObservedReservation,
        *,
        observed_at: datetime,
        absorbed: Sequence[NodeClaim],
        expected: ReservationRecord | None,
        outstanding_count: int = 0,
    ) -> ReservationRecord:
        del expected  # the lock makes the stored row the one to compare with
        with self._state.lock:
            stored = self.get(reservation.id)
            if stored is not None and observed_at <= stored.observed_at:
                return stored
            moved = [
                claim.id
                for claim in absorbed
                if self._state.claim_rows.get(claim.id) != claim
            ]
            if moved:
                raise ConflictError(moved)
            before = Balance(0, outstanding_count) if stored is None else stored.balance
            balance = observed(
                before,
                min(reservation.available_count, reservation.total_count),
                len(absorbed),
            )
            previous, said_at = (
                (None, None) if stored is None else (stored.idle_since, stored.idle_said_at)
            )
            since = idle_since(previous, reservation, balance.free_units, observed_at)
            # as it was known before: refusals are over
            if isinstance(reservation, CapacityReservation):
                reservation = replace(reservation, refusal=None)
            shown = _with_balance(reservation, balance)
            ending_said = None if stored is None else stored.ending_said
            readiness_said = None if stored is None else stored.readiness_said
            record = ReservationRecord(
                shown, balance, observed_at, since, said_at, ending_said, readiness_said
            )
            if (
                stored is not None
                and replace(record, observed_at=stored.observed_at) == stored
            ):
                return stored
            self._state.wrote()
            for claim in absorbed:
                self._state.claim_rows[claim.id] = replace(
                    lease_absorbed(claim), revision=claim.revision + 1
                )
            self._state.reservation_rows[reservation.id] = record
            return record

    def mark_exhausted(
        self, reservation_id: str, *, refused_at: datetime, refusal: str = ""
    ) -> None:
        with self._state.lock:
            stored = self.get(reservation_id)
            if stored is None or refused_at <= stored.observed_at:
                return
            self._state.wrote()
            before = stored.reservation.refusal
            shown_count = (
                stored.balance.available_count if before is None else before.shown_count
            )
            said = RefusedUnits(refusal, shown_count) if refusal else None
            refused = replace(stored, reservation=replace(stored.reservation, refusal=said))
            self.rebalance(refused, exhausted(stored.balance), refused_at)

    def mark_idle_said(
        self, reservation_ids: Collection[str], *, said_at: datetime
    ) -> None:
        with self._state.lock:
            for reservation_id in sorted(set(reservation_ids)):
                stored = self.get(reservation_id)
                if stored is not None:
                    self._state.wrote()
                    self._state.reservation_rows[reservation_id] = replace(
                        stored, idle_said_at=said_at
                    )

    def mark_ending_said(self, said: Mapping[str, str]) -> None:
        with self._state.lock:
            for reservation_id in sorted(said):
                stored = self.get(reservation_id)
                if stored is not None:
                    self._state.wrote()
                    self._state.reservation_rows[reservation_id] = replace(
                        stored, ending_said=said[reservation_id]
                    )

    def mark_readiness_said(self, said: Mapping[str, str]) -> None:
        with self._state.lock:
            for reservation_id in sorted(said):
                stored = self.get(reservation_id)
                if stored is not None:
                    self._state.wrote()
                    self._state.reservation_rows[reservation_id] = replace(
                        stored, readiness_said=said[reservation_id]
                    )

    def mark_stale(self, reservation_ids: Collection[str]) -> int:
        with self._state.lock:
            written = 0
            for reservation_id in sorted(set(reservation_ids)):
                stored = self.get(reservation_id)
                if stored is None or stored.reservation.stale:
                    continue
                self._state.wrote()
                self._state.reservation_rows[reservation_id] = replace(
                    stored, reservation=replace(stored.reservation, stale=True)
                )
                written += 1
            return written

    def rebalance(
        self, stored: ReservationRecord, balance: Balance, observed_at: datetime
    ) -> None:
        """Write a new balance (the caller holds the lock)."""
        reservation = _with_balance(stored.reservation, balance)
        self._state.reservation_rows[reservation.id] = replace(
            stored, reservation=reservation, balance=balance, observed_at=observed_at
        )


def _with_balance(
    reservation: ObservedReservation, balance: Balance
) -> CapacityReservation:
    facts = replace(reservation, available_count=balance.available_count)
    return CapacityReservation.of(facts, free_units=max(0, balance.free_units))


class MemoryNodeClaims:
    """Implements ``NodeClaimStore``."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state
        self._commits: list[PlannedCommit] = []

    def get(self, claim_id: str) -> NodeClaim | None:
        with self._state.lock:
            self._state.require_readable(claim_id)
            return self._state.claim_rows.get(claim_id)

    def get_many(self, claim_ids: Collection[str]) -> Mapping[str, NodeClaim]:
        self._state.require_readable(*claim_ids)
        return {
            claim_id: claim
            for claim_id in sorted(set(claim_ids))
            if (claim := self.get(claim_id)) is not None
        }

    def list_live(self) -> tuple[NodeClaim, ...]:
        return self._where(lambda claim: claim.is_live)

    def list_moving(self) -> tuple[NodeClaim, ...]:
        return self._where(is_moving)

    def find_by_instance(self, instance_ids: Collection[str]) -> Mapping[str, NodeClaim]:
        wanted = frozenset(instance_ids)
        rows = self._state.claim_rows.items()
        self._state.require_readable(
            *(key for key, claim in rows if claim.instance_id in wanted)
        )
        found = self._where(lambda claim: claim.instance_id in wanted)
        return {
            claim.instance_id: claim for claim in found if claim.instance_id is not None
        }

    def list_leased(self, reservation_id: str) -> tuple[NodeClaim, ...]:
        return self._where(
            lambda claim: (
                holds_open_lease(claim)
                and claim.lease is not None
                and claim.lease.reservation_id == reservation_id
            )
        )

    def _where(self, wanted: Callable[[NodeClaim], bool]) -> tuple[NodeClaim, ...]:
        with self._state.lock:
            rows = [
                row
                for row in sorted(self._state.claim_rows.items())
                if row[0] not in self._state.unreadable
            ]
            return tuple(claim for _, claim in rows if wanted(claim))

    def turn(self) -> int:
        with self._state.lock:
            return self._state.turn

    def planning_turns(self, group_keys: Collection[str]) -> Mapping[str, PlanningTurn]:
        with self._state.lock:
            return {
                key: self._state.planning_turns.get(key, PlanningTurn())
                for key in group_keys
            }

    def commit(self, commit: PlannedCommit) -> None:
        with self._state.lock:
            if commit in self._commits[-100:]:
                return
            assert commit.item_count() <= COMMIT_ITEMS_MAX, (
                "one transaction holds 100 items"
            )
            lost = self._lost(commit)
            if lost:
                raise ConflictError(lost)
            self._state.wrote()
            self._state.turn += commit.turn is not None
            self._state.planning_turns |= commit.planning_turns
            for claim in commit.claims:
                self._state.claim_rows[claim.id] = claim
            for before, after in commit.existing:
                self._state.claim_rows[after.id] = replace(
                    after, revision=before.revision + 1
                )
            for reservation_id, count in commit.leased_by_reservation().items():
                stored = self._state.reservation_rows[reservation_id]
                balance = replace(
                    stored.balance,
                    outstanding_count=stored.balance.outstanding_count + count,
                )
                self._state.reservations.rebalance(stored, balance, stored.observed_at)
            for key, count in commit.placed_by_workload().items():
                self._move_placed(key, count)
            self._commits.append(commit)

    def _lost(self, commit: PlannedCommit) -> list[str]:
        """Rows that are not as the commit requires."""
        rows = self._state.claim_rows
        lost = [claim.id for claim in commit.claims if claim.id in rows]
        lost += [
            before.id
            for before, _ in commit.existing
            if before.id not in rows or rows[before.id].revision != before.revision
        ]
        for reservation_id, needed in commit.free_units_needed().items():
            stored = self._state.reservation_rows.get(reservation_id)
            if stored is None or (needed and stored.balance.free_units < needed):
                lost.append(reservation_id)
        for key, count in commit.placed_by_workload().items():
            record = self._state.workload_rows.get(key)
            generation = (
                None if record is None else commit.generations.get(key, record.generation)
            )
            if (
                record is None
                or record.open_count < count
                or record.generation != generation
            ):
                lost.append(key)
        for key, generation in commit.depends_on.items():
            record = self._state.workload_rows.get(key)
            if record is None or record.generation != generation:
                lost.append(key)
        for key, turn in self.planning_turns(commit.planning_turns).items():
            if commit.planning_turns[key].number != turn.number + 1:
                lost.append(planning_turn_row(key))
        return lost + ([] if commit.turn in (None, self._state.turn) else [TURN_ROW])

    def _move_placed(
        self, key: str, count: int, returned_at: datetime | None = None
    ) -> None:
        record = self._state.workload_rows[key]
        record = replace(
            record, placed_count=record.placed_count + count, revision=record.revision + 1
        )
        if returned_at is not None and record.pending_since is None:
            record = replace(record, pending_since=returned_at)
        self._state.workload_rows[key] = record

    def save(self, claim: NodeClaim, *, expected_revision: int) -> NodeClaim:
        with self._state.lock:
            return self._write(claim, expected_revision)

    def save_many(self, claims: Sequence[NodeClaim]) -> Mapping[str, NodeClaim]:
        with self._state.lock:
            rows = self._state.claim_rows
            current = [
                claim
                for claim in claims
                if claim.id in rows and rows[claim.id].revision == claim.revision
            ]
            return {claim.id: self._write(claim, claim.revision) for claim in current}

    def settle(self, claim: NodeClaim, *, expected_revision: int) -> NodeClaim:
        with self._state.lock:
            return self._write(lease_settled(claim), expected_revision)

    def _write(self, claim: NodeClaim, expected_revision: int) -> NodeClaim:
        if self._moved_on(claim, expected_revision):
            raise ConflictError([claim.id])
        self._state.wrote()
        written = replace(claim, revision=expected_revision + 1)
        self._state.claim_rows[claim.id] = written
        return written

    def _moved_on(self, claim: NodeClaim, expected_revision: int) -> bool:
        stored = self._state.claim_rows.get(claim.id)
        return stored is None or stored.revision != expected_revision

    def return_replicas(
        self,
        claim: NodeClaim,
        *,
        expected_revision: int,
        placements: Mapping[str, int],
        returned_at: datetime,
    ) -> NodeClaim:
        with self._state.lock:
            after = relieved(claim, placements)
            gives_back = holds_open_lease(claim) and not holds_open_lease(after)
            lost = [claim.id] if self._moved_on(claim, expected_revision) else []
            records = self._state.workload_rows
            lost += [
                key
                for key, count in placements.items()
                if key not in records or records[key].placed_count < count
            ]
            stored = (
                self._state.reservation_rows[claim.lease.reservation_id]
                if claim.lease is not None
                else None
            )
            if gives_back and stored is not None and stored.balance.outstanding_count < 1:
                lost.append(stored.reservation.id)
            if lost:
                raise ConflictError(lost)
            written = self._write(after, expected_revision)
            for key, count in sorted(placements.items()):
                self._move_placed(key, -count, returned_at)
            if gives_back and stored is not None:
                balance = replace(
                    stored.balance, outstanding_count=stored.balance.outstanding_count - 1
                )
                self._state.reservations.rebalance(stored, balance, stored.observed_at)
            return written

    def return_many(
        self, claims: Sequence[NodeClaim], *, returned_at: datetime
    ) -> Mapping[str, NodeClaim]:
        with self._state.lock:
            rows = self._state.claim_rows
            current = [
                claim
                for claim in claims
                if claim.id in rows and rows[claim.id].revision == claim.revision
            ]
            before = {
                key: record.revision for key, record in self._state.workload_rows.items()
            }
            returned = {claim.id: self._returned(claim, returned_at) for claim in current}
            # A workload's row is written once, however many of the claims had replicas of it.
            keys = {placed.workload_key for claim in current for placed in claim.placements}
            for key in sorted(keys):
                record = self._state.workload_rows[key]
                self._state.workload_rows[key] = replace(record, revision=before[key] + 1)
            return returned

    def _returned(self, claim: NodeClaim, returned_at: datetime) -> NodeClaim:
        placed = {placed.workload_key: placed.count for placed in claim.placements}
        revision = claim.revision
        return self.return_replicas(
            claim, expected_revision=revision, placements=placed, returned_at=returned_at
        )

    def finish_replicas(
        self,
        claim: NodeClaim,
        *,
        expected_revision: int,
        record: WorkloadRecord,
        expected_record_revision: int,
    ) -> NodeClaim:
        with self._state.lock:
            stored = self._state.workload_rows.get(record.key)
            lost = [claim.id] if self._moved_on(claim, expected_revision) else []
            if stored is None or stored.revision != expected_record_revision:
                lost.append(record.key)
            if lost:
                raise ConflictError(lost)
            written = self._write(claim, expected_revision)
            self._state.workload_rows[record.key] = replace(
                record, revision=expected_record_revision + 1
            )
            return written


class MemoryOfferings:
    """Implements ``OfferingStore``."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state
        self._catalogue: dict[str, InstanceType] = {}
        self._shortages: dict[Place, Unavailable] = {}

    def load_catalogue(self) -> tuple[InstanceType, ...]:
        return self.load_with_rests()[0]

    def load_with_rests(
        self, only: Collection[str] | None = None
    ) -> tuple[tuple[InstanceType, ...], Rests]:
        with self._state.lock:
            named = (
                self._catalogue.keys() if only is None else self._catalogue.keys() & only
            )
            known = tuple(self._catalogue[name] for name in sorted(named))
            rests = self.list_unavailable(self._state.clock.now())
            return with_shortages(known, rests), rests

    def on_demand_prices(self, instance_types: Collection[str]) -> Mapping[str, int]:
        found = {
            name: self._catalogue[name]
            for name in instance_types
            if name in self._catalogue
        }
        prices = {name: it.on_demand_price_micro_usd_per_hour for name, it in found.items()}
        return {name: price for name, price in prices.items() if price is not None}

    def save_catalogue(self, instance_types: Sequence[InstanceType]) -> int:
        with self._state.lock:
            wanted = {instance_type.name: instance_type for instance_type in instance_types}
            changed = [name for name in wanted if self._catalogue.get(name) != wanted[name]]
            gone = self._catalogue.keys() - wanted.keys()
            if changed or gone:
                self._state.wrote()
                self._catalogue = wanted
            return len(changed) + len(gone)

    def mark_unavailable(
        self, places: Collection[Place], *, until: datetime, reason: str = ""
    ) -> None:
        with self._state.lock:
            for key in places:
                known = self._shortages.get(key)
                if until > (self._state.clock.now() if known is None else known.until):
                    self._state.wrote()
                    self._shortages[key] = Unavailable(until, reason)

    def list_unavailable(self, now: datetime) -> Mapping[Place, Unavailable]:
        with self._state.lock:
            return {
                key: shortage
                for key, shortage in self._shortages.items()
                if shortage.until > now
            }


class MemoryDecisions:
    """Implements ``DecisionStore``."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state
        self.rows: dict[str, tuple[Decision, str]] = {}

    def save(self, decision: Decision, snapshot_json: str) -> None:
        with self._state.lock:
            self._state.wrote()
            self.rows[decision.plan_id] = (decision, snapshot_json)

    def save_if_changed(self, decision: Decision, snapshot_json: str) -> None:
        known = self.rows.get(decision.plan_id)
        if known is None or (known[0].plan_json, known[1]) != (
            decision.plan_json,
            snapshot_json,
        ):
            self.save(decision, snapshot_json)

    def load(self, plan_id: str) -> tuple[Decision, str] | None:
        return self.rows.get(plan_id)

    def summaries(self, plan_ids: Collection[str]) -> Mapping[str, DecisionSummary]:
        found = [self.rows[each][0] for each in sorted(set(plan_ids)) if each in self.rows]
        return {
            each.plan_id: DecisionSummary(each.plan_id, each.made_at, each.summary)
            for each in found
        }
