"""Claims as the nodes of a snapshot, each described once while it stays as it is."""

from collections.abc import Mapping, Set
from dataclasses import replace
from datetime import datetime
from operator import is_

from reservoir.core.launching.claim_nodes import is_held, node_of
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.snapshot import Node
from reservoir.core.model.workload import Workload

# What a node is described from: its claim, the workloads on it, and whether it is held.
_About = tuple[NodeClaim, tuple[Workload | None, ...], bool]


class DescribedNodes:
    """The nodes of the last snapshot.

    Claims and workloads are frozen, and stores give the same value again for a row that has not changed. So a node is
    as it was if everything that it was made of is the very same; equal values that are not are described again.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[_About, Node]] = {}

    def nodes(
        self,
        claims: Mapping[str, NodeClaim],
        workloads: Mapping[str, Workload],
        pool_names: Set[str],
        now: datetime,
    ) -> tuple[Node, ...]:
        """Return the claims as nodes, by id; one that is cordoned, or whose pool was deleted, takes no new replicas."""
        described: dict[str, tuple[_About, Node]] = {}
        nodes = []
        for key in sorted(claims):
            claim = claims[key]
            held = is_held(claim, claims)
            placed = tuple([workloads.get(it.workload_key) for it in claim.placements])
            known = self._known.get(key)
            if known is None or not _same(known[0], claim, placed, held=held):
                known = (claim, placed, held), node_of(claim, workloads, held=held)
            described[key] = known
            node = known[1]
            if claim.cordoned:
                # A draining node takes nothing new and goes on counting for topology and limits, as it should.
                node = replace(node, drain_at=now)
            nodes.append(
                node if claim.node_pool_name in pool_names else replace(node, deleting=True)
            )
        self._known = described
        return tuple(nodes)


def _same(
    about: _About, claim: NodeClaim, placed: tuple[Workload | None, ...], *, held: bool
) -> bool:
    before, workloads, was_held = about
    return before is claim and was_held is held and all(map(is_, workloads, placed))
