"""The history in DynamoDB.

An event is one row for each object that it is about, cut down to that object, and one row of the timeline, whole. The
timeline's partitions are an hour and one of a few shards, so that neither a busy minute nor a busy reservation makes
the others wait, and a look back reads the hours that it is about. What there was at an instant is one row of its day,
and so is each step of demand; both are kept longer than events, because looks back over months are made of them.
"""

import gzip
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.adapters.dynamodb.table import (
    CURRENT_FORM,
    DATA,
    FORM,
    Attributes,
    Expression,
    RowFormError,
    attributes,
    data,
    epoch_s,
    instant,
    number,
    pause_with_jitter,
    text,
    understood,
)
from reservoir.core.history.past_demand import DEMAND_KEPT, DemandStep
from reservoir.core.history.past_event import LONGEST_KEPT, PastEvent
from reservoir.core.history.sample import Sample
from reservoir.core.serialisation.json_codec import dumps, loads
from reservoir.names import KEY, SORT_KEY, TTL_ATTRIBUTE
from reservoir.ports.errors import ThrottledError
from reservoir.ports.system import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# of an hour: some 4,000 rows a second, four times what one partition takes
_SHARDS: Final = 4
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_BATCH_MAX: Final = 25  # rows in one BatchWriteItem
_ATTEMPTS_MAX: Final = 8
_DETAIL_TYPE: Final = "detail_type"


