"""``dynamodb:LeadingKeys`` and ``dynamodb:Attributes``: what a DynamoDB request names, for conditions of policies.

MiniStack's evaluator does not know the keys, so that a statement which asks for it by ``ForAllValues`` would be about
every row. Source: the DynamoDB developer guide, "Using IAM policy conditions for fine-grained access control". A
transaction or a batch is taken for one request with all of its keys, where AWS leaves open whether each table's are
looked at alone: what this allows, AWS allows. ``Scan`` names no key, as on AWS; PartiQL is not read. Attributes are the
top-level ones that the request names anywhere, in keys, items, and each of its expressions ("Attribute conditions are
evaluated only on attributes specified in the request", there); one that names none has all of them, and no condition of
a policy holds it.
"""

# ruff: noqa: SLF001 - MiniStack has no public hooks; its version is pinned exactly

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ministack.core import iam_actions
from ministack.services import dynamodb

LEADING_KEYS: Final = "dynamodb:LeadingKeys"
ATTRIBUTES: Final = "dynamodb:Attributes"
_EXPRESSIONS: Final = (
    "ConditionExpression",
    "FilterExpression",
    "KeyConditionExpression",
    "ProjectionExpression",
    "UpdateExpression",
)
# Paths of an expression, and with them its words; a value begins with a colon.
_PATHS: Final = re.compile(r"(?<![\w:#.\]])(#?[A-Za-z_][\w-]*)")
_WORDS: Final = frozenset(
    {
        *("ADD", "AND", "BETWEEN", "DELETE", "IN", "NOT", "OR", "REMOVE", "SET"),
        *("ATTRIBUTE_EXISTS", "ATTRIBUTE_NOT_EXISTS", "ATTRIBUTE_TYPE", "BEGINS_WITH"),
        *("CONTAINS", "IF_NOT_EXISTS", "LIST_APPEND", "SIZE"),
    }
)
_IN_TRANSACTIONS: Final = ("ConditionCheck", "Delete", "Get", "Put", "Update")
_EQUALS: Final = re.compile(r"(#?[\w.-]+)\s*=\s*(:\w+)")
Json = Mapping[str, Any]


def install() -> None:
    """Let policies see keys and attributes."""
    iam_actions.dynamodb_service_context = _with_what_is_named(
        iam_actions.dynamodb_service_context
    )


def _with_what_is_named(
    context_of: Callable[[bytes], dict[str, Any]],
) -> Callable[[bytes], dict[str, Any]]:
    def context(body: bytes) -> dict[str, Any]:
        keys = context_of(body)
        try:
            request = json.loads(body or b"{}")
        except (UnicodeDecodeError, json.JSONDecodeError):
            return keys  # the service refuses it
        if not isinstance(request, dict):
            return keys
        found = {
            LEADING_KEYS: sorted(set(leading_keys(request))),
            ATTRIBUTES: sorted(set(attributes(request))),
        }
        return {**keys, **{name: values for name, values in found.items() if values}}

    return context


def leading_keys(request: Json) -> Iterator[str]:
    """Yield the value of the partition key of everything that a request names, as text."""
    table = request.get("TableName")
    if isinstance(table, str):
        yield from _of_one(table, request)
    for item in request.get("TransactItems", ()):
        for kind in _IN_TRANSACTIONS:
            if kind in item:
                yield from _of_one(item[kind].get("TableName", ""), item[kind])
    for name, batch in request.get("RequestItems", {}).items():
        for key in batch.get("Keys", ()) if isinstance(batch, dict) else ():
            yield from _value(name, None, key)
        for write in batch if isinstance(batch, list) else ():
            yield from _value(name, None, write.get("PutRequest", {}).get("Item", {}))
            yield from _value(name, None, write.get("DeleteRequest", {}).get("Key", {}))


def attributes(request: Json) -> Iterator[str]:
    """Yield the top-level attributes that a request names."""
    yield from _named(request)
    for item in request.get("TransactItems", ()):
        for part in item.values():
            yield from _named(part)
    for batch in request.get("RequestItems", {}).values():
        if isinstance(batch, dict):
            yield from _named(batch)
        for write in batch if isinstance(batch, list) else ():
            for part in write.values():
                yield from _named(part)


def _named(request: Json) -> Iterator[str]:
    for rows in (
        [request.get("Key", {}), request.get("Item", {})],
        request.get("Keys", ()),
    ):
        for row in rows:
            yield from row
    for name in ("AttributeUpdates", "Expected", "AttributesToGet"):
        yield from request.get(name, ())
    names = request.get("ExpressionAttributeNames", {})
    for expression in _EXPRESSIONS:
        for path in _PATHS.findall(request.get(expression, "")):
            if path.upper() not in _WORDS:
                yield names.get(path, path)


def _of_one(table: str, request: Json) -> Iterator[str]:
    index = request.get("IndexName")
    yield from _value(table, index, request.get("Key", {}))
    yield from _value(table, index, request.get("Item", {}))
    if (condition := request.get("KeyConditionExpression")) is not None:
        names = request.get("ExpressionAttributeNames", {})
        values = request.get("ExpressionAttributeValues", {})
        compared = {
            names.get(name, name): values.get(value, {})
            for name, value in _EQUALS.findall(condition)
        }
        yield from _value(table, index, compared)


def _value(table: str, index: str | None, attributes: Json) -> Iterator[str]:
    name = _partition_key(table, index)
    if name is not None and name in attributes:
        yield from (str(value) for value in attributes[name].values())


def _partition_key(table: str, index: str | None) -> str | None:
    found = dynamodb._tables.get(dynamodb._normalize_table_name(table))
    if found is None:
        return None  # the service refuses it
    schemas = [found["KeySchema"]]
    if index is not None:
        indexes = (
            *(found.get("GlobalSecondaryIndexes") or ()),
            *(found.get("LocalSecondaryIndexes") or ()),
        )
        schemas = [each["KeySchema"] for each in indexes if each["IndexName"] == index]
    return next(
        (
            key["AttributeName"]
            for schema in schemas
            for key in schema
            if key["KeyType"] == "HASH"
        ),
        None,
    )
