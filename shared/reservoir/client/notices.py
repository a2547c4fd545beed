"""Notices of drains: the part for our workloads, those in a status, and which were handled."""

from collections import OrderedDict
from collections.abc import Collection, Iterator
from typing import Final

from reservoir.manifests.described import WorkloadDescribed
from reservoir.manifests.event_parts import NodeDetail, PlacedWorkload
from reservoir.manifests.events import NodeDraining

_REMEMBERED: Final = 20_000


def key_of(workload: PlacedWorkload) -> str:
    """Return ``namespace/name``."""
    return f"{workload.namespace}/{workload.name}"


def ours(notice: NodeDraining, whose: Collection[str]) -> NodeDraining:
    """Leave in a notice the workloads of ``whose``, which holds namespaces and ``namespace/name``.

    A node may be shared: what others run there is theirs to release.
    """
    mine = [it for it in notice.workloads if it.namespace in whose or key_of(it) in whose]
    return notice.model_copy(update={"workloads": mine})


def drains_of(known: WorkloadDescribed) -> Iterator[NodeDraining]:
    """Yield the notices in a status, for a client that may have missed them."""
    for node in known.nodes:
        drain = node.drain
        if drain is None or not drain.awaiting:
            continue
        awaiting = PlacedWorkload(
            namespace=known.workload.namespace,
            name=known.workload.name,
            replicas=drain.awaiting,
        )
        yield NodeDraining(
            drain_id=drain.drain_id,
            node=NodeDetail(
                **{name: getattr(node, name) for name in NodeDetail.model_fields}
            ),
            reason=drain.reason,
            notified_at=drain.notified_at,
            deadline=drain.deadline,
            workloads=[awaiting],
        )


class Handled:
    """Which workloads of which drains were handled; the oldest are forgotten."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()

    def news(self, notice: NodeDraining) -> NodeDraining:
        """Return the part of a notice that was not handled: a repeated one may name more workloads than before."""
        unknown = [
            it
            for it in notice.workloads
            if (notice.drain_id, key_of(it)) not in self._known
        ]
        return notice.model_copy(update={"workloads": unknown})

    def add(self, notice: NodeDraining) -> None:
        """Remember that a notice was handled."""
        for workload in notice.workloads:
            self._known[notice.drain_id, key_of(workload)] = None
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
