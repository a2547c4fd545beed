"""The loop around the machine: asks, acts, reports; nothing that AWS does or does not do ends it."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

from reservoir.agent.aws import UnreachableError
from reservoir.agent.configuration import Configuration, Run
from reservoir.agent.machine import (
    Action,
    Arrive,
    Checkpoint,
    NodeMachine,
    ProcessId,
    Report,
    Signal,
    Start,
    report,
)
from reservoir.agent.retries import Retries

SOON_S: Final = 5.0  # until the next question while something is about to change
NOTICE_S: Final = 5.0  # between two looks at the instance's own metadata
REPORTS_MAX: Final = 200  # that wait for AWS; the oldest are dropped first
log = logging.getLogger("reservoir.agent")


class Outside(Protocol):
    """AWS, as the instance reaches it."""

    def identity(self, table: str) -> Mapping[str, Any] | None:
        """Return what the node is for, None when that is not known yet; raises UnreachableError."""
        ...

    def report(self, queue_url: str, body: Mapping[str, Any]) -> None:
        """Send a report; raises UnreachableError."""
        ...

    def address(self) -> str:
        """Return where other nodes reach the instance; raises UnreachableError."""
        ...

    def interrupted_at_s(self) -> float | None:
        """Return when EC2 ends the instance, if EC2 has announced it; raises UnreachableError."""
        ...


class Work(Protocol):
    """The processes."""

    def start(self, process: ProcessId, run: Run, environment: Mapping[str, str]) -> None:
        """Start one."""
        ...

    def start_hook(
        self, workload_key: str, run: Run, environment: Mapping[str, str]
    ) -> None:
        """Start a checkpoint hook."""
        ...

    def signal(self, process: ProcessId, *, kill: bool) -> None:
        """Signal one."""
        ...

    def ended(self) -> Iterable[tuple[ProcessId, int, str]]:
        """Return the processes that have ended since, each with its status and the end of its output."""
        ...

    def ended_hooks(self) -> Iterable[str]:
        """Return the workloads whose checkpoint hooks have ended since."""
        ...


class Agent:
    """One node's agent; ``now_s`` gives seconds since 1970."""

    def __init__(
        self,
        configuration: Configuration,
        aws: Outside,
        work: Work,
        now_s: Callable[[], float],
    ) -> None:
        self._configuration = configuration
        self._aws = aws
        self._work = work
        self._now_s = now_s
        self._machine = NodeMachine(configuration)
        self._reports: deque[Mapping[str, Any]] = deque(maxlen=REPORTS_MAX)
        self._ask_at_s = 0.0
        self._look_at_s = 0.0
        self._send_at_s = 0.0
        self._asking = Retries()
        self._sending = Retries()

    def step(self) -> None:
        """Do everything that is due now."""
        now_s = self._now_s()
        for action in [
            *self._noticed(now_s),
            *self._learned(now_s),
            *self._ended(now_s),
            *self._machine.tick(now_s),
        ]:
            self._do(action)
        self._send(now_s)

    def _learned(self, now_s: float) -> list[Action]:
        if now_s < self._ask_at_s:
            return []
        try:
            identity = self._aws.identity(self._configuration.node_claims_table)
        except UnreachableError as error:
            log.warning(
                "what this node is for cannot be read, everything goes on: %s", error
            )
            self._ask_at_s = now_s + max(self._asking.failed(), self._configuration.poll_s)
            return []
        self._asking.succeeded()
        actions = [] if identity is None else self._machine.learned(identity, now_s)
        pause_s = (
            self._configuration.poll_s
            if self._machine.is_idle
            else min(SOON_S, self._configuration.poll_s)
        )
        self._ask_at_s = now_s + pause_s
        return actions

    def _noticed(self, now_s: float) -> list[Action]:
        if now_s < self._look_at_s:
            return []
        self._look_at_s = now_s + NOTICE_S
        try:
            at_s = self._aws.interrupted_at_s()
        except UnreachableError as error:
            log.warning("the instance's metadata cannot be read: %s", error)
            return []
        return [] if at_s is None else self._machine.must_go(at_s, "Interruption", now_s)

    def _ended(self, now_s: float) -> Iterator[Action]:
        for process, status, tail in self._work.ended():
            log.info(
                "%s-%d ended with status %d", process.workload_key, process.number, status
            )
            yield from self._machine.ended(process, status, tail, now_s)
        for key in self._work.ended_hooks():
            yield from self._machine.checkpointed(key, now_s)

    def _do(self, action: Action) -> None:
        match action:
            case Start(process, run, environment):
                correlation_id = environment["RESERVOIR_CORRELATION_ID"]
                log.info(
                    "starts %s-%d, correlation_id %s",
                    process.workload_key,
                    process.number,
                    correlation_id,
                )
                self._work.start(process, run, environment)
            case Arrive(key):
                self._arrive(key)
            case Signal(process, kill):
                self._work.signal(process, kill=kill)
            case Checkpoint(key, run, environment):
                log.info(
                    "checkpoint of %s, correlation_id %s",
                    key,
                    environment["RESERVOIR_CORRELATION_ID"],
                )
                self._work.start_hook(key, run, environment)
            case Report(body):
                self._reports.append(body)

    def _arrive(self, workload_key: str) -> None:
        try:
            self._reports.append(
                report("arrived", workload_key, address=self._aws.address())
            )
        except UnreachableError as error:
            log.warning(
                "the address of this node cannot be read, it is reported later: %s", error
            )

    def _send(self, now_s: float) -> None:
        """Send what waits, in order; after a failure not at once again."""
        while self._reports and now_s >= self._send_at_s:
            try:
                self._aws.report(self._configuration.reports_queue_url, self._reports[0])
            except UnreachableError as error:
                log.warning("a report waits: %s", error)
                self._send_at_s = now_s + self._sending.failed()
                return
            self._sending.succeeded()
            self._reports.popleft()
