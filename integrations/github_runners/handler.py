"""The Lambda functions: one behind the webhook's URL, one on the bus. Both may be invoked twice with the same event."""

import base64
import json
import os
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from pydantic import ValidationError

from integrations.github_runners.github import GitHub, https
from integrations.github_runners.runners import Runners
from integrations.github_runners.webhook import (
    EVENT_HEADER,
    SIGNATURE_HEADER,
    JobEvent,
    is_signed,
)
from reservoir.client.facts import parse_fact
from reservoir.client.transport import SqsOutbox, default_clients

# GitHub forgets a runner that has not come for a day, and EventBridge delivers nothing that is older than that.
_KEPT_S: Final = 2 * 24 * 60 * 60
_BY_RUNNER: Final = "by-runner"  # an index that has keys alone
_OVER: Final = "over"  # no instance has this ARN


class DynamoDbConfigurations:
    """Implements ``Configurations``: by ``instance_arn``, which IAM lets an instance query, and ``runner``.

    A runner that is over has a row under ``over`` instead of an ARN. Every row expires.
    """

    def __init__(
        self, dynamodb: Any, table: str, arn_prefix: str, now_s: Callable[[], float]
    ) -> None:
        self._dynamodb = dynamodb
        self._table = table
        self._arn_prefix = arn_prefix
        self._now_s = now_s

    def has(self, instance_id: str, runner: str) -> bool:
        """Whether the instance has it already (consistent read)."""
        return self._is_there(self._key(instance_id, runner))

    def put(self, instance_id: str, runner: str, configuration: str) -> None:
        """Hand it over."""
        self._put({**self._key(instance_id, runner), "configuration": {"S": configuration}})

    def forget(self, instance_id: str, runners: Sequence[str]) -> None:
        """Delete the rows."""
        for runner in runners:
            self._dynamodb.delete_item(
                TableName=self._table, Key=self._key(instance_id, runner)
            )

    def end(self, runner: str) -> None:
        """Note it first, so that no fact that comes meanwhile hands over what nobody would take back."""
        over = _row(_OVER, runner)
        self._put(over)
        found = self._dynamodb.query(
            TableName=self._table,
            IndexName=_BY_RUNNER,
            KeyConditionExpression="runner = :runner",
            ExpressionAttributeValues={":runner": {"S": runner}},
        )
        for key in found["Items"]:  # one, or two while a machine is replaced
            if key != over:
                self._dynamodb.delete_item(TableName=self._table, Key=key)

    def is_over(self, runner: str) -> bool:
        """Whether it was noted (consistent read)."""
        return self._is_there(_row(_OVER, runner))

    def _put(self, item: dict[str, Any]) -> None:
        expires_at = {"N": str(int(self._now_s()) + _KEPT_S)}
        self._dynamodb.put_item(
            TableName=self._table, Item={**item, "expires_at": expires_at}
        )

    def _is_there(self, key: dict[str, Any]) -> bool:
        return "Item" in self._dynamodb.get_item(
            TableName=self._table, Key=key, ConsistentRead=True
        )

    def _key(self, instance_id: str, runner: str) -> dict[str, Any]:
        return _row(f"{self._arn_prefix}{instance_id}", runner)


def _row(instance_arn: str, runner: str) -> dict[str, Any]:
    return {"instance_arn": {"S": instance_arn}, "runner": {"S": runner}}


@cache
def _secret(variable: str) -> str:
    parameter = os.environ[variable]
    return str(
        default_clients()("ssm").get_parameter(Name=parameter, WithDecryption=True)[
            "Parameter"
        ]["Value"]
    )


@cache
def _runners() -> Runners:
    clients = default_clients()
    return Runners(
        SqsOutbox(clients("sqs"), os.environ["DEMAND_QUEUE_URL"]),
        GitHub(
            https(os.environ["GITHUB_API"], _secret("TOKEN_PARAMETER")),
            os.environ["GITHUB_SCOPE"],
        ),
        DynamoDbConfigurations(
            clients("dynamodb"),
            os.environ["RUNNERS_TABLE"],
            os.environ["INSTANCE_ARN_PREFIX"],
            time.time,
        ),
        os.environ["NAMESPACE"],
        json.loads(os.environ["POOLS"]),
    )


def answer(request: dict[str, Any], secret: bytes, runners: Runners) -> dict[str, Any]:
    """Answer a request of a function's URL; what is not signed is not looked at."""
    body = request.get("body") or ""
    raw = base64.b64decode(body) if request.get("isBase64Encoded") else body.encode()
    headers = {name.lower(): value for name, value in request.get("headers", {}).items()}
    if not is_signed(secret, raw, headers.get(SIGNATURE_HEADER)):
        return {"statusCode": 401}
    if headers.get(EVENT_HEADER) != "workflow_job":
        return {"statusCode": 204}
    try:
        event = JobEvent.model_validate_json(raw)
    except ValidationError:
        return {"statusCode": 400}
    runners.job(event)
    return {"statusCode": 202}


def webhook(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Handle a webhook; one that fails is shown by GitHub and can be delivered again."""
    return answer(event, _secret("WEBHOOK_SECRET_PARAMETER").encode(), _runners())


def fact(event: dict[str, Any], _context: Any) -> None:
    """Handle a fact of the bus; one that fails comes again."""
    told = parse_fact(json.dumps(event))
    if told is not None:
        _runners().hear(told)
