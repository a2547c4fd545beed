"""What the agent does next: a state machine without a clock, network or process of its own.

Its inputs are the node's identity, the processes that have ended and the time; its answers are actions. The identity is
the only authority: without it nothing is started, and when it cannot be read any more, what runs goes on until the last
deadline that was known. Replicas that it holds, because those that they follow still run elsewhere, start when it says
so, or at the time that it named. A node in a Capacity Block knows from the beginning when it will have to go, so that
it drains in time even if no notice reaches it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, TypeAlias

from reservoir.agent.configuration import Configuration, Run

# Pauses before a command that failed is started again: these seconds, twice as long each time, at most so many.
FIRST_PAUSE_S: Final = 10
LONGEST_PAUSE_S: Final = 300
# A command that ran so long has recovered: its next failure counts as a first one.
RECOVERED_AFTER_S: Final = 600
# So long before the deadline the agent kills commands that still run; the rest of the time is for the last report.
KILL_MARGIN_S: Final = 10
# How long after its block should have begun to drain a node drains by itself, if it got no notice.
DRAIN_OVERDUE_S: Final = 120
BLOCK_ENDING: Final = "CapacityBlockEnding"  # as a drain says it
# How often a node that waits for the others of its gang says that it is there.
ARRIVE_AGAIN_S: Final = 60
MASTER_PORT: Final = 29500  # the usual one of torch.distributed
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class Phase(StrEnum):
    """Where one process of a workload is."""

    WAITING = "waiting"  # to be started at ``at_s``
    RUNNING = "running"  # since ``at_s``
    STOPPING = "stopping"  # it was asked to end
    ENDED = "ended"  # it has finished, or was stopped


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process: of a workload, the number of its replica on the node (of the first one, if it is for all)."""

    workload_key: str
    number: int


@dataclass(frozen=True, slots=True)
class Start:
    """Start a process."""

    process: ProcessId
    run: Run
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Signal:
    """Ask a process to end (SIGTERM), or end it (SIGKILL)."""

    process: ProcessId
    kill: bool = False


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Run the checkpoint hook of a workload."""

    workload_key: str
    run: Run
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Report:
    """Report to the deployment; ``body`` is a node's report."""

    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Arrive:
    """Report that the node runs, and its address, so that the nodes of a workload learn each other's addresses."""

    workload_key: str


Action: TypeAlias = Start | Signal | Checkpoint | Report | Arrive


@dataclass(slots=True)
class _Process:
    phase: Phase
    at_s: float
    replicas: int
    restarts: int = 0
    reported_ready: bool = False


@dataclass(frozen=True, slots=True)
class _Gang:
    """The node's place among the nodes of a workload."""

    node_rank: int
    first_rank: int
    world_size: int
    addresses: tuple[str, ...]

    def environment(self, run: Run, index: int) -> dict[str, str]:
        """Return what launchers of distributed work ask for; ``index`` counts the node's processes."""
        found = {
            "RESERVOIR_GANG_ADDRESSES": ",".join(self.addresses),
            "MASTER_ADDR": self.addresses[0],
            "MASTER_PORT": str(MASTER_PORT),
            "NODE_RANK": str(self.node_rank),
            "NNODES": str(len(self.addresses)),
            "RANK": str(self.first_rank + index),
            "WORLD_SIZE": str(self.world_size),
        }
        return found if run.per_node else {**found, "LOCAL_RANK": str(index)}


@dataclass(slots=True)
class _Task:
    run: Run
    processes: dict[int, _Process] = field(default_factory=dict)
    finished: int = 0  # replicas, in all
    finished_before: int = 0  # of these, before this agent began
    gang: _Gang | None = None
    arrive_at_s: float = 0.0  # when to say again that the node is there
    checkpoint: str = "none"  # none, running, done
    released: bool = False
    is_gathering: bool = False  # its gang has not met yet
    correlation_id: str = ""  # of the workload; empty until it is known
    predecessors: tuple[
        str, ...
    ] = ()  # claims of nodes where those still run that these follow


@dataclass(frozen=True, slots=True)
class _Drain:
    deadline_s: float
    reason: str
    is_own: bool = False  # not reported yet


