"""Karpenter's scheduling loop, ported as the peer of the benches: same snapshot in, cost and nodes out.

Faithful to what Karpenter does (queue order, in-flight claims by pod count, requirement intersection, type filter,
pessimistic holding of reservations, strict mode that defers to the next loop, launch of the cheapest offering), not to
how: types are bit sets and equal pods share their memos. Ties that Go leaves to chance go by order of creation. Not
ported: consolidation after the launch, volumes, ports, daemons, minValues.
"""

import time
from bisect import insort
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from bench.karpenter_index import Index, PortOffering
from bench.karpenter_topology import Group, GroupKey, Kind, Topology
from shared.core import labels
from shared.core.instance_type import CapacityType
from shared.core.node_pool import NodePool
from shared.core.requirement import Operator, Requirement
from shared.core.requirements import Requirements
from shared.core.resources import NODES, PODS, Resources
from shared.core.snapshot import Snapshot
from shared.core.taint import tolerates_all
from shared.core.workload import AffinityTerm, WhenUnsatisfiable, Workload

_MOST_LOOPS = 10_000


@dataclass(slots=True, eq=False)
class Shape:
    """A workload in one state of relaxation; equal replicas share it."""

    workload: Workload
    size: tuple[tuple[str, int], ...]
    strict: Requirements
    requirements: Requirements
    groups: tuple[Group, ...]
    own_inverse: tuple[Group, ...]
    counting: tuple[Group, ...] = ()
    against: tuple[Group, ...] = ()
    relaxed: "Shape | None" = None

    @property
    def is_bound(self) -> bool:
        """Whether where it may go depends on where others are."""
        return bool(self.groups or self.against)


