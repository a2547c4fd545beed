"""A pool of equal workers on the client: what an Auto Scaling group does, on reserved capacity first."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from reservoir.client import Client
from reservoir.client.messages import static_hash


@dataclass(frozen=True, slots=True)
class Scale:
    """How many workers a depth of the queue wants; what goes down waits until it has been calm for ``calm_s``."""

    messages_per_worker: int
    least_count: int = 0
    most_count: int = 100
    calm_s: float = 300.0

    def wanted(self, depth: int) -> int:
        """Return the workers for ``depth`` messages."""
        return max(
            self.least_count, min(self.most_count, -(-depth // self.messages_per_worker))
        )


@dataclass(frozen=True, slots=True)
class WorkerPool:
    """Keeps nothing in memory: what is wanted is what Reservoir has stored, so any process may go on with it.

    A template is a Workload's ``spec`` without ``replicas``. Each has a workload of its own, ``NAME-DIGEST``.
    """

    client: Client
    namespace: str
    name: str

    def key(self, template: Mapping[str, Any]) -> str:
        """Return the key of a template's workload."""
        return f"{self.namespace}/{self.name}-{static_hash(template)}"

    def size(self, template: Mapping[str, Any]) -> int:
        """Return how many workers of a template are wanted now."""
        return self.client.status(self.key(template)).wanted

    def keep(self, template: Mapping[str, Any], count: int) -> None:
        """Want so many workers; whatever ends is replaced. Those beyond are ended by their notices."""
        namespace, _, name = self.key(template).partition("/")
        self.client.submit(
            {
                "apiVersion": "reservoir/v1",
                "kind": "Workload",
                "metadata": {"namespace": namespace, "name": name},
                "spec": {**template, "replicas": count},
            }
        )

    def roll(
        self, old: Mapping[str, Any], new: Mapping[str, Any], count: int, *, step: int = 1
    ) -> None:
        """Replace the workers of one template by those of another: ``step`` new ones run before as many old ones go.

        Called again after a crash, it goes on where it was. While new ones wait for a place, the old ones stay.
        """
        if self.key(old) == self.key(new):
            self.keep(new, count)
            return
        while True:
            if (have := self.size(new)) > 0:
                self.client.wait_placed(self.key(new), launched=True)
            if self.size(old) > count - have:
                self.keep(old, max(0, count - have))
            if have >= count:
                break
            self.keep(new, min(count, have + step))
        self.client.withdraw(self.key(old))

    def follow(
        self,
        template: Mapping[str, Any],
        scale: Scale,
        depths: Callable[[], int | None],
        now_s: Callable[[], float],
    ) -> None:
        """Scale by the depth of a queue until ``depths``, which may wait as long as it likes, returns None."""
        size = self.size(template)
        shrinks_at_s = now_s() + scale.calm_s
        while (depth := depths()) is not None:
            wanted = scale.wanted(depth)
            if wanted >= size:
                shrinks_at_s = now_s() + scale.calm_s
            if wanted > size or (wanted < size and now_s() >= shrinks_at_s):
                self.keep(template, wanted)
                size = wanted
