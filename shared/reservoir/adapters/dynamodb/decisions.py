"""Decisions in DynamoDB, their plans and snapshots in S3 (a snapshot outgrows a row by far).

A snapshot is kept under the hash of its content: what did not change from pass to pass is stored once.
"""

import gzip
import hashlib
import json
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.adapters.dynamodb.table import (
    CURRENT_FORM,
    DATA,
    FORM,
    Attributes,
    DynamoDbTable,
    all_readable,
    attributes,
    data,
    epoch_s,
    instant,
    readable,
    text,
)
from reservoir.core.model.decision_summary import DecisionSummary
from reservoir.names import KEY, TTL_ATTRIBUTE
from reservoir.ports.history import Decision
from reservoir.ports.system import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

_KEPT: Final = timedelta(days=14)
# An object that several decisions share is written again after this long. The bucket's lifecycle rule keeps objects for
# more than both together, so none expires before a row that points to it.
_SHARED: Final = timedelta(days=1)
# A large fleet's snapshot is compressed in a third of the time, into a third more bytes, and few such snapshots are
# kept.
_USUAL_LEVEL: Final = 6
_FAST_LEVEL: Final = 2
_LARGE_BYTES: Final = 8 << 20
_MADE_AT: Final = "made_at"
_PLAN: Final = "plan"  # digest of its content
_SNAPSHOT: Final = "snapshot"
_POLICY: Final = "policy"


class StoredDecisions:
    """Implements ``reservoir.ports.history.DecisionStore``."""

    def __init__(
        self,
        client: "DynamoDBClient",
        table_name: str,
        s3: "S3Client",
        bucket: str,
        clock: Clock,
    ) -> None:
        self._client = client
        self._table = DynamoDbTable(client, table_name)
        self._s3 = s3
        self._bucket = bucket
        self._clock = clock
        # when this process wrote a snapshot, by digest
        self._shared: dict[str, datetime] = {}

    def save(self, decision: Decision, snapshot_json: str) -> None:
        """Keep a decision and its snapshot; the row comes last, so that the object it points to exists."""
        self._write(
            decision, snapshot_json, _digest(decision.plan_json), _digest(snapshot_json)
        )

    def save_if_changed(self, decision: Decision, snapshot_json: str) -> None:
        """Keep a decision, unless the one with its id is the same for the same snapshot."""
        plan, snapshot = _digest(decision.plan_json), _digest(snapshot_json)
        row = self._table.get(decision.plan_id, self._clock.now())
        if row is None or (text(row, _PLAN), text(row, _SNAPSHOT)) != (plan, snapshot):
            self._write(decision, snapshot_json, plan, snapshot)

    def load(self, plan_id: str) -> tuple[Decision, str] | None:
        """Return a decision and its snapshot, None when unknown or expired."""
        row = self._table.get(plan_id, self._clock.now())
        if row is None:
            return None
        told = readable(row, _summary)
        policy_json = text(row, _POLICY) if _POLICY in row else None
        decision = Decision(
            plan_id, told.made_at, self._get(_plan_key(plan_id)), told.counts, policy_json
        )
        return decision, self._get(_snapshot_key(readable(row, _snapshot)))

    def summaries(self, plan_ids: Collection[str]) -> Mapping[str, DecisionSummary]:
        """Return the summaries of the decisions that are kept, by id: rows alone, no objects."""
        return all_readable(self._table.get_many(plan_ids, self._clock.now()), _summary)

    def _write(
        self, decision: Decision, snapshot_json: str, plan: str, snapshot: str
    ) -> None:
        now = self._clock.now()
        last = self._shared.get(snapshot)
        if last is None or now - last > _SHARED:
            self._put(_snapshot_key(snapshot), snapshot_json)
            self._shared = {snapshot: now}  # the one that the next pass may see again
        self._put(_plan_key(decision.plan_id), decision.plan_json)
        row = attributes(
            {
                KEY: decision.plan_id,
                FORM: CURRENT_FORM,
                DATA: json.dumps(dict(decision.summary), sort_keys=True),
                _MADE_AT: instant(decision.made_at),
                _PLAN: plan,
                _SNAPSHOT: snapshot,
                **({} if decision.policy_json is None else {_POLICY: decision.policy_json}),
                TTL_ATTRIBUTE: epoch_s(decision.made_at + _KEPT),
            }
        )
        with map_client_errors():
            self._client.put_item(TableName=self._table.name, Item=row)

    def _put(self, key: str, content: str) -> None:
        # A fixed time in the gzip header keeps equal content byte-identical.
        plain = content.encode()
        level = _USUAL_LEVEL if len(plain) < _LARGE_BYTES else _FAST_LEVEL
        body = gzip.compress(plain, compresslevel=level, mtime=0)
        with map_client_errors():
            self._s3.put_object(
                Bucket=self._bucket,
                Key=key,
                Body=body,
                ContentType="application/json",
                ContentEncoding="gzip",
            )

    def _get(self, key: str) -> str:
        with map_client_errors():
            body = self._s3.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        return gzip.decompress(body).decode()


def _summary(row: Attributes) -> DecisionSummary:
    return DecisionSummary(
        text(row, KEY), datetime.fromisoformat(text(row, _MADE_AT)), json.loads(data(row))
    )


def _snapshot(row: Attributes) -> str:
    return text(row, _SNAPSHOT)


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def _snapshot_key(digest: str) -> str:
    """Return where the content is kept, whichever decision was made on it."""
    return f"snapshots/{digest}.json.gz"


def _plan_key(plan_id: str) -> str:
    return f"decisions/{plan_id}/plan.json.gz"
