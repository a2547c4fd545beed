"""Decisions in DynamoDB, their plans and snapshots in S3 (a snapshot outgrows a row by far)."""

import gzip
import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from shared.adapters.aws_errors import map_client_errors
from shared.adapters.dynamodb.table import (
    CURRENT_FORM,
    DATA,
    FORM,
    DynamoDbTable,
    attributes,
    data,
    epoch_s,
    instant,
    text,
)
from shared.names import KEY, TTL_ATTRIBUTE
from shared.ports.state import Decision
from shared.ports.system import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

_KEPT: Final = timedelta(days=14)  # the bucket's lifecycle rule keeps the objects no shorter
_MADE_AT: Final = "made_at"


class StoredDecisions:
    """Implements ``shared.ports.state.DecisionStore``."""

    def __init__(self, client: "DynamoDBClient", table_name: str, s3: "S3Client", bucket: str, clock: Clock) -> None:
        self._client = client
        self._table = DynamoDbTable(client, table_name)
        self._s3 = s3
        self._bucket = bucket
        self._clock = clock

    def save(self, decision: Decision, snapshot_json: str) -> None:
        """Keep a decision and its snapshot; the row comes last, so that what it points to is there."""
        self._put(_snapshot_key(decision.plan_id), snapshot_json)
        self._put(_plan_key(decision.plan_id), decision.plan_json)
        row = attributes(
            {
                KEY: decision.plan_id,
                FORM: CURRENT_FORM,
                DATA: json.dumps(dict(decision.summary), sort_keys=True),
                _MADE_AT: instant(decision.made_at),
                TTL_ATTRIBUTE: epoch_s(decision.made_at + _KEPT),
            }
        )
        with map_client_errors():
            self._client.put_item(TableName=self._table.name, Item=row)

    def load(self, plan_id: str) -> tuple[Decision, str] | None:
        """Return a decision and its snapshot, None when unknown or expired."""
        row = self._table.get(plan_id, self._clock.now())
        if row is None:
            return None
        made_at = datetime.fromisoformat(text(row, _MADE_AT))
        decision = Decision(plan_id, made_at, self._get(_plan_key(plan_id)), json.loads(data(row)))
        return decision, self._get(_snapshot_key(plan_id))

    def _put(self, key: str, content: str) -> None:
        # A fixed time in the gzip header keeps equal content byte-identical.
        body = gzip.compress(content.encode(), compresslevel=6, mtime=0)
        with map_client_errors():
            self._s3.put_object(
                Bucket=self._bucket, Key=key, Body=body, ContentType="application/json", ContentEncoding="gzip"
            )

    def _get(self, key: str) -> str:
        with map_client_errors():
            body = self._s3.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        return gzip.decompress(body).decode()


def _snapshot_key(plan_id: str) -> str:
    return f"decisions/{plan_id}/snapshot.json.gz"


def _plan_key(plan_id: str) -> str:
    return f"decisions/{plan_id}/plan.json.gz"
