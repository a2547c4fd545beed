"""The Lambda function: a state begins or withdraws, the bus tells a fact, a schedule sweeps."""

import json
import os
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from botocore.exceptions import ClientError

from integrations.step_functions.tasks import Tasks, WaitingTask
from reservoir.client.facts import parse_fact
from reservoir.client.transport import SqsOutbox, default_clients

# The execution has ended, timed out, or gone on with an answer that was given before.
_OVER: Final = {"InvalidToken", "TaskDoesNotExist", "TaskTimedOut"}


class DynamoDbTasks:
    """Implements ``TaskStore``: partition key ``id``, the workload's key."""

    def __init__(self, dynamodb: Any, table: str) -> None:
        self._dynamodb = dynamodb
        self._table = table

    def put(self, task: WaitingTask) -> None:
        """Keep a state."""
        item = {
            "id": {"S": task.key},
            "token": {"S": task.token},
            "until": {"S": task.until},
        }
        self._dynamodb.put_item(TableName=self._table, Item=item)

    def get(self, key: str) -> WaitingTask | None:
        """Return who waits (consistent read)."""
        item = self._dynamodb.get_item(
            TableName=self._table, Key={"id": {"S": key}}, ConsistentRead=True
        ).get("Item")
        return (
            None
            if item is None
            else WaitingTask(key, item["token"]["S"], item["until"]["S"])
        )

    def waited_for(self) -> Iterable[str]:
        """Return all keys; the table holds what waits now, and nothing else."""
        for page in self._dynamodb.get_paginator("scan").paginate(
            TableName=self._table,
            ProjectionExpression="#id",
            ExpressionAttributeNames={"#id": "id"},
        ):
            yield from (item["id"]["S"] for item in page["Items"])

    def forget(self, task: WaitingTask) -> None:
        """Delete the row if it is still this state's."""
        try:
            self._dynamodb.delete_item(
                TableName=self._table,
                Key={"id": {"S": task.key}},
                ConditionExpression="#token = :token",
                ExpressionAttributeNames={"#token": "token"},
                ExpressionAttributeValues={":token": {"S": task.token}},
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise


class StepFunctions:
    """Implements ``TaskAnswers``."""

    def __init__(self, states: Any) -> None:
        self._states = states

    def succeed(self, token: str, output: str) -> None:
        """Let the state go on."""
        _unless_over(lambda: self._states.send_task_success(taskToken=token, output=output))

    def fail(self, token: str, error: str, cause: str) -> None:
        """Let the state fail."""
        _unless_over(
            lambda: self._states.send_task_failure(
                taskToken=token, error=error, cause=cause
            )
        )


def _unless_over(call: Any) -> None:
    try:
        call()
    except ClientError as error:
        if error.response["Error"]["Code"] not in _OVER:
            raise


@cache
def _tasks() -> Tasks:
    clients = default_clients()
    return Tasks(
        SqsOutbox(clients("sqs"), os.environ["DEMAND_QUEUE_URL"]),
        DynamoDbTasks(clients("dynamodb"), os.environ["TASKS_TABLE"]),
        StepFunctions(clients("stepfunctions")),
    )


def handler(event: dict[str, Any], _context: Any) -> None:
    """Handle one event; a failure is retried by whoever sent it."""
    tasks = _tasks()
    if "taskToken" in event:
        tasks.begin(event)
    elif "withdraw" in event:
        tasks.withdraw(event["withdraw"], int(event["generation"]))
    elif event.get("detail-type") == "Scheduled Event":
        tasks.sweep()
    else:
        fact = parse_fact(json.dumps(event))
        if fact is not None:
            tasks.hear(fact)
