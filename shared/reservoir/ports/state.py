"""The state that use cases read and move; every write names the revision that it saw.

Each mutating method is one transaction: it happens whole or not at all, and repeating it after an unknown outcome is
safe, because the revision or state that it requires is gone once it has happened.

A row that a newer release wrote, or that was damaged, is never taken for one that does not exist. Asking for it by key
raises UnreadableRowsError; listings go on without it, which is why their gaps must have no consequences.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from reservoir.core.capacity.ledger import Balance
from reservoir.core.capacity.unavailable_offerings import Place, Rests, Unavailable
from reservoir.core.model.capacity_reservation import (
    ENDED_STATES,
    CapacityReservation,
    ObservedReservation,
)
from reservoir.core.model.instance_type import InstanceType
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.plan import UnplacedReplicas
from reservoir.core.model.unknown_fields import KEEPS_UNKNOWN
from reservoir.core.model.workload import Workload
from reservoir.core.sharing.planning_groups import PlanningTurn
from reservoir.core.sharing.reading_turns import DemandReading
from reservoir.ports.safety import UnreadableRowError


class ConflictError(Exception):
    """Some rows moved on since they were read (or free units ran out): read again and decide again."""

    def __init__(self, rows: Sequence[str]) -> None:
        super().__init__(f"lost the race for {', '.join(rows)}")
        self.rows = tuple(rows)  # ids of the rows that were not as required


class UnreadableRowsError(UnreadableRowError):
    """Rows cannot be read; ``rows`` are their keys. Their content is not known, and never taken for nothing."""

    def __init__(self, rows: Sequence[str]) -> None:
        self.rows = tuple(sorted(rows))
        super().__init__(f"row {', '.join(self.rows)}")


@dataclass(frozen=True, slots=True)
class Rollout:
    """Replicas of earlier specs are being replaced: how many more than the wanted ones may have a place meanwhile.

    ``waits_for``: what the next node waits for.
    """

    surge_count: int = 0
    waits_for: str = ""


@dataclass(frozen=True, slots=True)
class WorkloadRecord:
    """A workload as stored. ``workload`` None: a withdraw came before any submit.

    ``placed_count`` is the number of its replicas on live claims; the number of pending replicas is derived from it and
    never stored. ``finished_count`` of its replicas have finished; they have left their claims and want no place.
    """

    key: str
    generation: int
    revision: int
    workload: Workload | None
    withdrawn: bool = False
    placed_count: int = 0
    finished_count: int = 0
    submitted_at: datetime | None = None
    pending_since: datetime | None = None
    unplaced: tuple[UnplacedReplicas, ...] = ()  # why replicas waited after the last plan
    # a tombstone is forgotten then; set when nothing of it runs any more
    expires_at: datetime | None = None
    sent_by: str | None = None  # SQS's id of the sender of this generation
    sent_at: datetime | None = None  # when it was stored
    # SQS's id of the message that it began with; kept until it is withdrawn
    correlation_id: str | None = None
    # By generation, the last workload of each: the terms of replicas that were placed before an update.
    former: tuple[Workload, ...] = ()
    rollout: Rollout | None = None  # as the last pass of disruption left it
    # a newer release's fields
    unknown: Mapping[str, Any] = field(default_factory=dict, metadata=KEEPS_UNKNOWN)

    @property
    def open_count(self) -> int:
        """Replicas that still want a place minus replicas placed; negative when some are surplus."""
        return self.unfinished_count + self.surge_count - self.placed_count

    @property
    def surge_count(self) -> int:
        """Replicas that may have a place beside the wanted ones, while an update replaces running replicas."""
        if self.rollout is None or self.unfinished_count == 0:
            return 0
        return self.rollout.surge_count

    @property
    def unfinished_count(self) -> int:
        """Replicas that are wanted and have not finished."""
        wanted = 0 if self.withdrawn or self.workload is None else self.workload.replicas
        return max(0, wanted - self.finished_count)

    @property
    def pending_count(self) -> int:
        """Replicas that want a place."""
        return max(0, self.open_count)

    @property
    def surplus_count(self) -> int:
        """Replicas that have a place and no longer want one."""
        return max(0, -self.open_count)

    @property
    def needs_planning(self) -> bool:
        """Whether the planner must look at it; rows for which this holds are in the listing index."""
        return self.open_count != 0


@dataclass(frozen=True, slots=True)
class ReservationRecord:
    """A reservation as stored: EC2's facts, the ledger's balance, and when the facts were observed."""

    # available_count and free_units (at least 0) agree with balance
    reservation: CapacityReservation
    balance: Balance
    observed_at: datetime  # when the last observation that changed anything *began*
    # since when observations have shown a free unit without interruption
    idle_since: datetime | None = None
    idle_said_at: datetime | None = None  # when ``Reservation Idle`` was published last
    ending_said: str | None = None  # which ``Reservation Ending`` was published last
    readiness_said: str | None = None  # the same of ``Reservation Readiness``

    @property
    def is_current(self) -> bool:
        """Whether it belongs on the list: not ended, or still owed by an open lease."""
        return (
            self.reservation.state not in ENDED_STATES or self.balance.outstanding_count > 0
        )


@dataclass(frozen=True, slots=True)
class PlannedCommit:
    """One transaction of a plan: new claims with their leases, and replicas added to claims that exist.

    ``claims`` are in state planned, a lease held where ``lease`` is set. ``existing`` maps a claim as it was read to
    the claim as it is to be (with more placements). ``generations``: the generations that the plan was made for, by
    workload key; workloads that it leaves out are not checked. ``depends_on`` are generations of workloads that get no
    replicas here and must not have changed either: those that a disruption moves. ``turn``: the result of
    ``NodeClaimStore.turn``, which must not have changed; the commit counts it up. The same holds for
    ``planning_turns``, which are given as the commit leaves them, by the group's key. At most ``COMMIT_ITEMS_MAX`` rows
    are touched in all.
    """

    claims: tuple[NodeClaim, ...] = ()
    existing: tuple[tuple[NodeClaim, NodeClaim], ...] = ()
    generations: Mapping[str, int] = field(default_factory=dict)
    depends_on: Mapping[str, int] = field(default_factory=dict)
    turn: int | None = None
    planning_turns: Mapping[str, PlanningTurn] = field(default_factory=dict)

    def placed_by_workload(self) -> Mapping[str, int]:
        """Replicas that the commit adds, by workload key."""
        counts: dict[str, int] = {}
        for claim in self.claims:
            for placed in claim.placements:
                counts[placed.workload_key] = (
                    counts.get(placed.workload_key, 0) + placed.count
                )
        for before, after in self.existing:
            for placed in after.placements:
                counts[placed.workload_key] = (
                    counts.get(placed.workload_key, 0) + placed.count
                )
            for placed in before.placements:
                counts[placed.workload_key] = (
                    counts.get(placed.workload_key, 0) - placed.count
                )
        return {key: count for key, count in counts.items() if count != 0}

    def leased_by_reservation(self) -> Mapping[str, int]:
        """Units that the commit leases, by reservation id."""
        counts: dict[str, int] = {}
        for claim in self.claims:
            if claim.lease is not None:
                counts[claim.lease.reservation_id] = (
                    counts.get(claim.lease.reservation_id, 0) + 1
                )
        return counts

    def free_units_needed(self) -> Mapping[str, int]:
        """Units that must be free for the commit, by reservation id: all leased ones but those that wait for a slot."""
        counts = dict.fromkeys(self.leased_by_reservation(), 0)
        for claim in self.claims:
            if claim.lease is not None and not claim.waits_for_slot:
                counts[claim.lease.reservation_id] += 1
        return counts

    def item_count(self) -> int:
        """Rows that the transaction touches."""
        rows = (
            len(self.claims)
            + len(self.existing)
            + len(self.depends_on)
            + (self.turn is not None)
        )
        rows += len(self.planning_turns)
        return rows + len(self.placed_by_workload()) + len(self.leased_by_reservation())


COMMIT_ITEMS_MAX = 100  # DynamoDB's limit of items in one transaction
TURN_ROW = "disruption-turn"  # what a ConflictError calls the turn


class WorkloadStore(Protocol):
    """Workloads."""

    def get(self, key: str) -> WorkloadRecord | None:
        """Return the record (consistent read), None when there is none. Raises UnreadableRowsError."""
        ...

    def get_many(self, keys: Collection[str]) -> Mapping[str, WorkloadRecord]:
        """Return the records that exist (consistent read). Raises UnreadableRowsError with all that cannot be read."""
        ...

    def placed_revisions(self) -> Mapping[str, int]:
        """Return revisions of workloads with replicas placed; may lag a write by moments, and lack any of them."""
        ...

    def get_placed(
        self, keys: Collection[str], revisions: Mapping[str, int]
    ) -> Mapping[str, WorkloadRecord]:
        """Return the records that exist, as ``get_many``; the result of ``placed_revisions`` spares reads.

        A record that was read at that revision, and needed no planning, is used instead of its row: it may lag as they
        do. Raises UnreadableRowsError with all others that cannot be read.
        """
        ...

    def read_waiting(
        self, choose: Callable[[Collection[str]], DemandReading]
    ) -> tuple[WorkloadRecord, ...]:
        """Return, by key, the records of ``list_needing_planning`` that are chosen by their keys.

        A record that cannot be read, or no longer needs planning, is left out.
        """
        ...

    def list_needing_planning(self) -> tuple[WorkloadRecord, ...]:
        """Return records with pending or surplus replicas, by key; may lag a write by moments.

        A record that a commit has just satisfied may still be listed; putting it takes it off the list.
        """
        ...

    def put(
        self, record: WorkloadRecord, *, expected_revision: int | None
    ) -> WorkloadRecord:
        """Write ``record`` if the stored revision is the expected one (None: no row), return it; or ConflictError."""
        ...


class ReservationStore(Protocol):
    """Reservations with their balances."""

    def get(self, reservation_id: str) -> ReservationRecord | None:
        """Return the record (consistent read). Raises UnreadableRowsError."""
        ...

    def list_current(self) -> tuple[ReservationRecord, ...]:
        """Return reservations that are or may become usable, by id."""
        ...

    def save_observation(
        self,
        reservation: ObservedReservation,
        *,
        observed_at: datetime,
        absorbed: Sequence[NodeClaim],
        expected: ReservationRecord | None,
        outstanding_count: int = 0,
    ) -> ReservationRecord:
        """Replace the facts by an observation that began at ``observed_at`` and close the leases in ``absorbed``.

        An observation that began no later than the stored one is dropped, the stored record is returned. Writes nothing
        when neither facts nor leases changed. Leases beyond one transaction follow in further ones, each of which
        leaves too little rather than too much free. A reservation that has no row starts with ``outstanding_count``
        open leases: its row may have been lost. An ended reservation without open leases leaves the list.

        Raises
        ------
        ConflictError
            A claim in ``absorbed`` moved on, the row has fewer open leases than those, or it has just come or gone.
        UnreadableRowsError
            The row that ``expected`` does not have, or that was in the way, cannot be read.
        """
        ...

    def mark_exhausted(
        self, reservation_id: str, *, refused_at: datetime, refusal: str = ""
    ) -> None:
        """EC2 refused a unit: nothing is free until an observation that begins after ``refused_at``.

        ``refusal``: EC2's answer, if it was another one than that all units are taken.
        """
        ...

    def mark_idle_said(
        self, reservation_ids: Collection[str], *, said_at: datetime
    ) -> None:
        """Remember that ``Reservation Idle`` was published."""
        ...

    def mark_ending_said(self, said: Mapping[str, str]) -> None:
        """Remember which ``Reservation Ending`` was published, by reservation."""
        ...

    def mark_readiness_said(self, said: Mapping[str, str]) -> None:
        """Remember which ``Reservation Readiness`` was published, by reservation."""
        ...

    def mark_stale(self, reservation_ids: Collection[str]) -> int:
        """Flag the facts as the last good ones after a failed discovery; returns how many rows were written.

        Raises UnreadableRowsError; rows before that one, by id, are flagged by then.
        """
        ...


class NodeClaimStore(Protocol):
    """NodeClaims, and the transactions that move claims, leases and workload counts together."""

    def get(self, claim_id: str) -> NodeClaim | None:
        """Return the claim (consistent read). Raises UnreadableRowsError."""
        ...

    def get_many(self, claim_ids: Collection[str]) -> Mapping[str, NodeClaim]:
        """Return the claims that exist (consistent read). Raises UnreadableRowsError with all that cannot be read."""
        ...

    def list_live(self) -> tuple[NodeClaim, ...]:
        """Return claims in a live state, by id; may lag a write by moments."""
        ...

    def find_by_instance(self, instance_ids: Collection[str]) -> Mapping[str, NodeClaim]:
        """Return claims by EC2 instance id. Raises UnreadableRowsError with all that cannot be read."""
        ...

    def list_moving(self) -> tuple[NodeClaim, ...]:
        """Return the open leases of units on their way to other reservations (``moves_to``), by id; may lag."""
        ...

    def list_leased(self, reservation_id: str) -> tuple[NodeClaim, ...]:
        """Return claims with an open lease on the reservation, by id; may lag a write by moments."""
        ...

    def turn(self) -> int:
        """Return how many commits named a turn so far (consistent read); disruption's passes take turns with it.

        Raises UnreadableRowsError.
        """
        ...

    def planning_turns(self, group_keys: Collection[str]) -> Mapping[str, PlanningTurn]:
        """Return the turns of planning that were taken so far (consistent read), by each group that is asked for.

        Raises UnreadableRowsError with all that cannot be read.
        """
        ...

    def commit(self, commit: PlannedCommit) -> None:
        """Write claims, leases and workload counts in one transaction.

        Requires: claim ids unused, existing claims at their read revision, every leased reservation with enough free
        units, every workload at the planned generation with at least that many replicas pending, every workload that it
        depends on at its generation, and the turns, if any, to be the next ones. Raises ConflictError otherwise. The
        same commit twice (its answer was lost) happens once and raises nothing.
        """
        ...

    def save(self, claim: NodeClaim, *, expected_revision: int) -> NodeClaim:
        """Write a claim whose lease and placements are unchanged; return it as stored. Raises ConflictError."""
        ...

    def save_many(self, claims: Sequence[NodeClaim]) -> Mapping[str, NodeClaim]:
        """Write claims, each at the revision that it carries (as read), in few requests; return the written ones by id.

        Their placements are unchanged; a held lease may have been settled. A claim that has changed is left out, and so
        may be any other: the caller reads missing ones again and saves each alone.
        """
        ...

    def settle(self, claim: NodeClaim, *, expected_revision: int) -> NodeClaim:
        """Record the launch's instance: state launched, lease settled at ``claim.launched_at``; as ``save``."""
        ...

    def return_replicas(
        self,
        claim: NodeClaim,
        *,
        expected_revision: int,
        placements: Mapping[str, int],
        returned_at: datetime,
    ) -> NodeClaim:
        """Write ``claim`` and take ``placements`` (workload key -> replicas) off it, back to demand, exactly once.

        ``claim`` carries the new state; its placements are reduced here. A lease that is still open is given back to
        its reservation when the new state is failed (no instance came of it), and left to be absorbed otherwise: the
        discovery finds leases of ended claims too. Returns the claim as stored. More workloads than one transaction
        holds are returned in several; the new state comes with the last. Raises ConflictError, and of so many
        workloads UnreadableRowsError when the claim cannot be read.
        """
        ...

    def return_many(
        self, claims: Sequence[NodeClaim], *, returned_at: datetime
    ) -> Mapping[str, NodeClaim]:
        """As :meth:`return_replicas` with all replicas of claims, each at the revision that it carries (as read).

        In few requests; returns the written ones by id. Each claim moves with its replicas or not at all. A claim that
        has changed is left out, and so may be any other: the caller reads missing ones again and returns each alone.
        """
        ...

    def finish_replicas(
        self,
        claim: NodeClaim,
        *,
        expected_revision: int,
        record: WorkloadRecord,
        expected_record_revision: int,
    ) -> NodeClaim:
        """Write a claim whose replicas have finished, and their workload's record, together; as ``save``."""
        ...


