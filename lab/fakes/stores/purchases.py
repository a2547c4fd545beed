"""Purchases in memory."""

from reservoir.core.purchasing.book import Book
from reservoir.core.purchasing.purchase import Purchase
from reservoir.ports.capacity_blocks import StoredBook
from reservoir.ports.state import ConflictError


class MemoryPurchases:
    """Implements ``PurchaseStore``."""

    def __init__(self) -> None:
        self.rows: dict[str, Purchase] = {}
        self.stored = StoredBook(Book(), None)

    def book(self) -> StoredBook:
        return self.stored

    def get(self, purchase_id: str) -> Purchase | None:
        return self.rows.get(purchase_id)

    def commit(
        self,
        purchase: Purchase,
        book: Book,
        *,
        over: Purchase | None,
        expected_revision: int | None,
    ) -> None:
        moved = [purchase.id] if self.rows.get(purchase.id) != over else []
        if self.stored.revision != expected_revision:
            moved.append("book")
        if moved:
            raise ConflictError(moved)
        self.rows[purchase.id] = purchase
        self.stored = StoredBook(book, (expected_revision or 0) + 1)

    def list_all(self) -> list[Purchase]:
        return sorted(
            self.rows.values(), key=lambda each: (each.intended_at, each.id), reverse=True
        )
