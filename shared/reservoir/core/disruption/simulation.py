"""The edited snapshot: the world without some nodes, their replicas as demand; and the world after a command."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, product
from typing import Final

from reservoir.core.disruption.candidate import Candidate
from reservoir.core.disruption.effort import Effort, cost_of_replicas
from reservoir.core.disruption.on_sale import OnSale
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import Plan
from reservoir.core.model.snapshot import Node, PlacedReplicas, Snapshot
from reservoir.core.model.workload import Demand
from reservoir.core.scheduling_terms.labels import (
    ARCH,
    CAPACITY_TYPE,
    HOSTNAME,
    ZONE,
    ZONE_ID,
)
from reservoir.core.scheduling_terms.resources import NODES, Resources, counted
from reservoir.core.static_pools.growth import bare, growth_snapshot, launching_alone

# Replicas that run already have climbed their fallback ladder: every step is open to their replacement, to which they
# are handed over. The price rule sees to it that they do not end up on more expensive nodes.
LADDER_CLIMBED: Final = datetime(1970, 1, 1, tzinfo=UTC)

_PLACE_KEYS: Final = frozenset({HOSTNAME, ZONE, ZONE_ID, CAPACITY_TYPE})
_NO_MORE_NODES: Final = Resources.of({NODES: 0})

Solve = Callable[[Snapshot], Plan]


@dataclass(frozen=True, slots=True)
class PassState:
    """The snapshot that the pass has reached, and the scheduler to ask.

    ``closed`` are nodes that receive nothing in a simulation although they run: their room is promised, or they changed
    less than consolidateAfter ago (R-173).
    """

    snapshot: Snapshot
    solve: Solve
    now: datetime
    effort: Effort = field(default_factory=Effort)
    closed: frozenset[str] = frozenset()
    tied: frozenset[str] = frozenset()  # workloads with rules about others
    offerings: int = 0  # how many there are to look at for a launch, all pools together
    # few types that are offered wherever any is
    domains_only: tuple[InstanceType, ...] = ()

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        solve: Solve,
        now: datetime,
        closed: Iterable[str] = (),
        effort: Effort | None = None,
    ) -> "PassState":
        """Return the world at the beginning of a pass."""
        workloads = (
            *snapshot.workloads.values(),
            *(demand.workload for demand in snapshot.demands),
        )
        tied = frozenset(it.key for it in workloads if it.has_topology_terms)
        on_sale = OnSale.of(snapshot)
        sold = replace(snapshot, instance_types=on_sale.instance_types)
        domains = types_for_domains(sold) if tied else ()
        return cls(
            sold,
            solve,
            now,
            effort or Effort(),
            frozenset(closed),
            tied,
            on_sale.offerings,
            domains,
        )

    def seeing(self, snapshot: Snapshot) -> "PassState":
        """Return the state with another snapshot, in which other things may be on sale."""
        on_sale = OnSale.of(snapshot)
        sold = replace(snapshot, instance_types=on_sale.instance_types)
        return replace(self, snapshot=sold, offerings=on_sale.offerings)

    def burden(self, candidate: Candidate) -> int:
        """Estimate what the replicas of a node add to the effort of a simulation that may launch."""
        placements = candidate.claim.placements
        tied = sum(
            placed.count for placed in placements if placed.workload_key in self.tied
        )
        return cost_of_replicas(
            len(placements), tied, nodes=len(self.snapshot.nodes), offerings=self.offerings
        )

    def without(
        self,
        removed: Iterable[Candidate],
        *,
        launches: bool = True,
        credit_slots: bool = False,
        closed: Set[str] = frozenset(),
        on_one_node: bool = False,
    ) -> Plan:
        """Plan for the removed nodes' replicas in a world without those nodes.

        ``launches=False`` asks whether the nodes that stay can hold them. ``credit_slots`` gives a reserved node's unit
        back to its reservation, which only holds if the node goes before its replacement comes (R-178). ``closed``:
        further nodes that receive nothing. ``on_one_node``: nothing is launched that could not hold all of it.
        """
        removed = tuple(removed)
        snapshot = edited(self.snapshot, removed, credit_slots=credit_slots)
        if not launches:
            # Rules over zones look at every zone that a pool could launch into: with rules, the pools stay.
            pools = (
                replace(pool, limits=_NO_MORE_NODES)
                for pool in snapshot.node_pools
                if self.tied
            )
            snapshot = replace(
                snapshot, node_pools=tuple(pools), instance_types=self.domains_only
            )
        elif on_one_node:
            snapshot = _only_whole(snapshot, removed)
        return self._solved(
            snapshot,
            self.closed | closed,
            self.offerings if launches else _count_offerings(snapshot),
        )

    def renewed(
        self, candidate: Candidate, pool: NodePool, *, credit_slots: bool = False
    ) -> Plan | None:
        """Plan one new node of a static pool that takes the candidate's replicas; None where there is none.

        ``pool`` is the candidate's, perhaps narrower.
        """
        snapshot = edited(self.snapshot, (candidate,), credit_slots=credit_slots)
        if candidate.is_empty:
            snapshot = growth_snapshot(snapshot, pool, 1, self.now)
        else:
            snapshot = launching_alone(snapshot, pool, self.now)
        plan = self._solved(snapshot, frozenset(), _count_offerings(snapshot))
        is_one = sum(planned.count for planned in plan.launches) == 1
        if plan.unplaced or not is_one:
            return None
        return bare(plan) if candidate.is_empty else plan

    def pending(self) -> Plan:
        """Plan for the waiting demand: it has the first right to free capacity."""
        return self._solved(self.snapshot, frozenset(), self.offerings)

    def begins_again(self, plan: Plan) -> str | None:
        """Return a workload that the plan moves to a node that stays, but that would then run elsewhere, or None.

        A replica that moves to a node that stays is demand again, which begins its fallback ladder on the first step.
        """
        markets = {node.claim_id: node.capacity_type for node in self.snapshot.nodes}
        for placement in plan.existing:
            for placed in placement.placements:
                if markets[placement.claim_id] not in self._first_step(placed):
                    return placed.workload_key
        return None

    def nodes_of_later_steps(self, candidate: Candidate) -> frozenset[str]:
        """Return the nodes that stay on which one of the candidate's replicas would begin its ladder again."""
        first_steps = [
            self._first_step(placed)
            for placed in candidate.claim.placements
            if placed.workload_key in self.snapshot.workloads
        ]

        def begins_again(node: Node) -> bool:
            return any(node.capacity_type not in allowed for allowed in first_steps)

        return frozenset(
            node.claim_id for node in self.snapshot.nodes if begins_again(node)
        )

    def _first_step(self, placed: PlacedReplicas) -> frozenset[CapacityType]:
        return self.snapshot.workloads[placed.workload_key].reached_capacity_types(
            self.now, self.now
        )

    def freed(self, removed: Iterable[Candidate]) -> "PassState":
        """Return the world without the nodes, in which the units that they held are free again; demand is as it was."""
        gone = {candidate.id: candidate.node.reservation_id for candidate in removed}
        back = Counter(gone.values())
        nodes = tuple(node for node in self.snapshot.nodes if node.claim_id not in gone)
        reservations = tuple(
            replace(reservation, free_units=reservation.free_units + back[reservation.id])
            for reservation in self.snapshot.reservations
        )
        return replace(
            self, snapshot=replace(self.snapshot, nodes=nodes, reservations=reservations)
        )

    def with_units(self, units: Mapping[str, int]) -> "PassState":
        """Return the world in which so many units more of each reservation, by its id, are free."""
        reservations = tuple(
            replace(
                reservation,
                free_units=reservation.free_units + units.get(reservation.id, 0),
            )
            for reservation in self.snapshot.reservations
        )
        return replace(self, snapshot=replace(self.snapshot, reservations=reservations))

    def without_leaving(self) -> "PassState":
        """Return the world once the nodes that leave already have left."""
        nodes = tuple(node for node in self.snapshot.nodes if not node.deleting)
        return replace(self, snapshot=replace(self.snapshot, nodes=nodes))

    def drained(self, removed: Sequence[Candidate]) -> "PassState":
        """Return the world without the nodes; their replicas are demand, in addition to waiting demand."""
        world = self.freed(removed)
        demands = {demand.workload.key: demand for demand in self.snapshot.demands}
        for placed in _placed_on(removed):
            known = demands.get(placed.workload_key)
            if known is not None:
                demands[placed.workload_key] = replace(
                    known, pending_count=known.pending_count + placed.count
                )
            elif placed.workload_key in self.snapshot.workloads:
                workload = self.snapshot.workloads[placed.workload_key]
                demands[placed.workload_key] = Demand(workload, placed.count, self.now)
        return replace(
            world, snapshot=replace(world.snapshot, demands=tuple(demands.values()))
        )

    def _solved(self, snapshot: Snapshot, closed: Set[str], offerings: int) -> Plan:
        self.effort.spend(
            len(snapshot.demands),
            sum(
                demand.pending_count
                for demand in snapshot.demands
                if demand.workload.key in self.tied
            ),
            nodes=len(snapshot.nodes),
            offerings=offerings,
        )
        nodes = tuple(
            # A draining node takes nothing new but goes on counting for topology, as it should.
            replace(node, drain_at=self.now) if node.claim_id in closed else node
            for node in snapshot.nodes
        )
        asking = {demand.workload.key: demand.workload for demand in snapshot.demands}
        # What runs is looked at by rules about other workloads, and by the quotas of teams.
        is_looked_at = self.tied or any(
            team.quotas or team.resource_quotas for team in snapshot.teams
        )
        return self.solve(
            replace(
                snapshot,
                nodes=nodes,
                workloads=snapshot.workloads if is_looked_at else asking,
            )
        )

    def after(self, removed: Iterable[Candidate], plan: Plan) -> "PassState":
        """Return the world after the nodes have ended and the replicas are where the plan put them."""
        gone = {candidate.id for candidate in removed}
        arriving = {placement.claim_id: placement.placements for placement in plan.existing}
        nodes: list[Node] = []
        for node in self.snapshot.nodes:
            if node.claim_id in gone:
                continue
            if node.claim_id in arriving:
                nodes.append(self._joined(node, arriving[node.claim_id]))
            else:
                nodes.append(node)
        taken: Counter[str | None] = Counter()  # units, by reservation
        for planned in plan.launches:
            taken[planned.offering.reservation_id] += planned.count
        reservations: list[CapacityReservation] = []
        for reservation in self.snapshot.reservations:
            if reservation.id in taken:
                free_units = reservation.free_units - taken[reservation.id]
                reservations.append(replace(reservation, free_units=free_units))
            else:
                reservations.append(reservation)
        pools = tuple(self._charged(pool, plan) for pool in self.snapshot.node_pools)
        snapshot = replace(
            self.snapshot,
            nodes=tuple(nodes),
            reservations=tuple(reservations),
            node_pools=pools,
        )
        return replace(self, snapshot=snapshot)

    def _charged(self, pool: NodePool, plan: Plan) -> NodePool:
        """Take what the plan launches off the pool's limits: it is among no nodes yet."""
        if pool.limits is None:
            return pool
        left = dict(pool.limits)
        for planned in plan.launches:
            if planned.node_pool_name == pool.name:
                capacity = next(
                    it.capacity
                    for it in self.snapshot.instance_types
                    if it.name == planned.offering.instance_type
                )
                for name in left:
                    left[name] -= planned.count * counted(capacity, name)
        return replace(pool, limits=Resources.of(left))

    def _joined(self, node: Node, arriving: Sequence[PlacedReplicas]) -> Node:
        used = dict(node.used)
        for placed in arriving:
            for name, amount in self._requests(placed.workload_key).items():
                used[name] = used.get(name, 0) + amount * placed.count
        placements = merged_placements((*node.placements, *arriving))
        return replace(node, used=Resources.of(used), placements=placements)

    def _requests(self, key: str) -> Resources:
        """Return what a replica takes; a workload that only waits is not among those that run."""
        known = self.snapshot.workloads.get(key)
        if known is not None:
            return known.requests
        return next(
            demand.workload.requests
            for demand in self.snapshot.demands
            if demand.workload.key == key
        )