class DynamoDbHistory:
    """Implements ``reservoir.ports.history.HistoryStore``. Events expire ``kept`` after they happened, some later."""

    def __init__(
        self,
        client: "DynamoDBClient",
        table: str,
        clock: Clock,
        *,
        kept: timedelta,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._table = table
        self._clock = clock
        self._kept = kept
        self._long_kept = max(kept, DEMAND_KEPT)
        self._sleep = sleep

    def keep(self, events: Sequence[PastEvent]) -> None:
        """Keep events. The key of a row is made of the event's id and time: a repeat writes the same row again."""
        rows: dict[tuple[str, str], Attributes] = {}
        for event in events:
            rows.update(
                {(text(row, KEY), text(row, SORT_KEY)): row for row in self._rows(event)}
            )
        keyed = [rows[key] for key in sorted(rows)]
        for start in range(0, len(keyed), _BATCH_MAX):
            self._put(keyed[start : start + _BATCH_MAX])

    def of_object(self, name: str, since: datetime, until: datetime) -> Iterator[PastEvent]:
        """Yield what happened to one object, oldest first."""
        yield from sorted(
            self._partition(name, since, until), key=lambda event: event.order
        )

    def timeline(self, since: datetime, until: datetime) -> Iterator[PastEvent]:
        """Yield everything that happened, oldest first."""
        hour = _hour(max(since, self._clock.now() - max(self._kept, LONGEST_KEPT)))
        while hour < until:
            found: list[PastEvent] = []
            for shard in range(_SHARDS):
                found += self._partition(_timeline(hour, shard), since, until)
            yield from sorted(found, key=lambda event: event.order)
            hour += _HOUR

    def keep_demand(self, steps: Sequence[DemandStep]) -> None:
        """Keep steps of demand, each a row of its day."""
        rows = {step.id: self._step_row(step) for step in steps}
        keyed = [rows[key] for key in sorted(rows)]
        for start in range(0, len(keyed), _BATCH_MAX):
            self._put(keyed[start : start + _BATCH_MAX])

    def demand(self, since: datetime, until: datetime) -> Iterator[DemandStep]:
        """Yield the steps of demand, oldest first."""
        for day in self._days(since, until):
            yield from understood(self._read(_demand(day), since, until), _step)

    def keep_sample(self, sample: Sample) -> None:
        """Keep what there was at an instant: one row, compressed, because thousands of reservations fit into none."""
        # A fixed time in the gzip header keeps equal content byte-identical.
        packed = gzip.compress(dumps(sample).encode(), mtime=0)
        row: Attributes = {
            **attributes(
                {
                    KEY: _samples(sample.taken_at),
                    SORT_KEY: f"{instant(sample.taken_at.replace(microsecond=0))} sample",
                    FORM: CURRENT_FORM,
                    TTL_ATTRIBUTE: epoch_s(sample.taken_at + self._long_kept),
                }
            ),
            DATA: {"B": packed},
        }
        self._put([row])

    def samples(self, since: datetime, until: datetime) -> Iterator[Sample]:
        """Yield what there was, oldest first."""
        for day in self._days(since, until):
            yield from understood(self._read(_samples(day), since, until), _sample)

    def _days(self, since: datetime, until: datetime) -> Iterator[datetime]:
        """Yield the days of a time that are still kept."""
        first = max(since, self._clock.now() - self._long_kept).astimezone(UTC)
        day = first.replace(hour=0, minute=0, second=0, microsecond=0)
        while day < until:
            yield day
            day += _DAY

    def _step_row(self, step: DemandStep) -> Attributes:
        return attributes(
            {
                KEY: _demand(step.at),
                SORT_KEY: f"{instant(step.at)} {step.id}",
                FORM: CURRENT_FORM,
                DATA: dumps(step),
                TTL_ATTRIBUTE: epoch_s(step.at + self._long_kept),
            }
        )

    def _rows(self, event: PastEvent) -> Iterator[Attributes]:
        shard = hashlib.sha256(event.id.encode()).digest()[0] % _SHARDS
        yield self._row(_timeline(_hour(event.at), shard), event)
        for name in event.objects():
            yield self._row(name, event.about(name))

    def _row(self, partition: str, event: PastEvent) -> Attributes:
        return attributes(
            {
                KEY: partition,
                SORT_KEY: f"{instant(event.at)} {event.id}",
                FORM: CURRENT_FORM,
                _DETAIL_TYPE: event.detail_type,
                DATA: json.dumps(event.detail, separators=(",", ":"), sort_keys=True),
                TTL_ATTRIBUTE: epoch_s(event.at + event.kept(self._kept)),
            }
        )

    def _put(self, rows: Sequence[Attributes]) -> None:
        pending: list[Any] = [{"PutRequest": {"Item": row}} for row in rows]
        for attempt in range(_ATTEMPTS_MAX):
            with map_client_errors():
                answer = self._client.batch_write_item(RequestItems={self._table: pending})
            pending = list(answer.get("UnprocessedItems", {}).get(self._table, ()))
            if not pending:
                return
            pause_with_jitter(attempt, self._sleep)
        raise ThrottledError("UnprocessedItems", "BatchWriteItem")

    def _partition(
        self, name: str, since: datetime, until: datetime
    ) -> Iterator[PastEvent]:
        yield from understood(self._read(name, since, until), _event)

    def _read(self, name: str, since: datetime, until: datetime) -> Iterator[Attributes]:
        expression = Expression()
        # A sort key goes on behind its instant, and so comes after it: `until` itself is left out.
        between = f"BETWEEN {expression.value(instant(since))} AND {expression.value(instant(until))}"
        condition = f"{expression.at(KEY, name)} AND {expression.name(SORT_KEY)} {between}"
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            KeyConditionExpression=condition,
            ExpressionAttributeNames=expression.names,
            ExpressionAttributeValues=expression.values,
        )
        now_s = epoch_s(self._clock.now())
        with map_client_errors():
            for page in pages:
                yield from (
                    row for row in page["Items"] if number(row, TTL_ATTRIBUTE) > now_s
                )


def _hour(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _timeline(hour: datetime, shard: int) -> str:
    return f"#timeline {hour:%Y-%m-%dT%H} {shard}"


def _samples(day: datetime) -> str:
    return f"#samples {day.astimezone(UTC):%Y-%m-%d}"


def _demand(day: datetime) -> str:
    return f"#demand {day.astimezone(UTC):%Y-%m-%d}"


def _step(row: Attributes) -> DemandStep:
    return loads(DemandStep, data(row))


def _sample(row: Attributes) -> Sample:
    if number(row, FORM) > CURRENT_FORM:
        raise RowFormError(
            f"a sample has form {number(row, FORM)}, this version reads {CURRENT_FORM}"
        )
    return loads(Sample, gzip.decompress(row[DATA]["B"]).decode())


def _event(row: Attributes) -> PastEvent:
    at, _, event_id = text(row, SORT_KEY).partition(" ")
    return PastEvent(
        event_id, datetime.fromisoformat(at), text(row, _DETAIL_TYPE), json.loads(data(row))
    )
