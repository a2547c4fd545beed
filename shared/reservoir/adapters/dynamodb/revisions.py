"""Lists rows without reading unchanged ones: a narrow index shows the revision of each row.

Every write of a row counts its revision up under the condition of the one before, so a key and a revision identify one
content. A row that was read at a revision therefore stays valid as long as the index shows that revision; rows that it
shows at another are read by key. An index may lag its table by moments, as an index with whole rows does.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from itertools import chain
from typing import Any, Final, Generic, Protocol, TypeVar

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.adapters.dynamodb.table import (
    REVISION,
    DynamoDbTable,
    Expression,
    number,
    projection,
    text,
)
from reservoir.names import KEY

# An entry is some 60 bytes, so a page of 1 MB holds 16,000: up to that one request is enough. What takes more is read
# in parts, side by side.
_PARTS_FROM: Final = 16_000
_PARTS: Final = 8


class Revisioned(Protocol):
    """A value that knows at which revision of its row it was read."""

    @property
    def revision(self) -> int:
        """The row's revision."""
        ...


T = TypeVar("T", bound=Revisioned)


class KnownRows(Generic[T]):
    """The rows as they were read last; values are frozen, so that passes may share them."""

    def __init__(self) -> None:
        self._values: Mapping[str, T] = {}

    def at(self, revisions: Mapping[str, int]) -> dict[str, T]:
        """Return the values that are known at exactly these revisions, by key."""
        values = self._values
        return {
            key: values[key]
            for key, revision in revisions.items()
            if key in values and values[key].revision == revision
        }

    def keep(self, values: Mapping[str, T]) -> None:
        """Know these from now on, and forget all others."""
        self._values = values


class RevisionIndex:
    """An index that has a row's key, one attribute without which a row is not in it, and the revision.

    Its partition key is the table's, so that no write meets a partition that others share; it is read as a whole.
    ``parts`` as in :class:`DynamoDbTable`.
    """

    def __init__(
        self, table: DynamoDbTable, index: str, attribute: str, parts: Executor | None
    ) -> None:
        self._table = table
        self._index = index
        self._attribute = attribute
        self._parts = parts
        self._count = 0  # entries that were read last

    def listed(self, value: str) -> Mapping[str, int]:
        """Return the revisions of the rows whose attribute has this value, by key."""
        if self._parts is None or self._count < _PARTS_FROM:
            found, self._count = self._part(value, {})
            return found
        parts = [{"Segment": part, "TotalSegments": _PARTS} for part in range(_PARTS)]
        read = list(self._parts.map(lambda part: self._part(value, part), parts))
        self._count = sum(count for _, count in read)
        return dict(chain.from_iterable(found.items() for found, _ in read))

    def _part(self, value: str, part: Mapping[str, int]) -> tuple[Mapping[str, int], int]:
        """Return the revisions of a part by key, and of how many entries; a page is forgotten before the next."""
        found: dict[str, int] = {}
        count = 0
        for page in self._pages(value, part):
            count += page["ScannedCount"]
            for entry in page["Items"]:
                found[text(entry, KEY)] = number(entry, REVISION)
        return found, count

    def _pages(self, value: str, part: Mapping[str, int]) -> Iterator[Any]:
        expression = Expression()
        request: Any = {
            "TableName": self._table.name,
            "IndexName": self._index,
            "FilterExpression": expression.at(self._attribute, value),
            # The attribute is the same in all that are asked for: a third of what would be parsed.
            **projection(expression, (KEY, REVISION)),
            "ExpressionAttributeNames": expression.names,
            "ExpressionAttributeValues": expression.values,
            **part,
        }
        with map_client_errors():
            yield from self._table.client.get_paginator("scan").paginate(**request)
