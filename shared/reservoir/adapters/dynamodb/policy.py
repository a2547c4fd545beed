"""Policy objects in DynamoDB: the manifest under a revision, status and pause beside it under none.

A deleted object leaves its row with nothing but the revision: made again, it counts on from there, so that no edit of
the former object can be taken for one of the new.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from reservoir.adapters.dynamodb.table import (
    CURRENT_FORM,
    DATA,
    FORM,
    REVISION,
    Attributes,
    DynamoDbTable,
    Expression,
    Write,
    apply,
    data,
    number,
    readable,
    text,
    transact,
    understood,
)
from reservoir.core.model.conditions import ConditionType, condition_order
from reservoir.core.serialisation.json_codec import dumps, from_json, loads
from reservoir.names import (
    KEY,
    LATER_CONDITIONS,
    LISTING_INDEX,
    LISTING_KEY,
    PAUSE,
    STATUS,
)
from reservoir.ports.policy import (
    DeletePolicy,
    Pause,
    PolicyKind,
    PolicyObject,
    PolicyStatus,
    PolicyWrite,
)
from reservoir.ports.state import ConflictError, UnreadableRowsError
from reservoir.ports.system import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

LISTED: Final = "policy"
GENERATION: Final = "generation"
# gone with the object
_OF_AN_OBJECT: Final = (
    FORM,
    DATA,
    STATUS,
    LATER_CONDITIONS,
    PAUSE,
    GENERATION,
    LISTING_KEY,
)
_LATER_TYPES: Final = frozenset({ConditionType.VALIDATION_SUCCEEDED})
_KNOWN_TYPES: Final = frozenset(map(str, ConditionType))


class DynamoDbPolicyStore:
    """Implements ``reservoir.ports.policy.PolicyStore``."""

    def __init__(self, client: "DynamoDBClient", table_name: str, clock: Clock) -> None:
        self._client = client
        self._table = DynamoDbTable(client, table_name)
        self._clock = clock

    def list_all(self) -> tuple[PolicyObject, ...]:
        """Return all objects by kind and name; for unreadable ones, only that they exist."""
        rows = self._table.query(LISTING_INDEX, LISTING_KEY, LISTED, self._clock.now())
        return tuple(understood(rows, _listed))

    def get(self, kind: PolicyKind, name: str) -> PolicyObject | None:
        """Return an object (consistent read), None when there is none."""
        row = self._table.get(_key(kind, name), self._clock.now())
        return None if row is None or LISTING_KEY not in row else readable(row, _object)

    def commit(self, writes: Sequence[PolicyWrite]) -> None:
        """Write all or nothing."""
        transact(self._client, [self._write(write) for write in writes])

    def save_pause(self, name: str, pause: Pause, *, expected: Pause) -> None:
        """Replace a NodePool's pause."""
        expression = Expression()
        if expected == Pause():
            is_expected = f"attribute_not_exists({expression.name(PAUSE)})"
        else:
            is_expected = expression.at(PAUSE, dumps(expected))
        # as above: a function that pauses may write no other attribute
        condition = f"attribute_exists({expression.name(STATUS)}) AND {is_expected}"
        assignments = [expression.assign(PAUSE, dumps(pause))]
        key = _key(PolicyKind.NODE_POOL, name)
        apply(
            self._client,
            self._table.update(key, expression, condition, assignments=assignments),
        )

    def save_status(self, kind: PolicyKind, name: str, status: PolicyStatus) -> bool:
        """Replace an object's status; False when nothing was written, as it is equal or the object is gone."""
        expression = Expression()
        stored = _stored(status)
        # No condition on the revision: an operator's change and a new status do not exclude each other. Each object has
        # a status, and a function that writes one may write no other attribute.
        exists = f"attribute_exists({expression.name(STATUS)})"
        differs = " OR ".join(
            f"{expression.name(key)} <> {expression.value(value)}"
            for key, value in stored.items()
        )
        assignments = [expression.assign(key, value) for key, value in stored.items()]
        write = self._table.update(
            _key(kind, name),
            expression,
            f"{exists} AND ({differs})",
            assignments=assignments,
        )
        try:
            apply(self._client, write)
        except ConflictError:
            return False
        return True

    def _write(self, write: PolicyWrite) -> Write:
        key = _key(write.kind, write.name)
        expression = Expression()
        if isinstance(write, DeletePolicy):
            condition = expression.at(REVISION, write.expected_revision)
            counted = expression.assign(REVISION, write.expected_revision + 1)
            return self._table.update(
                key, expression, condition, assignments=[counted], removed=_OF_AN_OBJECT
            )
        assignments = [
            expression.assign(
                DATA, json.dumps(write.manifest, separators=(",", ":"), sort_keys=True)
            ),
            expression.assign(GENERATION, write.generation),
        ]
        if write.expected_revision is None:
            revision = expression.name(REVISION)
            last = f"if_not_exists({revision}, {expression.value(0)})"
            assignments += [
                expression.assign(FORM, CURRENT_FORM),
                *(
                    expression.assign(key, value)
                    for key, value in _stored(write.status or PolicyStatus()).items()
                ),
                expression.assign(LISTING_KEY, LISTED),
                f"{revision} = {last} + {expression.value(1)}",
            ]
            condition = f"attribute_not_exists({expression.name(LISTING_KEY)})"
        else:
            assignments.append(expression.assign(REVISION, write.expected_revision + 1))
            if write.status is not None:
                assignments += [
                    expression.assign(key, value)
                    for key, value in _stored(write.status).items()
                ]
            condition = expression.at(REVISION, write.expected_revision)
        return self._table.update(key, expression, condition, assignments=assignments)


def _key(kind: PolicyKind, name: str) -> str:
    return f"{kind}/{name}"


def _stored(status: PolicyStatus) -> dict[str, str]:
    """Return the attributes that hold a status."""
    later = tuple(each for each in status.conditions if each.type in _LATER_TYPES)
    known_before = tuple(
        each for each in status.conditions if each.type not in _LATER_TYPES
    )
    return {
        STATUS: dumps(replace(status, conditions=known_before)),
        LATER_CONDITIONS: dumps(PolicyStatus(conditions=later)),
    }


def _status(row: Attributes) -> PolicyStatus:
    """Return a whole status. The release before may have written the part that it knows, and nothing of the rest."""
    status = _readable_status(text(row, STATUS))
    if LATER_CONDITIONS not in row:
        return status
    later = _readable_status(text(row, LATER_CONDITIONS)).conditions
    return replace(
        status, conditions=tuple(sorted((*status.conditions, *later), key=condition_order))
    )


def _readable_status(stored: str) -> PolicyStatus:
    """Leave out conditions of types that only a newer release knows: the object means the same without them."""
    fields = json.loads(stored)
    if "conditions" in fields:
        fields["conditions"] = [
            each for each in fields["conditions"] if each["type"] in _KNOWN_TYPES
        ]
    return from_json(PolicyStatus, fields)


def _listed(row: Attributes) -> PolicyObject:
    try:
        return readable(row, _object)
    except UnreadableRowsError:
        kind, _, name = text(row, KEY).partition("/")
        return PolicyObject(PolicyKind(kind), name, {}, 0, 0, is_readable=False)


def _object(row: Attributes) -> PolicyObject:
    kind, _, name = text(row, KEY).partition("/")
    return PolicyObject(
        kind=PolicyKind(kind),
        name=name,
        manifest=json.loads(data(row)),
        generation=number(row, GENERATION),
        revision=number(row, REVISION),
        status=_status(row),
        pause=loads(Pause, text(row, PAUSE)) if PAUSE in row else Pause(),
    )
