"""Workloads in DynamoDB.

The counters that conditions need stand beside the JSON: ``placed_count`` and ``open_count`` (wanted minus placed,
because a condition cannot subtract).
"""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from reservoir.adapters.dynamodb.revisions import KnownRows, RevisionIndex
from reservoir.adapters.dynamodb.table import (
    CURRENT_FORM,
    DATA,
    FORM,
    REVISION,
    Attributes,
    DynamoDbTable,
    Expression,
    Write,
    all_readable,
    apply,
    attributes,
    data,
    epoch_s,
    instant,
    number,
    readable,
    text,
    understood,
)
from reservoir.core.serialisation.json_codec import dumps, loads
from reservoir.core.sharing.reading_turns import WHOLE, DemandReading
from reservoir.names import (
    KEY,
    LISTING_INDEX,
    LISTING_KEY,
    PLACED_KEY,
    PLACED_REVISIONS_INDEX,
    TTL_ATTRIBUTE,
    WAITING_REVISIONS_INDEX,
)
from reservoir.ports.errors import RefusedError
from reservoir.ports.state import WorkloadRecord
from reservoir.ports.system import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

GENERATION: Final = "generation"
PLACED: Final = "placed_count"
OPEN: Final = "open_count"
PENDING_SINCE: Final = "pending_since"
LISTED: Final = "needs-planning"
# in the index of those with replicas placed; taken out by the first put without any
STANDING: Final = "placed"
# An update to this release is being rolled back: its index is gone before its functions are, and the index that the
# release before reads is there still.
_NO_SUCH_INDEX: Final = "ValidationException"


@dataclass(frozen=True, slots=True)
class _Sized:
    """A record, and the size of its row without the attributes beside the JSON."""

    record: WorkloadRecord
    stored_bytes: int

    @property
    def revision(self) -> int:
        return self.record.revision


class DynamoDbWorkloadStore:
    """Implements ``reservoir.ports.state.WorkloadStore``."""

    def __init__(
        self,
        client: "DynamoDBClient",
        table_name: str,
        clock: Clock,
        parts: Executor | None = None,
    ) -> None:
        """``parts`` as in :class:`DynamoDbTable`."""
        self._client = client
        self._table = DynamoDbTable(client, table_name, parts=parts)
        self._clock = clock
        self._placed = RevisionIndex(self._table, PLACED_REVISIONS_INDEX, PLACED_KEY, parts)
        self._waiting = RevisionIndex(
            self._table, WAITING_REVISIONS_INDEX, LISTING_KEY, parts
        )
        self._known = KnownRows[WorkloadRecord]()  # what a pass read last
        self._known_waiting = KnownRows[_Sized]()  # the last listing

    def get(self, key: str) -> WorkloadRecord | None:
        """Return the record (consistent read), None when there is none."""
        row = self._table.get(key, self._clock.now())
        return None if row is None else readable(row, _record)

    def get_many(self, keys: Collection[str]) -> Mapping[str, WorkloadRecord]:
        """Return the records that exist (consistent read)."""
        return all_readable(self._table.get_many(keys, self._clock.now()), _record)

    def placed_revisions(self) -> Mapping[str, int]:
        """Return the revisions of workloads with replicas placed."""
        return self._placed.listed(STANDING)

    def get_placed(
        self, keys: Collection[str], revisions: Mapping[str, int]
    ) -> Mapping[str, WorkloadRecord]:
        """Return the records that exist; those that are known at their revision, and settled, are not read again."""
        known = self._known.at({key: revisions[key] for key in keys if key in revisions})
        settled = {
            key: record for key, record in known.items() if not record.needs_planning
        }
        found = {**settled, **self.get_many(set(keys) - settled.keys())}
        self._known.keep(found)
        return dict(sorted(found.items()))

    def list_needing_planning(self) -> tuple[WorkloadRecord, ...]:
        """Return the listed records, by key, however many."""
        return self.read_waiting(_all_of)

    def read_waiting(
        self, choose: Callable[[Collection[str]], DemandReading]
    ) -> tuple[WorkloadRecord, ...]:
        """Return those chosen, by key; a row that is at the revision of the last listing is not read again."""
        try:
            revisions = self._waiting.listed(LISTED)
        except RefusedError as error:
            if error.code != _NO_SUCH_INDEX:
                raise
            rows = self._table.query(LISTING_INDEX, LISTING_KEY, LISTED, self._clock.now())
            return tuple(understood(rows, _record))
        reading = choose(revisions.keys())
        waiting: dict[str, _Sized] = {}
        while page := reading.next_page():
            found = self._page({key: revisions[key] for key in page})
            reading.took({key: one.stored_bytes for key, one in found.items()})
            waiting |= found
        self._known_waiting.keep(waiting)
        return tuple(waiting[key].record for key in sorted(waiting))

    def _page(self, revisions: Mapping[str, int]) -> dict[str, _Sized]:
        """Return the listed rows at these revisions, by key."""
        found = self._known_waiting.at(revisions)
        rows = self._table.get_many(revisions.keys() - found.keys(), self._clock.now())
        read = understood((row for row in rows if LISTING_KEY in row), _sized)
        found.update((one.record.key, one) for one in read)
        return found

    def put(
        self, record: WorkloadRecord, *, expected_revision: int | None
    ) -> WorkloadRecord:
        """Write the record if the stored revision is the expected one."""
        expression = Expression()
        if expected_revision is None:
            # A tombstone past its time is as good as no row: a workload of that name may come again.
            condition = f"{expression.absent()} OR {expression.expired(self._clock.now())}"
        else:
            condition = expression.at(REVISION, expected_revision)
        written = replace(record, revision=(expected_revision or 0) + 1)
        apply(self._client, self._table.put(row_of(written), expression, condition))
        return written


