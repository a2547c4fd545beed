"""One of Karpenter's scheduling loops: a queue of pods, put on nodes, on claims of this loop, or on new claims."""

from bisect import insort
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lab.bench.karpenter.index import Index
from lab.bench.karpenter.shapes import Shape
from lab.bench.karpenter.topology import Kind, Topology
from reservoir.core.model.node_pool import NodePool
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import NODES, Resources
from reservoir.core.scheduling_terms.taint import tolerates_all


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
    # the workloads of the pods that this loop put there
    came: list[str] = field(default_factory=list)


class _ReservedOfferingError(Exception):
    """A compatible reservation exists but could not be held (R-77, R-78): the pod waits, nothing is relaxed."""


class Loop:
    """One scheduling loop over a queue of pods."""

    def __init__(
        self,
        names: Iterator[str],
        index: Index,
        topology: Topology,
        nodes: Sequence[Claim],
        pools: Sequence[NodePool],
        limits: dict[str, dict[str, int]],
    ) -> None:
        self._names, self._index, self._topology = names, index, topology
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
            if any(amount > free[name] for name, amount in size) or not self._node_allows(
                node, shape
            ):
                node.refused.add(id(shape))
                continue
            requirements = self._bound(node.requirements, shape)
            if requirements is None:
                continue
            node.free = free - Resources.of(dict(size))
            node.came.append(shape.workload.key)
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
            if key in claim.refused or claim.deferred.get(key) == (
                self._holdings,
                claim.count,
            ):
                continue
            try:
                if self._add(claim, shape, dead=dead):
                    del self._claims[position]
                    insort(self._claims, claim, key=lambda item: item.count)
                    return True
            except _ReservedOfferingError:
                # another claim may take it
                claim.deferred[key] = (self._holdings, claim.count)
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
            if (
                not types
                or tolerates_all(pool.taints, shape.workload.tolerations) is not None
            ):
                continue
            name = next(self._names)
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
        return requirements, self._index.matching(requirements) & self._index.offered(
            requirements
        )

    def _within(self, types: int, limits: dict[str, int]) -> int:
        """Drop the types that exceed what remains of the pool's limits (R-57)."""
        left_of = {name: left for name, left in limits.items() if name != NODES}
        within = 0
        for index in self._index.members(types):
            capacity = self._index.types[index].capacity
            if all(capacity[name] <= left for name, left in left_of.items()):
                within |= 1 << index
        return within

    def _charge(self, limits: dict[str, int], claim: Claim) -> None:
        """Subtract the most that the claim may become (R-58)."""
        largest = self._index.largest(claim.types)
        for name in limits:
            limits[name] -= 1 if name == NODES else largest[name]

    def _add(
        self,
        claim: Claim,
        shape: Shape,
        template: Requirements | None = None,
        dead: set[int] | None = None,
    ) -> bool:
        """Add one pod to a claim if requirements, topology, types and reservations allow it (R-49).

        ``dead`` collects the requirements to which topology had nothing to offer: the same goes for every claim that
        has them.
        """
        is_new = template is not None
        if (
            not is_new
            and tolerates_all(claim.pool.taints, shape.workload.tolerations) is not None
        ):
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
            types = (
                claim.types
                & self._index.matching(requirements)
                & self._index.holding(load.items())
            )
        if requirements is None or not types or not self._host_allows(claim, shape):
            # requirements only narrow, the load and the counts of a host only grow
            claim.refused.add(id(shape))
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
        claim.came.append(shape.workload.key)
        self._hold(claim, held)
        self._record(shape, bound, claim.name)
        self._version += 1
        return True

    def _known(self, claim: Claim) -> Requirements:
        """Return the claim's requirements without its host name, which would make every claim a memo of its own."""
        if labels.HOSTNAME in claim.requirements:
            claim.requirements = self._index.interned(
                claim.requirements.without({labels.HOSTNAME})
            )
        return claim.requirements

    # -- reservations

    def _reservable(
        self, claim: Claim, requirements: Requirements, types: int
    ) -> frozenset[str]:
        """Return every compatible reservation that this host can hold, or defer (R-75, R-77, R-78)."""
        compatible = [
            offering.reservation_id
            for offering in self._index.reserved(requirements)
            if types >> offering.type_index & 1 and offering.reservation_id is not None
        ]
        held = frozenset(
            item for item in compatible if item in claim.held or self._remaining[item] > 0
        )
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

    def _bound(
        self, requirements: Requirements, shape: Shape, hostname: str | None = None
    ) -> Requirements | None:
        """Narrow the requirements to the domains that every topology group allows, or None."""
        for group in (*shape.groups, *shape.against):
            key = group.key.topology_key
            offered = requirements[key]
            if key == labels.HOSTNAME and hostname is not None:
                offered = Requirement.new(key, Operator.IN, (hostname,))
            if (
                key == labels.HOSTNAME
                and hostname is not None
                and group.key.kind is not Kind.AFFINITY
            ):
                continue  # asked before, by _host_allows
            found = self._topology.domains(
                group, shape.workload, shape.strict[key], offered
            )
            if found is None:
                return None
            if key != labels.HOSTNAME:
                requirements = self._index.interned(requirements.add(found))
        return requirements

    def _host_allows(self, claim: Claim, shape: Shape) -> bool:
        """Whether the rules by host name let the pod join the claim."""
        offered = Requirement(
            labels.HOSTNAME, complement=False, values=frozenset({claim.name})
        )
        return all(
            group.next_domains(shape.workload, shape.strict[labels.HOSTNAME], offered, ())
            for group in (*shape.groups, *shape.against)
            if group.key.topology_key == labels.HOSTNAME
            and group.key.kind is not Kind.AFFINITY
        )

    def _record(
        self, shape: Shape, requirements: Requirements, hostname: str | None = None
    ) -> None:
        for group in (*shape.counting, *shape.own_inverse):
            key = group.key.topology_key
            if key == labels.HOSTNAME and hostname is not None:
                group.counts[hostname] += 1
            else:
                group.record(requirements[key])
