"""How much each sender sent lately, and what waits.

There is a row in the Workloads table for what was sent in each minute or day, which no index lists and TTL ends.
"""

from collections.abc import Collection
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.adapters.dynamodb.revisions import RevisionIndex
from reservoir.adapters.dynamodb.table import DynamoDbTable, Expression, epoch_s, number
from reservoir.adapters.dynamodb.workloads import LISTED
from reservoir.names import KEY, LISTING_KEY, TTL_ATTRIBUTE, WAITING_REVISIONS_INDEX
from reservoir.ports.system import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_COUNT: Final = "count"
_PREFIX: Final = "#sent"  # no workload's key has it


class DynamoDbDemandCensus:
    """Implements ``reservoir.ports.messaging.DemandCensus``."""

    def __init__(
        self,
        client: "DynamoDBClient",
        table: str,
        clock: Clock,
        parts: Executor | None = None,
    ) -> None:
        """``parts`` as in :class:`DynamoDbTable`."""
        self._client = client
        self._table = table
        self._clock = clock
        self._waiting = RevisionIndex(
            DynamoDbTable(client, table), WAITING_REVISIONS_INDEX, LISTING_KEY, parts
        )

    def add(self, whose: str, span: timedelta) -> int:
        """Count one more, and return the sum."""
        now = self._clock.now()
        began = beginning(now, span)
        expression = Expression()
        count = expression.name(_COUNT)
        until = expression.assign(TTL_ATTRIBUTE, epoch_s(began + 2 * span))
        update = f"SET {until} ADD {count} {expression.value(1)}"
        with map_client_errors():
            answer = self._client.update_item(
                TableName=self._table,
                Key={
                    KEY: {
                        "S": f"{_PREFIX} {whose} {int(span.total_seconds())} {epoch_s(began)}"
                    }
                },
                UpdateExpression=update,
                ExpressionAttributeNames=expression.names,
                ExpressionAttributeValues=expression.values,
                ReturnValues="UPDATED_NEW",
            )
        return number(answer["Attributes"], _COUNT)

    def waiting_keys(self) -> Collection[str]:
        """Return the keys that the index shows."""
        return self._waiting.listed(LISTED).keys()


def beginning(now: datetime, span: timedelta) -> datetime:
    """Return the last whole multiple of the span, counted from the epoch."""
    span_s = int(span.total_seconds())
    return datetime.fromtimestamp(epoch_s(now) // span_s * span_s, UTC)
