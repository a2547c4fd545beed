"""Which pools that launch nothing now would serve: that is then the reason that a person can do something about."""

from collections.abc import Callable, Iterator
from datetime import datetime

from reservoir.core.explaining.mismatches import unmet_requirements
from reservoir.core.explaining.offering_failures import Failure
from reservoir.core.model.instance_type import InstanceType
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduling_terms.taint import binding_taints, untolerated
from reservoir.core.solver.problem.selection import Selection


def paused_pools(
    snapshot: Snapshot, selection: Selection, fits: Callable[[InstanceType], bool]
) -> Iterator[Failure]:
    """Yield the paused pools that have a type for the work, and taints that it tolerates."""
    for pool in snapshot.node_pools:
        if pool.paused is not None and would_serve(pool, snapshot, selection, fits):
            yield Failure(
                ReasonCode.NODE_POOL_PAUSED, f"NodePool {pool.name} is paused {pool.paused}"
            )


def pools_of_blocked_classes(
    snapshot: Snapshot,
    now: datetime,
    selection: Selection,
    fits: Callable[[InstanceType], bool],
) -> Iterator[Failure]:
    """Yield the pools that would serve, if their class were there and could launch; with the next look at it."""
    classes = {node_class.name: node_class for node_class in snapshot.node_classes}
    for pool in sorted(snapshot.node_pools, key=lambda item: item.name):
        node_class = classes.get(pool.node_class_name)
        if (
            pool.paused is not None
            or pool.replicas is not None
            or not would_serve(pool, snapshot, selection, fits)
        ):
            continue
        why = blocked_class(pool, node_class)
        if why is not None:
            yield Failure(
                ReasonCode.NODE_CLASS_NOT_READY,
                f"NodePool {pool.name}: {why}",
                at=looked_at(node_class, now),
            )


def blocked_class(pool: NodePool, node_class: NodeClass | None) -> str | None:
    """Say why the pool's class launches nothing, and when it is looked at again; None where it launches."""
    if node_class is None:
        return f"EC2NodeClass {pool.node_class_name} does not exist"
    reason = node_class.status.launch_blocked_reason
    until = node_class.status.launch_blocked_until
    if reason is None:
        return None
    again = "" if until is None else f"; it is looked at again at {until:%H:%M} UTC"
    return f"EC2NodeClass {node_class.name} launches nothing: {reason}{again}"


def looked_at(node_class: NodeClass | None, now: datetime) -> datetime | None:
    """Return when a class that launches nothing is looked at again, where that is known."""
    until = None if node_class is None else node_class.status.launch_blocked_until
    return until if until is not None and until > now else None


def would_serve(
    pool: NodePool,
    snapshot: Snapshot,
    selection: Selection,
    fits: Callable[[InstanceType], bool],
) -> bool:
    """Whether the pool has a type for the work, and taints that it tolerates, if it could launch."""
    binding = binding_taints(pool.taints, pool.startup_taints, initialized=False)
    if next(untolerated(binding, selection.tolerations), None) is not None:
        return False
    if all(unmet_requirements(pool.requirements, term) for term in selection.terms):
        return False
    return any(
        pool.requirements.meets(it.requirements) and fits(it)
        for it in snapshot.instance_types
    )
