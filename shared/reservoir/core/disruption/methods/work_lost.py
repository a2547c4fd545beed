"""What ends with a node that is reclaimed, and which nodes have to end with it."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from reservoir.core.disruption.candidate import Candidate, steady_since
from reservoir.core.launching.placed_terms import current_key
from reservoir.core.model.snapshot import PlacedReplicas, Snapshot
from reservoir.core.model.workload import Workload

_NOTHING: Final = -(2**31) - 1  # below every priority


class WorkLost:
    """Answers for the nodes of one snapshot."""

    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        self._workloads = snapshot.workloads
        self._now = now
        self._hosts: dict[str, set[str]] = {}  # the nodes of each gang, candidates or not
        for node in snapshot.nodes:
            for gang in self._gangs(node.placements):
                self._hosts.setdefault(gang, set()).add(node.claim_id)

    def has_gang(self, candidate: Candidate) -> bool:
        """Whether a gang is on the node; gangs are drained as a whole."""
        return bool(self._gangs(candidate.node.placements))

    def together(self, candidate: Candidate) -> frozenset[str]:
        """Return the claims that end together: the node's, and those of its gangs."""
        gangs = self._gangs(candidate.node.placements)
        return frozenset({candidate.id}.union(*(self._hosts[gang] for gang in gangs)))

    def priority(self, candidate: Candidate) -> int:
        """Return the highest priority of the work on the node."""
        return max(
            (workload.priority for workload, _ in self._carried(candidate)),
            default=_NOTHING,
        )

    def lost(self, nodes: Iterable[Candidate]) -> tuple[int, int]:
        """Return seconds of work since the last checkpoint times replicas, and replicas."""
        lost = replicas = 0
        for node in nodes:
            running_s = int((self._now - steady_since(node.claim)).total_seconds())
            for workload, count in self._carried(node):
                since_s = (
                    running_s % workload.checkpoint_period_s
                    if workload.checkpoint_period_s
                    else running_s
                )
                lost += max(0, since_s) * count
                replicas += count
        return lost, replicas

    def _carried(self, node: Candidate) -> list[tuple[Workload, int]]:
        placements = node.node.placements
        return [
            (self._workloads[it.workload_key], it.count)
            for it in placements
            if it.workload_key in self._workloads
        ]

    def _gangs(self, placements: Iterable[PlacedReplicas]) -> frozenset[str]:
        known = (
            (placed.workload_key, self._workloads.get(placed.workload_key))
            for placed in placements
        )
        return frozenset(
            current_key(key)
            for key, workload in known
            if workload is not None and workload.gang is not None
        )
