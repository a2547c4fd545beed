"""Accounts in DynamoDB.

A partition a month with a row an account, one partition of the meters that run, and one of those that have ended: a
meter ends once, however often its end is reported. DynamoDB itself adds the amounts, in the transaction that moves the
meter.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.adapters.dynamodb.table import (
    BATCH_GET_MAX,
    CURRENT_FORM,
    DATA,
    FORM,
    Attributes,
    DynamoDbTable,
    Expression,
    Write,
    attribute,
    attributes,
    data,
    epoch_s,
    number,
    readable,
    text,
    transact,
    transact_what_holds,
    understood,
)
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.serialisation.json_codec import dumps, loads
from reservoir.core.sharing.accounts import (
    AccountLine,
    Amount,
    Meter,
    MeterReading,
    added_up,
)
from reservoir.names import KEY, SORT_KEY, TTL_ATTRIBUTE
from reservoir.ports.state import COMMIT_ITEMS_MAX
from reservoir.ports.system import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_RUNNING: Final = "#running"
_ENDED: Final = "#ended"
# Longer than ended claims are kept: until then the end may be reported again.
_ENDED_KEPT: Final = timedelta(days=14)
_KEPT: Final = timedelta(days=800)  # two years and the month that is being looked at
_SECONDS: Final = "seconds"
_ATTO_USD: Final = "atto_usd"


@dataclass(frozen=True, slots=True)
class _Move:
    """A meter that continues from ``before`` by its reading."""

    claim_id: str
    before: Meter | None
    reading: MeterReading

    @property
    def looks_for_end(self) -> bool:
        """Whether the mark of an end is written or must be absent; no meter that runs has one."""
        return self.before is None or self.reading.meter is None

    @property
    def meter_rows(self) -> int:
        """How many rows it touches beside the accounts."""
        return 2 if self.looks_for_end else 1


class DynamoDbAccounts:
    """Implements ``reservoir.ports.accounts.AccountStore``."""

    def __init__(self, client: "DynamoDBClient", table: str, clock: Clock) -> None:
        self._client = client
        self._table = table
        self._clock = clock

    def meters(self) -> Mapping[str, Meter]:
        """Return the meters that run, by claim."""
        return {meter.claim_id: meter for meter in understood(self._read(_RUNNING), _meter)}

    def meter(self, claim_id: str) -> Meter | None:
        """Return a claim's meter while it runs."""
        key: Any = attributes({KEY: _RUNNING, SORT_KEY: claim_id})
        with map_client_errors():
            row = self._client.get_item(
                TableName=self._table, Key=key, ConsistentRead=True
            ).get("Item")
        return None if row is None else readable(row, _meter)

    def meters_of(self, claim_ids: Collection[str]) -> Mapping[str, Meter]:
        """Return the running meters of these claims, by claim."""
        rows = DynamoDbTable(self._client, self._table)
        keys = [
            attributes({KEY: _RUNNING, SORT_KEY: claim_id})
            for claim_id in sorted(set(claim_ids))
        ]
        parts = (
            keys[first : first + BATCH_GET_MAX]
            for first in range(0, len(keys), BATCH_GET_MAX)
        )
        found = chain.from_iterable(rows.get_batch(part) for part in parts)
        meters = [readable(row, _meter) for row in found]
        return {meter.claim_id: meter for meter in meters}

    def write(self, claim_id: str, before: Meter | None, reading: MeterReading) -> None:
        """Add the amounts to their accounts, and move the meter; raises ConflictError."""
        transact(self._client, self._writes([_Move(claim_id, before, reading)]))

    def write_many(
        self, before: Mapping[str, Meter | None], readings: Mapping[str, MeterReading]
    ) -> Collection[str]:
        """Add and move as many to a transaction as it holds; each account is added to once in it."""
        moved: list[_Move] = []
        for some in _fitting(
            [
                _Move(key, before.get(key), reading)
                for key, reading in sorted(readings.items())
            ]
        ):
            moved += transact_what_holds(
                self._client, lambda move: move.claim_id, some, self._writes
            )
        return {move.claim_id for move in moved}

    def accounts(self, month: str) -> Mapping[AccountLine, Amount]:
        """Return the recorded accounts of a month."""
        return dict(understood(self._read(month), _account))

    def _writes(self, moves: Sequence[_Move]) -> Sequence[Write]:
        writes: list[Write] = []
        for move in moves:
            writes.append(self._moved(move.claim_id, move.before, move.reading.meter))
            if move.looks_for_end:
                writes.append(
                    self._not_ended(move.claim_id, ends=move.reading.meter is None)
                )
        amounts = added_up(move.reading.amounts for move in moves)
        return writes + [
            self._added(account, amount) for account, amount in amounts.items()
        ]

    def _moved(self, claim_id: str, before: Meter | None, after: Meter | None) -> Write:
        expression = Expression()
        condition = (
            expression.absent() if before is None else expression.at(DATA, dumps(before))
        )
        key = {KEY: _RUNNING, SORT_KEY: claim_id}
        if after is None and before is None:
            return self._write(
                "ConditionCheck", claim_id, expression, condition, Key=attributes(key)
            )
        if after is None:
            return self._write(
                "Delete", claim_id, expression, condition, Key=attributes(key)
            )
        row = attributes({**key, FORM: CURRENT_FORM, DATA: dumps(after)})
        return self._write("Put", claim_id, expression, condition, Item=row)

    def _not_ended(self, claim_id: str, *, ends: bool) -> Write:
        expression = Expression()
        condition = expression.absent()
        key = {KEY: _ENDED, SORT_KEY: claim_id}
        if not ends:
            return self._write(
                "ConditionCheck", claim_id, expression, condition, Key=attributes(key)
            )
        row = attributes(
            {
                **key,
                FORM: CURRENT_FORM,
                TTL_ATTRIBUTE: epoch_s(self._clock.now() + _ENDED_KEPT),
            }
        )
        return self._write("Put", claim_id, expression, condition, Item=row)

    def _added(self, account: AccountLine, amount: Amount) -> Write:
        expression = Expression()
        sums = f"{expression.name(_SECONDS)} {expression.value(amount.seconds)}"
        sums += f", {expression.name(_ATTO_USD)} {expression.value(amount.atto_usd)}"
        expires_s = epoch_s(datetime.fromisoformat(f"{account.day}T00:00:00+00:00") + _KEPT)
        told = ", ".join(
            expression.assign(name, value)
            for name, value in (
                (FORM, CURRENT_FORM),
                ("day", account.day),
                ("team", account.team),
                ("namespace", account.namespace),
                ("capacity_type", account.capacity_type.value),
                (TTL_ATTRIBUTE, expires_s),
            )
        )
        name = f"{account.day} {account.team}/{account.namespace} {account.capacity_type.value}"
        parameters = {
            "TableName": self._table,
            "Key": attributes({KEY: account.day[:7], SORT_KEY: name}),
            "UpdateExpression": f"ADD {sums} SET {told}",
            "ExpressionAttributeNames": expression.names,
            "ExpressionAttributeValues": expression.values,
        }
        return Write("Update", name, parameters)

    def _write(
        self, kind: Any, row: str, expression: Expression, condition: str, **what: Any
    ) -> Write:
        parameters = {
            "TableName": self._table,
            "ConditionExpression": condition,
            "ExpressionAttributeNames": expression.names,
            **(
                {"ExpressionAttributeValues": expression.values}
                if expression.values
                else {}
            ),
            **what,
        }
        return Write(kind, row, parameters)

    def _read(self, partition: str) -> Iterator[Attributes]:
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            KeyConditionExpression="#id = :id",
            ExpressionAttributeNames={"#id": KEY},
            ExpressionAttributeValues={":id": attribute(partition)},
            ConsistentRead=True,
        )
        with map_client_errors():
            for page in pages:
                yield from page["Items"]


def _fitting(moves: Sequence[_Move]) -> Iterator[Sequence[_Move]]:
    """Cut moves so that each part, with the accounts that it adds to, fits one transaction."""
    part: list[_Move] = []
    rows, accounts = 0, set[AccountLine]()
    for move in moves:
        if (
            part
            and rows + move.meter_rows + len(accounts | move.reading.amounts.keys())
            > COMMIT_ITEMS_MAX
        ):
            yield part
            part, rows, accounts = [], 0, set()
        part.append(move)
        rows += move.meter_rows
        accounts |= move.reading.amounts.keys()
    if part:
        yield part


def _meter(row: Attributes) -> Meter:
    return loads(Meter, data(row))


def _account(row: Attributes) -> tuple[AccountLine, Amount]:
    capacity_type = CapacityType(text(row, "capacity_type"))
    account = AccountLine(
        text(row, "day"), text(row, "team"), text(row, "namespace"), capacity_type
    )
    return account, Amount(number(row, _SECONDS), number(row, _ATTO_USD))
