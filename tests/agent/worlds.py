"""A node for the agent's tests: AWS, processes and a clock that behave, all in memory."""

from collections.abc import Iterator, Mapping
from typing import Any

from reservoir.agent.agent import Agent
from reservoir.agent.aws import UnreachableError
from reservoir.agent.configuration import Configuration, Run
from reservoir.agent.machine import ProcessId

KEY = "research/train"
RUN = Run("research/*", ("/opt/train",), checkpoint=("/opt/checkpoint",))


class FakeAws:
    """What the instance reaches; ``is_down`` when it does not. Counts calls that leave the machine."""

    def __init__(self) -> None:
        self.known: Mapping[str, Any] | None = None
        self.interrupted: float | None = None
        self.is_down = False
        self.calls = 0
        self.reports: list[Mapping[str, Any]] = []

    def identity(self, table: str) -> Mapping[str, Any] | None:
        assert table == "claims"
        self._called()
        return self.known

    def report(self, queue_url: str, body: Mapping[str, Any]) -> None:
        assert queue_url == "reports"
        self._called()
        self.reports.append(body)

    def address(self) -> str:
        return "10.0.0.7"

    def interrupted_at_s(self) -> float | None:
        return self.interrupted

    def _called(self) -> None:
        self.calls += 1
        if self.is_down:
            raise UnreachableError("down")


class FakeWork:
    """Processes that run until the test, or a signal, ends them."""

    def __init__(self) -> None:
        self.running: dict[ProcessId, Mapping[str, str]] = {}
        self.started: list[ProcessId] = []
        self.hooks: dict[str, Mapping[str, str]] = {}
        self.signals: list[tuple[ProcessId, bool]] = []
        self.heeds_signals = True
        self._ended: list[tuple[ProcessId, int, str]] = []
        self._ended_hooks: list[str] = []

    def start(self, process: ProcessId, run: Run, environment: Mapping[str, str]) -> None:
        assert run.command == RUN.command
        assert process not in self.running, "it runs already"
        self.running[process] = environment
        self.started.append(process)

    def start_hook(
        self, workload_key: str, run: Run, environment: Mapping[str, str]
    ) -> None:
        assert run.checkpoint == RUN.checkpoint
        self.hooks[workload_key] = environment

    def signal(self, process: ProcessId, *, kill: bool) -> None:
        self.signals.append((process, kill))
        if kill or self.heeds_signals:
            self.end(process, -9 if kill else -15)

    def end(self, process: ProcessId, status: int = 0, tail: str = "") -> None:
        if self.running.pop(process, None) is not None:
            self._ended.append((process, status, tail))

    def end_hook(self, workload_key: str) -> None:
        del self.hooks[workload_key]
        self._ended_hooks.append(workload_key)

    def ended(self) -> Iterator[tuple[ProcessId, int, str]]:
        while self._ended:
            yield self._ended.pop(0)

    def ended_hooks(self) -> Iterator[str]:
        while self._ended_hooks:
            yield self._ended_hooks.pop(0)


class Node:
    """An agent with its world; time moves by ``pass_s``, a second a step."""

    def __init__(self, run: Run = RUN) -> None:
        self.aws = FakeAws()
        self.work = FakeWork()
        self.now_s = 1_000_000.0
        configuration = Configuration("claims", "reports", (run,))
        self.agent = Agent(configuration, self.aws, self.work, lambda: self.now_s)

    def tell(
        self,
        replicas: int = 1,
        *,
        drain_s: float | None = None,
        finished: int | None = None,
        gang: Mapping[str, Any] | None = None,
        block_drain_s: tuple[float, float] | None = None,
        held: tuple[int, float] | None = None,
    ) -> None:
        """Let the identity say this from now on; ``drain_s``: it must go within so many seconds.

        ``block_drain_s``: in how many seconds its block starts to drain, and until when. ``held``: so many replicas
        more, which follow those on nc-0, and for how many seconds at most.
        """
        hosted: dict[str, Any] = {
            "namespace": "research",
            "name": "train",
            "replicas": replicas,
            "correlationId": "m-1",
        }
        if finished is not None:
            hosted["finished"] = finished
        if held is not None:
            hosted["held"], for_s = held
            hosted["heldUntilS"] = self.now_s + for_s
            hosted["predecessors"] = ["nc-0"]
        is_hosted = replicas > 0 or held is not None
        self.aws.known = {"nodeClaim": "nc-1", "workloads": [hosted] if is_hosted else []}
        if gang is not None:
            hosted["gang"] = gang
        if block_drain_s is not None:
            starts_s, deadline_s = (self.now_s + each for each in block_drain_s)
            self.aws.known["blockDrain"] = {"startsAtS": starts_s, "deadlineS": deadline_s}
        if drain_s is not None:
            self.aws.known["drain"] = {
                "deadlineS": self.now_s + drain_s,
                "reason": "CapacityBlockEnding",
            }

    def pass_s(self, seconds: int = 1) -> None:
        """Let time pass."""
        for _ in range(seconds):
            self.agent.step()
            self.now_s += 1

    def reports(self, kind: str) -> list[Mapping[str, Any]]:
        return [body for body in self.aws.reports if body["report"] == kind]