def _only_whole(snapshot: Snapshot, removed: Iterable[Candidate]) -> Snapshot:
    """Leave out what could not hold the replicas of the nodes together, and let each pool launch one node at most.

    A limit counts the nodes that a pool has, too.
    """
    needed = Resources.of({})
    for placed in _placed_on(removed):
        needed += snapshot.workloads[placed.workload_key].requests * placed.count
    types = tuple(
        kind for kind in snapshot.instance_types if needed.fits_in(kind.allocatable)
    )
    there = Counter(node.node_pool_name for node in snapshot.nodes)
    pools = tuple(
        replace(pool, limits=_at_most(pool.limits, there[pool.name] + 1))
        for pool in snapshot.node_pools
    )
    return replace(snapshot, instance_types=types, node_pools=pools)


def _at_most(limits: Resources | None, nodes: int) -> Resources:
    given = dict(limits or {})
    return Resources.of({**given, NODES: min(nodes, given.get(NODES, nodes))})


def _count_offerings(snapshot: Snapshot) -> int:
    return len(snapshot.node_pools) * sum(
        len(instance_type.offerings) for instance_type in snapshot.instance_types
    )


# Branches: comprehensions of a line each; one filter over the types.
def types_for_domains(snapshot: Snapshot) -> tuple[InstanceType, ...]:
    """Return few types that are offered in every zone and market that any is, for questions without launches.

    Where a rule is about something else than place, such as families, every type may make a domain of its own.
    """
    workloads = snapshot.workloads.values()
    topology_keys: set[str] = set()
    for workload in workloads:
        topology_keys.update(spread.topology_key for spread in workload.topology_spread)
        topology_keys.update(
            term.topology_key for term in (*workload.affinity, *workload.anti_affinity)
        )
    if topology_keys - _PLACE_KEYS:
        return snapshot.instance_types
    reserved = {reservation.instance_type for reservation in snapshot.reservations}
    seen: set[object] = set()
    kept = []
    for instance_type in snapshot.instance_types:
        pools = [
            pool.name
            for pool in snapshot.node_pools
            if pool.requirements.meets(instance_type.requirements)
        ]
        # a class may have images for some only
        architecture = instance_type.requirements.labels().get(ARCH)
        offered = [
            (offering.zone, offering.zone_id, offering.capacity_type)
            for offering in instance_type.offerings
        ]
        places = set(product(pools, [architecture], offered))
        if instance_type.name in reserved or not seen.issuperset(places):
            kept.append(instance_type)
            seen |= places
    return tuple(kept)