@dataclass(slots=True, eq=False)
class Claim:
    """A node: being built in this loop, or launched (then with exact labels and one type)."""

    name: str
    pool: NodePool
    requirements: Requirements
    types: int
    load: dict[str, int] = field(default_factory=dict)
    count: int = 0
    held: frozenset[str] = frozenset()
    refused: set[int] = field(default_factory=set)
    deferred: dict[int, tuple[int, int]] = field(default_factory=dict)
    free: Resources | None = None  # of an existing node


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the port decided; prices without per-node overhead."""

    nodes: int
    price_atto_usd: int
    bought_atto_usd: int  # without what runs in reservations
    loops: int
    unplaced: int
    reserved_units: int
    over_commitments: int
    by_market: tuple[tuple[str, int], ...]
    seconds: float


class _ReservedOfferingError(Exception):
    """A compatible reservation exists but could not be held (R-77, R-78): the pod waits, nothing is relaxed."""


class Port:
    """One cluster over as many loops as it takes."""

    def __init__(self, snapshot: Snapshot, now: datetime, pools: Sequence[NodePool] | None = None) -> None:
        self._snapshot = snapshot
        self._index = Index(snapshot, now)
        # Weight first, then the name backwards.
        named = sorted(pools if pools is not None else snapshot.node_pools, key=lambda pool: pool.name, reverse=True)
        self._pools = sorted(named, key=lambda pool: -pool.weight)
        self._limits = {pool.name: dict(pool.limits) for pool in self._pools if pool.limits is not None}
        self._nodes: list[Claim] = []
        self._launched: list[PortOffering] = []
        self._over_commitments = 0
        self._names = 0
        self._add_existing()
        universes = {
            labels.ZONE: {offering.zone for offering in self._index.offerings},
            labels.CAPACITY_TYPE: {str(offering.capacity_type) for offering in self._index.offerings},
        }
        self._topology = Topology(universes)
        self._shapes = self._all_shapes()

    def run(self) -> Outcome:
        """Run loops until nothing is pending or a loop places nothing."""
        started = time.perf_counter()
        queue = [shape for shape, count in self._shapes for _ in range(count)]
        # CPU, then memory, descending; then creation order.
        queue.sort(key=lambda shape: (-dict(shape.size)["cpu"], -dict(shape.size).get("memory", 0)))
        loops = 0
        while queue and loops < _MOST_LOOPS:
            loops += 1
            loop = _Loop(self, self._index, self._topology, self._nodes, self._pools, self._limits)
            left = loop.run(queue)
            self._launch(loop.claims)
            if len(left) == len(queue):
                break
            queue = left
        markets = Counter(str(offering.capacity_type) for offering in self._launched)
        return Outcome(
            nodes=len(self._launched),
            price_atto_usd=sum(offering.price_atto_usd for offering in self._launched),
            bought_atto_usd=sum(item.price_atto_usd for item in self._launched if item.reservation_id is None),
            loops=loops,
            unplaced=len(queue),
            reserved_units=markets[str(CapacityType.RESERVED)],
            over_commitments=self._over_commitments,
            by_market=tuple(sorted(markets.items())),
            seconds=time.perf_counter() - started,
        )

    def new_name(self) -> str:
        """Return a host name for a claim."""
        self._names += 1
        return f"node-{self._names:06d}"

    # -- what there is

    def _add_existing(self) -> None:
        pools = {pool.name: pool for pool in self._pools}
        # Initialised nodes first, then by name.
        for node in sorted(self._snapshot.nodes, key=lambda node: (not node.initialized, node.claim_id)):
            pool = pools.get(node.node_pool_name, self._pools[0])
            described = {**node.labels, labels.HOSTNAME: node.claim_id}
            requirements = self._index.interned(Requirements.from_labels(described))
            self._nodes.append(Claim(node.claim_id, pool, requirements, 0, free=node.allocatable - node.used))

    def _all_shapes(self) -> list[tuple[Shape, int]]:
        found = [(self._shape(demand.workload), demand.pending_count) for demand in self._snapshot.demands]
        for shape, _ in found:
            current: Shape | None = shape
            while current is not None:
                current.counting = self._topology.counting(shape.workload)
                current.against = self._topology.against(shape.workload)
                current = current.relaxed
        return found

    def _shape(self, workload: Workload) -> Shape:
        terms = workload.required_node_terms
        strict = workload.node_selector.merged(terms[0]) if terms else workload.node_selector
        preferred = sorted(workload.preferred_node_terms, key=lambda term: -term.weight)
        wanted = strict.merged(preferred[0].requirements) if preferred else strict
        size = {**workload.requests, PODS: max(1, workload.requests[PODS])}
        keys = tuple(_group_keys(workload))
        inverse = tuple(
            replace(key, is_inverse=True)
            for key in _group_keys(workload, only_required=True)
            if key.kind is Kind.ANTI_AFFINITY
        )
        shape = Shape(
            workload,
            tuple(sorted(size.items())),
            self._index.interned(strict),
            self._index.interned(wanted),
            self._topology.groups(keys),
            self._topology.groups(inverse),
        )
        weaker = _relaxed(workload)
        shape.relaxed = None if weaker is None else self._shape(weaker)
        return shape

    # -- launching

    def _launch(self, claims: Sequence[Claim]) -> None:
        """Launch each claim as the cheapest offering that it still allows; it is an existing node from now on."""
        for claim in claims:
            # A held reservation and nothing else, when there is one.
            offering = (
                self._index.cheapest_held(claim.held, claim.types)
                if claim.held
                else self._index.cheapest(self._index.interned(claim.requirements), claim.types)
            )
            if offering.reservation_id is not None:
                self._index.counts[offering.reservation_id] -= 1
                self._over_commitments += self._index.counts[offering.reservation_id] < 0
            self._launched.append(offering)
            instance_type = self._index.types[offering.type_index]
            described = claim.requirements.merged(instance_type.requirements).merged(offering.requirements)
            self._nodes.append(
                Claim(
                    claim.name,
                    claim.pool,
                    self._index.interned(described),
                    0,
                    count=claim.count,
                    free=instance_type.allocatable - Resources.of(claim.load),
                )
            )
        self._index.new_loop()


class _Loop:
    """One scheduling loop over a queue of pods."""

    def __init__(
        self,
        port: Port,
        index: Index,
        topology: Topology,
        nodes: Sequence[Claim],
        pools: Sequence[NodePool],
        limits: dict[str, dict[str, int]],
    ) -> None:
        self._port, self._index, self._topology = port, index, topology
        self._nodes, self._pools, self._limits = nodes, pools, limits
        self._remaining = dict(index.counts)  # the reservation manager
        self._claims: list[Claim] = []  # by pod count
        self._version = 0
        self._holdings = 0  # changes whenever a reservation is held or released
        self._templates = {pool.name: self._template(pool) for pool in pools}
        self._after: dict[int, int] = {}

    @property
    def claims(self) -> list[Claim]:
        """The claims made, in the order of their names."""
        return sorted(self._claims, key=lambda claim: claim.name)

    def run(self, queue: Sequence[Shape]) -> list[Shape]:
        """Place what can be placed; return the rest in queue order. Ends when a whole cycle places nothing (R-42)."""
        waiting = deque(enumerate(queue))
        pushed: dict[int, int] = {}
        failed: dict[int, int] = {}
        while waiting:
            uid, shape = waiting.popleft()
            if pushed.get(uid) == len(waiting) + 1:
                waiting.appendleft((uid, shape))
                break
            if failed.get(id(shape)) == self._version or not self._place(shape):
                failed[id(shape)] = self._version
                waiting.append((uid, shape))
                pushed[uid] = len(waiting)
        return [shape for _, shape in sorted(waiting, key=lambda item: item[0])]

    def _place(self, shape: Shape) -> bool:
        """Place one pod, relaxing it step by step (R-44, R-47)."""
        current: Shape | None = shape
        while current is not None:
            if self._on_node(current) or self._on_claim(current):
                return True
            try:
                if self._on_new_claim(current):
                    return True
            except _ReservedOfferingError:
                return False  # waits, unrelaxed
            current = current.relaxed
        return False

    # -- existing nodes

    def _on_node(self, shape: Shape) -> bool:
        size = shape.size
        start = 0 if shape.is_bound else self._after.get(id(shape), 0)
        for position in range(start, len(self._nodes)):
            node = self._nodes[position]
            if id(shape) in node.refused:
                continue
            free = node.free
            assert free is not None
            if any(amount > free[name] for name, amount in size) or not self._node_allows(node, shape):
                node.refused.add(id(shape))
                continue
            requirements = self._bound(node.requirements, shape)
            if requirements is None:
                continue
            node.free = free - Resources.of(dict(size))
            self._record(shape, requirements)
            self._after[id(shape)] = position
            return True
        if not shape.is_bound:
            self._after[id(shape)] = len(self._nodes)
        return False

    def _node_allows(self, node: Claim, shape: Shape) -> bool:
        is_tolerated = tolerates_all(node.pool.taints, shape.workload.tolerations) is None
        return is_tolerated and node.requirements.compatible(shape.requirements) is None

    # -- claims

    def _on_claim(self, shape: Shape) -> bool:
        """Try the claims of this loop, fewest pods first (R-46)."""
        dead: set[int] = set()
        key = id(shape)
        for position, claim in enumerate(self._claims):
            if key in claim.refused or claim.deferred.get(key) == (self._holdings, claim.count):
                continue
            try:
                if self._add(claim, shape, dead=dead):
                    del self._claims[position]
                    insort(self._claims, claim, key=lambda item: item.count)
                    return True
            except _ReservedOfferingError:
                claim.deferred[key] = (self._holdings, claim.count)  # another claim may take it
        return False

    def _on_new_claim(self, shape: Shape) -> bool:
        """Try each pool by weight; a reserved-offering error ends the attempt for all of them (R-50)."""
        for pool in self._pools:
            requirements, types = self._templates[pool.name]
            limits = self._limits.get(pool.name)
            if limits is not None:
                if limits.get(NODES, 1) < 1:
                    continue
                types = self._within(types, limits)
            if not types or tolerates_all(pool.taints, shape.workload.tolerations) is not None:
                continue
            name = self._port.new_name()
            hostname = Requirement.new(labels.HOSTNAME, Operator.IN, (name,))
            claim = Claim(name, pool, requirements.add(hostname), types)
            if self._add(claim, shape, template=requirements):
                insort(self._claims, claim, key=lambda item: item.count)
                if limits is not None:
                    self._charge(limits, claim)
                return True
        return False

    def _template(self, pool: NodePool) -> tuple[Requirements, int]:
        requirements = self._index.interned(pool.requirements)
        return requirements, self._index.matching(requirements) & self._index.offered(requirements)

    def _within(self, types: int, limits: dict[str, int]) -> int:
        """Drop the types that exceed what remains of the pool's limits (R-57)."""
        return sum(
            1 << index
            for index in self._index.members(types)
            if all(self._index.types[index].capacity[name] <= left for name, left in limits.items() if name != NODES)
        )

    def _charge(self, limits: dict[str, int], claim: Claim) -> None:
        """Subtract the most that the claim may become (R-58)."""
        largest = self._index.largest(claim.types)
        for name in limits:
            limits[name] -= 1 if name == NODES else largest[name]

    def _add(
        self, claim: Claim, shape: Shape, template: Requirements | None = None, dead: set[int] | None = None
    ) -> bool:
        """Add one pod to a claim if requirements, topology, types and reservations allow it (R-49).

        ``dead`` collects the requirements to which topology had nothing to offer: the same goes for every claim that
        has them.
        """
        is_new = template is not None
        if not is_new and tolerates_all(claim.pool.taints, shape.workload.tolerations) is not None:
            claim.refused.add(id(shape))
            return False
        requirements = self._index.merged(self._known(claim), shape.requirements)
        if dead and requirements is not None and id(requirements) in dead:
            return False
        load = dict(claim.load)
        for name, amount in shape.size:
            load[name] = load.get(name, 0) + amount
        types = 0
        if requirements is not None:
            types = claim.types & self._index.matching(requirements) & self._index.holding(load.items())
        if requirements is None or not types or not self._host_allows(claim, shape):
            claim.refused.add(id(shape))  # requirements only narrow, the load and the counts of a host only grow
            return False
        bound = self._bound(requirements, shape, claim.name)
        if bound is None:
            if dead is not None:
                dead.add(id(requirements))
            return False
        types &= self._index.offered(bound)
        if not types:
            return False
        held = self._reservable(claim, bound, types)
        claim.requirements, claim.types, claim.load = bound, types, load
        claim.count += 1
        self._hold(claim, held)
        self._record(shape, bound, claim.name)
        self._version += 1
        return True

    def _known(self, claim: Claim) -> Requirements:
        """Return the claim's requirements without its host name, which would make every claim a memo of its own."""
        if labels.HOSTNAME in claim.requirements:
            claim.requirements = self._index.interned(claim.requirements.without({labels.HOSTNAME}))
        return claim.requirements

    # -- reservations

    def _reservable(self, claim: Claim, requirements: Requirements, types: int) -> frozenset[str]:
        """Return every compatible reservation that this host can hold, or defer (R-75, R-77, R-78)."""
        compatible = [
            offering.reservation_id
            for offering in self._index.reserved(requirements)
            if types >> offering.type_index & 1 and offering.reservation_id is not None
        ]
        held = frozenset(item for item in compatible if item in claim.held or self._remaining[item] > 0)
        if not held and (compatible or claim.held):
            raise _ReservedOfferingError
        return held

    def _hold(self, claim: Claim, held: frozenset[str]) -> None:
        """Hold the new set, then release what is no longer in it (R-82)."""
        self._holdings += held != claim.held
        for item in held - claim.held:
            self._remaining[item] -= 1
        for item in claim.held - held:
            self._remaining[item] += 1
        claim.held = held

    # -- topology

    def _bound(self, requirements: Requirements, shape: Shape, hostname: str | None = None) -> Requirements | None:
        """Narrow the requirements to the domains that every topology group allows, or None."""
        for group in (*shape.groups, *shape.against):
            key = group.key.topology_key
            offered = requirements[key]
            if key == labels.HOSTNAME and hostname is not None:
                offered = Requirement.new(key, Operator.IN, (hostname,))
            if key == labels.HOSTNAME and hostname is not None and group.key.kind is not Kind.AFFINITY:
                continue  # asked before, by _host_allows
            found = self._topology.domains(group, shape.workload, shape.strict[key], offered)
            if found is None:
                return None
            if key != labels.HOSTNAME:
                requirements = self._index.interned(requirements.add(found))
        return requirements

    def _host_allows(self, claim: Claim, shape: Shape) -> bool:
        """Whether the rules by host name let the pod join the claim."""
        offered = Requirement(labels.HOSTNAME, complement=False, values=frozenset({claim.name}))
        return all(
            group.next_domains(shape.workload, shape.strict[labels.HOSTNAME], offered, ())
            for group in (*shape.groups, *shape.against)
            if group.key.topology_key == labels.HOSTNAME and group.key.kind is not Kind.AFFINITY
        )

    def _record(self, shape: Shape, requirements: Requirements, hostname: str | None = None) -> None:
        for group in (*shape.counting, *shape.own_inverse):
            key = group.key.topology_key
            if key == labels.HOSTNAME and hostname is not None:
                group.counts[hostname] += 1
            else:
                group.record(requirements[key])


