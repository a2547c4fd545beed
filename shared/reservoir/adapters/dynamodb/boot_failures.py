"""Boot failures in the Reservations table: one row a block in which a node did not boot lately, usually none."""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.adapters.dynamodb.table import (
    CURRENT_FORM,
    DATA,
    FORM,
    Attributes,
    DynamoDbTable,
    attributes,
    data,
    epoch_s,
    text,
    understood,
)
from reservoir.core.capacity.boot_failure import BootFailures, forgotten_at
from reservoir.core.serialisation.json_codec import dumps, loads
from reservoir.names import KEY, LISTING_INDEX, LISTING_KEY, TTL_ATTRIBUTE
from reservoir.ports.system import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

LISTED: Final = "boot-failures"
_PREFIX: Final = "#boots "  # no reservation's id begins with "#"
# rows are forgotten at whole seconds, never before their time
_ROUNDED_UP: Final = timedelta(seconds=1)


class DynamoDbBootFailures:
    """Implements ``reservoir.ports.capacity_blocks.BootFailureStore``."""

    def __init__(self, client: "DynamoDBClient", table_name: str, clock: Clock) -> None:
        self._client = client
        self._table = DynamoDbTable(client, table_name)
        self._clock = clock

    def get(self, reservation_id: str) -> BootFailures | None:
        """Return the boot failures of the reservation."""
        row = self._table.get(_PREFIX + reservation_id, self._clock.now())
        return None if row is None else next(understood([row], _failures), None)

    def put(self, reservation_id: str, failures: BootFailures) -> None:
        """Remember until nothing can follow from it."""
        row = attributes(
            {
                KEY: _PREFIX + reservation_id,
                FORM: CURRENT_FORM,
                DATA: dumps(failures),
                LISTING_KEY: LISTED,
                TTL_ATTRIBUTE: epoch_s(forgotten_at(failures) + _ROUNDED_UP),
            }
        )
        with map_client_errors():
            self._client.put_item(TableName=self._table.name, Item=row)

    def list_remembered(self) -> Mapping[str, BootFailures]:
        """Return everything that is remembered."""
        rows = self._table.query(LISTING_INDEX, LISTING_KEY, LISTED, self._clock.now())
        remembered: dict[str, BootFailures] = {}
        for row in rows:
            reservation_id = text(row, KEY).removeprefix(_PREFIX)
            for failures in understood([row], _failures):
                remembered[reservation_id] = failures
        return remembered


def _failures(row: Attributes) -> BootFailures:
    """Read the failures; a row that cannot be read counts as if the nodes had booted, and no unit is suspected."""
    return loads(BootFailures, data(row))