def merged_placements(placements: Iterable[PlacedReplicas]) -> tuple[PlacedReplicas, ...]:
    """Add up placements of the same workload; sorted by workload key."""
    counts: Counter[str] = Counter()
    for placed in placements:
        counts[placed.workload_key] += placed.count
    return tuple(
        PlacedReplicas(key, count) for key, count in sorted(counts.items()) if count > 0
    )


def _placed_on(candidates: Iterable[Candidate]) -> tuple[PlacedReplicas, ...]:
    """Return what the candidates' nodes hold together, one entry a workload."""
    return merged_placements(
        chain.from_iterable(candidate.claim.placements for candidate in candidates)
    )


# Branches: comprehensions of a line each, one for each part of the snapshot that changes.
def edited(
    snapshot: Snapshot, removed: Sequence[Candidate], *, credit_slots: bool
) -> Snapshot:
    """Return the snapshot without the nodes, with their replicas as the only demand."""
    gone = {candidate.id for candidate in removed}
    homeless = _placed_on(removed)
    credited: dict[str, int] = {}
    if credit_slots:
        for candidate in removed:
            if candidate.node.reservation_id is not None:
                credited[candidate.node.reservation_id] = (
                    credited.get(candidate.node.reservation_id, 0) + 1
                )
    demands = tuple(
        Demand(snapshot.workloads[placed.workload_key], placed.count, LADDER_CLIMBED)
        for placed in homeless
        if placed.workload_key in snapshot.workloads
    )
    return replace(
        snapshot,
        nodes=tuple(node for node in snapshot.nodes if node.claim_id not in gone),
        demands=demands,
        reservations=tuple(
            replace(
                reservation, free_units=reservation.free_units + credited[reservation.id]
            )
            if reservation.id in credited
            else reservation
            for reservation in snapshot.reservations
        ),
    )
