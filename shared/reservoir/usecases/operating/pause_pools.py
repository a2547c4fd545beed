"""Pause NodePools and let them launch again, by hand.

The pause lies beside the pool's manifest, under no revision: an apply in between neither loses nor lifts it. A pool
that is deleted takes its pause along.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reservoir.core.model.node_claim import Operation, with_operation
from reservoir.core.scheduling_terms.labels import closest
from reservoir.manifests.answers.operations import OperationResult
from reservoir.ports.messaging import WorkQueue
from reservoir.ports.policy import Pause, PolicyKind, PolicyStore
from reservoir.ports.state import ConflictError

_TRIES: Final = 6


@dataclass(frozen=True, slots=True)
class PausePools:
    """Acts on NodePools."""

    policy: PolicyStore
    queue: WorkQueue

    def pause(self, names: Sequence[str], operation: Operation) -> list[OperationResult]:
        """Let the pools launch nothing; their nodes stay and go on taking replicas. Raises UnreadableRowsError."""
        return [self._set(name, operation, is_paused=True) for name in dict.fromkeys(names)]

    def resume(self, names: Sequence[str], operation: Operation) -> list[OperationResult]:
        """Let the pools launch again, and have what waits planned. Raises UnreadableRowsError."""
        results = [
            self._set(name, operation, is_paused=False) for name in dict.fromkeys(names)
        ]
        if any(result.outcome != "refused" for result in results):
            # Also where nothing changed: the request that resumed it may have died before it woke the planner.
            self.queue.wake_planner(reason="pool resumed")
        return results

    def _set(self, name: str, operation: Operation, *, is_paused: bool) -> OperationResult:
        said = "paused; launches no nodes" if is_paused else "resumed; launches nodes again"
        for _ in range(_TRIES):
            stored = self.policy.get(PolicyKind.NODE_POOL, name)
            if stored is None:
                hint = closest(
                    name,
                    [
                        it.name
                        for it in self.policy.list_all()
                        if it.kind is PolicyKind.NODE_POOL
                    ],
                )
                message = "it does not exist" + (f"; did you mean {hint}?" if hint else "")
                return OperationResult(name=name, outcome="refused", message=message)
            if stored.pause.is_paused == is_paused:
                message = "already paused" if is_paused else "not paused"
                return OperationResult(name=name, outcome="unchanged", message=message)
            after = Pause(is_paused, with_operation(stored.pause.operations, operation))
            try:
                self.policy.save_pause(name, after, expected=stored.pause)
            except ConflictError:
                continue
            return OperationResult(name=name, outcome="done", message=said)
        return OperationResult(
            name=name, outcome="refused", message="it changes too fast; repeat the command"
        )
