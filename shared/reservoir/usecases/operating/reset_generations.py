"""Lets a workload's next message begin at generation 1 again, by hand.

It is for a workload whose sender sent a generation so high that none can follow it. Its demand and its replicas stay.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from reservoir.core.model.node_claim import Operation
from reservoir.manifests.answers.operations import OperationResult
from reservoir.ports.state import ConflictError, UnreadableRowsError, WorkloadStore

_TRIES: Final = 6


@dataclass(frozen=True, slots=True)
class ResetGenerations:
    """Acts on workloads, named ``NAMESPACE/NAME``. An event says who asked, and why, before it is done."""

    workloads: WorkloadStore

    def reset(self, names: Sequence[str], operation: Operation) -> list[OperationResult]:
        """Set the stored generation of workloads to 0."""
        del operation
        return [self._reset(name) for name in dict.fromkeys(names)]

    def _reset(self, name: str) -> OperationResult:
        if "/" not in name:
            return OperationResult(
                name=name, outcome="refused", message="name it NAMESPACE/NAME"
            )
        for _ in range(_TRIES):
            try:
                record = self.workloads.get(name)
            except UnreadableRowsError:
                return OperationResult(
                    name=name, outcome="refused", message="it cannot be read"
                )
            if record is None:
                return OperationResult(
                    name=name, outcome="refused", message="it does not exist"
                )
            if record.generation == 0:
                return OperationResult(
                    name=name, outcome="unchanged", message="already reset"
                )
            wanted = (
                None if record.workload is None else replace(record.workload, generation=0)
            )
            after = replace(record, generation=0, workload=wanted, former=())
            try:
                self.workloads.put(after, expected_revision=record.revision)
            except ConflictError:
                continue
            message = f"reset; its generation was {record.generation}, and the next message may start at 1"
            return OperationResult(name=name, outcome="done", message=message)
        return OperationResult(
            name=name, outcome="refused", message="it changes too fast; repeat the command"
        )
