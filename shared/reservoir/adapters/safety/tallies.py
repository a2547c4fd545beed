"""Tallies of endings in the NodeClaims table, one row a kind; every function that ends something writes it anyway."""

from typing import TYPE_CHECKING

from reservoir.adapters.dynamodb.table import (
    CURRENT_FORM,
    DATA,
    FORM,
    REVISION,
    DynamoDbTable,
    Expression,
    RowFormError,
    apply,
    attributes,
    data,
    number,
)
from reservoir.core.safety.endings import EndingKind
from reservoir.core.safety.tally import Tally
from reservoir.core.serialisation.json_codec import dumps, loads
from reservoir.names import ENDINGS_ROW_PREFIX, KEY
from reservoir.ports.safety import StoredTally, UnreadableRowError
from reservoir.ports.system import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class DynamoDbTallies:
    """Implements ``reservoir.ports.safety.TallyStore``."""

    def __init__(self, client: "DynamoDBClient", table_name: str, clock: Clock) -> None:
        self._client = client
        self._table = DynamoDbTable(client, table_name)
        self._clock = clock

    def get(self, kind: EndingKind) -> StoredTally:
        """Return the kind's tally."""
        row = self._table.get(ENDINGS_ROW_PREFIX + kind, self._clock.now())
        if row is None:
            return StoredTally(Tally(kind), None)
        try:
            return StoredTally(loads(Tally, data(row)), number(row, REVISION))
        except (RowFormError, ValueError, KeyError) as error:
            raise UnreadableRowError(f"tally of {kind}: {error}") from error

    def put(self, tally: Tally, *, expected_revision: int | None) -> None:
        """Write the tally."""
        expression = Expression()
        condition = (
            expression.absent()
            if expected_revision is None
            else expression.at(REVISION, expected_revision)
        )
        row = attributes(
            {
                KEY: ENDINGS_ROW_PREFIX + tally.kind,
                FORM: CURRENT_FORM,
                DATA: dumps(tally),
                REVISION: (expected_revision or 0) + 1,
            }
        )
        apply(self._client, self._table.put(row, expression, condition))
