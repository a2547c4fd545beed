"""Stored policy, object by object, as launches and drains look at it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from reservoir.core.model.conditions import launches_blocked
from reservoir.core.model.node_class import NodeClass, Validation
from reservoir.core.model.node_pool import NodePool
from reservoir.ports.policy import PolicyKind, PolicyObject, PolicyStatus, PolicyStore
from reservoir.ports.state import UnreadableRowsError
from reservoir.ports.system import Clock
from reservoir.usecases.policy.policy_objects import Policy, policy_of


@dataclass(frozen=True, slots=True)
class StoredPolicy:
    """Implements ``reservoir.ports.launches.LaunchPolicy``."""

    store: PolicyStore
    clock: Clock

    def node_class(self, name: str) -> NodeClass | None:
        """Return the class with its status (consistent read). Raises UnreadableRowsError."""
        stored = self.store.get(PolicyKind.NODE_CLASS, name)
        return None if stored is None else _understood([stored]).node_classes[0]

    def node_pool(self, name: str) -> NodePool | None:
        """Return the pool. Raises UnreadableRowsError."""
        stored = self.store.get(PolicyKind.NODE_POOL, name)
        return None if stored is None else _understood([stored]).node_pools[0]

    def node_classes(self) -> tuple[NodeClass, ...]:
        """Return all classes, by name. Raises UnreadableRowsError."""
        stored = self.store.list_all()
        return _understood(
            [each for each in stored if each.kind is PolicyKind.NODE_CLASS]
        ).node_classes

    def node_pools_of(self, node_class_name: str) -> tuple[NodePool, ...]:
        """Return the readable pools of the class, by name."""
        pools = policy_of(self.store.list_all()).node_pools
        return tuple(pool for pool in pools if pool.node_class_name == node_class_name)

    def save_validation(self, node_class_name: str, validation: Validation) -> None:
        """Store the result of a dry run of the class. Raises UnreadableRowsError."""
        stored = self.store.get(PolicyKind.NODE_CLASS, node_class_name)
        if stored is None:
            return
        found = replace(stored.status.node_class, validation=validation)
        self.store.save_status(
            stored.kind, stored.name, replace(stored.status, node_class=found)
        )

    def block_launches(self, node_class_name: str, reason: str) -> None:
        """Stop launches of the class until it changes; discovery lifts the block (``resolve_node_classes``).

        Raises UnreadableRowsError.
        """
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


def _understood(objects: Sequence[PolicyObject]) -> Policy:
    """Return the objects. A caller who asks for all, or for one by name, must not take a part for the whole."""
    found = policy_of(objects)
    if found.unreadable:
        raise UnreadableRowsError([f"{kind}/{name}" for kind, name in found.unreadable])
    return found
