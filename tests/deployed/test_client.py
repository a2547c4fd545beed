"""The client against the deployed stack, with no more permissions than it is said to need.

The tests tell one story in their order, on one deployment.
"""

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError
from botocore.model import OperationModel

from lab.embedded.reservoir import IMAGE_PARAMETER, ROOT
from lab.embedded.reservoir.example import EXAMPLES as DEMO
from lab.fakes.manifests import workload_manifest
from lab.story.endpoints import Endpoint
from lab.story.people import Person, refusal
from lab.story.world import LIMIT_S, World
from reservoir.client import (
    Client,
    GenerationConflictError,
    Subscription,
    SubscriptionError,
)
from reservoir.names import EVENT_BUS, Queue

pytestmark = pytest.mark.embedded

EXAMPLES: Final = ROOT / "examples"
VERSION: Final = "2012-10-17"
KEY: Final = "ci/build"


@pytest.fixture(scope="module", autouse=True)
def policy(world: World) -> None:
    world.reserve("general", "m7i.4xlarge", "us-east-1a", 1, "general")
    world.apply(DEMO / "policy.yaml")
    world.discover()


def statements(
    world: World, name: str, subscription: str = "ci"
) -> tuple[dict[str, Any], ...]:
    """Return the statements of an example of a policy, for this account and a subscription."""
    text = (
        (EXAMPLES / "iam" / name)
        .read_text()
        .replace("reservoir-ci", f"reservoir-{subscription}")
    )
    for word, value in {
        "REGION": world.aws.region,
        "ACCOUNT": world.aws.account_id,
        "BUS": world.output(EVENT_BUS),
    }.items():
        text = text.replace(word, value)
    return tuple(json.loads(text)["Statement"])


@pytest.fixture(scope="module")
def maker(world: World) -> Person:
    return Person(world, statements=statements(world, "subscription.json"))


@pytest.fixture(scope="module")
def listener(world: World) -> Person:
    """Who sends demand and hears of it, and can do nothing else: no table, no bus, no EC2."""
    return Person(world, managed=("Sender",), statements=statements(world, "listener.json"))


@pytest.fixture(scope="module")
def events_queue_url(world: World, maker: Person) -> Iterator[str]:
    yield run(world, maker, "subscribe.py", world.output(EVENT_BUS)).strip()
    Subscription.remove("ci", world.output(EVENT_BUS), make_client=maker.client)


class Calls:
    """A person's clients, and the actions of IAM that they have called for."""

    def __init__(self, person: Person) -> None:
        self.actions: set[str] = set()
        self._person = person

    def client(self, service: str) -> Any:
        def note(model: OperationModel, **_: object) -> None:
            self.actions.add(f"{service}:{model.name.removesuffix('Batch')}")

        client = self._person.client(service)
        client.meta.events.register("before-call", note)
        return client


def actions(allowed: Iterable[dict[str, Any]]) -> set[str]:
    """Return the actions that statements name."""
    named = [it["Action"] for it in allowed if it["Effect"] == "Allow"]
    return {
        action for each in named for action in ([each] if isinstance(each, str) else each)
    }


def connect(world: World, person: Person, events_queue_url: str) -> Client:
    return Client.connect(
        world.output(Queue.DEMAND.value), events_queue_url, make_client=person.client
    )


