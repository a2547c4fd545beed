"""Stored policy, object by object, as launches and drains look at it."""

from dataclasses import dataclass, replace

from shared.core.model.conditions import launches_blocked
from shared.core.model.node_class import NodeClass
from shared.core.model.node_pool import NodePool
from shared.ports.policy import PolicyKind, PolicyStatus, PolicyStore
from shared.ports.system import Clock
from shared.usecases.policy.policy_objects import policy_of


@dataclass(frozen=True, slots=True)
class StoredPolicy:
    """Implements ``shared.ports.launches.LaunchPolicy``."""

    store: PolicyStore
    clock: Clock

    def node_class(self, name: str) -> NodeClass | None:
        """Return the class with its status (consistent read)."""
        stored = self.store.get(PolicyKind.NODE_CLASS, name)
        return None if stored is None else policy_of([stored]).node_classes[0]

    def node_pool(self, name: str) -> NodePool | None:
        """Return the pool."""
        stored = self.store.get(PolicyKind.NODE_POOL, name)
        return None if stored is None else policy_of([stored]).node_pools[0]

    def node_classes(self) -> tuple[NodeClass, ...]:
        """Return all classes, by name."""
        return policy_of(self.store.list_all()).node_classes

    def block_launches(self, node_class_name: str, reason: str) -> None:
        """Stop launches of the class until it changes; discovery lifts the block (``resolve_node_classes``)."""
        stored = self.store.get(PolicyKind.NODE_CLASS, node_class_name)
        if stored is None:
            return
        now = self.clock.now()
        blocked = replace(
            stored.status.node_class,
            launch_blocked_reason=reason,
            launch_blocked_at=now,
            launch_blocked_generation=stored.generation,
        )
        conditions = launches_blocked(stored.status.conditions, reason, now)
        self.store.save_status(stored.kind, stored.name, PolicyStatus(conditions, blocked))
