"""A deployment under a customer managed key: all goes its way, and whoever the key does not let in gets nothing.

The tests tell one story in their order, on one deployment.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from infra.app import ROOT
from lab.embedded.client import EmbeddedAws
from lab.story.people import Person
from lab.story.policies import one_type_pool, story_workload, write_manifests
from lab.story.world import World
from reservoir import names
from reservoir.names import Function, output_name

pytestmark = pytest.mark.embedded

POLICY: Final = json.loads((ROOT / "examples/iam/encryption-key.json").read_text())
STEADY: Final = "m7i.large"
REFUSALS: Final = {
    "dynamodb": "AccessDeniedException",
    "sqs": "KmsAccessDenied",
    "s3": "AccessDenied",
}


def prepare(aws: EmbeddedAws) -> dict[str, Any]:
    """Make the key with the policy that the documents show."""
    key = aws.client("kms").create_key(Policy=json.dumps(POLICY))
    return {"encryptionKey": key["KeyMetadata"]["Arn"]}


def change_policy(world: World, without: str | None = None) -> None:
    """Give the key its policy, without one of its statements."""
    kms = world.aws.client("kms")
    (key,) = kms.list_keys()["Keys"]
    kept = [each for each in POLICY["Statement"] if each["Sid"] != without]
    kms.put_key_policy(
        KeyId=key["KeyId"],
        PolicyName="default",
        Policy=json.dumps({**POLICY, "Statement": kept}),
    )


def test_people_and_functions_do_what_they_do_without_a_key(
    world: World, tmp_path: Path
) -> None:
    world.apply(write_manifests(tmp_path, one_type_pool("steady", STEADY, ["on-demand"])))
    world.discover()
    person = Person(world, managed=("Sender", "Viewer"))
    demand = tmp_path / "demand.json"
    demand.write_text(json.dumps(story_workload("steady", 1, "1")))
    sent = person.command("submit", "-f", str(demand), "--wait", "--timeout", "5m")
    assert sent.returncode == 0, sent.stderr
    world.until("it runs", lambda seen: bool(seen.launched))
    (node,) = json.loads(person.command("get", "nodes", "-o", "json").stdout)["items"]
    told = person.command("events", "--since", "1h")
    assert "launched" in told.stdout.lower(), told.stderr
    operator = Person(world, managed=("Viewer", "Operator"))
    ended = operator.command(
        "drain", node["metadata"]["name"], "--reason", "by hand", "--yes"
    )
    assert ended.returncode == 0, ended.stderr
    world.until("the node drains", lambda seen: bool(seen.drains))


@pytest.mark.parametrize("service", ["dynamodb", "sqs", "s3"])
def test_what_the_key_encrypts_is_read_by_nobody_without_it(
    world: World, service: str
) -> None:
    """Rights in DynamoDB, SQS and S3 are not enough."""
    allowed = {"Effect": "Allow", "Action": f"{service}:*", "Resource": "*"}
    client = Person(world, statements=(allowed,)).client(service)
    bucket = world.output(names.SNAPSHOTS_BUCKET)
    stored = world.aws.client("s3").list_objects_v2(Bucket=bucket)["Contents"][0]["Key"]
    table = world.output(names.Table.WORKLOADS.value)
    queue = world.output(names.Queue.DEMAND.value)
    read: dict[str, Callable[[], Any]] = {
        "dynamodb": lambda: client.scan(TableName=table),
        "sqs": lambda: client.receive_message(QueueUrl=queue),
        "s3": lambda: client.get_object(Bucket=bucket, Key=stored),
    }
    with pytest.raises(ClientError) as error:
        read[service]()
    assert error.value.response["Error"]["Code"] == REFUSALS[service]


def test_events_reach_no_queue_whose_key_does_not_let_eventbridge_in(world: World) -> None:
    change_policy(world, without="RulesSendToQueues")
    assert "not delivered" not in world.aws.log()
    bus = world.reservoir.outputs[output_name(names.EVENT_BUS)]
    entry = {
        "EventBusName": bus,
        "Source": names.EVENT_SOURCE,
        "DetailType": "Workload Placed",
        "Detail": "{}",
    }
    world.aws.client("events").put_events(Entries=[entry])
    world.aws.clock.settle()
    assert "NO_PERMISSIONS" in world.aws.log()
    change_policy(world)


def test_no_function_begins_without_its_key(world: World) -> None:
    kms = world.aws.client("kms")
    (key,) = kms.list_keys()["Keys"]
    kms.disable_key(KeyId=key["KeyId"])
    with pytest.raises(RuntimeError, match="KMSAccessDeniedException"):
        world.reservoir.invoke(Function.EXPIRE)
    kms.enable_key(KeyId=key["KeyId"])
    world.reservoir.invoke(Function.EXPIRE)
