"""What the checker knows: the snapshot and the plan looked up by name, and each rule about one replica on one node.

Written from the rules (docs and DESIGN section 3), never from the solver, so that the two can disagree.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

from shared.core import labels
from shared.core.capacity_reservation import CapacityReservation, ReservationKind
from shared.core.instance_type import CapacityType, InstanceType, Offering
from shared.core.money import ATTO_USD_PER_MICRO_USD, reserved_price_atto_usd, reserved_price_divisor
from shared.core.node_class import NodeClass
from shared.core.node_pool import NodePool
from shared.core.plan import OfferingKey, Plan, PlannedNodes
from shared.core.policy import SchedulingPolicy
from shared.core.requirement import Operator, Requirement
from shared.core.requirements import Requirements
from shared.core.resources import PODS, Resources
from shared.core.snapshot import Node, PlacedReplicas, Snapshot
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


def in_words(key: OfferingKey) -> str:
    """Name an offering for a message."""
    where = f"{key.instance_type} {key.capacity_type} in {key.zone}"
    return where if key.reservation_id is None else f"{where} of {key.reservation_id}"


def reserved_key(reservation: CapacityReservation) -> OfferingKey:
    """Name the offering that a reservation is."""
    return OfferingKey(
        reservation.instance_type, reservation.zone, reservation.zone_id, CapacityType.RESERVED, reservation.id
    )


@dataclass(slots=True, eq=False)
class Sold:
    """One spot or on-demand offering as a pool sees it; ``accepted`` remembers answers by kind of workload."""

    price_atto_usd: int
    allocatable: Mapping[str, int]
    problem: str | None
    accepted: dict[int, bool] = field(default_factory=dict)


class Facts:
    """Lookups over one snapshot and one plan. Unknown names give None; the checks report them."""

    def __init__(self, snapshot: Snapshot, plan: Plan, now: datetime, policy: SchedulingPolicy) -> None:
        self.snapshot, self.plan, self.now, self.policy = snapshot, plan, now, policy
        self.types: dict[str, InstanceType] = {item.name: item for item in snapshot.instance_types}
        self.pools: dict[str, NodePool] = {item.name: item for item in snapshot.node_pools}
        self.classes: dict[str, NodeClass] = {item.name: item for item in snapshot.node_classes}
        self.reservations: dict[str, CapacityReservation] = {item.id: item for item in snapshot.reservations}
        self.nodes: dict[str, Node] = {item.claim_id: item for item in snapshot.nodes}
        self.workloads: dict[str, Workload] = dict(snapshot.workloads)
        self.pending: Counter[str] = Counter()
        self.pending_since: dict[str, datetime] = {}
        for demand in snapshot.demands:
            key = demand.workload.key
            self.workloads[key] = demand.workload
            self.pending[key] += demand.pending_count
            self.pending_since[key] = min(demand.pending_since, self.pending_since.get(key, demand.pending_since))
        self._terms: dict[str, tuple[Requirements, ...]] = {}
        self._markets: dict[str, frozenset[CapacityType]] = {}
        self._needs: dict[str, Resources] = {}
        self._descriptions: dict[tuple[str, OfferingKey], Requirements | None] = {}
        self._accepted: dict[tuple[object, ...], bool] = {}
        self._kinds: dict[tuple[object, ...], int] = {}
        self._kind_of: dict[str, int] = {}
        self._sold: dict[tuple[str, OfferingKey], Sold] = {}
        self._open: dict[str, tuple[OfferingKey, ...]] = {}

    # -- workloads

    def needs(self, workload: Workload) -> Resources:
        """Return what one replica takes: its requests, and a pod even where the requests do not say so (R-54)."""
        known = self._needs.get(workload.key)
        if known is None:
            known = Resources.of({**workload.requests, PODS: max(1, workload.requests[PODS])})
            self._needs[workload.key] = known
        return known

    def terms(self, workload: Workload) -> tuple[Requirements, ...]:
        """Return the requirement sets of which one must hold: the node selector with each ORed term (R-15)."""
        known = self._terms.get(workload.key)
        if known is None:
            selector = workload.node_selector
            known = tuple(selector.merged(term) for term in workload.required_node_terms) or (selector,)
            self._terms[workload.key] = known
        return known

    def markets(self, workload: Workload) -> frozenset[CapacityType]:
        """Return the capacity types that the workload's ladder has reached by now; all of them without a ladder."""
        known = self._markets.get(workload.key)
        if known is None:
            known = frozenset(self._reached(workload)) if workload.fallback else frozenset(CapacityType)
            self._markets[workload.key] = known
        return known

    def _reached(self, workload: Workload) -> Iterator[CapacityType]:
        reached_at = self.pending_since.get(workload.key, self.now)
        for step in workload.fallback:
            if reached_at > self.now:
                return
            yield step.capacity_type
            if step.for_s is None:
                return
            reached_at += timedelta(seconds=step.for_s)

    def outlasts(self, workload: Workload, drain_at: datetime | None) -> bool:
        """Whether the workload would still run when its node starts to drain; without a hint nobody can say so."""
        if drain_at is None or workload.duration_s is None:
            return False
        return self.now + timedelta(seconds=workload.duration_s) > drain_at

    # -- offerings

    def offering(self, key: OfferingKey) -> Offering | None:
        """Return the spot or on-demand offering that the key names."""
        instance_type = self.types.get(key.instance_type)
        for offering in () if instance_type is None else instance_type.offerings:
            named = (offering.zone, offering.zone_id, offering.capacity_type)
            if named == (key.zone, key.zone_id, key.capacity_type):
                return offering
        return None

    def reservation_problem(self, reservation: CapacityReservation, node_class: NodeClass) -> str | None:
        """Say why nothing of this class can be launched into the reservation now, or None."""
        if not reservation.is_active(self.now):
            return "is not active or already drains"
        if reservation.id not in node_class.status.reservation_ids:
            return f"is not selected by class {node_class.name}"
        if (reservation.platform, reservation.tenancy) != (node_class.platform, node_class.tenancy):
            return f"has another platform or tenancy than class {node_class.name}"
        return None

    def class_problem(self, node_class: NodeClass, key: OfferingKey) -> str | None:
        """Say why the class cannot launch this offering, or None. Lists that discovery left empty do not forbid."""
        status = node_class.status
        if status.launch_blocked_reason is not None:
            return "is not ready"
        if status.subnets and all(subnet.zone_id != key.zone_id for subnet in status.subnets):
            return f"has no subnet in {key.zone}"
        architecture = self.types[key.instance_type].requirements[labels.ARCH]
        if status.machine_images and not any(architecture.has(image.architecture) for image in status.machine_images):
            return f"has no image for {key.instance_type}"
        return None

    def _offered(self, pool: NodePool, key: OfferingKey) -> Requirements:
        """Return what is true of every node of the pool's class from this offering."""
        node_class = self.classes[pool.node_class_name]
        facts = {
            labels.NODE_POOL: pool.name,
            labels.NODE_CLASS: node_class.name,
            labels.INSTANCE_TENANCY: node_class.tenancy,
            labels.ZONE: key.zone,
            labels.ZONE_ID: key.zone_id,
            labels.CAPACITY_TYPE: str(key.capacity_type),
        }
        described = [Requirement.new(name, Operator.IN, (value,)) for name, value in facts.items()]
        described.extend(self._reservation_labels(key.reservation_id))
        return self.types[key.instance_type].requirements.add(*described)

    def description(self, pool: NodePool, key: OfferingKey) -> Requirements | None:
        """Return what a node of the pool from this offering will be, or None when the pool does not allow it."""
        known = (pool.name, key)
        if known not in self._descriptions:
            offered = self._offered(pool, key)
            is_possible = pool.requirements.intersects(offered) is None
            self._descriptions[known] = pool.requirements.merged(offered) if is_possible else None
        return self._descriptions[known]

    def open_offerings(self, pool: NodePool) -> tuple[OfferingKey, ...]:
        """Return everything that can be launched for the pool now; reservations while the snapshot has units free."""
        known = self._open.get(pool.name)
        if known is None:
            node_class = self.classes.get(pool.node_class_name)
            is_static = pool.replicas is not None
            known = () if node_class is None or is_static else tuple(self._opened(pool, node_class))
            self._open[pool.name] = known
        return known

    def _opened(self, pool: NodePool, node_class: NodeClass) -> Iterator[OfferingKey]:
        keys = (labels.ZONE, labels.ZONE_ID, labels.CAPACITY_TYPE)
        zone, zone_id, market = (pool.requirements[key] for key in keys)
        needs_reservation = any(not pool.requirements[key].allows_absence for key in self._reservation_keys(pool))
        for instance_type in self.snapshot.instance_types:
            if needs_reservation or pool.requirements.intersects(instance_type.requirements) is not None:
                continue
            for offering in instance_type.offerings:
                if not (offering.is_available(self.now) and market.has(offering.capacity_type)):
                    continue
                key = OfferingKey(instance_type.name, offering.zone, offering.zone_id, offering.capacity_type)
                allowed = zone.has(offering.zone) and zone_id.has(offering.zone_id)
                if allowed and self.class_problem(node_class, key) is None:
                    yield key
        for reservation in self.snapshot.reservations:
            key = reserved_key(reservation)
            if (
                reservation.free_units > 0
                and reservation.instance_type in self.types
                and self.reservation_problem(reservation, node_class) is None
                and self.class_problem(node_class, key) is None
                and self.description(pool, key) is not None
            ):
                yield key

    def _reservation_keys(self, pool: NodePool) -> list[str]:
        return [key for key in sorted(labels.RESERVATION_LABELS) if key in pool.requirements]

    def _reservation_labels(self, reservation_id: str | None) -> list[Requirement]:
        """Return the labels that only reserved nodes have; "must not exist" for the others (R-23)."""
        if reservation_id is None:
            return [Requirement.new(key, Operator.DOES_NOT_EXIST) for key in sorted(labels.RESERVATION_LABELS)]
        kind = self.reservations[reservation_id].kind
        block = ReservationKind.CAPACITY_BLOCK
        facts = {
            labels.CAPACITY_RESERVATION_ID: reservation_id,
            labels.CAPACITY_RESERVATION_TYPE: str(block if kind is block else ReservationKind.DEFAULT),
            labels.CAPACITY_RESERVATION_INTERRUPTIBLE: "true" if kind is ReservationKind.INTERRUPTIBLE else "false",
        }
        return [Requirement.new(name, Operator.IN, (value,)) for name, value in facts.items()]

    def price_atto_usd(self, key: OfferingKey) -> int:
        """Return the price of a spot or on-demand offering an hour; 0 when there is no such offering."""
        offering = self.offering(key)
        return 0 if offering is None else offering.price_micro_usd_per_hour * ATTO_USD_PER_MICRO_USD

    def is_reserved_price(self, key: OfferingKey, price_atto_usd: int) -> bool:
        """Whether this is the price of a reserved unit: the ODCR RFC's ratio over all discovered prices (rule 4).

        Where the ratio cannot be formed (no on-demand price, no spot price) any price counts that is more than nothing
        and less than whatever can be bought.
        """
        dearest, cheapest_spot, cheapest = self._extremes
        on_demand = self.types[key.instance_type].on_demand_price_micro_usd_per_hour
        if on_demand is None or cheapest_spot is None:
            return 0 < price_atto_usd < max(1, cheapest) * ATTO_USD_PER_MICRO_USD
        divisor = reserved_price_divisor(dearest, cheapest_spot)
        return price_atto_usd == reserved_price_atto_usd(on_demand, divisor)

    @cached_property
    def _extremes(self) -> tuple[int, int | None, int]:
        """Return the dearest on-demand, the cheapest spot and the cheapest price of all, in micro-USD an hour."""
        types = self.snapshot.instance_types
        on_demand: list[int] = [0]
        spot: list[int] = []
        for instance_type in types:
            on_demand.append(instance_type.on_demand_price_micro_usd_per_hour or 0)
            for offering in instance_type.offerings:
                is_spot = offering.capacity_type is CapacityType.SPOT
                (spot if is_spot else on_demand).append(offering.price_micro_usd_per_hour)
        paid = [price for price in (*on_demand, *spot) if price]
        return max(on_demand), min((price for price in spot if price), default=None), min(paid, default=1)

    def accepts(self, pool: NodePool, key: OfferingKey, workload: Workload) -> bool:
        """Whether requirements and ladder let a replica run on a node of the pool from the offering."""
        known = (pool.name, key, self.terms(workload), self.markets(workload))
        accepted = self._accepted.get(known)
        if accepted is None:
            description = self.description(pool, key)
            accepted = (
                description is not None
                and key.capacity_type in self.markets(workload)
                and self.meets(description, labels.WELL_KNOWN, workload)
            )
            self._accepted[known] = accepted
        return accepted

    def kind(self, workload: Workload) -> int:
        """Return a number for requirements and markets; workloads of one kind may go to the same offerings."""
        known = self._kind_of.get(workload.key)
        if known is None:
            facts = (self.terms(workload), self.markets(workload))
            known = self._kind_of[workload.key] = self._kinds.setdefault(facts, len(self._kinds))
        return known

    def sold(self, pool: NodePool, key: OfferingKey) -> Sold:
        """Return what can be said about buying this offering for the pool, whatever is to run on it."""
        known = self._sold.get((pool.name, key))
        if known is None:
            offering = self.offering(key)
            if offering is None or key.reservation_id is not None or not offering.is_available(self.now):
                known = Sold(0, {}, "cannot be bought")
            else:
                problem = self.class_problem(self.classes[pool.node_class_name], key)
                allocatable = dict(self.types[key.instance_type].allocatable)
                known = Sold(self.price_atto_usd(key), allocatable, problem and f"class {problem}")
            self._sold[pool.name, key] = known
        return known

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

    # -- hosts

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
