"""Marks on the tables of the state: one row in each, and the identity that DynamoDB gives every table it makes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.adapters.dynamodb.table import (
    CURRENT_FORM,
    DATA,
    FORM,
    DynamoDbTable,
    Expression,
    RowFormError,
    Write,
    attributes,
    data,
    transact,
)
from reservoir.core.safety.table_mark import MarkedTable, TableMark
from reservoir.core.serialisation.json_codec import dumps, loads
from reservoir.names import KEY, MARK_ROW
from reservoir.ports.safety import UnreadableRowError
from reservoir.ports.system import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_GENERATION: Final = "generation"


class DynamoDbTableMarks:
    """Implements ``reservoir.ports.safety.TableMarkStore``. ``tables`` are names by role."""

    def __init__(
        self, client: "DynamoDBClient", tables: Mapping[str, str], clock: Clock
    ) -> None:
        self._client = client
        self._tables = {
            role: DynamoDbTable(client, tables[role]) for role in sorted(tables)
        }
        self._clock = clock

    def read(self) -> tuple[MarkedTable, ...]:
        """Return the tables by role."""
        return tuple(
            MarkedTable(role, self._identity(table), self._mark(role))
            for role, table in self._tables.items()
        )

    def write(self, mark: TableMark, seen: Sequence[MarkedTable]) -> None:
        """Put the mark into all tables in one transaction."""
        transact(self._client, [self._write(mark, table) for table in seen])

    def _write(self, mark: TableMark, seen: MarkedTable) -> Write:
        expression = Expression()
        condition = (
            expression.absent()
            if seen.mark is None
            else expression.at(_GENERATION, seen.mark.generation)
        )
        row = attributes(
            {
                KEY: MARK_ROW,
                FORM: CURRENT_FORM,
                DATA: dumps(mark),
                _GENERATION: mark.generation,
            }
        )
        return self._tables[seen.role].put(row, expression, condition)

    def _identity(self, table: DynamoDbTable) -> str:
        with map_client_errors():
            return self._client.describe_table(TableName=table.name)["Table"]["TableId"]

    def _mark(self, role: str) -> TableMark | None:
        row = self._tables[role].get(MARK_ROW, self._clock.now())
        try:
            return None if row is None else loads(TableMark, data(row))
        except (RowFormError, ValueError, KeyError) as error:
            raise UnreadableRowError(f"mark of {role}: {error}") from error
