"""DynamoDB in the few forms that the stores need: rows, conditions from named parts, transactions, paged reads."""

import hashlib
import json
import logging
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.names import KEY, ROW_REVISION, ROWS_LOGGER, SORT_KEY, TTL_ATTRIBUTE
from reservoir.ports.errors import RefusedError, RowsRefusedError, ThrottledError
from reservoir.ports.state import ConflictError, UnreadableRowsError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

T = TypeVar("T")
Value = str | int
# a row as DynamoDB writes it: {"id": {"S": "cr-1"}, "revision": {"N": "3"}}
Attributes = dict[str, Any]

DATA: Final = "data"  # the value itself, as JSON
FORM: Final = "form"  # of the row, so that a reader refuses a form that it does not know
CURRENT_FORM: Final = 1
REVISION: Final = ROW_REVISION

BATCH_GET_MAX: Final = 100  # keys in one BatchGetItem
# Rows are held as they came until they are understood: enough for each reader to have two batches.
_READ_AT_ONCE: Final = 16 * BATCH_GET_MAX
# Reasons in a cancelled transaction: the condition did not hold; or another transaction touched the row at the same
# moment, or the table was throttled. In the last two cases trying again is right, because no condition has failed.
_CONDITION_FAILED: Final = "ConditionalCheckFailed"
_CONDITION_FAILED_ALONE: Final = "ConditionalCheckFailedException"
# A row is larger than DynamoDB takes, or written as it takes none; the first alone, the second in a transaction.
_ROW_REFUSED_ALONE: Final = "ValidationException"
_ROW_REFUSED: Final = "ValidationError"
_PASSING_REASONS: Final = frozenset(
    {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}
)
_ATTEMPTS_MAX: Final = 8
_FIRST_PAUSE_S: Final = 0.02


_log = logging.getLogger(ROWS_LOGGER)


class RowFormError(Exception):
    """A row was written by a newer version of the product."""


# What reading a row raises when it is of another release, or damaged; the codec's errors are ValueErrors.
_NOT_UNDERSTOOD: Final = (RowFormError, KeyError, ValueError)


def attribute(value: Value) -> dict[str, str]:
    """Return a scalar as DynamoDB writes it."""
    return {"N": str(value)} if isinstance(value, int) else {"S": value}


def attributes(values: Mapping[str, Value | None]) -> Attributes:
    """Return a row; names whose value is None are left out (sparse indexes depend on it)."""
    return {name: attribute(value) for name, value in values.items() if value is not None}


def text(row: Attributes, name: str) -> str:
    """Read a string."""
    value: str = row[name]["S"]
    return value


def number(row: Attributes, name: str) -> int:
    """Read a number."""
    return int(row[name]["N"])


def data(row: Attributes) -> str:
    """Read the JSON value of a row.

    Raises
    ------
    RowFormError
        The row has a form that this version does not know.
    """
    if number(row, FORM) > CURRENT_FORM:
        raise RowFormError(
            f"row {text(row, KEY)} has form {number(row, FORM)}, this version reads {CURRENT_FORM}"
        )
    return text(row, DATA)


def understood(
    rows: Iterable[Attributes], decode: Callable[[Attributes], T]
) -> Iterator[T]:
    """Yield the readable rows, and name the others in the log: a list goes on without them.

    Only for lists whose gaps have no consequences. Asking for an unreadable row by name raises an error (``readable``);
    it never passes for a row that does not exist.
    """
    for row in rows:
        try:
            value = decode(row)
        except _NOT_UNDERSTOOD as error:
            _log_unreadable(row, error)
        else:
            yield value


def _log_unreadable(row: Attributes, error: Exception) -> None:
    """Name a row in the log; ``reservoir.runtime.observability`` counts these lines, and an alarm watches the count."""
    _log.error("row %s is left alone, it cannot be read: %s", _name(row), error)


def _name(row: Attributes) -> str:
    return " ".join(text(row, part) for part in (KEY, SORT_KEY) if part in row)


