"""What launches remember, in DynamoDB: the latest attempt of each batch, and failures in a row of each offering.

Attempts lie in the NodeClaims table, the history of shortages in the Offerings table; both tables are the launch
function's to write already, and neither kind of row carries the listing key, so nobody else ever reads one.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shared.adapters.dynamodb_table import (
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
    text,
)
from shared.core.json_codec import dumps, loads
from shared.core.launch_outcome import LaunchAttempt, LaunchOutcome
from shared.core.plan import OfferingKey
from shared.core.shortage import Shortage, forgotten_at
from shared.names import KEY, TTL_ATTRIBUTE
from shared.ports.state import ConflictError
from shared.ports.system import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

NUMBER: Final = "number"
PHASE: Final = "phase"
INTENDED: Final = 0
RESOLVED: Final = 1
COMPLETED: Final = 2
# Longer than a launch message can live (its queue's retention), so that no message meets a forgotten batch.
_KEPT: Final = timedelta(days=15)


class DynamoDbLaunchAttempts:
    """Implements ``shared.ports.launches.LaunchAttemptStore``."""

    def __init__(self, client: "DynamoDBClient", table_name: str, clock: Clock) -> None:
        self._client = client
        self._table = DynamoDbTable(client, table_name)
        self._clock = clock

    def latest(self, batch_id: str) -> LaunchAttempt | None:
        """Return the batch's latest attempt."""
        row = self._table.get(_attempt_key(batch_id), self._clock.now())
        return None if row is None else loads(LaunchAttempt, data(row))

    def begin(self, attempt: LaunchAttempt) -> LaunchAttempt:
        """Record an intent unless another one is open."""
        expression = Expression()
        follows = f"({expression.at(NUMBER, attempt.number - 1)} AND {expression.at(PHASE, COMPLETED)})"
        return self._put(attempt, INTENDED, expression, f"{expression.absent()} OR {follows}")

    def resolve(self, attempt: LaunchAttempt, outcome: LaunchOutcome) -> LaunchAttempt:
        """Record the outcome unless there is one."""
        expression = Expression()
        condition = f"{expression.at(NUMBER, attempt.number)} AND {expression.at(PHASE, INTENDED)}"
        return self._put(replace(attempt, outcome=outcome), RESOLVED, expression, condition)

    def complete(self, attempt: LaunchAttempt) -> None:
        """Close the attempt; one that was closed before, by whomever, stays closed."""
        expression = Expression()
        condition = f"{expression.at(NUMBER, attempt.number)} AND {expression.at(PHASE, RESOLVED)}"
        self._put(replace(attempt, completed=True), COMPLETED, expression, condition)

    def _put(self, attempt: LaunchAttempt, phase: int, expression: Expression, condition: str) -> LaunchAttempt:
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
    """Implements ``shared.ports.launches.ShortageHistory``."""

    def __init__(self, client: "DynamoDBClient", table_name: str, clock: Clock) -> None:
        self._client = client
        self._table = DynamoDbTable(client, table_name)
        self._clock = clock

    def get_many(self, offerings: Collection[OfferingKey]) -> Mapping[OfferingKey, Shortage]:
        """Return what is remembered about the offerings."""
        keys = {_shortage_key(offering): offering for offering in offerings}
        rows = self._table.get_many(keys, self._clock.now())
        return {keys[text(row, KEY)]: loads(Shortage, data(row)) for row in rows}

    def put(self, shortages: Mapping[OfferingKey, Shortage]) -> None:
        """Remember shortages; the last writer wins, all of them mean the same."""
        for offering in sorted(shortages, key=_shortage_key):
            self._client.put_item(TableName=self._table.name, Item=_shortage_row(offering, shortages[offering]))


def _shortage_row(offering: OfferingKey, shortage: Shortage) -> Attributes:
    return attributes(
        {
            KEY: _shortage_key(offering),
            FORM: CURRENT_FORM,
            DATA: dumps(shortage),
            TTL_ATTRIBUTE: epoch_s(forgotten_at(shortage)),
        }
    )


def _attempt_key(batch_id: str) -> str:
    return f"#launch {batch_id}"


def _shortage_key(offering: OfferingKey) -> str:
    return f"#failures {offering.instance_type} {offering.zone_id} {offering.capacity_type}"
