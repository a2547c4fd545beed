"""The intake function as Lambda calls it, on the services' API."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from functions.intake.handler import handler
from lab.local import ministack
from lab.local.stores import INDEXES, LISTING
from reservoir import names
from reservoir.names import Queue, Table
from reservoir.ports.policy import PolicyKind, PutPolicy
from reservoir.runtime.composition.parts.aws_outside import AwsOutside
from reservoir.runtime.composition.parts.outside import Process, process_outside, running_in
from reservoir.runtime.settings import REGION, Settings
from tests.functions.test_runtime import ENVIRONMENT, GOOD, changed, event

pytestmark = pytest.mark.embedded


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with ministack.running("dynamodb,sqs,events") as url:
        sqs = ministack.client("sqs", url)
        created = {
            name: sqs.create_queue(QueueName=name.lower().replace("_", "-"), Attributes={})[
                "QueueUrl"
            ]
            for name in (
                Queue.DEMAND,
                Queue.LAUNCHES,
                Queue.REACTIONS,
                names.DEMAND_DEAD_LETTER_QUEUE,
            )
        }
        created[Queue.PLANNING] = sqs.create_queue(
            QueueName="planning.fifo", Attributes={"FifoQueue": "true"}
        )["QueueUrl"]
        ministack.client("events", url).create_event_bus(Name=ENVIRONMENT[names.EVENT_BUS])
        for table in Table:
            indexes = INDEXES.get(table.name.lower().replace("_", "-"), LISTING)
            ministack.create_table(
                ministack.client("dynamodb", url), ENVIRONMENT[table], indexes=indexes
            )
        for name, value in {
            **ENVIRONMENT,
            **created,
            REGION: "us-east-1",
            "AWS_ENDPOINT_URL": url,
        }.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        with running_in(Process(AwsOutside(Settings.from_environment()))):
            yield url


def received(url: str, queue: str) -> list[dict[str, Any]]:
    sqs = ministack.client("sqs", url)
    answer = sqs.receive_message(
        QueueUrl=queue, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
    )
    return list(answer.get("Messages", []))


def test_a_batch_of_good_and_bad_messages(endpoint: str) -> None:
    store = process_outside().policy
    store.commit([PutPolicy(PolicyKind.NODE_POOL, "gpu", {}, 1, None)])
    bodies = [
        json.dumps(GOOD),
        "{nonsense",
        changed("workload.spec.nodeSelector", {"karpenter.sh/nodepool": "gpus"}),
        changed("workload.metadata.name", "other"),
    ]

    assert handler(event(*bodies), None) == {"batchItemFailures": []}
    assert handler(event(*bodies), None) == {"batchItemFailures": []}

    urls = process_outside().settings
    listed = [record.key for record in process_outside().workloads.list_needing_planning()]
    assert listed == ["research/other", "research/train"]
    letters = received(endpoint, urls.demand_dead_letter_queue_url)
    reasons = [letter["MessageAttributes"]["Reason"]["StringValue"] for letter in letters]
    assert sum("is not JSON" in reason for reason in reasons) == 2
    assert sum("is not a NodePool" in reason for reason in reasons) == 2
    # nothing changed the second time
    assert len(received(endpoint, urls.queue_urls[Queue.PLANNING])) == 1
