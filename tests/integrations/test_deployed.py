"""Integrations against the deployed stack, each in a namespace of its own."""

import functools
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from integrations.worker_pool import Scale, WorkerPool
from integrations.worker_pool.__main__ import depths
from lab.demo.observer import Observed
from lab.embedded.reservoir import NODE_ROLE, ROOT
from lab.embedded.reservoir.example import EXAMPLES
from lab.story.nodes import Inside, credentials_of, let_nodes_in
from lab.story.world import World
from reservoir.client import Client, Subscription
from reservoir.names import EVENT_BUS, INSTANCE_ARN_PREFIX, Queue
from tests.integrations.github import (
    SECRET,
    TOKEN,
    USER,
    FakeGitHub,
    payload,
    request,
    serving,
    starting_runners,
    why_no_machine,
)
from tests.integrations.stacks import Deploy, deployer

pytestmark = pytest.mark.embedded

WORKLOAD: Final = {"apiVersion": "reservoir/v1", "kind": "Workload"}
Connect = Callable[[str], Client]


@pytest.fixture(scope="module", autouse=True)
def policy(world: World) -> None:
    world.reserve("general", "m7i.4xlarge", "us-east-1a", 2, "general")
    world.apply(EXAMPLES / "policy.yaml")
    world.discover()


@pytest.fixture(scope="module")
def connect(world: World) -> Iterator[Connect]:
    """Return how a client of a namespace is made, with a subscription of that name."""
    bus, made = world.output(EVENT_BUS), set()

    def connect_to(namespace: str) -> Client:
        made.add(namespace)
        subscription = Subscription.create(
            namespace, bus, [namespace], make_client=world.aws.client
        )
        return Client.connect(
            world.output(Queue.DEMAND.value),
            subscription.events_queue_url,
            make_client=world.aws.client,
        )

    yield connect_to
    for namespace in made:
        Subscription.remove(namespace, bus, make_client=world.aws.client)


def template(cpu: str) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu, "memory": "4Gi"}}}


def test_a_pool_of_workers_is_rolled(connect: Connect) -> None:
    client = connect("workers")
    pool = WorkerPool(client, "workers", "jobs")
    old, new = template("3"), template("2")
    pool.keep(old, 3)
    client.wait_placed(pool.key(old), launched=True)
    pool.roll(old, new, 3, step=2)
    known = client.status(pool.key(new))
    assert (known.placed, sum(node.replicas for node in known.nodes)) == (3, 3)
    assert all(node.instance_id for node in known.nodes)
    assert client.status(pool.key(old)).withdrawn


def test_a_pool_of_workers_follows_the_depth_of_its_queue_up_and_down(
    world: World, connect: Connect
) -> None:
    client, sqs = connect("workers"), world.aws.client("sqs")
    pool, worker = WorkerPool(client, "workers", "followers"), template("2")
    jobs = sqs.create_queue(QueueName="jobs")["QueueUrl"]
    depth, stopped = depths(sqs, jobs, every_s=0.5), threading.Event()
    follower = threading.Thread(
        target=pool.follow,
        args=(worker, Scale(messages_per_worker=20, least_count=1)),
        kwargs={
            "depths": lambda: None if stopped.is_set() else depth(),
            "now_s": lambda: world.now().timestamp(),
        },
    )

    def workers() -> int:
        known = client.status(pool.key(worker))
        return sum(
            node.replicas for node in known.nodes if node.instance_id and node.drain is None
        )

    follower.start()
    try:
        world.until("there is one", lambda _: workers() == 1)
        for number in range(50):
            sqs.send_message(QueueUrl=jobs, MessageBody=f"{number}")
        world.until("there are three", lambda _: workers() == 3)
        sqs.purge_queue(QueueUrl=jobs)
        world.aws.clock.advance(timedelta(minutes=2))
        assert pool.size(worker) == 3, "it may come again"
        world.until("there is one again", lambda _: workers() == 1)
    finally:
        stopped.set()
        follower.join()


@pytest.fixture(scope="module")
def deploy(world: World) -> Deploy:
    return deployer(world)


@pytest.fixture(scope="module")
def function_arn(deploy: Deploy) -> str:
    return deploy("StepFunctions", "step_functions", {"Namespace": "executions"})[
        "FunctionArn"
    ]


def execute(
    world: World,
    function_arn: str,
    name: str,
    spec: dict[str, Any],
    until: str = "launched",
) -> str:
    """Start the sample state machine, waiting ``until`` that; return the execution."""
    states = world.aws.client("stepfunctions")
    sample = (
        ROOT / "integrations" / "step_functions" / "state_machine.asl.json"
    ).read_text()
    assert sample.count('"until": "launched"') == 1
    definition = sample.replace('"until": "launched"', f'"until": "{until}"').replace(
        "${FunctionArn}", function_arn
    )
    role = world.aws.client("iam").create_role(
        RoleName=f"execution-{name}", AssumeRolePolicyDocument="{}"
    )["Role"]
    machine = states.create_state_machine(
        name=name, definition=definition, roleArn=role["Arn"]
    )["stateMachineArn"]
    asked = {"namespace": "executions", "name": name, "spec": spec}
    return str(
        states.start_execution(stateMachineArn=machine, input=json.dumps(asked))[
            "executionArn"
        ]
    )


