"""Reservations in DynamoDB: EC2's facts, when they were observed, and the counters of ``dynamodb_ledger``."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from reservoir.adapters.dynamodb.ledger import AVAILABLE, FREE, OUTSTANDING, closed_write
from reservoir.adapters.dynamodb.node_claims import ClaimRows
from reservoir.adapters.dynamodb.table import (
    CURRENT_FORM,
    DATA,
    FORM,
    Attributes,
    DynamoDbTable,
    Expression,
    Write,
    apply,
    attributes,
    data,
    epoch_s,
    instant,
    number,
    readable,
    text,
    transact,
    understood,
)
from reservoir.core.capacity.idle import idle_since
from reservoir.core.capacity.ledger import Balance, observed
from reservoir.core.model.capacity_reservation import (
    CapacityReservation,
    ObservedReservation,
    RefusedUnits,
)
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.serialisation.json_codec import dumps, loads
from reservoir.names import KEY, LISTING_INDEX, LISTING_KEY, TTL_ATTRIBUTE
from reservoir.ports.state import COMMIT_ITEMS_MAX, ConflictError, ReservationRecord
from reservoir.ports.system import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

OBSERVED_AT: Final = "observed_at"
IDLE_SINCE: Final = "idle_since"
IDLE_SAID_AT: Final = "idle_said_at"
ENDING_SAID: Final = "ending_said"
READINESS_SAID: Final = "readiness_said"
# EC2's answer when it refused a unit, until the next observation ...
REFUSAL: Final = "refusal"
SHOWN: Final = "shown"  # ... and how many it had shown as available before
LISTED: Final = "current"
# Long enough to look up afterwards what a claim of last month ran on.
_ENDED_KEPT: Final = timedelta(days=30)


class DynamoDbReservationStore:
    """Implements ``reservoir.ports.state.ReservationStore``."""

    def __init__(
        self,
        client: "DynamoDBClient",
        table_name: str,
        node_claims_table_name: str,
        clock: Clock,
        instance_arn_prefix: str | None = None,
    ) -> None:
        self._client = client
        self._table = DynamoDbTable(client, table_name)
        self._claim_rows = ClaimRows(
            DynamoDbTable(client, node_claims_table_name), instance_arn_prefix
        )
        self._clock = clock

    def get(self, reservation_id: str) -> ReservationRecord | None:
        """Return the record (consistent read)."""
        row = self._table.get(reservation_id, self._clock.now())
        return None if row is None else readable(row, _record)

    def list_current(self) -> tuple[ReservationRecord, ...]:
        """Return the listed records, by id."""
        rows = self._table.query(LISTING_INDEX, LISTING_KEY, LISTED, self._clock.now())
        return tuple(understood(rows, _record))

    def save_observation(
        self,
        reservation: ObservedReservation,
        *,
        observed_at: datetime,
        absorbed: Sequence[NodeClaim],
        expected: ReservationRecord | None,
        outstanding_count: int = 0,
    ) -> ReservationRecord:
        """Replace the facts by an observation; see the port.

        The counters change relative to the stored ones, so leases that planners take meanwhile are kept and need no
        retry; only the order of observations and the absorbed claims are conditions.
        """
        stored = expected or self.get(reservation.id)
        if stored is None:
            return self._insert(reservation, observed_at, outstanding_count)
        if observed_at <= stored.observed_at:
            return stored
        after = _observed(reservation, stored, observed_at, len(absorbed))
        retired = not after.is_current
        if (
            not absorbed
            and not retired
            and replace(after, observed_at=stored.observed_at) == stored
        ):
            return stored
        first, rest = absorbed[: COMMIT_ITEMS_MAX - 1], absorbed[COMMIT_ITEMS_MAX - 1 :]
        writes = [
            self._observation(after, len(first)),
            *map(self._claim_rows.absorbed_write, first),
        ]
        try:
            transact(self._client, writes)
        except ConflictError as error:
            newer = self.get(reservation.id)
            if (
                reservation.id in error.rows
                and newer is not None
                and newer.observed_at >= observed_at
            ):
                return newer
            raise
        for start in range(0, len(rest), COMMIT_ITEMS_MAX - 1):
            chunk = rest[start : start + COMMIT_ITEMS_MAX - 1]
            closing = [closed_write(self._table, reservation.id, len(chunk))]
            transact(
                self._client,
                closing + [self._claim_rows.absorbed_write(claim) for claim in chunk],
            )
        return after

    def _insert(
        self,
        reservation: ObservedReservation,
        observed_at: datetime,
        outstanding_count: int,
    ) -> ReservationRecord:
        balance = Balance(
            min(reservation.available_count, reservation.total_count), outstanding_count
        )
        since = idle_since(None, reservation, balance.free_units, observed_at)
        record = ReservationRecord(
            _with_balance(reservation, balance), balance, observed_at, since
        )
        expression = Expression()
        condition = f"{expression.absent()} OR {expression.expired(self._clock.now())}"
        apply(self._client, self._table.put(_row(record), expression, condition))
        return record

    def _observation(self, after: ReservationRecord, absorbed_count: int) -> Write:
        available = after.balance.available_count
        expression = Expression()
        outstanding = expression.name(OUTSTANDING)
        # The stored observation must be older: a late answer never replaces a newer one.
        condition = f"{expression.before(OBSERVED_AT, after.observed_at)} AND "
        condition += expression.at_least(OUTSTANDING, absorbed_count)
        assignments = [
            expression.assign(DATA, _facts(after.reservation)),
            expression.assign(OBSERVED_AT, instant(after.observed_at)),
            expression.assign(AVAILABLE, available),
            # Every operand is the value before the update: free = available - (outstanding - absorbed).
            f"{expression.name(FREE)} = {expression.value(available + absorbed_count)} - {outstanding}",
            expression.change(OUTSTANDING, -absorbed_count),
        ]
        removed = [REFUSAL, SHOWN]
        if after.idle_since is None:
            removed.append(IDLE_SINCE)
        else:
            assignments.append(expression.assign(IDLE_SINCE, instant(after.idle_since)))
        if after.is_current:
            assignments.append(expression.assign(LISTING_KEY, LISTED))
            removed.append(TTL_ATTRIBUTE)
        else:
            assignments.append(
                expression.assign(TTL_ATTRIBUTE, epoch_s(after.observed_at + _ENDED_KEPT))
            )
            removed.append(LISTING_KEY)
        return self._table.update(
            after.reservation.id,
            expression,
            condition,
            assignments=assignments,
            removed=removed,
        )

    def mark_exhausted(
        self, reservation_id: str, *, refused_at: datetime, refusal: str = ""
    ) -> None:
        """EC2 refused a unit; the refusal is an observation of nothing free."""
        expression = Expression()
        condition = (
            f"{expression.exists()} AND {expression.before(OBSERVED_AT, refused_at)}"
        )
        # Nothing is available, so the free count is minus the outstanding one.
        assignments = [
            expression.assign(OBSERVED_AT, instant(refused_at)),
            f"{expression.name(FREE)} = {expression.value(0)} - {expression.name(OUTSTANDING)}",
            expression.assign(AVAILABLE, 0),
        ]
        removed = []
        if refusal:
            shown = expression.name(SHOWN)
            # Every operand is the value before the update; a second refusal keeps what the first one found.
            assignments.append(
                f"{shown} = if_not_exists({shown}, {expression.name(AVAILABLE)})"
            )
            assignments.append(expression.assign(REFUSAL, refusal))
        else:
            removed = [REFUSAL, SHOWN]
        write = self._table.update(
            reservation_id, expression, condition, assignments=assignments, removed=removed
        )
        try:
            apply(self._client, write)
        except ConflictError:
            # Unknown, or observed since: then the observation knows better than the refusal.
            return

    def mark_idle_said(
        self, reservation_ids: Collection[str], *, said_at: datetime
    ) -> None:
        """Remember that it was published; a row that is gone needs no memory."""
        for reservation_id in sorted(set(reservation_ids)):
            self._remember(reservation_id, IDLE_SAID_AT, instant(said_at))

    def mark_ending_said(self, said: Mapping[str, str]) -> None:
        """Remember which notice was published; a row that is gone needs no memory."""
        for reservation_id in sorted(said):
            self._remember(reservation_id, ENDING_SAID, said[reservation_id])

    def mark_readiness_said(self, said: Mapping[str, str]) -> None:
        """Remember a published report; a row that is gone needs no memory."""
        for reservation_id in sorted(said):
            self._remember(reservation_id, READINESS_SAID, said[reservation_id])

    def _remember(self, reservation_id: str, name: str, value: str) -> None:
        expression = Expression()
        assignments = [expression.assign(name, value)]
        write = self._table.update(
            reservation_id, expression, expression.exists(), assignments=assignments
        )
        try:
            apply(self._client, write)
        except ConflictError:
            return

    def mark_stale(self, reservation_ids: Collection[str]) -> int:
        """Flag the facts as the last good ones; a newer observation wins over the flag."""
        written = 0
        for reservation_id in sorted(set(reservation_ids)):
            stored = self.get(reservation_id)
            if stored is None or stored.reservation.stale:
                continue
            expression = Expression()
            condition = expression.at(OBSERVED_AT, instant(stored.observed_at))
            facts = _facts(replace(stored.reservation, stale=True))
            write = self._table.update(
                reservation_id,
                expression,
                condition,
                assignments=[expression.assign(DATA, facts)],
            )
            try:
                apply(self._client, write)
            except ConflictError:
                continue
            written += 1
        return written


def _observed(
    reservation: ObservedReservation,
    stored: ReservationRecord,
    observed_at: datetime,
    absorbed_count: int,
) -> ReservationRecord:
    balance = observed(
        stored.balance,
        min(reservation.available_count, reservation.total_count),
        absorbed_count,
    )
    since = idle_since(stored.idle_since, reservation, balance.free_units, observed_at)
    shown = _with_balance(reservation, balance)
    return ReservationRecord(
        shown,
        balance,
        observed_at,
        since,
        stored.idle_said_at,
        stored.ending_said,
        stored.readiness_said,
    )


def _with_balance(
    reservation: ObservedReservation, balance: Balance
) -> CapacityReservation:
    facts = replace(reservation, available_count=balance.available_count)
    if isinstance(facts, CapacityReservation):
        facts = replace(facts, refusal=None)
    return CapacityReservation.of(facts, free_units=max(0, balance.free_units))


def _facts(reservation: CapacityReservation) -> str:
    return dumps(replace(reservation, available_count=0, free_units=0, refusal=None))


def _row(record: ReservationRecord) -> Attributes:
    return attributes(
        {
            KEY: record.reservation.id,
            FORM: CURRENT_FORM,
            DATA: _facts(record.reservation),
            OBSERVED_AT: instant(record.observed_at),
            AVAILABLE: record.balance.available_count,
            OUTSTANDING: record.balance.outstanding_count,
            FREE: record.balance.free_units,
            IDLE_SINCE: None if record.idle_since is None else instant(record.idle_since),
            LISTING_KEY: LISTED if record.is_current else None,
            TTL_ATTRIBUTE: None
            if record.is_current
            else epoch_s(record.observed_at + _ENDED_KEPT),
        }
    )


def _record(row: Attributes) -> ReservationRecord:
    balance = Balance(number(row, AVAILABLE), number(row, OUTSTANDING))
    reservation = _with_balance(loads(CapacityReservation, data(row)), balance)
    if REFUSAL in row:
        reservation = replace(
            reservation, refusal=RefusedUnits(text(row, REFUSAL), number(row, SHOWN))
        )
    return ReservationRecord(
        reservation,
        balance,
        datetime.fromisoformat(text(row, OBSERVED_AT)),
        idle_since=_instant_of(row, IDLE_SINCE),
        idle_said_at=_instant_of(row, IDLE_SAID_AT),
        ending_said=text(row, ENDING_SAID) if ENDING_SAID in row else None,
        readiness_said=text(row, READINESS_SAID) if READINESS_SAID in row else None,
    )


def _instant_of(row: Attributes, name: str) -> datetime | None:
    return datetime.fromisoformat(text(row, name)) if name in row else None
