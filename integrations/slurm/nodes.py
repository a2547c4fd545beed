"""Slurm's cloud nodes as workloads of one replica: ``gpu-3`` is ``NAMESPACE/gpu-3``, of the pool ``gpu``.

Slurm decides which job runs where, and asks for nodes and lets them go; Reservoir decides what they are made of.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from integrations.slurm.slurm import Slurm
from reservoir.client import Client, UnansweredError, WithdrawnError
from reservoir.client.events import DrainReason, NodeDraining, NodeStatus, WorkloadDescribed

_SOON_S: Final = 15.0  # after that a job that waits says why


class UnknownPoolError(Exception):
    """Slurm asks for a node of a pool that the configuration does not name."""


@dataclass(frozen=True, slots=True)
class SlurmNodes:
    """``pools`` maps the name of nodes before their number to the ``spec`` of their workloads.

    ``address_of`` returns an instance's address; ``resume_timeout_s`` is that of slurm.conf.
    """

    client: Client
    slurm: Slurm
    address_of: Callable[[str], str]
    namespace: str
    pools: Mapping[str, Mapping[str, Any]]
    resume_timeout_s: float = 600.0

    def resume(self, node: str) -> bool:
        """Get a machine for a node and tell Slurm of it; return False when there is none within Slurm's time.

        Slurm then takes the node down and calls its ResumeFailProgram, which withdraws it.
        """
        if not self.slurm.is_powering_up(node):
            return False  # a request that was left over: nobody waits for it any more
        spec = self.pools.get(node.rpartition("-")[0])
        if spec is None:
            raise UnknownPoolError(f"no pool for the node {node!a}")
        workload = {
            "apiVersion": "reservoir/v1",
            "kind": "Workload",
            "metadata": {"namespace": self.namespace, "name": node},
            "spec": {**spec, "replicas": 1},
        }
        self.client.submit(workload)
        try:
            placed = self._placed(
                node, min(_SOON_S, self.resume_timeout_s)
            ) or self._placed(node, self.resume_timeout_s - _SOON_S)
        except WithdrawnError:
            return False  # Slurm has given up waiting
        if placed is None:
            return False
        machine = _machine(placed)
        made_of = {machine.capacity_type.value, machine.instance_type, machine.node_claim}
        reserved = machine.capacity_reservation_id
        if reserved is not None:
            made_of.add(reserved)
        self.slurm.place(node, self.address_of(machine.instance_id or ""), made_of)
        self._explain(
            node,
            f"Reservoir: {node} is {machine.capacity_type.value} {reserved or machine.instance_type}",
        )
        return True

    def _placed(self, node: str, timeout_s: float) -> WorkloadDescribed | None:
        """Wait for a node's machine; when there is none in time its jobs say why."""
        try:
            return self.client.wait_placed(
                self._key(node), launched=True, timeout_s=max(0.0, timeout_s)
            )
        except UnansweredError as error:
            self._explain(node, f"Reservoir: {error}")
            return None

    def let_go(self, node: str) -> None:
        """Have a node's machine not wanted any more: Slurm has powered it down, or given up waiting for it."""
        self.client.withdraw(self._key(node))

    def drain(self, notice: NodeDraining) -> None:
        """Requeue what runs on a node that must go, and let Slurm ask for another machine.

        A notice about a machine that the node has left already is only released.
        """
        for node in (workload.name for workload in notice.workloads):
            if (
                notice.reason is DrainReason.WITHDRAWN
                or notice.node.node_claim not in self.slurm.features(node)
            ):
                continue
            why = f"Reservoir: {notice.reason.value} at {notice.deadline:%H:%M:%S}"
            self.slurm.update(node, "State=DRAIN", f"Reason={why}")
            jobs = self.slurm.jobs_on(node)
            # Slurm asks again, for whatever it wants then
            self.client.withdraw(self._key(node))
            for job in jobs:
                self.slurm.requeue(job)
                self.slurm.explain(job, why)
            self.slurm.update(node, "State=POWER_DOWN_FORCE")
            self.slurm.update(node, "State=UNDRAIN")

    def _explain(self, node: str, text: str) -> None:
        for job in self.slurm.jobs_on(node):
            self.slurm.explain(job, text)

    def _key(self, node: str) -> str:
        return f"{self.namespace}/{node}"


def _machine(placed: WorkloadDescribed) -> NodeStatus:
    return next(node for node in placed.nodes if node.replicas)
