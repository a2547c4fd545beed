"""What the checker knows of the final state: every node after the plan, and what is on it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Final

from shared.core import labels
from shared.core.checker_offers import Offers, in_words
from shared.core.node_pool import NodePool
from shared.core.plan import OfferingKey, PlannedNodes
from shared.core.requirements import Requirements
from shared.core.resources import PODS, Resources
from shared.core.snapshot import Node, PlacedReplicas
from shared.core.taint import Taint, binding_taints, tolerates_all
from shared.core.workload import Workload

_NOTHING: Final = Resources.of({})


@dataclass(slots=True, eq=False)
class Host:
    """``nodes`` equal nodes of the final state: one existing node, or one group of planned ones.

    ``running`` was there before the plan, ``placed`` is what the plan adds; both count replicas per node.
    ``description`` says what labels the nodes can have. Either ``planned`` or ``node`` is set.
    """

    subject: str
    nodes: int
    pool: NodePool | None
    allocatable: Resources
    used: Resources
    description: Requirements
    taints: tuple[Taint, ...]
    running: Mapping[str, int]
    placed: Mapping[str, int]
    planned: PlannedNodes | None = None
    node: Node | None = None
    labels: dict[str, str] = field(default_factory=dict)
    load: Resources = _NOTHING  # of what the plan adds, per node

    @property
    def undefined(self) -> frozenset[str]:
        """Keys that may be required although the host does not define them: none on a node that exists (R-13)."""
        return labels.WELL_KNOWN if self.node is None else frozenset()

    @property
    def drain_at(self) -> datetime | None:
        """When an existing node starts to drain."""
        return None if self.node is None else self.node.drain_at


def tallied(placements: Iterable[PlacedReplicas]) -> Counter[str]:
    """Count replicas by workload."""
    counts: Counter[str] = Counter()
    for placed in placements:
        counts[placed.workload_key] += placed.count
    return counts


class Facts(Offers):
    """Everything that the checks look up about one snapshot and one plan."""

    @cached_property
    def hosts(self) -> tuple[Host, ...]:
        """The final state: existing nodes that stay, then planned ones. What is wrong with a name is left out."""
        added: dict[str, Counter[str]] = {}
        for placement in self.plan.existing:
            added.setdefault(placement.claim_id, Counter()).update(tallied(placement.placements))
        existing = [
            self._existing_host(node, added.get(node.claim_id, Counter()))
            for node in self.snapshot.nodes
            if not node.deleting
        ]
        planned = [self._planned_host(index, launch) for index, launch in enumerate(self.plan.launches)]
        hosts = (*existing, *(host for host in planned if host is not None))
        for host in hosts:
            if all(key in self.workloads for key in host.placed):
                host.load = self.load(host.placed)
        return hosts

    def _existing_host(self, node: Node, added: Counter[str]) -> Host:
        pool = self.pools.get(node.node_pool_name)
        startup = () if pool is None else pool.startup_taints
        running = tallied(node.placements)
        pods = max(node.used[PODS], sum(running.values()))
        return Host(
            subject=f"node {node.claim_id}",
            nodes=1,
            pool=pool,
            allocatable=node.allocatable,
            used=Resources.of({**node.used, PODS: pods}),
            description=Requirements.from_labels(node.labels),
            taints=binding_taints(node.taints, startup, initialized=node.initialized),
            running=running,
            placed=added,
            node=node,
            labels=dict(node.labels),
        )

    def _planned_host(self, index: int, launch: PlannedNodes) -> Host | None:
        pool = self.pools.get(launch.node_pool_name)
        if pool is None or pool.node_class_name not in self.classes or not self._is_known(launch.offering):
            return None
        described = self.description(pool, launch.offering)
        if described is None:
            return None
        chosen = {key: value for key, value in launch.labels.items() if key in described}
        description = (
            described
            if chosen.items() <= described.labels().items()
            else described.merged(Requirements.from_labels(chosen))
        )
        return Host(
            subject=f"launch {index} ({in_words(launch.offering)})",
            nodes=launch.count,
            pool=pool,
            allocatable=self.types[launch.offering.instance_type].allocatable,
            used=_NOTHING,
            description=description,
            taints=binding_taints(pool.taints, pool.startup_taints, initialized=False),
            running={},
            placed=tallied(launch.placements),
            planned=launch,
            labels=description.labels(),
        )

    def _is_known(self, key: OfferingKey) -> bool:
        return key.instance_type in self.types and (
            key.reservation_id is None or key.reservation_id in self.reservations
        )

    def load_of(self, launch: PlannedNodes) -> Resources:
        """Sum what one node of the launch carries."""
        return self.load(tallied(launch.placements))

    def hosting_types(self, pool: NodePool, launch: PlannedNodes) -> set[str]:
        """Return the types with something to launch that could carry what the launch carries."""
        load, carried = self.load_of(launch), [self.workloads[item.workload_key] for item in launch.placements]
        return {
            key.instance_type
            for key in self.open_offerings(pool)
            if load.fits_in(self.types[key.instance_type].allocatable)
            and all(self.accepts(pool, key, workload) for workload in carried)
        }

    # -- one node

    def load(self, placed: Mapping[str, int]) -> Resources:
        """Sum what replicas take."""
        total: dict[str, int] = {}
        for key, count in placed.items():
            for name, amount in self.needs(self.workloads[key]).items():
                total[name] = total.get(name, 0) + amount * count
        return Resources.of(total)

    def together(self, description: Requirements, undefined: frozenset[str], keys: Iterable[str]) -> bool:
        """Whether one node can meet the requirements of all these workloads at once, with some term of each."""
        remaining = list(keys)
        if not remaining:
            return True
        rest = remaining[1:]
        return any(
            description.compatible(term, undefined) is None
            and (not rest or self.together(description.merged(term), undefined, rest))
            for term in self.terms(self.workloads[remaining[0]])
        )

    def meets(self, description: Requirements, undefined: frozenset[str], workload: Workload) -> bool:
        """Whether such a node meets the requirements of this workload alone."""
        return any(description.compatible(term, undefined) is None for term in self.terms(workload))

    def tolerates(self, taints: Iterable[Taint], workload: Workload) -> bool:
        """Whether the workload tolerates all taints; PreferNoSchedule is a preference and never a violation (R-47)."""
        hard = [taint for taint in taints if taint.effect != "PreferNoSchedule"]
        return tolerates_all(hard, workload.tolerations) is None