def readable(row: Attributes, decode: Callable[[Attributes], T]) -> T:
    """Return the value in a row.

    Raises
    ------
    UnreadableRowsError
        A newer release wrote it, or it was damaged.
    """
    try:
        return decode(row)
    except _NOT_UNDERSTOOD as error:
        _log_unreadable(row, error)
        raise UnreadableRowsError([_name(row)]) from error


def all_readable(
    rows: Iterable[Attributes], decode: Callable[[Attributes], T]
) -> dict[str, T]:
    """Return what rows say, by key.

    Raises
    ------
    UnreadableRowsError
        With all rows that cannot be read.
    """
    found: dict[str, T] = {}
    unreadable: list[str] = []
    for row in rows:
        try:
            found[text(row, KEY)] = readable(row, decode)
        except UnreadableRowsError as error:
            unreadable.extend(error.rows)
    if unreadable:
        raise UnreadableRowsError(unreadable)
    return found


def instant(value: datetime) -> str:
    """Write an instant so that text order is time order."""
    return value.astimezone(UTC).isoformat(timespec="microseconds")


def epoch_s(value: datetime) -> int:
    """Write an instant as DynamoDB's TTL wants it."""
    return int(value.timestamp())


@dataclass(slots=True)
class Expression:
    """Collects the names and values that the expressions of one request refer to."""

    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, dict[str, str]] = field(default_factory=dict)

    def name(self, attribute_name: str) -> str:
        """Return a placeholder; every name has one, so that no reserved word matters."""
        self.names[f"#{attribute_name}"] = attribute_name
        return f"#{attribute_name}"

    def value(self, value: Value) -> str:
        """Return a placeholder for a value."""
        placeholder = f":v{len(self.values)}"
        self.values[placeholder] = attribute(value)
        return placeholder

    def exists(self) -> str:
        """Condition: there is such a row."""
        return f"attribute_exists({self.name(KEY)})"

    def absent(self) -> str:
        """Condition: there is no such row."""
        return f"attribute_not_exists({self.name(KEY)})"

    def expired(self, now: datetime) -> str:
        """Condition: the row's time is over although DynamoDB has not deleted it yet (that takes up to days)."""
        return f"{self.name(TTL_ATTRIBUTE)} <= {self.value(epoch_s(now))}"

    def at(self, attribute_name: str, value: Value) -> str:
        """Condition: the attribute has this value."""
        return f"{self.name(attribute_name)} = {self.value(value)}"

    def at_least(self, attribute_name: str, value: int) -> str:
        """Condition: the number is this or more."""
        return f"{self.name(attribute_name)} >= {self.value(value)}"

    def before(self, attribute_name: str, value: datetime) -> str:
        """Condition: the instant is earlier."""
        return f"{self.name(attribute_name)} < {self.value(instant(value))}"

    def change(self, attribute_name: str, amount: int) -> str:
        """Update: add to the number."""
        placeholder = self.name(attribute_name)
        sign = "-" if amount < 0 else "+"
        return f"{placeholder} = {placeholder} {sign} {self.value(abs(amount))}"

    def assign(self, attribute_name: str, value: Value) -> str:
        """Update: set the attribute."""
        return f"{self.name(attribute_name)} = {self.value(value)}"


@dataclass(frozen=True, slots=True)
class Write:
    """One conditional write of one row, alone or within a transaction; a check is part of one and writes nothing."""

    kind: Literal["Put", "Update", "Delete", "ConditionCheck"]
    row: str
    parameters: dict[str, Any]


