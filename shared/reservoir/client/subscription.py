"""A subscription: a queue, and a rule on the outbound bus that lets the facts of some namespaces into it."""

import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final, Self

from botocore.exceptions import ClientError as AwsError

from reservoir.client.errors import SubscriptionError
from reservoir.client.transport import LONG_POLL_S, MakeClient, default_clients
from reservoir.names import EVENT_SOURCE

NAME_PREFIX: Final = "reservoir-"
# facts that were not read for a day are not delivered late: ask for the ``status``
RETENTION_S: Final = 24 * 3600
HIDDEN_S: Final = 120
_TARGET_ID: Final = "queue"
# A rule's name has at most 64 characters; both services take these.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,54}")
_GONE: Final = {
    "ResourceNotFoundException",
    "AWS.SimpleQueueService.NonExistentQueue",
    "QueueDoesNotExist",
}
_DELETED_RECENTLY: Final = {
    "AWS.SimpleQueueService.QueueDeletedRecently",
    "QueueDeletedRecently",
}


@dataclass(frozen=True, slots=True)
class Subscription:
    """One that exists; ``events_queue_url`` is what a client connects to. One process reads it at a time."""

    name: str
    bus_name: str
    events_queue_url: str

    @classmethod
    def create(
        cls,
        name: str,
        bus_name: str,
        namespaces: Collection[str],
        *,
        make_client: MakeClient | None = None,
    ) -> Self:
        """Make the subscription, or finish one that was begun; return it.

        Nothing but this rule may write to the queue. Facts that name no namespace (reservations, policy) are not in it.

        Raises
        ------
        SubscriptionError
            The name does not fit, or is taken by a subscription of other namespaces: what lies in its queue was meant
            for those.
        """
        if not _NAME.fullmatch(name):
            raise SubscriptionError(
                f"{name!a} is no name: 1 to 54 letters, digits, '_' and '-'"
            )
        if not namespaces:
            raise SubscriptionError("name at least one namespace")
        clients = make_client or default_clients()
        sqs, events = clients("sqs"), clients("events")
        full_name = NAME_PREFIX + name
        pattern = _pattern(namespaces)
        _refuse_another(events, full_name, bus_name, pattern)
        queue_url = _make_queue(sqs, full_name)
        arn = _arn_of(sqs, queue_url)
        rule = events.put_rule(Name=full_name, EventBusName=bus_name, EventPattern=pattern)[
            "RuleArn"
        ]
        # Before the target, so that no fact is lost to a queue that does not take it.
        sqs.set_queue_attributes(
            QueueUrl=queue_url, Attributes={"Policy": _policy(arn, rule)}
        )
        targets = [{"Id": _TARGET_ID, "Arn": arn}]
        failed = events.put_targets(Rule=full_name, EventBusName=bus_name, Targets=targets)
        if failed.get("FailedEntryCount"):
            raise SubscriptionError(
                f"EventBridge does not take the queue: {failed['FailedEntries']}"
            )
        return cls(name, bus_name, queue_url)

    @classmethod
    def remove(
        cls, name: str, bus_name: str, *, make_client: MakeClient | None = None
    ) -> None:
        """Remove a subscription by its name, with what lies in its queue; one that is gone, or half gone, is none.

        The rule goes first: once the queue's name is free again, nothing of this subscription writes to it.
        """
        clients = make_client or default_clients()
        sqs, events = clients("sqs"), clients("events")
        full_name = NAME_PREFIX + name
        _unless_gone(
            lambda: events.remove_targets(
                Rule=full_name, EventBusName=bus_name, Ids=[_TARGET_ID]
            )
        )
        _unless_gone(lambda: events.delete_rule(Name=full_name, EventBusName=bus_name))
        _unless_gone(
            lambda: sqs.delete_queue(
                QueueUrl=sqs.get_queue_url(QueueName=full_name)["QueueUrl"]
            )
        )


def _pattern(namespaces: Collection[str]) -> str:
    """Return the rule's pattern: facts of Reservoir that name a workload of these namespaces, wherever they do."""
    named = {"namespace": sorted(set(namespaces))}
    places = [{"detail": {place: named}} for place in ("workload", "workloads", "returned")]
    return json.dumps({"source": [EVENT_SOURCE], "$or": places})


def _policy(queue_arn: str, rule_arn: str) -> str:
    """Return the queue's policy: this rule may send, and no one may without TLS."""
    allow = {
        "Sid": "TheRule",
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": queue_arn,
        "Condition": {"ArnEquals": {"aws:SourceArn": rule_arn}},
    }
    refuse = {
        "Sid": "WithTls",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:*",
        "Resource": queue_arn,
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [allow, refuse]})


def _refuse_another(events: Any, full_name: str, bus_name: str, pattern: str) -> None:
    try:
        rule = events.describe_rule(Name=full_name, EventBusName=bus_name)
    except AwsError as error:
        if _code(error) not in _GONE:
            raise
        return
    if json.loads(rule["EventPattern"]) != json.loads(pattern):
        raise SubscriptionError(
            f"{full_name} exists for other namespaces; remove it first, or take another name"
        )


def _make_queue(sqs: Any, full_name: str) -> str:
    attributes = {
        "MessageRetentionPeriod": str(RETENTION_S),
        "VisibilityTimeout": str(HIDDEN_S),
        "ReceiveMessageWaitTimeSeconds": str(LONG_POLL_S),
        "SqsManagedSseEnabled": "true",
    }
    try:
        return str(sqs.create_queue(QueueName=full_name, Attributes=attributes)["QueueUrl"])
    except AwsError as error:
        if _code(error) in _DELETED_RECENTLY:
            raise SubscriptionError(
                f"SQS keeps the name {full_name} for 60 s after a removal; try again then"
            ) from error
        raise


def _arn_of(sqs: Any, queue_url: str) -> str:
    attributes = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])[
        "Attributes"
    ]
    return str(attributes["QueueArn"])


def _unless_gone(call: Callable[[], Any]) -> None:
    try:
        call()
    except AwsError as error:
        if _code(error) not in _GONE:
            raise


def _code(error: AwsError) -> str:
    return str(error.response["Error"]["Code"])
