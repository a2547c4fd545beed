"""Integrations against the deployed stack, each in a namespace of its own."""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import botocore
import pytest

from demo.observer import Observed
from embedded.reservoir import ROOT
from embedded.reservoir.example import EXAMPLES
from infra.naming import function_name
from integrations.worker_pool import WorkerPool
from reservoir.client import Client, Subscription
from shared.names import EVENT_BUS, Function, Queue
from tests.deployed.world import World

pytestmark = pytest.mark.embedded

PACKAGES: Final = (
    *("annotated_types", "botocore", "dateutil", "jmespath", "pydantic", "pydantic_core", "six.py"),
    *("typing_extensions.py", "typing_inspection", "urllib3", "yaml"),
)
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
def function_arn(world: World) -> str:
    """Deploy the integration of Step Functions as its README says."""
    s3, functions = world.aws.client("s3"), world.aws.client("lambda")
    s3.create_bucket(Bucket="code")
    s3.put_object(Bucket="code", Key="code.zip", Body=code("integrations", "reservoir", "shared"))
    ours = functions.get_function_configuration(
        FunctionName=function_name(world.reservoir.outputs["ReservoirDeployment"], Function.INTAKE)
    )
    queue_url = world.output(Queue.DEMAND.value)
    parameters = {
        "BusName": world.output(EVENT_BUS),
        "DemandQueueUrl": queue_url,
        "DemandQueueArn": world.aws.client("sqs").get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])[
            "Attributes"
        ]["QueueArn"],
        "Namespace": "executions",
        "CodeBucket": "code",
        "CodeKey": "code.zip",
        "LayerArn": functions.publish_layer_version(LayerName="packages", Content={"ZipFile": layer()})[
            "LayerVersionArn"
        ],
        "Runtime": ours["Runtime"],
    }
    cloudformation = world.aws.client("cloudformation")
    cloudformation.create_stack(
        StackName="StepFunctions",
        TemplateBody=(ROOT / "integrations" / "step_functions" / "template.yaml").read_text(),
        Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()],
        Capabilities=["CAPABILITY_IAM"],
    )
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName="StepFunctions", WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )
    (stack,) = cloudformation.describe_stacks(StackName="StepFunctions")["Stacks"]
    return str({it["OutputKey"]: it["OutputValue"] for it in stack["Outputs"]}["FunctionArn"])


def code(*folders: str) -> bytes:
    """Return a zip of the repository's Python."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for folder in folders:
            for path in sorted((ROOT / folder).rglob("*.py")):
                archive.write(path, path.relative_to(ROOT))
    return packed.getvalue()


def layer() -> bytes:
    """Return a zip of the packages that the function needs; of botocore's services those that it calls."""
    site, packed = Path(botocore.__file__).parents[1], io.BytesIO()
    services = {"dynamodb", "sqs", "stepfunctions"}
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in PACKAGES:
            root = site / name
            for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
                inside = path.relative_to(site).parts
                is_other = inside[:2] == ("botocore", "data") and len(inside) > 3 and inside[2] not in services
                if path.is_file() and path.suffix != ".pyc" and not is_other:
                    archive.write(path, Path("python", *inside))
    return packed.getvalue()


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