def end_of(world: World, execution: str) -> dict[str, Any]:
    """Wait for the end of an execution; return how it ended."""
    ended: dict[str, Any] = {}

    def is_over(_: Observed) -> bool:
        ended.update(
            world.aws.client("stepfunctions").describe_execution(executionArn=execution)
        )
        return str(ended["status"]) != "RUNNING"

    world.until(f"{execution} ends", is_over)
    return ended


@pytest.mark.parametrize("until", ["placed", "launched"])
def test_a_state_waits_for_machines_and_gives_them_back(
    world: World, connect: Connect, function_arn: str, until: str
) -> None:
    ended = end_of(
        world, execute(world, function_arn, until, {"replicas": 2, **template("2")}, until)
    )
    assert ended["status"] == "SUCCEEDED", ended
    nodes = json.loads(ended["output"])["machines"]["nodes"]
    assert sum(node["replicas"] for node in nodes) == 2
    assert until == "placed" or all(node["instanceId"].startswith("i-") for node in nodes)
    known = functools.partial(connect("executions").status, f"executions/{until}")
    world.until("they are given back", lambda _: known().withdrawn)


def test_a_state_whose_workload_is_refused_fails_with_the_reason(
    world: World, function_arn: str
) -> None:
    spec = {
        "replicas": 1,
        "nodeSelector": {"karpenter.sh/nodepool": "nobodys"},
        **template("2"),
    }
    ended = end_of(world, execute(world, function_arn, "wrong", spec))
    assert ended["status"] == "FAILED"
    assert ended["error"] == "Reservoir.Rejected"
    assert "is not a NodePool" in ended["cause"]


FAILED: Final = {"exitCode": 3, "nextStartInS": 40}


@pytest.mark.parametrize(
    ("name", "until", "reports", "too_early", "ends"),
    [
        ("runs", "ready", [("ready", {"replicas": 1})], 1, ("SUCCEEDED", None)),
        (
            "ends",
            "finished",
            [("ready", {"replicas": 1}), ("finished", {"replicas": 1})],
            3,
            ("SUCCEEDED", None),
        ),
        (
            *("crashes", "finished"),
            [("failed", {"restarts": 0, **FAILED}), ("failed", {"restarts": 3, **FAILED})],
            *(2, ("FAILED", "Reservoir.CrashLoop")),
        ),
    ],
)
def test_a_state_waits_for_what_nodes_report(
    world: World,
    connect: Connect,
    function_arn: str,
    name: str,
    until: str,
    reports: list[tuple[str, dict[str, int]]],
    too_early: int,
    ends: tuple[str, str | None],
) -> None:
    """Two replicas have a machine each, which say each report in turn; the first ``too_early`` do not end the state."""
    let_nodes_in(world)
    known = functools.partial(connect("executions").status, f"executions/{name}")
    a_machine_each = {
        "replicas": 2,
        "nodeSelector": {"node.kubernetes.io/instance-type": "m7i.4xlarge"},
    }
    execution = execute(
        world, function_arn, name, {**a_machine_each, **template("9")}, until
    )
    world.until(
        "both have a machine",
        lambda _: sum(bool(it.instance_id) for it in known().nodes) == 2,
    )
    nodes = [Inside(world, str(node.instance_id)) for node in known().nodes]
    said = [(node, kind, fields) for kind, fields in reports for node in nodes]
    for node, kind, fields in said[:too_early]:
        node.report(kind, f"executions/{name}", **fields)
    world.aws.clock.settle()
    describe = world.aws.client("stepfunctions").describe_execution
    assert describe(executionArn=execution)["status"] == "RUNNING"
    for node, kind, fields in said[too_early:]:
        node.report(kind, f"executions/{name}", **fields)
    ended = end_of(world, execution)
    assert (ended["status"], ended.get("error")) == ends
    world.until("it is given back", lambda _: known().withdrawn)


@dataclass(frozen=True)
class Jobs:
    """GitHub, and the template deployed for it."""

    world: World
    github: FakeGitHub
    api: str
    stack: Mapping[str, str]

    def deliver(self, said: dict[str, Any], secret: bytes = SECRET) -> int:
        """Deliver a webhook; return its status."""
        called = self.world.aws.client("lambda").invoke(
            FunctionName=self.stack["Webhook"], Payload=json.dumps(request(said, secret))
        )
        return int(json.load(called["Payload"])["statusCode"])

    def kept(self, runner: str) -> dict[str, set[str]]:
        """Return the columns of the runner's rows, by instance."""
        rows = self.world.aws.client("dynamodb").scan(
            TableName=self.stack["Configurations"]
        )["Items"]
        return {
            row["instance_arn"]["S"].rpartition("/")[2]: row.keys()
            for row in rows
            if row["runner"]["S"] == runner
        }


