"""Existing and in-flight nodes: which take replicas, in which order, and who runs on them already."""

from collections.abc import Sequence, Set
from datetime import timedelta
from operator import sub

from shared.core.model.snapshot import Node, Snapshot
from shared.core.model.workload import Workload
from shared.core.scheduling_terms.taint import Taint, binding_taints, tolerates_all
from shared.core.solver.problem.catalogue import OptionCatalogue, RequirementSet, accepts
from shared.core.solver.problem.groups import Demands, running_level
from shared.core.solver.problem.topology import near_key
from shared.core.solver.problem.vectors import PODS_INDEX, Vector


def fill_order(node: Node) -> tuple[bool, int, str]:
    """Sort nodes as they are filled: initialised ones first (R-45), then those that consolidation would remove last.

    That is what saves least for each replica that must move: reserved nodes, then cheap or crowded ones. Replicas that
    are put on a node about to be removed would have to move again.
    """
    replicas = sum([placed.count for placed in node.placements])
    return (not node.initialized, node.price_atto_usd_per_hour // (1 + replicas), node.claim_id)


class NodeFacts:
    """What a solve must know of the nodes of its snapshot."""

    def __init__(self, catalogue: OptionCatalogue, demands: Demands) -> None:
        snapshot: Snapshot = catalogue.snapshot
        self._catalogue = catalogue
        self._demands = demands
        self._nodes = snapshot.nodes
        self._startup = {pool.name: pool.startup_taints for pool in snapshot.node_pools}
        self._workloads: dict[str, Workload] = {
            **{demand.workload.key: demand.workload for demand in snapshot.demands},
            **snapshot.workloads,
        }
        self._masks: dict[object, int] = {}
        self._asked = sorted(
            {key for requirement_set in demands.requirement_sets for key in requirement_set.requirements}
        )
        self._resident: dict[str, tuple[int, int]] = {}
        self._free: dict[str, tuple[Node, Vector]] = {}
        self._ordered: Sequence[Node] = ()

    def ordered(self) -> Sequence[Node]:
        """Return the nodes in the order in which they are filled."""
        if not self._ordered:
            self._ordered = sorted(self._nodes, key=fill_order)
        return self._ordered

    def takes_replicas(self, node: Node) -> bool:
        """Whether the node is a destination at all: not deleting, not draining."""
        return not node.deleting and (node.drain_at is None or self._catalogue.now < node.drain_at)

    def free(self, node: Node) -> list[int]:
        """Return what is left on the node. Its pods count even where ``used`` does not list them."""
        known = self._free.get(node.claim_id)  # of this very node: a pass of disruption changes some of them
        if known is None or known[0] is not node:
            dimensions = self._demands.dimensions
            capacity = dimensions.capacity(node.allocatable)
            used = node.used.amounts(dimensions.names)
            used[PODS_INDEX] = max(used[PODS_INDEX], sum([placed.count for placed in node.placements]))
            known = self._free[node.claim_id] = (node, tuple(map(sub, capacity, used)))
        return list(known[1])

    def taints(self, node: Node) -> tuple[Taint, ...]:
        """Return the taints that count on the node."""
        if not node.taints:
            return ()
        startup = self._startup.get(node.node_pool_name, ())
        return binding_taints(node.taints, startup, initialized=node.initialized)

    def requirement_sets(self, node: Node, taints: tuple[Taint, ...]) -> int:
        """Return the requirement sets that the node meets, in the strict form: it has a label or has it not (R-13)."""
        labels = tuple(map(node.labels.get, self._asked))
        memo_key = (labels, taints, node.capacity_type, node.drain_at)
        known = self._masks.get(memo_key)
        if known is None:
            known = 0
            for bit, requirement_set in enumerate(self._demands.requirement_sets):
                if tolerates_all(taints, requirement_set.selection.tolerations) is None and self._meets(
                    node, requirement_set
                ):
                    known |= 1 << bit
            self._masks[memo_key] = known
        return known

    def _meets(self, node: Node, requirement_set: RequirementSet) -> bool:
        selection = requirement_set.selection
        drain_at = None if node.drain_at is None else node.drain_at - timedelta(seconds=selection.notice_s)
        return (
            node.capacity_type in selection.capacity_types
            and self._catalogue.is_in_time(drain_at, selection)
            and accepts(node.labels, requirement_set.requirements.values())
        )

    def residents(self, node: Node) -> tuple[tuple[int, int, int], ...]:
        """Return (matching, anti mask, count) of what runs on the node, as far as any term cares."""
        if not self._demands.terms.keys:
            return ()
        found = []
        for placed in node.placements:
            matching, anti_mask = self._of_workload(placed.workload_key)
            if matching or anti_mask:
                found.append((matching, anti_mask, placed.count))
        return tuple(found)

    def running_cost(self, keys: Set[str]) -> dict[str, int]:
        """Return what the nodes under running replicas of these workloads cost an hour, in atto-USD.

        A node that several workloads share is charged to each in proportion to replicas, rounded up.
        """
        costs: dict[str, int] = {}
        for node in self._nodes if keys else ():
            everyone = sum(placed.count for placed in node.placements)
            for placed in node.placements:
                if placed.workload_key in keys and not node.deleting:
                    share = -(-node.price_atto_usd_per_hour * placed.count // everyone)
                    costs[placed.workload_key] = costs.get(placed.workload_key, 0) + share
        return costs

    def _of_workload(self, key: str) -> tuple[int, int]:
        known = self._resident.get(key)
        if known is None:
            workload = self._workloads.get(key)
            if workload is None:
                known = (0, 0)
            else:
                terms = self._demands.terms
                anti_mask = 0
                for term in running_level(workload).anti_affinity:
                    number = terms.keys.get(near_key(term, workload))
                    if number is not None:
                        anti_mask |= 1 << number
                known = (terms.matching(workload), anti_mask)
            self._resident[key] = known
        return known
