"""The memory of launches in DynamoDB: the latest attempt of each batch, and failures in a row of each offering.

Attempts lie in the NodeClaims table, the history of shortages in the Offerings table; the launch function may write
both already. Attempts carry no listing key and failures one of their own, so no other reader sees them.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.adapters.dynamodb.table import (
    CURRENT_FORM,
    DATA,
    FORM,
    Attributes,
    DynamoDbTable,
    Expression,
    apply,
    attributes,
    data,
    epoch_s,
    readable,
    text,
    understood,
)
from reservoir.core.capacity.shortage import (
    Shortage,
    ending_forgotten_at,
    forgotten_at,
    is_probed_by_other,
    needs_probe,
    probed,
)
from reservoir.core.capacity.unavailable_offerings import (
    BootKey,
    ClassMarketKey,
    MoveKey,
    NodeClassKey,
    Remembered,
    SpotLossKey,
    SubnetKey,
)
from reservoir.core.launching.launch_outcome import LaunchAttempt, LaunchOutcome
from reservoir.core.node_life.spot_losses import loss_forgotten_at
from reservoir.core.serialisation.json_codec import dumps, loads
from reservoir.names import KEY, LISTING_INDEX, LISTING_KEY, TTL_ATTRIBUTE
from reservoir.ports.launches import R
from reservoir.ports.state import ConflictError
from reservoir.ports.system import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

LISTED: Final = "failures"
NUMBER: Final = "number"
PHASE: Final = "phase"
INTENDED: Final = 0
RESOLVED: Final = 1
COMPLETED: Final = 2
# Longer than a launch message can live (its queue's retention), so that no message meets a forgotten batch.
_KEPT: Final = timedelta(days=15)


class DynamoDbLaunchAttempts:
    """Implements ``reservoir.ports.launches.LaunchAttemptStore``."""

    def __init__(self, client: "DynamoDBClient", table_name: str, clock: Clock) -> None:
        self._client = client
        self._table = DynamoDbTable(client, table_name)
        self._clock = clock

    def latest(self, batch_id: str) -> LaunchAttempt | None:
        """Return the batch's latest attempt."""
        row = self._table.get(_attempt_key(batch_id), self._clock.now())
        return None if row is None else readable(row, _attempt)

    def begin(self, attempt: LaunchAttempt) -> LaunchAttempt:
        """Record an intent unless another one is open."""
        expression = Expression()
        follows = f"({expression.at(NUMBER, attempt.number - 1)} AND {expression.at(PHASE, COMPLETED)})"
        return self._put(
            attempt, INTENDED, expression, f"{expression.absent()} OR {follows}"
        )

    def leave_unanswered(
        self, attempt: LaunchAttempt, code: str, now: datetime
    ) -> LaunchAttempt:
        """Record that EC2 gave no answer, unless there is an outcome."""
        left = replace(attempt, unanswered_at=now, unanswered_code=code)
        return self._put_if_open(left, INTENDED)

    def resolve(self, attempt: LaunchAttempt, outcome: LaunchOutcome) -> LaunchAttempt:
        """Record the outcome unless there is one."""
        return self._put_if_open(replace(attempt, outcome=outcome), RESOLVED)

    def _put_if_open(self, attempt: LaunchAttempt, phase: int) -> LaunchAttempt:
        expression = Expression()
        condition = (
            f"{expression.at(NUMBER, attempt.number)} AND {expression.at(PHASE, INTENDED)}"
        )
        return self._put(attempt, phase, expression, condition)

    def complete(self, attempt: LaunchAttempt) -> None:
        """Close the attempt; one that was closed before, by whomever, stays closed."""
        expression = Expression()
        condition = (
            f"{expression.at(NUMBER, attempt.number)} AND {expression.at(PHASE, RESOLVED)}"
        )
        self._put(replace(attempt, completed=True), COMPLETED, expression, condition)

    def _put(
        self, attempt: LaunchAttempt, phase: int, expression: Expression, condition: str
    ) -> LaunchAttempt:
        row = attributes(
            {
                KEY: _attempt_key(attempt.batch_id),
                FORM: CURRENT_FORM,
                DATA: dumps(attempt),
                NUMBER: attempt.number,
                PHASE: phase,
                TTL_ATTRIBUTE: epoch_s(attempt.recorded_at + _KEPT),
            }
        )
        try:
            apply(self._client, self._table.put(row, expression, condition))
        except ConflictError:
            stored = self.latest(attempt.batch_id)
            if stored is None:
                raise
            return stored
        return attempt


