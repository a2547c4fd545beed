"""Purchases and their book: the same contract in memory and on DynamoDB."""

import itertools
from datetime import timedelta
from typing import Any

import pytest

from lab.fakes.stores.purchases import MemoryPurchases
from lab.fakes.system import START, ManualClock
from lab.local import ministack
from reservoir.adapters.dynamodb.table import CURRENT_FORM, DATA, FORM
from reservoir.adapters.safety.purchases import DynamoDbPurchases
from reservoir.core.purchasing.book import Book
from reservoir.core.purchasing.purchase import BlockOrder, Purchase
from reservoir.names import (
    KEY,
    LISTING_INDEX,
    LISTING_KEY,
    PURCHASE_BOOK_ROW,
    PURCHASE_ROW_PREFIX,
)
from reservoir.ports.capacity_blocks import PurchaseStore
from reservoir.ports.safety import UnreadableRowError
from reservoir.ports.state import ConflictError

_names = itertools.count()
ON_DYNAMODB = pytest.param("dynamodb", marks=pytest.mark.embedded)
ORDER = BlockOrder(
    "cb-1", "p5.48xlarge", "us-east-1c", 2, START, START + timedelta(days=1), 1_500_000_000
)
INTENT = Purchase(ORDER, START, "ada")
BOOK = Book().with_intent(INTENT)


@pytest.fixture(params=["memory", ON_DYNAMODB])
def store(request: pytest.FixtureRequest) -> PurchaseStore:
    if request.param == "memory":
        return MemoryPurchases()
    return on_dynamodb(request.getfixturevalue("dynamodb"))[0]


def on_dynamodb(dynamodb: Any) -> tuple[PurchaseStore, str]:
    table = f"policy-{next(_names)}"
    ministack.create_table(dynamodb, table, indexes={LISTING_INDEX: (LISTING_KEY, "ALL")})
    return DynamoDbPurchases(dynamodb, table, ManualClock()), table


def test_a_purchase_is_read_back_with_its_book(store: PurchaseStore) -> None:
    assert (store.book().book, store.book().revision, store.get("cb-1")) == (
        Book(),
        None,
        None,
    )
    store.commit(INTENT, BOOK, over=None, expected_revision=None)
    assert (store.get("cb-1"), store.book().book, list(store.list_all())) == (
        INTENT,
        BOOK,
        [INTENT],
    )
    bought = INTENT.bought(("cr-1",), by="ada", now=START)
    store.commit(
        bought, BOOK.settled(bought), over=INTENT, expected_revision=store.book().revision
    )
    assert store.get("cb-1") == bought
    assert store.book().book == Book(BOOK.months)


def test_of_two_who_read_the_same_one_writes(store: PurchaseStore) -> None:
    store.commit(INTENT, BOOK, over=None, expected_revision=None)
    other = Purchase(
        BlockOrder("cb-2", "p5.48xlarge", "us-east-1c", 2, START, START, 1), START, "bob"
    )
    with pytest.raises(ConflictError):  # another book
        store.commit(other, BOOK, over=None, expected_revision=None)
    with pytest.raises(ConflictError):  # another row
        store.commit(INTENT, BOOK, over=None, expected_revision=store.book().revision)
    assert store.get("cb-2") is None
    assert list(store.list_all()) == [INTENT]


@pytest.mark.embedded
def test_a_row_that_is_not_understood_is_no_leave_to_buy(dynamodb: Any) -> None:
    store, table = on_dynamodb(dynamodb)
    for key in (PURCHASE_BOOK_ROW, f"{PURCHASE_ROW_PREFIX}cb-1"):
        row = {KEY: {"S": key}, FORM: {"N": str(CURRENT_FORM + 1)}, DATA: {"S": "{}"}}
        dynamodb.put_item(TableName=table, Item=row)
    with pytest.raises(UnreadableRowError):
        store.book()
    with pytest.raises(UnreadableRowError):
        store.get("cb-1")
