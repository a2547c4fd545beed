"""Integrations against the deployed stack, each in a namespace of its own."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from demo.observer import Observed
from embedded.reservoir import NODE_ROLE, ROOT
from embedded.reservoir.example import EXAMPLES
from integrations.worker_pool import WorkerPool
from reservoir.client import Client, Subscription
from shared.names import EVENT_BUS, INSTANCE_ARN_PREFIX, Queue
from tests.deployed.story.nodes import credentials_of
from tests.deployed.story.world import World
from tests.integrations.stacks import Deploy, deployer
from tests.integrations.test_github_runners import SECRET, FakeGitHub, payload, request

pytestmark = pytest.mark.embedded

TOKEN: Final = "token"  # noqa: S105 - of nobody
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
        subscription = Subscription.create(namespace, bus, [namespace], make_client=world.aws.client)
        return Client.connect(
            world.output(Queue.DEMAND.value), subscription.events_queue_url, make_client=world.aws.client
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


@pytest.fixture(scope="module")
def deploy(world: World) -> Deploy:
    return deployer(world)


@pytest.fixture(scope="module")
def function_arn(deploy: Deploy) -> str:
    return deploy("StepFunctions", "step_functions", {"Namespace": "executions"})["FunctionArn"]


def executed(world: World, function_arn: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Run the sample state machine to its end; return how it ended."""
    states = world.aws.client("stepfunctions")
    definition = (ROOT / "integrations" / "step_functions" / "state_machine.asl.json").read_text()
    role = world.aws.client("iam").create_role(RoleName=f"execution-{name}", AssumeRolePolicyDocument="{}")["Role"]
    machine = states.create_state_machine(
        name=name, definition=definition.replace("${FunctionArn}", function_arn), roleArn=role["Arn"]
    )["stateMachineArn"]
    asked = {"namespace": "executions", "name": name, "spec": spec}
    execution = states.start_execution(stateMachineArn=machine, input=json.dumps(asked))["executionArn"]
    ended: dict[str, Any] = {}

    def is_over(_: Observed) -> bool:
        ended.update(states.describe_execution(executionArn=execution))
        return str(ended["status"]) != "RUNNING"

    world.until(f"the execution {name} ends", is_over)
    return ended


def test_a_state_waits_for_machines_and_gives_them_back(world: World, connect: Connect, function_arn: str) -> None:
    ended = executed(world, function_arn, "train", {"replicas": 2, **template("2")})
    assert ended["status"] == "SUCCEEDED", ended
    nodes = json.loads(ended["output"])["machines"]["nodes"]
    assert sum(node["replicas"] for node in nodes) == 2
    assert all(node["instanceId"].startswith("i-") for node in nodes)
    assert connect("executions").status("executions/train").withdrawn


def test_a_state_whose_workload_is_refused_fails_with_the_reason(world: World, function_arn: str) -> None:
    spec = {"replicas": 1, "nodeSelector": {"karpenter.sh/nodepool": "nobodys"}, **template("2")}
    ended = executed(world, function_arn, "wrong", spec)
    assert ended["status"] == "FAILED"
    assert ended["error"] == "Reservoir.Rejected"
    assert "is not a NodePool" in ended["cause"]


@contextmanager
def serving(github: FakeGitHub, world: World) -> Iterator[str]:
    """Serve GitHub's API over TLS, with the certificate that everything on the embedded AWS trusts; yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            assert self.headers["Authorization"] == f"Bearer {TOKEN}"
            length = int(self.headers.get("Content-Length", 0))
            status, answer = github(self.command, self.path, json.loads(self.rfile.read(length)) if length else None)
            body = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - as http.server calls them

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as http.server calls it
            """Tell nobody."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trusted.load_cert_chain(world.aws.ca_bundle, world.aws.ca_bundle.with_name("key.pem"))
    server.socket = trusted.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_job_of_github_gets_a_machine_and_a_runner_and_both_end_with_it(
    world: World, connect: Connect, deploy: Deploy
) -> None:
    for name, secret in (("/runners/secret", SECRET.decode()), ("/runners/token", TOKEN)):
        world.aws.client("ssm").put_parameter(Name=name, Value=secret, Type="SecureString")
    github = FakeGitHub()
    with serving(github, world) as api:
        stack = deploy(
            "GitHubRunners",
            "github_runners",
            {
                "GitHubApi": api,
                "GitHubScope": "orgs/acme",
                "Pools": json.dumps({"gpu": template("15")}),  # a machine of its own, which goes with it
                "WebhookSecretParameter": "/runners/secret",
                "TokenParameter": "/runners/token",
            },
        )

        def deliver(said: dict[str, Any], secret: bytes = SECRET) -> int:
            called = world.aws.client("lambda").invoke(
                FunctionName=stack["Webhook"], Payload=json.dumps(request(said, secret))
            )
            return int(json.load(called["Payload"])["statusCode"])

        rows = partial(world.aws.client("dynamodb").scan, TableName=stack["Configurations"])
        assert stack["WebhookUrl"].startswith("http")
        assert deliver(payload("queued", 7), b"another") == 401
        assert [deliver(payload("queued", 7)) for _ in range(2)] == [202, 202]
        world.until("the runner has its configuration", lambda _: rows()["Count"] == 1)
        (machine,) = connect("runners").status("runners/gpu-7").nodes
        assert github.runners.keys() == {"reservoir-gpu-7"}

        its_own = own_configurations(world, stack, str(machine.instance_id))
        assert its_own == [("reservoir-gpu-7", "config-1")]
        del github.runners["reservoir-gpu-7"]  # it has run its job, and GitHub forgets it
        assert deliver(payload("completed", 7, "reservoir-gpu-7")) == 202
        world.until("nobody has a configuration", lambda _: rows()["Count"] == 0)
        assert connect("runners").status("runners/gpu-7").withdrawn


def own_configurations(world: World, stack: Mapping[str, str], instance_id: str) -> list[tuple[str, str]]:
    """Return what an instance reads of the table with the template's policy; another's rows it may not."""
    world.aws.client("iam").attach_role_policy(RoleName=NODE_ROLE, PolicyArn=stack["NodePolicyArn"])
    inside = world.aws.client("dynamodb", **credentials_of(world.aws, instance_id))

    def rows_of(instance: str) -> list[tuple[str, str]]:
        found = inside.query(
            TableName=stack["Configurations"],
            KeyConditionExpression="instance_arn = :arn",
            ExpressionAttributeValues={":arn": {"S": world.output(INSTANCE_ARN_PREFIX) + instance}},
        )
        return [(item["runner"]["S"], item["configuration"]["S"]) for item in found["Items"]]

    with pytest.raises(ClientError, match="AccessDenied"):
        rows_of("i-0123456789abcdef0")
    with pytest.raises(ClientError, match="AccessDenied"):
        inside.scan(TableName=stack["Configurations"])
    return rows_of(instance_id)