def record_write(
    table: DynamoDbTable, record: WorkloadRecord, expected_revision: int
) -> Write:
    """Write the record if the stored revision is the expected one."""
    expression = Expression()
    condition = expression.at(REVISION, expected_revision)
    return table.put(
        row_of(replace(record, revision=expected_revision + 1)), expression, condition
    )


def placed_write(
    table: DynamoDbTable, key: str, count: int, generation: int | None
) -> Write:
    """Count ``count`` more replicas as placed, if so many are pending and the workload is still the planned one."""
    expression = Expression()
    condition = expression.at_least(OPEN, count)
    if generation is not None:
        condition += f" AND {expression.at(GENERATION, generation)}"
    moved = [
        expression.change(PLACED, count),
        expression.change(OPEN, -count),
        expression.change(REVISION, 1),
    ]
    moved.append(expression.assign(PLACED_KEY, STANDING))
    return table.update(key, expression, condition, assignments=moved)


def unchanged_check(table: DynamoDbTable, key: str, generation: int) -> Write:
    """Need the workload to be at this generation still."""
    expression = Expression()
    return table.check(key, expression, expression.at(GENERATION, generation))


def returned_write(
    table: DynamoDbTable, key: str, count: int, returned_at: datetime
) -> Write:
    """Count ``count`` replicas as not placed any more and list the workload for planning.

    It is listed even if nothing is pending then (a withdrawn one); the planner takes it off again.
    """
    expression = Expression()
    since = expression.name(PENDING_SINCE)
    moved = [
        expression.change(PLACED, -count),
        expression.change(OPEN, count),
        expression.change(REVISION, 1),
        f"{since} = if_not_exists({since}, {expression.value(instant(returned_at))})",
        expression.assign(LISTING_KEY, LISTED),
    ]
    return table.update(
        key, expression, expression.at_least(PLACED, count), assignments=moved
    )


def row_of(record: WorkloadRecord) -> Attributes:
    """Write a record as a row."""
    # Attributes that updates change by themselves stand beside the JSON and are left out of it.
    value = replace(record, revision=0, placed_count=0, pending_since=None)
    return attributes(
        {
            KEY: record.key,
            FORM: CURRENT_FORM,
            DATA: dumps(value),
            REVISION: record.revision,
            GENERATION: record.generation,
            PLACED: record.placed_count,
            OPEN: record.open_count,
            PENDING_SINCE: None
            if record.pending_since is None
            else instant(record.pending_since),
            LISTING_KEY: LISTED if record.needs_planning else None,
            PLACED_KEY: STANDING if record.placed_count > 0 else None,
            TTL_ATTRIBUTE: None
            if record.expires_at is None
            else epoch_s(record.expires_at),
        }
    )


def _all_of(keys: Collection[str]) -> DemandReading:
    return DemandReading({"": sorted(keys)}, (), WHOLE)


def _sized(row: Attributes) -> _Sized:
    return _Sized(_record(row), len(data(row)))


def _record(row: Attributes) -> WorkloadRecord:
    return replace(
        loads(WorkloadRecord, data(row)),
        revision=number(row, REVISION),
        placed_count=number(row, PLACED),
        pending_since=datetime.fromisoformat(text(row, PENDING_SINCE))
        if PENDING_SINCE in row
        else None,
    )