def _group_keys(workload: Workload, *, only_required: bool = False) -> Iterator[GroupKey]:
    """Yield the groups of a workload; preferred terms count as long as they are not relaxed."""
    for constraint in workload.topology_spread:
        yield GroupKey(
            Kind.SPREAD,
            constraint.topology_key,
            workload.namespace,
            constraint.selector,
            constraint.max_skew,
            constraint.min_domains,
        )
    for kind, terms in ((Kind.AFFINITY, workload.affinity), (Kind.ANTI_AFFINITY, workload.anti_affinity)):
        for term in terms:
            if term.weight is None or not only_required:
                yield GroupKey(kind, term.topology_key, workload.namespace, term.selector)


def _without_heaviest(terms: tuple[AffinityTerm, ...]) -> tuple[AffinityTerm, ...] | None:
    preferred = [term for term in terms if term.weight is not None]
    if not preferred:
        return None
    heaviest = max(preferred, key=lambda term: term.weight or 0)
    return tuple(term for term in terms if term is not heaviest)


def _relaxed(workload: Workload) -> Workload | None:
    """Return the workload with its next preference given up (R-47), or None when none is left."""
    if len(workload.required_node_terms) > 1:
        return replace(workload, required_node_terms=workload.required_node_terms[1:])
    affinity = _without_heaviest(workload.affinity)
    if affinity is not None:
        return replace(workload, affinity=affinity)
    anti_affinity = _without_heaviest(workload.anti_affinity)
    if anti_affinity is not None:
        return replace(workload, anti_affinity=anti_affinity)
    if workload.preferred_node_terms:
        heaviest = max(workload.preferred_node_terms, key=lambda term: term.weight)
        kept = tuple(term for term in workload.preferred_node_terms if term is not heaviest)
        return replace(workload, preferred_node_terms=kept)
    soft = [item for item in workload.topology_spread if item.when_unsatisfiable is WhenUnsatisfiable.SCHEDULE_ANYWAY]
    if soft:
        return replace(
            workload, topology_spread=tuple(item for item in workload.topology_spread if item is not soft[0])
        )
    return None


def provision(snapshot: Snapshot, now: datetime, pools: Sequence[NodePool] | None = None) -> Outcome:
    """Run the port on a snapshot, with its own pools or with others."""
    return Port(snapshot, now, pools).run()
