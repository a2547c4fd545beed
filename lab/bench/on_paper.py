"""What calls of AWS take on paper: those that wait for each other, times what AWS says of each.

The deployed functions' own handlers run in this process against the embedded AWS. Calls that are made side by side
count once. Processor time is measured here, beside the calls. What a call takes on AWS is typical, not worst, and
rounded up from what AWS publishes:

* DynamoDB: "single-digit milliseconds" (its product page); a transaction is two rounds.
* S3: 100 to 200 ms for small objects (S3 user guide, "Performance guidelines").
* SQS: tens of milliseconds a request (SQS FAQ). Lambda's pollers wait in long polls; that a message reaches a warm
  function within 50 ms is our assumption, AWS documents none.
* EC2: AWS documents none. That it answers what is asked of a hundred instances within 200 ms is our assumption.
"""

import io
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import Any, Final, ParamSpec, TypeVar, cast

from infra.naming import function_name
from lab.embedded.reservoir import DeployedReservoir
from reservoir.adapters import clients
from reservoir.names import DEPLOYMENT, Function, Queue, output_name
from reservoir.ports.system import Clock
from reservoir.runtime.composition.parts.aws_outside import AwsOutside
from reservoir.runtime.composition.parts.outside import Process, running_in
from reservoir.runtime.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")

DELIVERY_MS: Final = 50
TRANSACTION_MS: Final = 16
SERVICE_MS: Final[Mapping[str, int]] = {
    "dynamodb": 8,
    "sqs": 20,
    "s3": 150,
    "eventbridge": 20,
    "ec2": 200,
}


@dataclass(frozen=True, slots=True)
class OnTheWay:
    """What a function did until the way through it ended."""

    calls: int  # one after the other
    aws_ms: int
    processor_ms: float


@dataclass
class CriticalPath(Executor):
    """How far the way has come: in calls, and in milliseconds of AWS. Runs what is submitted in turn.

    ``ends_with`` names the call that the way ends with; one of EC2 is not counted itself.
    """

    ends_with: str
    calls: int = 0
    aws_ms: int = 0
    began_s: float = field(default_factory=time.process_time)
    found: OnTheWay | None = None

    def begins(self, operation: str) -> None:
        """Add a call, ``dynamodb.Query``."""
        service, _, name = operation.partition(".")
        if operation == self.ends_with and service == "ec2":
            self.end()
        self.calls += 1
        self.aws_ms += (
            TRANSACTION_MS if name.startswith("Transact") else SERVICE_MS.get(service, 0)
        )
        if operation == self.ends_with:
            self.end()

    def end(self) -> None:
        """Note how far the way has come; the first time counts."""
        if self.found is None:
            self.found = OnTheWay(
                self.calls, self.aws_ms, 1000 * (time.process_time() - self.began_s)
            )

    def submit(
        self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
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


class OnPaper(Executor):
    """A process, this one, in the place of a deployment's functions, which get nothing from their queues any more.

    It is the executor of all of them, for whichever path is being followed; botocore tells it of calls.
    """

    def __init__(self, reservoir: DeployedReservoir, clock: Clock) -> None:
        self._reservoir = reservoir
        self._clock = clock
        self._path = CriticalPath("")
        self._processes: dict[Function, Process] = {}
        client = reservoir.aws.client("lambda")
        for mapping in client.list_event_source_mappings()["EventSourceMappings"]:
            client.delete_event_source_mapping(UUID=mapping["UUID"])
        os.environ.update(reservoir.variables())
        clients._session().register("before-send", self._before_send)

    def follow(
        self,
        function: Function,
        handler: Callable[[dict[str, Any], Any], object],
        event: dict[str, Any],
        ends_with: str,
    ) -> OnTheWay:
        """Let a function handle an event; return what it did until the call that the way ends with, or in all."""
        self._path = CriticalPath(ends_with)
        # logs are written and not shown
        with running_in(self._process(function)), redirect_stdout(io.StringIO()):
            handler(event, None)
        if not ends_with:
            self._path.end()
        assert self._path.found is not None, f"{function} made no {ends_with}: {self._path}"
        return self._path.found

    def received(self, queue: Queue, count: int) -> dict[str, Any]:
        """Take messages of a queue as Lambda would hand them over, ``count`` at most."""
        url = self._reservoir.outputs[output_name(queue.value)]
        sqs = self._reservoir.aws.client("sqs")
        records: list[dict[str, Any]] = []
        while len(records) < count:
            asked = min(10, count - len(records))
            answer = sqs.receive_message(
                QueueUrl=url, MaxNumberOfMessages=asked, AttributeNames=["All"]
            )
            for it in answer.get("Messages", ()):
                sqs.delete_message(QueueUrl=url, ReceiptHandle=it["ReceiptHandle"])
                records.append(
                    {
                        "messageId": it["MessageId"],
                        "body": it["Body"],
                        "attributes": it["Attributes"],
                    }
                )
            if "Messages" not in answer:
                break
        return {"Records": records}

    def submit(
        self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Run a call beside what follows on the path that is being followed."""
        return self._path.submit(call, *args, **kwargs)

    def _before_send(self, **event: Any) -> None:
        self._path.begins(event["event_name"].removeprefix("before-send."))

    def _process(self, function: Function) -> Process:
        """Return the process that stands for a function, always the same: it is warm from the second event on."""
        if function not in self._processes:
            name = function_name(self._reservoir.outputs[output_name(DEPLOYMENT)], function)
            client = self._reservoir.aws.client("lambda")
            own = client.get_function_configuration(FunctionName=name)["Environment"][
                "Variables"
            ]
            settings = Settings.from_environment({**os.environ, **own})
            self._processes[function] = Process(_OnPaper(settings, self._clock, self))
        return self._processes[function]


class _OnPaper(AwsOutside):
    executor = parts_executor = cast("Any", None)

    def __init__(self, settings: Settings, clock: Clock, executor: Executor) -> None:
        super().__init__(settings)
        self.clock = cast("Any", clock)
        self.executor = self.parts_executor = executor