class DynamoDbTable:
    """One table. Reads of rows are consistent, reads of indexes may lag; rows past their TTL are not returned."""

    def __init__(
        self,
        client: "DynamoDBClient",
        name: str,
        sleep: Callable[[float], None] = time.sleep,
        parts: Executor | None = None,
    ) -> None:
        """``parts`` runs the parts of one read side by side (None: in turn); nothing in it waits for another."""
        self.client = client
        self.name = name
        self._sleep = sleep
        self._parts = parts

    def get(self, key: str, now: datetime) -> Attributes | None:
        """Return the row, or None."""
        with map_client_errors():
            row = self.client.get_item(
                TableName=self.name, Key={KEY: {"S": key}}, ConsistentRead=True
            ).get("Item")
        return None if row is None or _is_expired(row, now) else row

    def get_many(
        self, keys: Collection[str], now: datetime, names: Sequence[str] = ()
    ) -> Iterator[Attributes]:
        """Yield the rows that exist, sorted by key, of ``names`` or of all attributes; many are read side by side.

        No more are held as they came than are read at once.
        """
        wanted: list[Attributes] = [{KEY: {"S": key}} for key in sorted(set(keys))]
        for start in range(0, len(wanted), _READ_AT_ONCE):
            yield from self._several(wanted[start : start + _READ_AT_ONCE], now, names)

    def _several(
        self, wanted: Sequence[Attributes], now: datetime, names: Sequence[str]
    ) -> list[Attributes]:
        parts = [
            wanted[start : start + BATCH_GET_MAX]
            for start in range(0, len(wanted), BATCH_GET_MAX)
        ]
        several = map if self._parts is None or len(parts) < 2 else self._parts.map
        rows = chain.from_iterable(several(lambda some: self.get_batch(some, names), parts))
        kept = [row for row in rows if not _is_expired(row, now)]
        return sorted(kept, key=lambda row: text(row, KEY))

    def get_batch(
        self, keys: Sequence[Attributes], names: Sequence[str] = ()
    ) -> list[Attributes]:
        """Return the rows that exist, in no order, expired ones too; of BATCH_GET_MAX keys at most."""
        rows: list[Attributes] = []
        request: Any = {
            "Keys": list(keys),
            "ConsistentRead": True,
            **projection(Expression(), names),
        }
        for attempt in range(_ATTEMPTS_MAX):
            with map_client_errors():
                answer = self.client.batch_get_item(RequestItems={self.name: request})
            rows += answer["Responses"].get(self.name, [])
            unprocessed = answer["UnprocessedKeys"].get(self.name)
            if unprocessed is None:
                return rows
            request["Keys"] = list(unprocessed["Keys"])
            pause_with_jitter(attempt, self._sleep)
        raise ThrottledError("UnprocessedKeys", "BatchGetItem")

    def query(
        self, index: str, key_name: str, key: str, now: datetime, names: Sequence[str] = ()
    ) -> Iterator[Attributes]:
        """Return the rows of one partition of an index, sorted by key; with ``names``, these attributes alone."""
        expression = Expression()
        request: Any = {
            "TableName": self.name,
            "IndexName": index,
            "KeyConditionExpression": expression.at(key_name, key),
            **projection(expression, names),
            "ExpressionAttributeNames": expression.names,
            "ExpressionAttributeValues": expression.values,
        }
        with map_client_errors():
            for page in self.client.get_paginator("query").paginate(**request):
                yield from (row for row in page["Items"] if not _is_expired(row, now))

    def put(self, row: Attributes, expression: Expression, condition: str) -> Write:
        """Return a write that replaces the row if the condition holds."""
        return Write(
            "Put", text(row, KEY), {"Item": row, **self._conditional(expression, condition)}
        )

    def update(
        self,
        key: str,
        expression: Expression,
        condition: str,
        *,
        assignments: Sequence[str],
        removed: Sequence[str] = (),
    ) -> Write:
        """Return a write that changes attributes of the row if the condition holds."""
        update = "SET " + ", ".join(assignments)
        if removed:
            update += " REMOVE " + ", ".join(map(expression.name, removed))
        conditional = self._conditional(expression, condition)
        return Write(
            "Update",
            key,
            {"Key": {KEY: {"S": key}}, "UpdateExpression": update, **conditional},
        )

    def check(self, key: str, expression: Expression, condition: str) -> Write:
        """Return the part of a transaction that changes nothing and needs the condition to hold."""
        return Write(
            "ConditionCheck",
            key,
            {"Key": {KEY: {"S": key}}, **self._conditional(expression, condition)},
        )

    def _conditional(self, expression: Expression, condition: str) -> dict[str, Any]:
        parameters: dict[str, Any] = {
            "TableName": self.name,
            "ConditionExpression": condition,
            "ExpressionAttributeNames": expression.names,
        }
        if expression.values:
            parameters["ExpressionAttributeValues"] = expression.values
        return parameters