@pytest.fixture(scope="module")
def jobs(world: World, deploy: Deploy) -> Iterator[Jobs]:
    for name, secret in (("/runners/secret", SECRET.decode()), ("/runners/token", TOKEN)):
        world.aws.client("ssm").put_parameter(Name=name, Value=secret, Type="SecureString")
    github = FakeGitHub()
    with serving(github, world.aws) as api:
        parameters = {
            "GitHubApi": api,
            "GitHubScope": "orgs/acme",
            "Pools": json.dumps({"gpu": template("2")}),
            "WebhookSecretParameter": "/runners/secret",
            "TokenParameter": "/runners/token",
        }
        yield Jobs(
            world, github, api, deploy("GitHubRunners", "github_runners", parameters)
        )


def test_a_job_of_github_gets_a_runner_on_a_node_that_others_use_and_leaves_nothing(
    world: World, connect: Connect, jobs: Jobs
) -> None:
    client = connect("runners")
    others = client.submit(
        {
            **WORKLOAD,
            "metadata": {"namespace": "runners", "name": "others"},
            "spec": template("2"),
        }
    )
    client.wait_placed(others.key, launched=True)
    assert jobs.stack["WebhookUrl"].startswith("http")
    assert jobs.deliver(payload("queued", 7), b"another") == 401
    assert [jobs.deliver(payload("queued", 7)) for _ in range(2)] == [202, 202]
    world.until(
        "the runner has its configuration", lambda _: bool(jobs.kept("reservoir-gpu-7"))
    )
    (machine,) = client.status("runners/gpu-7").nodes
    assert machine.node_claim in {
        node.node_claim for node in client.status(others.key).nodes
    }
    assert jobs.github.runners.keys() == {"reservoir-gpu-7"}
    assert own_configurations(world, jobs.stack, str(machine.instance_id)) == [
        ("reservoir-gpu-7", "config-1")
    ]

    jobs.github.runners.clear()  # it has run its job, and GitHub forgets it
    assert jobs.deliver(payload("completed", 7, "reservoir-gpu-7")) == 202
    world.until(
        "the node is only the others'", lambda _: not client.status("runners/gpu-7").nodes
    )
    assert jobs.kept("reservoir-gpu-7") == {
        "over": {"expires_at", "instance_arn", "runner"}
    }
    assert machine.node_claim not in world.look().drains


@pytest.mark.skipif(why_no_machine() is not None, reason=str(why_no_machine()))
def test_a_machine_starts_a_runner_once_as_somebody_who_is_not_root(
    world: World, connect: Connect, jobs: Jobs
) -> None:
    assert jobs.deliver(payload("queued", 8)) == 202
    world.until(
        "the runner has its configuration", lambda _: bool(jobs.kept("reservoir-gpu-8"))
    )
    (machine,) = connect("runners").status("runners/gpu-8").nodes
    made, instance_id = jobs.github.runners["reservoir-gpu-8"], str(machine.instance_id)
    with starting_runners(
        world.aws, instance_id, jobs.stack["Configurations"], jobs.api
    ) as queries:
        world.until("the runner came", lambda _: bool(jobs.github.came), real_time=True)
        asked = queries()
        world.until(
            "the machine has asked again, and again",
            lambda _: queries() >= asked + 2,
            real_time=True,
        )
        assert jobs.github.came == [
            {
                "name": "reservoir-gpu-8",
                "jit": f"config-{made}",
                "user": USER,
                "arguments": "",
            }
        ]
    assert jobs.deliver(payload("completed", 8, "reservoir-gpu-8")) == 202
    world.until(
        "it is taken back", lambda _: instance_id not in jobs.kept("reservoir-gpu-8")
    )


def own_configurations(
    world: World, stack: Mapping[str, str], instance_id: str
) -> list[tuple[str, str]]:
    """Return what an instance reads of the table with the template's policy; another's rows it may not."""
    world.aws.client("iam").attach_role_policy(
        RoleName=NODE_ROLE, PolicyArn=stack["NodePolicyArn"]
    )
    inside = world.aws.client("dynamodb", **credentials_of(world.aws, instance_id))

    def rows_of(instance: str) -> list[tuple[str, str]]:
        found = inside.query(
            TableName=stack["Configurations"],
            KeyConditionExpression="instance_arn = :arn",
            ExpressionAttributeValues={
                ":arn": {"S": world.output(INSTANCE_ARN_PREFIX) + instance}
            },
        )
        return [
            (item["runner"]["S"], item["configuration"]["S"]) for item in found["Items"]
        ]

    with pytest.raises(ClientError, match="AccessDenied"):
        rows_of("i-0123456789abcdef0")
    with pytest.raises(ClientError, match="AccessDenied"):
        inside.scan(TableName=stack["Configurations"])
    return rows_of(instance_id)
