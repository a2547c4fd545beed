"""From a message to CreateFleet on AWS, on paper: the calls that wait for each other, times what AWS says of each.

The deployed functions' own handlers run in this process against the embedded AWS, one message at a time while it is
calm, each warm. Calls that are made side by side count once. Processor time is measured here, beside the calls. What a
call takes on AWS is typical, not worst, and rounded up from what AWS publishes:

* DynamoDB: "single-digit milliseconds" (its product page); a transaction is two rounds.
* S3: 100 to 200 ms for small objects (S3 user guide, "Performance guidelines").
* SQS: tens of milliseconds a request (SQS FAQ). Lambda's pollers wait in long polls; that a message reaches a warm
  function within 50 ms is our assumption, AWS documents none.
"""

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar, cast

import functions.intake.handler
import functions.launch.handler
import functions.provision.handler
from bench.harness import tell
from embedded.reservoir import DeployedReservoir
from infra.naming import function_name
from shared.adapters import clients
from shared.names import DEPLOYMENT, Function, Queue
from shared.runtime.adapters import Adapters
from shared.runtime.composition.parts.outside import Process, running_in
from shared.runtime.settings import Settings
from tests.deployed.story.policies import one_type_pool, story_workload, write_manifests
from tests.deployed.story.world import World

P = ParamSpec("P")
T = TypeVar("T")

WARM_UP: Final = 2
MESSAGES: Final = 9
DELIVERY_MS: Final = 50
TRANSACTION_MS: Final = 16
SERVICE_MS: Final[Mapping[str, int]] = {"dynamodb": 8, "sqs": 20, "s3": 150, "eventbridge": 20}
# Function, its handler, the queue that wakes it, and the call with which its part of the way ends.
STAGES: Final = (
    (Function.INTAKE, functions.intake.handler.handler, Queue.DEMAND, "sqs.SendMessage"),
    (Function.PROVISION, functions.provision.handler.handler, Queue.PLANNING, "sqs.SendMessageBatch"),
    (Function.LAUNCH, functions.launch.handler.handler, Queue.LAUNCHES, "ec2.CreateFleet"),
)


def cases() -> Sequence[str]:
    """Return one case a market."""
    return ["latency-on-paper-reserved", "latency-on-paper-bought"]


def run(case: str) -> dict[str, object]:
    """Deploy, put this process in the functions' place, and follow messages."""
    market = case.rpartition("-")[2].replace("bought", "on-demand")
    with DeployedReservoir(report=tell) as reservoir:
        world = World(reservoir)
        world.reserve("odcr", "m7i.2xlarge", "us-east-1a", WARM_UP + MESSAGES, "plain")
        with tempfile.TemporaryDirectory() as folder:
            world.apply(write_manifests(Path(folder), one_type_pool("plain", "m7i.2xlarge", [market])))
        world.discover()
        _stop_deployed_functions(world)
        world.aws.clock.advance(timedelta(minutes=1))  # a catalogue that was written moments ago is read whole
        os.environ.update(reservoir.variables())
        followed = _Followed()
        clients._session().register("before-send", followed.before_send)
        ways = [_follow(world, followed, number) for number in range(WARM_UP + MESSAGES)]
        return {"messages": MESSAGES, **_figures(ways[WARM_UP:])}


@dataclass(frozen=True, slots=True)
class Stage:
    """A function's part of the way."""

    calls: int  # one after the other
    aws_ms: int
    processor_ms: float


