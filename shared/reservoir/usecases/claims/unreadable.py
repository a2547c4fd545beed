"""Going on beside rows that cannot be read.

A newer release wrote them, or they were damaged. The store has reported each, and an alarm rings. A use case that works
on many things at once reads them here, so that one such row does not stop the others. A row that is left out is
unknown, which is not the same as that it does not exist: each caller says what it does about it.
"""

from collections.abc import Collection, Mapping

from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.node_pool import NodePool
from reservoir.ports.launches import LaunchPolicy
from reservoir.ports.state import (
    NodeClaimStore,
    ReservationRecord,
    ReservationStore,
    UnreadableRowsError,
    WorkloadRecord,
    WorkloadStore,
)


def claims_by_instance(
    store: NodeClaimStore, instance_ids: Collection[str]
) -> tuple[Mapping[str, NodeClaim], frozenset[str]]:
    """Return claims by instance id, and the instances whose claims cannot be read."""
    if not instance_ids:
        return {}, frozenset()
    try:
        return store.find_by_instance(instance_ids), frozenset()
    except UnreadableRowsError:
        pass  # a row has no instance id that could be trusted: ask one by one
    found: dict[str, NodeClaim] = {}
    unreadable = set()
    for instance_id in sorted(set(instance_ids)):
        try:
            found |= store.find_by_instance([instance_id])
        except UnreadableRowsError:
            unreadable.add(instance_id)
    return found, frozenset(unreadable)


def claims_named(
    store: NodeClaimStore, claim_ids: Collection[str]
) -> Mapping[str, NodeClaim]:
    """Return claims by id, without the ones that cannot be read."""
    if not claim_ids:
        return {}
    try:
        return store.get_many(claim_ids)
    except UnreadableRowsError as error:
        return store.get_many(set(claim_ids) - set(error.rows))


def workloads(
    store: WorkloadStore, keys: Collection[str], revisions: Mapping[str, int] | None = None
) -> tuple[Mapping[str, WorkloadRecord], frozenset[str]]:
    """Return workloads by key, and the keys of the unreadable ones; with ``revisions`` as ``get_placed`` does."""

    def read(wanted: Collection[str]) -> Mapping[str, WorkloadRecord]:
        if revisions is None:
            return store.get_many(wanted)
        return store.get_placed(wanted, revisions)

    if not keys:
        return {}, frozenset()
    try:
        return read(keys), frozenset()
    except UnreadableRowsError as error:
        unreadable = frozenset(error.rows)
    return read(set(keys) - unreadable), unreadable


def reservation(store: ReservationStore, reservation_id: str) -> ReservationRecord | None:
    """Return a reservation; None when it does not exist or cannot be read."""
    try:
        return store.get(reservation_id)
    except UnreadableRowsError:
        return None


def node_pool(policy: LaunchPolicy, name: str) -> NodePool | None:
    """Return a pool; None when it does not exist or cannot be read."""
    try:
        return policy.node_pool(name)
    except UnreadableRowsError:
        return None


def node_class(policy: LaunchPolicy, name: str) -> NodeClass | None:
    """Return a class; None when it does not exist or cannot be read."""
    try:
        return policy.node_class(name)
    except UnreadableRowsError:
        return None
