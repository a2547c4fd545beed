"""Purchases in the Policy table: a row for each, for good, and the book, which is written together with each."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from reservoir.adapters.dynamodb.table import (
    CURRENT_FORM,
    DATA,
    FORM,
    REVISION,
    Attributes,
    DynamoDbTable,
    Expression,
    RowFormError,
    Write,
    attributes,
    data,
    number,
    transact,
    understood,
)
from reservoir.core.purchasing.book import Book
from reservoir.core.purchasing.purchase import Purchase
from reservoir.core.serialisation.json_codec import dumps, loads
from reservoir.names import (
    KEY,
    LISTING_INDEX,
    LISTING_KEY,
    PURCHASE_BOOK_ROW,
    PURCHASE_ROW_PREFIX,
)
from reservoir.ports.capacity_blocks import StoredBook
from reservoir.ports.safety import UnreadableRowError
from reservoir.ports.system import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

LISTED: Final = "purchases"


class DynamoDbPurchases:
    """Implements ``reservoir.ports.capacity_blocks.PurchaseStore``."""

    def __init__(self, client: "DynamoDBClient", table_name: str, clock: Clock) -> None:
        self._client = client
        self._table = DynamoDbTable(client, table_name)
        self._clock = clock

    def book(self) -> StoredBook:
        """Return the book."""
        row = self._table.get(PURCHASE_BOOK_ROW, self._clock.now())
        if row is None:
            return StoredBook(Book(), None)
        try:
            return StoredBook(loads(Book, data(row)), number(row, REVISION))
        except (RowFormError, ValueError, KeyError) as error:
            raise UnreadableRowError(f"book of purchases: {error}") from error

    def get(self, purchase_id: str) -> Purchase | None:
        """Return a purchase."""
        row = self._table.get(PURCHASE_ROW_PREFIX + purchase_id, self._clock.now())
        if row is None:
            return None
        try:
            return _purchase(row)
        except (RowFormError, ValueError, KeyError) as error:
            raise UnreadableRowError(f"purchase of {purchase_id}: {error}") from error

    def commit(
        self,
        purchase: Purchase,
        book: Book,
        *,
        over: Purchase | None,
        expected_revision: int | None,
    ) -> None:
        """Write a purchase and the book, or neither. An answer that is lost is asked for again under the same token."""
        transact(
            self._client,
            [
                self._purchase_write(purchase, over),
                self._book_write(book, expected_revision),
            ],
            recognise_repeats=True,
        )

    def list_all(self) -> Sequence[Purchase]:
        """Return all purchases."""
        rows = self._table.query(LISTING_INDEX, LISTING_KEY, LISTED, self._clock.now())
        found = list(understood(rows, _purchase))
        return sorted(found, key=lambda each: (each.intended_at, each.id), reverse=True)

    def _purchase_write(self, purchase: Purchase, over: Purchase | None) -> Write:
        expression = Expression()
        condition = (
            expression.absent() if over is None else expression.at(DATA, dumps(over))
        )
        key = PURCHASE_ROW_PREFIX + purchase.id
        row = attributes(
            {KEY: key, FORM: CURRENT_FORM, DATA: dumps(purchase), LISTING_KEY: LISTED}
        )
        return self._table.put(row, expression, condition)

    def _book_write(self, book: Book, expected_revision: int | None) -> Write:
        expression = Expression()
        condition = (
            expression.absent()
            if expected_revision is None
            else expression.at(REVISION, expected_revision)
        )
        revision = (expected_revision or 0) + 1
        row = attributes(
            {
                KEY: PURCHASE_BOOK_ROW,
                FORM: CURRENT_FORM,
                DATA: dumps(book),
                REVISION: revision,
            }
        )
        return self._table.put(row, expression, condition)


def _purchase(row: Attributes) -> Purchase:
    return loads(Purchase, data(row))
