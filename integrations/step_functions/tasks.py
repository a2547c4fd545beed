"""Which states of executions wait for which workload, and when they are told.

Facts are hints: each has the workload asked for, and only the answer (``Workload Described``) decides. So facts that
are lost, doubled or late change nothing, and every step may be repeated.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from reservoir.client import messages
from reservoir.client.events import (
    AWAITING_LAUNCH,
    ReplicaFailed,
    WorkloadDescribed,
    WorkloadRejected,
)
from reservoir.client.facts import Fact
from reservoir.client.messages import WorkloadManifest
from reservoir.client.transport import Outbox

Until = Literal["placed", "launched", "ready", "finished"]
# and not of the workload's counts alone
_ASKS_OF_NODES: Final = frozenset({"launched", "ready"})
_REQUEST_ID: Final = "step-functions"


class TaskRequest(BaseModel):
    """What the state hands over. ``taskToken`` is a secret of the execution: it is stored, never logged."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task_token: str = Field(alias="taskToken", min_length=1, max_length=2048, repr=False)
    until: Until = "placed"
    workload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class WaitingTask:
    """A state that waits for a workload, ``namespace/name``."""

    key: str
    token: str
    until: Until


class TaskStore(Protocol):
    """Waiting states, one a workload: that of a later try takes the place of the earlier one's."""

    def put(self, task: WaitingTask) -> None:
        """Keep a state."""
        ...

    def get(self, key: str) -> WaitingTask | None:
        """Return who waits for the workload."""
        ...

    def waited_for(self) -> Iterable[str]:
        """Return the workloads that somebody waits for."""
        ...

    def forget(self, task: WaitingTask) -> None:
        """Forget a state, unless another try has taken its place."""
        ...


class TaskAnswers(Protocol):
    """Step Functions; an execution that is over or has gone on is no error."""

    def succeed(self, token: str, output: str) -> None:
        """Let the state go on with ``output``, which is JSON."""
        ...

    def fail(self, token: str, error: str, cause: str) -> None:
        """Let the state fail."""
        ...


@dataclass(frozen=True, slots=True)
class Tasks:
    """Begins, hears and sweeps."""

    outbox: Outbox
    store: TaskStore
    answers: TaskAnswers

    def begin(self, request: Mapping[str, Any]) -> None:
        """Submit a state's workload and remember who waits.

        Raises
        ------
        pydantic.ValidationError
            The request or the workload is not valid; Step Functions shows the state's failure.
        """
        asked = TaskRequest.model_validate(request)
        manifest = WorkloadManifest.model_validate(asked.workload)
        key = f"{manifest.metadata.namespace}/{manifest.metadata.name}"
        # Kept first: a state that waits without a workload is found by the sweep, the other way round it is lost.
        self.store.put(WaitingTask(key, asked.task_token, asked.until))
        self.outbox.send({"action": "submit", "workload": asked.workload})
        self._ask(key)

    def withdraw(self, key: str, generation: int) -> None:
        """Have a workload not wanted any more, and nobody wait for it."""
        task = self.store.get(key)
        if task is not None:
            self.store.forget(task)
        self.outbox.send(messages.withdraw(key, generation))

    def hear(self, fact: Fact) -> None:
        """Answer whoever waits, if the fact is an answer; otherwise ask."""
        for key in sorted(fact.workload_keys):
            task = self.store.get(key)
            if task is None:
                continue
            if isinstance(fact.event, WorkloadRejected):
                told = "; ".join(
                    f"{problem.path}: {problem.message}" for problem in fact.event.problems
                )
                self._fail(task, "Reservoir.Rejected", told)
            elif isinstance(fact.event, WorkloadDescribed):
                self._decide(task, fact.event)
            elif isinstance(fact.event, ReplicaFailed) and fact.event.is_crash_loop:
                told = (
                    f"exit code {fact.event.exit_code} after {fact.event.restarts} restarts"
                )
                self._fail(task, "Reservoir.CrashLoop", told)
            else:
                self._ask(key)

    def sweep(self) -> None:
        """Ask about everything that somebody waits for: a fact may have been lost."""
        for key in self.store.waited_for():
            self._ask(key)

    def _ask(self, key: str) -> None:
        self.outbox.send(messages.describe(key, _REQUEST_ID))

    def _decide(self, task: WaitingTask, known: WorkloadDescribed) -> None:
        if known.workload.generation is None:
            return  # the submit is on its way
        if known.withdrawn:
            self._fail(task, "Reservoir.Withdrawn", f"{task.key} was withdrawn")
        elif _is_placed(known) and task.until in _ASKS_OF_NODES and known.part_count > 1:
            self._fail(
                task,
                "Reservoir.TooManyNodes",
                "so many nodes: wait until placed or finished",
            )
        elif _REACHED[task.until](known):
            self.answers.succeed(task.token, json.dumps(_output(known)))
            self.store.forget(task)

    def _fail(self, task: WaitingTask, error: str, cause: str) -> None:
        self.answers.fail(task.token, error, cause[:32_768])
        self.store.forget(task)


def _is_placed(known: WorkloadDescribed) -> bool:
    return known.placed + known.finished >= known.wanted


def _is_launched(known: WorkloadDescribed) -> bool:
    there = [node for node in known.nodes if node.state not in AWAITING_LAUNCH]
    return sum(node.replicas for node in there) + known.finished >= known.wanted


def _is_ready(known: WorkloadDescribed) -> bool:
    return sum(node.ready for node in known.nodes) + known.finished >= known.wanted


def _is_finished(known: WorkloadDescribed) -> bool:
    return known.finished >= known.wanted


_REACHED: Final[Mapping[Until, Callable[[WorkloadDescribed], bool]]] = {
    "placed": _is_placed,
    "launched": _is_launched,
    "ready": _is_ready,
    "finished": _is_finished,
}


def _output(known: WorkloadDescribed) -> dict[str, Any]:
    """Return what the state goes on with; of many nodes the first 200, because an output has its limit."""
    return {
        "key": f"{known.workload.namespace}/{known.workload.name}",
        "generation": known.workload.generation,
        "placed": known.placed,
        "nodes": [
            {
                "nodeClaim": node.node_claim,
                "instanceId": node.instance_id,
                "instanceType": node.instance_type,
                "capacityType": node.capacity_type.value,
                "replicas": node.replicas,
            }
            for node in known.nodes
        ],
    }