class DynamoDbShortageHistory:
    """Implements ``reservoir.ports.launches.ShortageHistory``."""

    def __init__(self, client: "DynamoDBClient", table_name: str, clock: Clock) -> None:
        self._client = client
        self._table = DynamoDbTable(client, table_name)
        self._clock = clock

    def get_many(self, offerings: Collection[Remembered]) -> Mapping[Remembered, Shortage]:
        """Return the shortages of the offerings."""
        keys = {_shortage_key(offering): offering for offering in offerings}
        rows = self._table.get_many(keys, self._clock.now())
        return {
            keys[text(row, KEY)]: shortage for row, shortage in understood(rows, _shortage)
        }

    def put(self, shortages: Mapping[Remembered, Shortage]) -> None:
        """Remember shortages; the last writer wins, all of them mean the same."""
        for offering in sorted(shortages, key=_shortage_key):
            with map_client_errors():
                self._client.put_item(
                    TableName=self._table.name,
                    Item=_shortage_row(offering, shortages[offering]),
                )

    def begin_probes(
        self, offerings: Collection[R], batch_id: str, now: datetime
    ) -> frozenset[R]:
        """Take the free probes; the first writer has them."""
        wanted = {_shortage_key(offering): offering for offering in offerings}
        taken: set[R] = set()
        for row, shortage in understood(
            self._table.query(LISTING_INDEX, LISTING_KEY, LISTED, now), _shortage
        ):
            key = text(row, KEY)
            if (
                key not in wanted
                or not needs_probe(shortage, now)
                or shortage.probe_batch_id == batch_id
            ):
                continue
            if is_probed_by_other(shortage, batch_id, now) or not self._take_probe(
                wanted[key], row, batch_id, now
            ):
                taken.add(wanted[key])
        return frozenset(taken)

    def _take_probe(
        self, offering: Remembered, row: Attributes, batch_id: str, now: datetime
    ) -> bool:
        expression = Expression()
        probing = probed(loads(Shortage, data(row)), batch_id, now)
        write = self._table.put(
            _shortage_row(offering, probing), expression, expression.at(DATA, data(row))
        )
        try:
            apply(self._client, write)
        except ConflictError:
            return False
        return True

    def forget(self, offerings: Collection[Remembered]) -> None:
        """Delete the rows; rows that do not exist are passed over."""
        for key in sorted(map(_shortage_key, offerings)):
            with map_client_errors():
                self._client.delete_item(TableName=self._table.name, Key={KEY: {"S": key}})


def _attempt(row: Attributes) -> LaunchAttempt:
    return loads(LaunchAttempt, data(row))


def _shortage(row: Attributes) -> tuple[Attributes, Shortage]:
    return row, loads(Shortage, data(row))


def _shortage_row(offering: Remembered, shortage: Shortage) -> Attributes:
    return attributes(
        {
            KEY: _shortage_key(offering),
            FORM: CURRENT_FORM,
            DATA: dumps(shortage),
            LISTING_KEY: LISTED,
            # whole seconds, rounded up
            TTL_ATTRIBUTE: epoch_s(_row_ends_at(offering, shortage)) + 1,
        }
    )


def _row_ends_at(offering: Remembered, shortage: Shortage) -> datetime:
    if isinstance(offering, SpotLossKey):
        return loss_forgotten_at(shortage)
    if isinstance(offering, BootKey):
        return ending_forgotten_at(shortage)
    return forgotten_at(shortage)


def _attempt_key(batch_id: str) -> str:
    return f"#launch {batch_id}"


def _shortage_key(offering: Remembered) -> str:
    if isinstance(offering, SubnetKey):
        return f"#failures {offering.subnet_id}"
    if isinstance(offering, NodeClassKey):
        return f"#failures class {offering.name} {offering.static_hash}"
    if isinstance(offering, ClassMarketKey):
        return f"#failures class market {offering.name} {offering.static_hash} {offering.capacity_type}"
    if isinstance(offering, SpotLossKey):
        return f"#failures spot loss {offering.workload_key}"
    if isinstance(offering, MoveKey):
        return f"#failures move {offering.source_id} {offering.destination_id}"
    if isinstance(offering, BootKey):
        return (
            f"#failures boots {_shortage_key(offering.offering).removeprefix('#failures ')}"
        )
    where = (
        f"#failures {offering.instance_type} {offering.zone_id} {offering.capacity_type}"
    )
    return (
        where if offering.reservation_id is None else f"{where} {offering.reservation_id}"
    )