@dataclass(frozen=True, slots=True)
class _BlockDrain:
    """When the Capacity Block under the node drains."""

    starts_at_s: float
    deadline_s: float

    def is_due(self, now_s: float) -> bool:
        """Whether no notice came for so long that the node goes by itself."""
        return now_s >= self.starts_at_s + DRAIN_OVERDUE_S


class NodeMachine:
    """What one node does. Times are seconds since 1970."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._tasks: dict[str, _Task] = {}
        self._drain: _Drain | None = None
        self._block_drain: _BlockDrain | None = None
        self._node_claim = ""
        self._killed = False
        self._identity: Mapping[str, Any] = {}  # as it was reported last
        self._held_until_s: float | None = None  # when the first of what it holds may start

    @property
    def is_idle(self) -> bool:
        """Whether nothing is about to change: the identity need not be asked for sooner than usual."""
        return (
            bool(self._node_claim)
            and not any(
                process.phase in (Phase.WAITING, Phase.STOPPING)
                for _, _, process in self._all()
            )
            and not any(task.is_gathering for task in self._tasks.values())
        )

    def learned(self, identity: Mapping[str, Any], now_s: float) -> list[Action]:
        """Follow what the node's identity says."""
        self._identity = identity
        self._held_until_s = _held_until_s(identity["workloads"], now_s)
        self._node_claim = str(identity["nodeClaim"])
        self._block_drain = _block_drain(identity.get("blockDrain"))
        drain = identity.get("drain")
        if self._drain is not None and self._drain.is_own:
            self._check_own_drain(self._drain, now_s, is_notified=drain is not None)
        wanted = {
            f"{each['namespace']}/{each['name']}": each for each in identity["workloads"]
        }
        actions: list[Action] = []
        for key, each in wanted.items():
            task = self._task(key)
            if task is not None:
                task.correlation_id = str(each.get("correlationId", task.correlation_id))
                task.predecessors = tuple(each.get("predecessors", ()))
        if drain is not None:
            return [*actions, *self.must_go(drain["deadlineS"], drain["reason"], now_s)]
        for key, each in wanted.items():
            task = self._task(key)
            if task is not None:
                startable = _startable(each, now_s)
                task.gang = _gang(each.get("gang"))
                task.is_gathering = bool(task.run.gang and startable and task.gang is None)
                if not task.is_gathering:
                    _grow(task, startable, each.get("finished", 0), now_s)
        for key, task in self._tasks.items():
            left = (
                _startable(wanted[key], now_s) + wanted[key].get("finished", 0)
                if key in wanted
                else 0
            )
            task.is_gathering = task.is_gathering and key in wanted
            actions += self._shrink(task, key, left)
        return [*actions, *self.tick(now_s)]

    def must_go(self, deadline_s: float, reason: str, now_s: float) -> list[Action]:
        """Begin to go, or bring the deadline forward; also EC2's own notice on the instance says so."""
        if self._drain is None or deadline_s < self._drain.deadline_s:
            self._drain = _Drain(deadline_s, reason)
        return self.tick(now_s)

    def ended(
        self, process_id: ProcessId, exit_code: int, log_tail: str, now_s: float
    ) -> list[Action]:
        """Note that a process has ended."""
        task = self._tasks[process_id.workload_key]
        process = task.processes[process_id.number]
        was_asked = process.phase is Phase.STOPPING
        if exit_code == 0 and not was_asked:
            process.phase = Phase.ENDED
            task.finished += process.replicas
            done = report(
                "finished",
                process_id.workload_key,
                replicas=task.finished,
                logTail=log_tail,
            )
            return [
                *_report_ready(task, process_id.workload_key, [process]),
                Report(done),
                *self.tick(now_s),
            ]
        if was_asked or self._drain is not None:
            process.phase = Phase.ENDED
            return self.tick(now_s)
        if now_s - process.at_s >= RECOVERED_AFTER_S:
            process.restarts = 0
        pause_s = min(FIRST_PAUSE_S << min(process.restarts, 10), LONGEST_PAUSE_S)
        failed = report(
            "failed",
            process_id.workload_key,
            exitCode=exit_code,
            restarts=process.restarts,
            nextStartInS=pause_s,
            logTail=log_tail,
        )
        process.phase, process.at_s = Phase.WAITING, now_s + pause_s
        process.restarts += 1
        process.reported_ready = False
        return [Report(failed), *self.tick(now_s)]

    def checkpointed(self, workload_key: str, now_s: float) -> list[Action]:
        """Note that a checkpoint hook has ended, however it ended."""
        self._tasks[workload_key].checkpoint = "done"
        return self.tick(now_s)

    def tick(self, now_s: float) -> list[Action]:
        """Do what is due."""
        if (
            self._drain is None
            and self._block_drain is not None
            and self._block_drain.is_due(now_s)
        ):
            self._drain = _Drain(self._block_drain.deadline_s, BLOCK_ENDING, is_own=True)
        if self._drain is not None:
            return list(self._go(self._drain, now_s))
        if self._held_until_s is not None and now_s >= self._held_until_s:
            return self.learned(self._identity, now_s)
        return [*self._arrive(now_s), *self._start_due(now_s), *self._report_ready(now_s)]

    def _check_own_drain(self, own: _Drain, now_s: float, *, is_notified: bool) -> None:
        """Follow who speaks again after the node began to go by itself: it was right, or its block was extended."""
        if is_notified:
            self._drain = replace(own, is_own=False)
            for task in self._tasks.values():
                task.released = False  # it was said before anybody awaited it
        elif (
            self._block_drain is None or not self._block_drain.is_due(now_s)
        ) and not self._is_ending_anything():
            self._drain, self._killed = None, False
            self._tasks.clear()

    def _is_ending_anything(self) -> bool:
        is_running = any(
            process.phase in (Phase.RUNNING, Phase.STOPPING)
            for _, _, process in self._all()
        )
        return is_running or any(
            task.checkpoint == "running" for task in self._tasks.values()
        )

    def _task(self, key: str) -> _Task | None:
        if key not in self._tasks:
            namespace, _, name = key.partition("/")
            run = self._configuration.run_for(key)
            if run is None or not (_NAME.fullmatch(namespace) and _NAME.fullmatch(name)):
                return None
            self._tasks[key] = _Task(run)
        return self._tasks[key]

    def _arrive(self, now_s: float) -> Iterator[Action]:
        for key, task in self._tasks.items():
            if task.is_gathering and task.arrive_at_s <= now_s:
                task.arrive_at_s = now_s + ARRIVE_AGAIN_S
                yield Arrive(key)

    def _shrink(self, task: _Task, key: str, left: int) -> Iterator[Action]:
        for number, process in task.processes.items():
            if number < left or (task.run.per_node and left):
                continue
            yield from self._stop(ProcessId(key, number), process)

    def _stop(self, process_id: ProcessId, process: _Process) -> Iterator[Action]:
        if process.phase is Phase.WAITING:
            process.phase = Phase.ENDED
        elif process.phase is Phase.RUNNING:
            process.phase = Phase.STOPPING
            yield Signal(process_id)

    def _start_due(self, now_s: float) -> Iterator[Action]:
        for key, number, process in self._all():
            if process.phase is Phase.WAITING and process.at_s <= now_s:
                process.phase, process.at_s = Phase.RUNNING, now_s
                task = self._tasks[key]
                yield Start(
                    ProcessId(key, number),
                    task.run,
                    self._environment(key, number, process),
                )

    def _report_ready(self, now_s: float) -> Iterator[Action]:
        for key, task in self._tasks.items():
            ready = [
                process
                for process in task.processes.values()
                if process.phase is Phase.RUNNING
                and now_s - process.at_s >= task.run.ready_after_s
            ]
            yield from _report_ready(task, key, ready)

    def _go(self, drain: _Drain, now_s: float) -> Iterator[Action]:
        is_over = now_s >= drain.deadline_s - KILL_MARGIN_S
        for key, task in self._tasks.items():
            running = {
                n: p
                for n, p in task.processes.items()
                if p.phase in (Phase.RUNNING, Phase.STOPPING)
            }
            if (
                running
                and task.checkpoint == "none"
                and task.run.checkpoint
                and not is_over
            ):
                task.checkpoint = "running"
                yield Checkpoint(key, task.run, self._environment(key))
            if is_over or task.checkpoint != "running":
                for number, process in task.processes.items():
                    yield from self._stop(ProcessId(key, number), process)
            if is_over and not self._killed:
                yield from (Signal(ProcessId(key, number), kill=True) for number in running)
            if not any(
                p.phase in (Phase.RUNNING, Phase.STOPPING) for p in task.processes.values()
            ):
                yield from self._release(key, task)
        self._killed = self._killed or is_over

    def _release(self, key: str, task: _Task) -> Iterator[Action]:
        if not task.released:
            task.released = True
            yield Report(report("released", key))

    def _environment(
        self, key: str, number: int | None = None, process: _Process | None = None
    ) -> dict[str, str]:
        namespace, _, name = key.partition("/")
        found = {
            "RESERVOIR_NODE_CLAIM": self._node_claim,
            "RESERVOIR_WORKLOAD": key,
            "RESERVOIR_WORKLOAD_NAMESPACE": namespace,
            "RESERVOIR_WORKLOAD_NAME": name,
            "RESERVOIR_CORRELATION_ID": self._tasks[key].correlation_id,
        }
        if number is not None and process is not None:
            found |= {
                "RESERVOIR_REPLICA": str(number),
                "RESERVOIR_REPLICAS": str(process.replicas),
            }
            task = self._tasks[key]
            if task.predecessors:
                found["RESERVOIR_PREDECESSORS"] = ",".join(task.predecessors)
            if task.gang is not None:
                found |= task.gang.environment(task.run, number - task.finished_before)
        if self._drain is not None:
            found |= {
                "RESERVOIR_DRAIN_REASON": self._drain.reason,
                "RESERVOIR_DRAIN_DEADLINE_S": str(int(self._drain.deadline_s)),
            }
        return found

    def _all(self) -> Iterator[tuple[str, int, _Process]]:
        for key, task in self._tasks.items():
            for number, process in task.processes.items():
                yield key, number, process


