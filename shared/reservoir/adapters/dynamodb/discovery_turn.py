"""Whose turn it is to read all reservations: one row of the Reservations table, which no index lists."""

from typing import TYPE_CHECKING, Final

from reservoir.adapters.dynamodb.table import (
    CURRENT_FORM,
    DATA,
    FORM,
    REVISION,
    Attributes,
    DynamoDbTable,
    Expression,
    apply,
    attributes,
    data,
    number,
    readable,
)
from reservoir.core.capacity.discovery_turn import DiscoveryTurn
from reservoir.core.serialisation.json_codec import dumps, loads
from reservoir.names import KEY
from reservoir.ports.discovery_turns import StoredTurn
from reservoir.ports.system import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_ROW: Final = "discovery-turn"


class DynamoDbDiscoveryTurns:
    """Implements ``reservoir.ports.discovery_turns.DiscoveryTurnStore``."""

    def __init__(self, client: "DynamoDBClient", table: str, clock: Clock) -> None:
        self._table = DynamoDbTable(client, table)
        self._clock = clock

    def read(self) -> StoredTurn:
        """Return the turn (consistent read)."""
        row = self._table.get(_ROW, self._clock.now())
        return StoredTurn(None, 0) if row is None else readable(row, _turn)

    def write(self, turn: DiscoveryTurn, *, expected_revision: int) -> None:
        """Write the turn; raises ConflictError when another process did first."""
        expression = Expression()
        condition = (
            expression.at(REVISION, expected_revision)
            if expected_revision
            else expression.absent()
        )
        row = attributes(
            {
                KEY: _ROW,
                FORM: CURRENT_FORM,
                DATA: dumps(turn),
                REVISION: expected_revision + 1,
            }
        )
        apply(self._table.client, self._table.put(row, expression, condition))


def _turn(row: Attributes) -> StoredTurn:
    return StoredTurn(loads(DiscoveryTurn, data(row)), number(row, REVISION))
