"""What emulating Lambda costs in processor time: a cold start of each function, a warm invocation of an idle one.

Counted are user and system time of the processes, by the kernel, so that other work on the machine does not count.
``..._init_s`` is the environment's until it asks for its first event: runtime client, layer and the function's own
imports; ``..._alone_init_s`` is that of one with an interpreter of its own, as on Lambda. ``..._first_event_s`` is what
the handler uses for its first event, clients of AWS's services in it; ``..._host_s`` what the emulator itself used in
all. A warm invocation has the deployed code and layer, and a handler that returns at once; what any API call costs is
told beside it. Linux only.
"""

import io
import statistics
import zipfile
from collections.abc import Callable, Sequence
from typing import Any, Final

from infra.naming import function_name
from lab.bench.harness import tell
from lab.embedded.client import EmbeddedAws
from lab.embedded.functions.environments import processor_s
from lab.embedded.reservoir import DeployedReservoir
from reservoir.names import DEPLOYMENT, Function, output_name

CALLS: Final = 50
ROUNDS: Final = 16
WARM_UP: Final = 20
COLD_STARTS: Final = 3
_NO_WORK: Final = b'{"Records": []}'
# read by the interpreter, so it needs one of its own
_NEVER_SHARED: Final = {"PYTHONUTF8": "1"}


def cases() -> Sequence[str]:
    """Return the only case."""
    return ["embedded-lambda"]


def run(case: str) -> dict[str, object]:
    """Deploy, start and call functions, and return what it cost."""
    del case
    with DeployedReservoir(report=tell) as reservoir:
        stage = _Stage(reservoir)
        return {**stage.cold_starts(), **stage.warm_invocations()}


class _Stage:
    """One deployment whose clock stands, so that nothing else runs."""

    def __init__(self, reservoir: DeployedReservoir) -> None:
        self.aws: EmbeddedAws = reservoir.aws
        self.lambda_ = reservoir.aws.client("lambda")
        self.names = {
            each: function_name(reservoir.outputs[output_name(DEPLOYMENT)], each)
            for each in Function
        }
        self.aws.clock.pause()
        self.aws.clock.settle()

    def cold_starts(self) -> dict[str, object]:
        figures: dict[str, object] = {}
        # the first event of discover_offerings reads all instance types: that is its work
        for function in Function:
            alone = self._cold_start(self.names[function], **_NEVER_SHARED)
            figures[f"{function}_alone_init_s"] = alone["init_s"]
            figures.update(
                {
                    f"{function}_{name}": value
                    for name, value in self._cold_start(self.names[function]).items()
                }
            )
        return figures

    def _cold_start(self, name: str, **variables: str) -> dict[str, float]:
        """Return the medians of what the environment and the emulator use."""
        own = self.lambda_.get_function_configuration(FunctionName=name)["Environment"][
            "Variables"
        ]
        starts: list[dict[str, float]] = []
        for number in range(COLD_STARTS):
            # another configuration needs another environment
            changed = {**own, **variables, "START": str(number)}
            self.lambda_.update_function_configuration(
                FunctionName=name, Environment={"Variables": changed}
            )
            host_s = _used(self.aws.pid)
            self.lambda_.invoke(FunctionName=name, Payload=_NO_WORK)
            environment = self._newest(name)
            starts.append(
                {
                    "init_s": environment["init_processor_s"],
                    "first_event_s": _used(environment["pid"])
                    - environment["init_processor_s"],
                    "host_s": _used(self.aws.pid) - host_s,
                }
            )
        self.lambda_.update_function_configuration(
            FunctionName=name, Environment={"Variables": own}
        )
        medians = {}
        for figure in starts[0]:
            values = [start[figure] for start in starts]
            medians[figure] = round(statistics.median(values), 3)
        return medians

    def warm_invocations(self) -> dict[str, object]:
        self._make_idle_function()

        def invoke() -> object:
            return self.lambda_.invoke(FunctionName="idle", Payload=b"{}")

        for _ in range(WARM_UP):
            invoke()
        environment = int(self._newest("idle")["pid"])
        return {
            "warm_host_ms": _least_ms(invoke, self.aws.pid),
            "warm_environment_ms": _least_ms(invoke, environment),
            "any_call_ms": _least_ms(self.lambda_.get_account_settings, self.aws.pid),
        }

    def _make_idle_function(self) -> None:
        """Make a function of what ``intake`` is made of, but for its handler."""
        deployed = self.lambda_.get_function(FunctionName=self.names[Function.INTAKE])
        configuration = deployed["Configuration"]
        self.lambda_.create_function(
            FunctionName="idle",
            Runtime=configuration["Runtime"],
            Handler="idle.handle",
            Role=configuration["Role"],
            Layers=[layer["Arn"] for layer in configuration["Layers"]],
            Code={"ZipFile": _padded_code(int(configuration["CodeSize"]))},
            Timeout=60,
        )

    def _newest(self, name: str) -> dict[str, Any]:
        return [each for each in self.aws.environments() if each["function"] == name][-1]


def _least_ms(call: Callable[[], object], pid: int) -> float:
    """Return what a process uses for a call, in the best of some rounds: switches between processes cost time, too."""
    rounds_ms = []
    for _ in range(ROUNDS):
        before_s = _used(pid)
        for _ in range(CALLS):
            call()
        rounds_ms.append((_used(pid) - before_s) / CALLS * 1000)
    return round(min(rounds_ms), 2)


def _padded_code(size: int) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("idle.py", "def handle(event, context): pass\n")
        archive.writestr("padding", bytes(size))
    return content.getvalue()


def _used(pid: int) -> float:
    used_s = processor_s(pid)
    if used_s is None:
        raise RuntimeError("this system does not tell what another process has used")
    return used_s