@dataclass
class CriticalPath(Executor):
    """How far the way has come: in calls, and in milliseconds of AWS. Runs what is submitted in turn."""

    ends_with: str
    calls: int = 0
    aws_ms: int = 0
    began_s: float = field(default_factory=time.process_time)
    found: Stage | None = None

    def begins(self, operation: str) -> None:
        """Add a call, ``dynamodb.Query``."""
        service, _, name = operation.partition(".")
        if operation == self.ends_with and service == "ec2":
            self._end()
        self.calls += 1
        self.aws_ms += TRANSACTION_MS if name.startswith("Transact") else SERVICE_MS.get(service, 0)
        if operation == self.ends_with:
            self._end()

    def _end(self) -> None:
        if self.found is None:
            self.found = Stage(self.calls, self.aws_ms, 1000 * (time.process_time() - self.began_s))

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a call beside what follows, until somebody asks for its result."""
        calls, aws_ms = self.calls, self.aws_ms
        future: _Joining[T] = _Joining(self)
        future.set_result(call(*args, **kwargs))
        future.calls, future.aws_ms = self.calls, self.aws_ms
        self.calls, self.aws_ms = calls, aws_ms
        return future


class _Joining(Future[T]):
    """A result that whoever asks for it waits for."""

    def __init__(self, path: CriticalPath) -> None:
        super().__init__()
        self._path = path
        self.calls = self.aws_ms = 0

    def result(self, timeout: float | None = None) -> T:
        found = super().result(timeout)
        self._path.calls = max(self._path.calls, self.calls)
        self._path.aws_ms = max(self._path.aws_ms, self.aws_ms)
        return found


class _Followed(Executor):
    """The executor of all processes, for whichever path is being followed; botocore tells it of calls."""

    def __init__(self) -> None:
        self.path = CriticalPath("")
        self.processes: dict[Function, Process] = {}

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return self.path.submit(call, *args, **kwargs)

    def before_send(self, **event: Any) -> None:
        self.path.begins(event["event_name"].removeprefix("before-send."))

    def process(self, world: World, function: Function) -> Process:
        """Return the process that stands for a function, always the same: it is warm from the second message on."""
        if function not in self.processes:
            name = function_name(world.output(DEPLOYMENT), function)
            own = world.aws.client("lambda").get_function_configuration(FunctionName=name)["Environment"]["Variables"]
            settings = Settings.from_environment({**os.environ, **own})
            self.processes[function] = Process(_Adapters(settings, world, self))
        return self.processes[function]


class _Adapters(Adapters):
    executor = cast("Any", None)

    def __init__(self, settings: Settings, world: World, executor: Executor) -> None:
        super().__init__(settings)
        self.clock = cast("Any", world)
        self.executor = executor


def _stop_deployed_functions(world: World) -> None:
    client = world.aws.client("lambda")
    for mapping in client.list_event_source_mappings()["EventSourceMappings"]:
        client.delete_event_source_mapping(UUID=mapping["UUID"])


def _follow(world: World, followed: _Followed, number: int) -> Mapping[Function, Stage]:
    workload = story_workload("plain", 1, "6")
    workload["metadata"]["name"] = f"single-{number:02}"
    world.send({"action": "submit", "workload": workload})
    stages = {}
    for function, handler, queue, ends_with in STAGES:
        event = _received(world, queue)
        followed.path = CriticalPath(ends_with)
        with running_in(followed.process(world, function)):
            handler(event, None)
        found = followed.path.found
        assert found is not None, f"{function} made no {ends_with}: {followed.path}"
        stages[function] = found
    return stages


def _received(world: World, queue: Queue) -> dict[str, Any]:
    """Take the messages of a queue as Lambda would hand them over."""
    url, sqs = world.output(queue.value), world.aws.client("sqs")
    messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"])["Messages"]
    for message in messages:
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    records = [{"messageId": it["MessageId"], "body": it["Body"], "attributes": it["Attributes"]} for it in messages]
    return cast("dict[str, Any]", json.loads(json.dumps({"Records": records})))


def _figures(followed: Sequence[Mapping[Function, Stage]]) -> dict[str, object]:
    figures: dict[str, object] = {}
    total_ms = 0.0
    for function, _, _, _ in STAGES:
        stages = [each[function] for each in followed]
        aws_ms = statistics.median(stage.aws_ms for stage in stages)
        processor_ms = statistics.median(stage.processor_ms for stage in stages)
        figures |= {
            f"{function.value}_calls_in_turn": max(stage.calls for stage in stages),
            f"{function.value}_aws_ms": aws_ms,
            f"{function.value}_processor_ms": round(processor_ms, 1),
        }
        total_ms += DELIVERY_MS + aws_ms + processor_ms
    return {**figures, "deliveries_ms": DELIVERY_MS * len(STAGES), "sent_to_call_ms": round(total_ms)}
