"""What a solve needs to know of existing and in-flight nodes: which take replicas, in which order, and what runs there.

Nodes that are alike for requirement sets are compared with them once (``_MET_ALIKE``).
"""

from collections.abc import Sequence, Set
from operator import sub
from typing import Final

from reservoir.core.launching.placed_terms import current_key
from reservoir.core.model.snapshot import Node
from reservoir.core.scheduling_terms.likeness import Likeness
from reservoir.core.scheduling_terms.taint import Taint, tolerates_all
from reservoir.core.solver.problem.catalogue import OptionCatalogue, RequirementSet, accepts
from reservoir.core.solver.problem.selection import Selection, required
from reservoir.core.solver.problem.topology import Terms, near_key
from reservoir.core.solver.problem.vectors import PODS_INDEX, mask_of

# The fields of a node that do not decide which requirement sets it meets. A memo key has the other fields, and beside
# them the labels that some requirement set asks for and the taints that count.
_MET_ALIKE: Final = Likeness(
    Node,
    {
        "claim_id": "it names the node",
        "node_pool_name": "its label and its taints say it",
        "node_class_name": "its label says it",
        "instance_type": "its label says it",
        "zone": "its label says it",
        "zone_id": "its label says it",
        "labels": "those that are asked for are in the memo key beside it",
        "allocatable": "free resources are computed for each node",
        "used": "free resources are computed for each node",
        "placements": "replicas on it are counted for each node",
        "taints": "those that count are in the memo key beside it",
        "reservation_id": "its label says it",
        "price_atto_usd_per_hour": "it is paid for already",
        "created_at": "no requirement is about the age of a node",
        "leaves_at": "is in the memo key if a block drains; elsewhere it would only make every node different",
        "initialized": "the taints that count say it",
        "deleting": "a deleting node takes no replicas and is not compared",
        "leaving": "withdrawn replicas that are still there count for their team alone",
    },
)


def fill_order(node: Node) -> tuple[bool, int, str]:
    """Return the sort key by which nodes are filled: initialised ones first (R-45), then the last to be consolidated.

    Replicas on a node that consolidation removes would have to move again. It removes those nodes last that save the
    least for each replica that must move: reserved nodes, then cheap or crowded ones.
    """
    replicas = sum([placed.count for placed in node.placements])
    return (
        not node.initialized,
        node.price_atto_usd_per_hour // (1 + replicas),
        node.claim_id,
    )


def _leaves_in_time(node: Node, selection: Selection) -> bool:
    """Whether the replicas on the node have the time that they need, if the node drains as early as this work asks for.

    A node of a Capacity Block drains as early as the longest notice on it asks for.
    """
    drain = node.block_drain
    if drain is None or node.leaves_at is None:
        return True
    drains_at = drain.for_notice(selection.notice_s).starts_at
    return drains_at == drain.starts_at or node.leaves_at <= drains_at


class NodeFacts:
    """What a solve needs to know of the nodes of its snapshot; ``ordered`` has them in the order of filling."""

    def __init__(self, catalogue: OptionCatalogue, terms: Terms) -> None:
        snapshot = catalogue.snapshot
        self._catalogue = catalogue
        self._terms = terms
        self.ordered: Sequence[Node] = sorted(snapshot.nodes, key=fill_order)
        asking = {demand.workload.key: demand.workload for demand in snapshot.demands}
        self._workloads = {**asking, **snapshot.workloads}
        asked: set[str] = set()
        for requirement_set in catalogue.requirement_sets:
            asked.update(requirement_set.requirements)
        self._asked = sorted(asked)
        self._masks: dict[object, int] = {}
        self._of_workloads: dict[str, tuple[int, int]] = {}

    def takes_replicas(self, node: Node) -> bool:
        """Whether replicas may be placed on the node at all: it is neither being deleted nor draining."""
        return not node.deleting and (
            node.drain_at is None or self._catalogue.now < node.drain_at
        )

    def free(self, node: Node) -> list[int]:
        """Return the free resources of the node. Its replicas count as pods even if ``used`` does not list them."""
        dimensions = self._catalogue.dimensions
        used = node.used.amounts(dimensions.names)
        used[PODS_INDEX] = max(
            used[PODS_INDEX], sum([placed.count for placed in node.placements])
        )
        return list(map(sub, dimensions.capacity(node.allocatable), used))

    def requirement_sets(self, node: Node) -> int:
        """Return the mask of the requirement sets that the node meets; it has a label or does not have it (R-13)."""
        labels = tuple(map(node.labels.get, self._asked))
        taints = self._catalogue.snapshot.binding_taints(node)
        memo_key = (labels, taints, _MET_ALIKE.key(node), node.drain_at and node.leaves_at)
        if (known := self._masks.get(memo_key)) is None:
            each = enumerate(self._catalogue.requirement_sets)
            met = mask_of(bit for bit, wanted in each if self._meets(node, taints, wanted))
            known, *_ = self._catalogue.in_time_together(met, node.block_drain) or [0]
            self._masks[memo_key] = known
        return known

    def _meets(
        self, node: Node, taints: tuple[Taint, ...], requirement_set: RequirementSet
    ) -> bool:
        selection = requirement_set.selection
        return (
            tolerates_all(taints, selection.tolerations) is None
            and node.capacity_type in selection.capacity_types
            and self._catalogue.is_in_time(node.block_drain, selection, selection.notice_s)
            and _leaves_in_time(node, selection)
            and accepts(node.labels, requirement_set.requirements.values())
        )

    def residents(self, node: Node) -> tuple[tuple[int, int, int], ...]:
        """Return (matching, anti mask, count) of replicas on the node that terms select or that carry anti-affinity."""
        if not self._terms.keys:
            return ()
        found = [
            (*self._of_workload(placed.workload_key), placed.count)
            for placed in node.placements
        ]
        return tuple([resident for resident in found if any(resident[:2])])

    def running_cost(self, keys: Set[str]) -> dict[str, int]:
        """Return the cost of the nodes with running replicas of these workloads, in atto-USD an hour by workload key.

        A node that several workloads share is charged to each in proportion to its replicas, rounded up.
        """
        costs: dict[str, int] = {}
        for node in self.ordered if keys else ():
            everyone = sum(placed.count for placed in node.placements)
            for placed in node.placements:
                key = current_key(placed.workload_key)
                if key in keys and not node.deleting:
                    share = -(-node.price_atto_usd_per_hour * placed.count // everyone)
                    costs[key] = costs.get(key, 0) + share
        return costs

    def _of_workload(self, key: str) -> tuple[int, int]:
        """Return the masks of the terms that select a running workload, and of its required anti-affinity terms."""
        workload, terms = self._workloads.get(key), self._terms
        if workload is None:
            return 0, 0
        if (known := self._of_workloads.get(key)) is None:
            anti = [near_key(term, workload) for term in required(workload.anti_affinity)]
            mask = mask_of(terms.keys[term] for term in anti if term in terms.keys)
            known = self._of_workloads[key] = (terms.matching(workload), mask)
        return known
