"""Which job wants which machine, and when a machine is not wanted any more.

A workload stands for one runner and is named for the job that had it made. GitHub gives a job to any runner that has
its labels, so a runner may well run another job than its own: what ends with a job is the runner that ran it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from integrations.github_runners.webhook import JobEvent
from reservoir.client import messages
from reservoir.client.events import (
    NodeDetail,
    NodeDraining,
    NodeLaunched,
    NodeTerminated,
    WorkloadPlaced,
)
from reservoir.client.facts import Fact
from reservoir.client.transport import Outbox

SELF_HOSTED: Final = "self-hosted"
RUNNER_PREFIX: Final = "reservoir-"
_GENERATION: Final = 1  # a job is wanted once; a job that is run again has another id
_WORKLOAD: Final = re.compile(r"([a-z0-9][a-z0-9-]{0,30})-([0-9]{1,20})")


class GitHubRunners(Protocol):
    """GitHub's side (``GitHub``)."""

    def configuration(self, runner: str, labels: list[str]) -> str:
        """Register a runner; return what it is started with."""
        ...

    def remove(self, runner: str) -> bool:
        """Remove a runner; False if it runs a job."""
        ...

    def is_over(self, repository: str, job_id: int) -> bool:
        """Whether a job is known to have ended."""
        ...


class Configurations(Protocol):
    """What each instance starts its runners with; only the instance itself can read its own.

    A runner that is over stays known for longer than facts can be late, so that none of these brings it back.
    """

    def has(self, instance_id: str, runner: str) -> bool:
        """Whether the instance has it already."""
        ...

    def put(self, instance_id: str, runner: str, configuration: str) -> None:
        """Hand it over."""
        ...

    def forget(self, instance_id: str, runners: Sequence[str]) -> None:
        """Take back what an instance that is gone had."""
        ...

    def end(self, runner: str) -> None:
        """Note that nobody wants the runner any more, and take back its configuration wherever it is."""
        ...

    def is_over(self, runner: str) -> bool:
        """Whether nobody wants the runner any more."""
        ...


@dataclass(frozen=True, slots=True)
class Runners:
    """``pools`` maps the label of a pool to the ``spec`` of its runners' workloads."""

    outbox: Outbox
    github: GitHubRunners
    configurations: Configurations
    namespace: str
    pools: Mapping[str, Mapping[str, Any]]

    def job(self, event: JobEvent) -> None:
        """Act on a job; events may come late, twice, and in any order."""
        pool = self._pool(event.workflow_job.labels)
        if pool is None:
            return
        own = f"{pool}-{event.workflow_job.id}"
        if event.action == "queued":
            self._submit(pool, own)
        elif event.action == "completed":
            self._completed(event, own)

    def hear(self, fact: Fact) -> None:
        """Act on a fact of the bus."""
        event = fact.event
        if isinstance(event, WorkloadPlaced) and event.workload.namespace == self.namespace:
            for node in event.nodes:
                if node.instance_id is not None:
                    self._equip(node.instance_id, event.workload.name)
        elif isinstance(event, NodeLaunched) and event.node.instance_id is not None:
            for name in self._ours(event.workloads):
                self._equip(event.node.instance_id, name)
        elif isinstance(event, NodeDraining):
            for name in self._ours(event.workloads):
                self._let_go(event.node, name)
        elif isinstance(event, NodeTerminated) and event.node.instance_id is not None:
            runners = [RUNNER_PREFIX + name for name in self._ours(event.returned)]
            self.configurations.forget(event.node.instance_id, runners)

    def _let_go(self, node: NodeDetail, name: str) -> None:
        """Release an idle runner's node; one that runs a job keeps it until the deadline."""
        if not self.github.remove(RUNNER_PREFIX + name):
            return
        # what is released is not named again when its node ends
        if node.instance_id is not None:
            self.configurations.forget(node.instance_id, [RUNNER_PREFIX + name])
        self.outbox.send(
            messages.release(f"{self.namespace}/{name}", node.node_claim, None)
        )

    def _pool(self, labels: Sequence[str]) -> str | None:
        """Return the pool of a job's labels: ``self-hosted`` and that of one pool, nothing else."""
        wanted = {label.lower() for label in labels}
        (*others,) = wanted - {SELF_HOSTED}
        return (
            others[0]
            if SELF_HOSTED in wanted and len(others) == 1 and others[0] in self.pools
            else None
        )

    def _submit(self, pool: str, name: str) -> None:
        metadata = {"namespace": self.namespace, "name": name, "generation": _GENERATION}
        spec = {**self.pools[pool], "replicas": 1}
        workload = {
            "apiVersion": "reservoir/v1",
            "kind": "Workload",
            "metadata": metadata,
            "spec": spec,
        }
        self.outbox.send({"action": "submit", "workload": workload})

    def _completed(self, event: JobEvent, own: str) -> None:
        ran_on = self._workload_of(event.workflow_job.runner_name)
        if ran_on is not None:
            self._withdraw(ran_on)  # it takes one job and ends
        if ran_on == own:
            return
        if ran_on is not None:
            theirs = int(ran_on.rpartition("-")[2])
            if not self.github.is_over(event.repository.full_name, theirs):
                return  # the job whose runner it was is still to come, and takes this one's
        if self.github.remove(RUNNER_PREFIX + own):
            self._withdraw(own)

    def _withdraw(self, name: str) -> None:
        """Want a runner no more; before its submit this leaves a tombstone, so that the submit changes nothing.

        No fact tells of a replica that leaves a node that stays, so its configuration is taken back here.
        """
        self.outbox.send(messages.withdraw(f"{self.namespace}/{name}", _GENERATION))
        self.configurations.end(RUNNER_PREFIX + name)

    def _equip(self, instance_id: str, name: str) -> None:
        runner, pool = RUNNER_PREFIX + name, self._pool_of(name)
        if (
            pool is None
            or self.configurations.has(instance_id, runner)
            or self.configurations.is_over(runner)
        ):
            return
        configuration = self.github.configuration(runner, [SELF_HOSTED, pool])
        self.configurations.put(instance_id, runner, configuration)

    def _ours(self, workloads: Sequence[Any]) -> list[str]:
        return [
            it.name
            for it in workloads
            if it.namespace == self.namespace and self._pool_of(it.name) is not None
        ]

    def _workload_of(self, runner: str | None) -> str | None:
        name = (runner or "").removeprefix(RUNNER_PREFIX)
        return (
            name
            if (runner or "").startswith(RUNNER_PREFIX) and self._pool_of(name) is not None
            else None
        )

    def _pool_of(self, name: str) -> str | None:
        found = _WORKLOAD.fullmatch(name)
        return found[1] if found is not None and found[1] in self.pools else None