def _grow(task: _Task, replicas: int, finished: int, now_s: float) -> None:
    """Add the processes of replicas that belong on the node and have none yet."""
    if not task.processes:
        task.finished = task.finished_before = finished
    if task.run.per_node:
        if replicas and not task.processes:
            task.processes[finished] = _Process(Phase.WAITING, now_s, replicas)
        return
    for number in range(finished, finished + replicas):
        task.processes.setdefault(number, _Process(Phase.WAITING, now_s, 1))


def _startable(hosted: Mapping[str, Any], now_s: float) -> int:
    """Return how many replicas may run: also those that were held until now."""
    is_held = now_s < hosted.get("heldUntilS", now_s)
    held = 0 if is_held else hosted.get("held", 0)
    return int(hosted["replicas"]) + int(held)


def _held_until_s(workloads: Sequence[Mapping[str, Any]], now_s: float) -> float | None:
    """Return when the first replicas that are held now may start."""
    times = [each["heldUntilS"] for each in workloads if "heldUntilS" in each]
    return min([until_s for until_s in times if until_s > now_s], default=None)


def _block_drain(told: Mapping[str, Any] | None) -> _BlockDrain | None:
    return None if told is None else _BlockDrain(told["startsAtS"], told["deadlineS"])


def _gang(told: Mapping[str, Any] | None) -> _Gang | None:
    if told is None:
        return None
    return _Gang(
        told["nodeRank"], told["firstRank"], told["worldSize"], tuple(told["addresses"])
    )


def _report_ready(task: _Task, key: str, ready: Sequence[_Process]) -> Iterator[Report]:
    """Report how many replicas have run in all, if some of ``ready`` had not been reported."""
    if all(process.reported_ready for process in ready):
        return
    for process in ready:
        process.reported_ready = True
    told = sum(
        process.replicas for process in task.processes.values() if process.reported_ready
    )
    yield Report(report("ready", key, replicas=task.finished_before + told))


def report(kind: str, workload_key: str, **fields: Any) -> dict[str, Any]:
    """Return the body of a report."""
    namespace, _, name = workload_key.partition("/")
    return {
        "schemaVersion": 1,
        "report": kind,
        "workload": {"namespace": namespace, "name": name},
        **fields,
    }