def apply(client: "DynamoDBClient", write: Write) -> None:
    """Do one write.

    Raises
    ------
    ConflictError
        Its condition does not hold.
    RowsRefusedError
        DynamoDB does not take the row.
    """
    try:
        with map_client_errors():
            match write.kind:
                case "Put":
                    client.put_item(**write.parameters)
                case "Update":
                    client.update_item(**write.parameters)
                case "Delete":
                    client.delete_item(**write.parameters)
                case "ConditionCheck":
                    raise ValueError("a check is part of a transaction")
    except RefusedError as error:
        if error.code == _CONDITION_FAILED_ALONE:
            raise ConflictError([write.row]) from error
        if error.code == _ROW_REFUSED_ALONE:
            raise _refused(error.operation, [write.row]) from error
        raise


def transact(
    client: "DynamoDBClient", writes: Sequence[Write], *, recognise_repeats: bool = False
) -> None:
    """Do all writes or none.

    Raises ConflictError naming the rows whose conditions did not hold, RowsRefusedError naming the rows that DynamoDB
    refuses.

    ``recognise_repeats`` derives the request token from the content: the same transaction again within DynamoDB's ten
    minutes succeeds without doing anything, so that a caller who lost the answer may simply repeat it.
    """
    items: list[Any] = [{write.kind: write.parameters} for write in writes]
    request: Any = {"TransactItems": items}
    if recognise_repeats:
        request["ClientRequestToken"] = _digest(items)
    for attempt in range(_ATTEMPTS_MAX):
        with map_client_errors():
            try:
                client.transact_write_items(**request)
            except client.exceptions.TransactionCanceledException as error:
                reasons = [
                    reason.get("Code", "None")
                    for reason in error.response.get("CancellationReasons", [])
                ]
                failed = [
                    write.row
                    for write, code in zip(writes, reasons, strict=True)
                    if code == _CONDITION_FAILED
                ]
                if failed:
                    raise ConflictError(failed) from error
                refused = [
                    write.row
                    for write, code in zip(writes, reasons, strict=True)
                    if code == _ROW_REFUSED
                ]
                if refused:
                    raise _refused("TransactWriteItems", refused) from error
                if not _PASSING_REASONS.intersection(reasons):
                    raise
                pause_with_jitter(attempt)
            else:
                return
    raise ConflictError([write.row for write in writes])


def _refused(operation: str, rows: Sequence[str]) -> RowsRefusedError:
    for row in rows:
        _log.error("row %s is left as it is, DynamoDB does not take it", row)
    return RowsRefusedError(_ROW_REFUSED_ALONE, operation, rows)


def transact_what_holds(
    client: "DynamoDBClient",
    row_of: Callable[[T], str],
    some: Sequence[T],
    writes: Callable[[Sequence[T]], Sequence[Write]],
) -> Sequence[T]:
    """Do all writes that hold together, repeating without those whose own row has changed; return those that were done.

    None, if anything else prevents it.
    """
    rest = list(some)
    while rest:
        try:
            transact(client, writes(rest))
        except ConflictError as error:
            kept = [each for each in rest if row_of(each) not in error.rows]
            rest = kept if len(kept) < len(rest) else []
        else:
            break
    return rest


def pause_with_jitter(attempt: int, sleep: Callable[[float], None] = time.sleep) -> None:
    """Wait a random part of an exponentially growing time (full jitter)."""
    sleep(random.uniform(0, _FIRST_PAUSE_S * 2**attempt))  # noqa: S311 # spreads retries, keeps no secret


def _digest(items: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(items, sort_keys=True).encode()).hexdigest()[:36]


def projection(expression: Expression, names: Sequence[str]) -> dict[str, Any]:
    """Return what asks for these attributes alone; of all, nothing."""
    if not names:
        return {}
    named = ", ".join(map(expression.name, names))
    return {"ProjectionExpression": named, "ExpressionAttributeNames": expression.names}


def _is_expired(row: Attributes, now: datetime) -> bool:
    return TTL_ATTRIBUTE in row and number(row, TTL_ATTRIBUTE) <= epoch_s(now)