class OfferingStore(Protocol):
    """Instance types with their offerings, and known shortages."""

    def load_catalogue(self) -> tuple[InstanceType, ...]:
        """Return all types with prices; shortages that have not expired are applied to the offerings.

        Raises UnreadableRowsError: a type that is left out would be taken for one that is not sold any more.
        """
        ...

    def load_with_rests(
        self, only: Collection[str] | None = None
    ) -> tuple[tuple[InstanceType, ...], Rests]:
        """Return the catalogue, or these types of it, and all rests: reservations are not in the catalogue.

        Raises UnreadableRowsError as ``load_catalogue`` does.
        """
        ...

    def on_demand_prices(self, instance_types: Collection[str]) -> Mapping[str, int]:
        """Return prices in micro-USD an hour, as far as they are known, by instance type."""
        ...

    def save_catalogue(self, instance_types: Sequence[InstanceType]) -> int:
        """Replace the catalogue; returns how many rows were written (unchanged rows are not).

        Raises ConflictError when others keep touching its rows.
        """
        ...

    def mark_unavailable(
        self, places: Collection[Place], *, until: datetime, reason: str = ""
    ) -> None:
        """Remember a shortage; a later ``until`` wins. ``reason`` is for users, where it is not the capacity."""
        ...

    def list_unavailable(self, now: datetime) -> Mapping[Place, Unavailable]:
        """Return shortages that have not expired."""
        ...