def run(world: World, person: Person, example: str, *arguments: str) -> str:
    """Run an example as somebody; return what it printed."""
    done = subprocess.run(  # noqa: S603 - our own programs
        [sys.executable, str(EXAMPLES / "client" / example), *arguments],
        cwd=ROOT,
        env={
            **world.reservoir.environment(),
            **person.environment(),
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def workload(name: str, replicas: int) -> dict[str, Any]:
    return workload_manifest(f"ci/{name}", replicas, {"cpu": "3", "memory": "4Gi"})


@pytest.mark.parametrize(
    "example", sorted((EXAMPLES / "client").glob("*.py")), ids=lambda path: path.name
)
def test_examples_fit_into_thirty_lines(example: Path) -> None:
    assert len(example.read_text().splitlines()) <= 30


def test_one_submits_waits_and_gets_machines(
    world: World, listener: Person, events_queue_url: str
) -> None:
    printed = run(
        world,
        listener,
        "submit_and_wait.py",
        world.output(Queue.DEMAND.value),
        events_queue_url,
    )
    assert "ci/build is stored as generation 1" in printed
    assert "i-" in printed
    again = run(
        world,
        listener,
        "submit_and_wait.py",
        world.output(Queue.DEMAND.value),
        events_queue_url,
    )
    assert "generation 1" in again


def test_a_drain_is_answered_also_when_its_notice_was_lost(
    world: World, listener: Person, events_queue_url: str
) -> None:
    client = connect(world, listener, events_queue_url)
    claims = {node.node_claim for node in client.status(KEY).nodes}
    client.withdraw(KEY)
    world.until("the notices are out", lambda seen: claims <= seen.drains.keys())
    world.aws.client("sqs").purge_queue(QueueUrl=events_queue_url)
    printed = run(
        world,
        listener,
        "answer_drains.py",
        world.output(Queue.DEMAND.value),
        events_queue_url,
        "2",
    )
    assert {line.split()[0] for line in printed.splitlines()} == claims
    world.until("the nodes are gone", lambda seen: claims <= seen.terminated.keys())
    assert client.status(KEY).nodes == []


def test_facts_of_others_do_not_come_and_what_is_heard_is_told_once(
    world: World, listener: Person, events_queue_url: str
) -> None:
    for namespace in ("others", "ci"):
        wanted = {
            **workload("web", 1),
            "metadata": {"namespace": namespace, "name": "web", "generation": 1},
        }
        world.send({"action": "submit", "workload": wanted})
    world.until(
        "both run", lambda seen: seen.placed["others/web"] == seen.placed["ci/web"] == 1
    )
    printed = run(
        world,
        listener,
        "follow.py",
        world.output(Queue.DEMAND.value),
        events_queue_url,
        "2",
    )
    placed = [line for line in printed.splitlines() if "Workload Placed" in line]
    assert len(placed) == 1
    assert placed[0].endswith("Workload Placed: ci/web")
    assert "others/web" not in "".join(
        line for line in printed.splitlines() if "ci/" not in line
    )


def test_whoever_is_overtaken_hears_by_whom(
    world: World, listener: Person, events_queue_url: str
) -> None:
    client = connect(world, listener, events_queue_url)
    client.submit(workload("fought", 1))
    taken = workload("fought", 2)
    taken["metadata"]["generation"] = 1
    with pytest.raises(
        GenerationConflictError, match="generation 1 of ci/fought was sent by"
    ):
        client.submit(taken)


def test_who_listens_needs_sqs_alone_and_all_that_is_documented(
    world: World, listener: Person, events_queue_url: str
) -> None:
    calls = Calls(listener)
    client = Client.connect(
        world.output(Queue.DEMAND.value), events_queue_url, make_client=calls.client
    )
    client.submit(workload("needs", 1))
    client.wait_placed("ci/needs")
    client.withdraw("ci/needs")
    iam, arn = world.aws.client("iam"), world.reservoir.outputs["SenderPolicyArn"]
    version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
    sender = iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"][
        "Document"
    ]["Statement"]
    assert calls.actions == actions((*statements(world, "listener.json"), *sender))


@pytest.fixture
def elsewhere(world: World) -> str:
    """An instance in another VPC of the account, whose role may make a subscription, send and listen."""
    iam, ec2, name = world.aws.client("iam"), world.aws.client("ec2"), "workload-system"
    trust = {
        "Effect": "Allow",
        "Principal": {"Service": "ec2.amazonaws.com"},
        "Action": "sts:AssumeRole",
    }
    iam.create_role(
        RoleName=name,
        AssumeRolePolicyDocument=json.dumps({"Version": VERSION, "Statement": [trust]}),
    )
    iam.attach_role_policy(
        RoleName=name, PolicyArn=world.reservoir.outputs["SenderPolicyArn"]
    )
    own = [
        it
        for file in ("subscription.json", "listener.json")
        for it in statements(world, file, "vpc")
    ]
    document = json.dumps({"Version": VERSION, "Statement": own})
    iam.put_role_policy(RoleName=name, PolicyName="own", PolicyDocument=document)
    iam.create_instance_profile(InstanceProfileName=name)
    iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
    vpc = ec2.create_vpc(CidrBlock="10.99.0.0/16")["Vpc"]["VpcId"]
    # Not all zones sell the type, and who names none gets any of them
    zone = f"{world.aws.region}a"
    made = ec2.create_subnet(VpcId=vpc, CidrBlock="10.99.1.0/24", AvailabilityZone=zone)
    subnet = made["Subnet"]["SubnetId"]
    (instance,) = ec2.run_instances(
        ImageId=world.aws.client("ssm").get_parameter(
            Name=IMAGE_PARAMETER.format("x86_64")
        )["Parameter"]["Value"],
        InstanceType="m5.large",
        MinCount=1,
        MaxCount=1,
        SubnetId=subnet,
        IamInstanceProfile={"Name": name},
    )["Instances"]
    return str(instance["InstanceId"])


def test_from_another_vpc_two_endpoints_are_enough(world: World, elsewhere: str) -> None:
    with (
        Endpoint(world.aws, "sqs") as sqs,
        Endpoint(world.aws, "events") as events,
        socket.socket() as nobody,
    ):
        nobody.bind(("127.0.0.1", 0))  # and does not listen: whoever connects is refused
        metadata = world.aws.metadata_url(elsewhere)
        where = (world.output(Queue.DEMAND.value), world.output(EVENT_BUS))
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", "lab.story.workload_system", *where],
            cwd=ROOT,
            env={
                "AWS_CA_BUNDLE": str(world.aws.ca_bundle),
                "AWS_DEFAULT_REGION": world.aws.region,
                "AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata,
                "AWS_ENDPOINT_URL": f"https://127.0.0.1:{nobody.getsockname()[1]}",
                "AWS_ENDPOINT_URL_SQS": sqs.url,
                "AWS_ENDPOINT_URL_EVENTBRIDGE": events.url,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        assert set(said["reached"]) == {
            urlsplit(url).netloc for url in (metadata, sqs.url, events.url)
        }
        assert sqs.calls.keys() == {"sqs"}
        assert events.calls.keys() == {"events"}
    assert said["generation"] == 1
    assert said["withdrawn"]
    assert len(said["nodes"]) == len(said["instances"]) > 0
    assert said["drained"] == said["nodes"]
    assert "Node Draining" not in said["facts"], "what was handled is not told again"
    assert "Node Launched" in said["facts"]
    assert set(said["others"].values()) == {"EndpointConnectionError"}
    world.until(
        "its nodes are gone", lambda seen: set(said["nodes"]) <= seen.terminated.keys()
    )


def test_nobody_else_writes_to_the_queue_and_the_listener_does_nothing_else(
    maker: Person, listener: Person, events_queue_url: str
) -> None:
    calls: list[tuple[Person, Callable[[Person], object]]] = [
        (maker, lambda it: it.client("sqs").receive_message(QueueUrl=events_queue_url)),
        (
            listener,
            lambda it: it.client("sqs").send_message(
                QueueUrl=events_queue_url, MessageBody="{}"
            ),
        ),
        (listener, lambda it: it.client("sqs").delete_queue(QueueUrl=events_queue_url)),
        (listener, lambda it: it.client("dynamodb").list_tables()),
        (listener, lambda it: it.client("events").list_event_buses()),
        (maker, lambda it: it.client("sqs").create_queue(QueueName="reservoir-other")),
    ]
    for person, call in calls:
        with pytest.raises(ClientError) as error:
            call(person)
        assert refusal(error.value)


def test_a_subscription_is_made_and_removed_by_one_call_and_leaves_nothing(
    world: World, maker: Person, events_queue_url: str
) -> None:
    bus = world.output(EVENT_BUS)
    calls = Calls(maker)
    again = Subscription.create("ci", bus, ["ci"], make_client=calls.client)
    assert again.events_queue_url == events_queue_url
    with pytest.raises(SubscriptionError, match="other namespaces"):
        Subscription.create("ci", bus, ["others"], make_client=maker.client)
    kept = world.aws.client("sqs").get_queue_attributes(
        QueueUrl=events_queue_url, AttributeNames=["MessageRetentionPeriod"]
    )["Attributes"]
    assert kept == {"MessageRetentionPeriod": str(24 * 3600)}
    Subscription.remove("ci", bus, make_client=calls.client)
    assert calls.actions == actions(statements(world, "subscription.json")), (
        "it needs all that is documented"
    )
    run(world, maker, "subscribe.py", bus, "remove")  # what is gone is none
    rules = world.aws.client("events").list_rules(EventBusName=bus)["Rules"]
    assert [rule["Name"] for rule in rules if rule["Name"].startswith("reservoir-")] == []
    queues = (
        world.aws.client("sqs")
        .list_queues(QueueNamePrefix="reservoir-ci")
        .get("QueueUrls", [])
    )
    assert queues == []
