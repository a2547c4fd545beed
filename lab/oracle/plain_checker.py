"""The plain checker: which rules a plan breaks, read off every single node that it leads to.

Written from the rules (docs/rules.md), slow, and to be read in one sitting: each node is looked at by itself, nothing
is remembered or grouped. It is the oracle of the checker that plans are committed by, which groups what is alike.

It judges what forbids a commit. What a plan could have done better (rule 3, priorities, true refusals), and what quotas
of teams leave, is the other's to say alone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain

from reservoir.core.capacity.node_storage import as_launched
from reservoir.core.checking.violation import ViolationCode
from reservoir.core.model.capacity_reservation import (
    BlockDrain,
    CapacityReservation,
    ReservationKind,
)
from reservoir.core.model.instance_type import CapacityType, InstanceType, Offering
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import OfferingKey, Plan, PlannedNodes
from reservoir.core.model.policy import MinValuesPolicy, NoDurationPolicy, SchedulingPolicy
from reservoir.core.model.snapshot import Node, PlacedReplicas, Snapshot
from reservoir.core.model.workload import (
    AffinityTerm,
    LabelSelector,
    TopologySpreadConstraint,
    WhenUnsatisfiable,
    Workload,
)
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.money import (
    ATTO_USD_PER_MICRO_USD,
    reserved_price_atto_usd,
    reserved_price_divisor,
)
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import NODES, PODS, Resources
from reservoir.core.scheduling_terms.taint import (
    Taint,
    TaintEffect,
    binding_taints,
    tolerates_all,
)

_ZONES = frozenset({labels.ZONE, labels.ZONE_ID})


def broken_rules(
    snapshot: Snapshot, plan: Plan, *, now: datetime, policy: SchedulingPolicy
) -> frozenset[ViolationCode]:
    """Return the rules that forbid to commit the plan; where it names what is not there, the others may be missing."""
    world = _World(snapshot, plan, now, policy)
    found = {
        *_of_launches(world),
        *_of_existing_nodes(world),
        *_of_contents(world),
        *_of_sums(world),
    }
    if ViolationCode.UNKNOWN_NAME not in found:
        found |= {*_of_gangs(world), *_of_topology(world), *_of_teams(world)}
    return frozenset(found)


@dataclass(eq=False)
class _OneNode:
    """One node of the final state: what it is, who ran there before, and whom the plan adds."""

    hostname: str
    description: Requirements
    # keys that it may turn out to have, though nobody has said so yet
    undefined: frozenset[str]
    capacity_type: CapacityType
    free: Resources
    taints: Sequence[Taint]
    drain: BlockDrain | None
    pool_name: str
    placed: Mapping[str, int]
    running: Mapping[str, int]
    launch: PlannedNodes | None = None
    node: Node | None = None

    def domain(self, topology_key: str) -> str | None:
        if topology_key == labels.HOSTNAME:
            return self.hostname
        if self.node is not None:
            return self.node.labels.get(topology_key)
        return self.description.labels().get(topology_key)


class _World:
    """The snapshot and the plan by name, and the nodes that the plan leads to."""

    def __init__(
        self, snapshot: Snapshot, plan: Plan, now: datetime, policy: SchedulingPolicy
    ) -> None:
        self.snapshot, self.plan, self.now, self.policy = snapshot, plan, now, policy
        self.types = {item.name: item for item in snapshot.instance_types}
        self.pools = {item.name: item for item in snapshot.node_pools}
        self.classes = {item.name: item for item in snapshot.node_classes}
        self.reservations = {item.id: item for item in snapshot.reservations}
        self.workloads = dict(snapshot.workloads)
        self.pending = Counter[str]()
        self.since: dict[str, datetime] = {}
        for demand in snapshot.demands:
            key = demand.workload.key
            self.workloads[key] = demand.workload
            self.pending[key] += demand.pending_count
            self.since[key] = min(
                demand.pending_since, self.since.get(key, demand.pending_since)
            )
        self.nodes = [*self._existing_nodes(), *self._new_nodes()]

    def _existing_nodes(self) -> Iterator[_OneNode]:
        for node in self.snapshot.nodes:
            if node.deleting:
                continue
            placed = Counter[str]()
            for placement in self.plan.existing:
                if placement.claim_id == node.claim_id:
                    placed.update(_tally(placement.placements))
            running = _tally(node.placements)
            used = {**node.used, PODS: max(node.used[PODS], running.total())}
            yield _OneNode(
                hostname=node.claim_id,
                description=Requirements.from_labels(node.labels),
                undefined=frozenset(),
                capacity_type=node.capacity_type,
                free=node.allocatable - Resources.of(used),
                taints=self.snapshot.binding_taints(node),
                drain=node.block_drain,
                pool_name=node.node_pool_name,
                placed=placed,
                running=running,
                node=node,
            )

    def _new_nodes(self) -> Iterator[_OneNode]:
        for index, launch in enumerate(self.plan.launches):
            pool = self.pools.get(launch.node_pool_name)
            description = self.described(launch)
            if pool is None or description is None:
                continue
            reservation = self.reservations.get(launch.offering.reservation_id or "")
            for number in range(launch.count):
                yield _OneNode(
                    hostname=f"new {index} {number}",
                    description=description,
                    undefined=labels.WELL_KNOWN,
                    capacity_type=launch.offering.capacity_type,
                    free=self.launched_as(pool, launch.offering).allocatable,
                    taints=binding_taints(
                        pool.taints, pool.startup_taints, initialized=False
                    ),
                    drain=None if reservation is None else reservation.block_drain(),
                    pool_name=pool.name,
                    placed=_tally(launch.placements),
                    running={},
                    launch=launch,
                )

    def described(self, launch: PlannedNodes) -> Requirements | None:
        """Return what the launch's nodes will be, with the labels that the plan chose for them."""
        pool = self.pools.get(launch.node_pool_name)
        found = None if pool is None else self.description(pool, launch.offering)
        if found is None:
            return None
        chosen = {key: value for key, value in launch.labels.items() if key in found}
        return found.merged(Requirements.from_labels(chosen))

    def description(self, pool: NodePool, key: OfferingKey) -> Requirements | None:
        """Return what a node of the pool from an offering would be, or None if the pool does not allow it."""
        node_class = self.classes.get(pool.node_class_name)
        instance_type = self.types.get(key.instance_type)
        if node_class is None or instance_type is None:
            return None
        if key.reservation_id is not None and key.reservation_id not in self.reservations:
            return None
        own = {
            labels.NODE_POOL: pool.name,
            labels.NODE_CLASS: node_class.name,
            labels.INSTANCE_TENANCY: node_class.tenancy,
            labels.ZONE: key.zone,
            labels.ZONE_ID: key.zone_id,
            labels.CAPACITY_TYPE: str(key.capacity_type),
        }
        offered = instance_type.requirements.merged(Requirements.from_labels(own)).add(
            *self._reservation_labels(key)
        )
        if pool.requirements.intersects(offered) is None:
            return pool.requirements.merged(offered)
        return None

    def _reservation_labels(self, key: OfferingKey) -> Iterator[Requirement]:
        """Yield the labels of reserved nodes, which others must not have (R-23)."""
        if key.reservation_id is None:
            for name in sorted(labels.RESERVATION_LABELS | labels.NETWORK_LABELS):
                yield Requirement.new(name, Operator.DOES_NOT_EXIST)
            return
        reservation = self.reservations[key.reservation_id]
        kind = reservation.kind
        is_block = kind is ReservationKind.CAPACITY_BLOCK
        said = {
            labels.CAPACITY_RESERVATION_ID: key.reservation_id,
            labels.CAPACITY_RESERVATION_TYPE: "capacity-block" if is_block else "default",
            labels.CAPACITY_RESERVATION_INTERRUPTIBLE: str(
                kind is ReservationKind.INTERRUPTIBLE
            ).lower(),
            labels.CAPACITY_RESERVATION_SETTING: "target",
        }
        said |= dict(
            zip(labels.NETWORK_NODE_LAYERS, reservation.network_nodes, strict=False)
        )
        if reservation.ultra_server_id is not None:
            said[labels.ULTRA_SERVER_ID] = reservation.ultra_server_id
        for name, value in said.items():
            yield Requirement.new(name, Operator.IN, (value,))
        for name in sorted(labels.NETWORK_LABELS - said.keys()):
            yield Requirement.new(name, Operator.DOES_NOT_EXIST)

    # -- what can be had

    def launched_as(self, pool: NodePool, key: OfferingKey) -> InstanceType:
        """Return the type of an offering as the pool's class launches it, which decides about storage."""
        node_class = self.classes.get(pool.node_class_name)
        instance_type = self.types[key.instance_type]
        return (
            instance_type if node_class is None else as_launched(instance_type, node_class)
        )

    def offering(self, key: OfferingKey) -> Offering | None:
        """Return the spot or on-demand offering that is named."""
        instance_type = self.types.get(key.instance_type)
        for item in (
            ()
            if instance_type is None or key.reservation_id is not None
            else instance_type.offerings
        ):
            if (item.zone, item.zone_id, item.capacity_type) == (
                key.zone,
                key.zone_id,
                key.capacity_type,
            ):
                return item
        return None

    def is_sold(self, key: OfferingKey, node_class: NodeClass) -> bool:
        """Whether it can be bought for the class now."""
        offering = self.offering(key)
        if offering is None or not offering.is_available(self.now):
            return False
        return self.may_launch(key, node_class) and self.is_open(key, node_class)

    def is_open(self, key: OfferingKey, node_class: NodeClass) -> bool:
        """Whether the class has an address in the zone, and EC2 does not refuse it on the market whatever it asks."""
        status = node_class.status
        return (
            key.zone_id not in status.zones_full_until
            and key.capacity_type not in status.resting_markets
        )

    def may_launch(self, key: OfferingKey, node_class: NodeClass) -> bool:
        """Whether the class is ready, with a subnet and an image for it."""
        status = node_class.status
        zone_ids = {subnet.zone_id for subnet in status.subnets}
        architecture = self.types[key.instance_type].requirements[labels.ARCH]
        has_image = any(
            architecture.has(image.architecture) for image in status.machine_images
        )
        return (
            status.launch_blocked_reason is None
            and (not zone_ids or key.zone_id in zone_ids)
            and (not status.machine_images or has_image)
        )

    def is_usable(self, reservation: CapacityReservation, node_class: NodeClass) -> bool:
        """Whether the class may launch into the reservation now."""
        return (
            reservation.is_active(self.now)
            and reservation.id in node_class.status.reservation_ids
            and (reservation.platform, reservation.tenancy)
            == (node_class.platform, node_class.tenancy)
        )

    def offered(self, pool: NodePool, *, now: bool) -> Iterator[OfferingKey]:
        """Yield what the pool may launch, whether or not it is available, full or used up; or only what it can now."""
        node_class = self.classes.get(pool.node_class_name)
        if node_class is None or pool.is_static or pool.paused is not None:
            return
        for instance_type in self.snapshot.instance_types:
            for item in instance_type.offerings:
                key = OfferingKey(
                    instance_type.name, item.zone, item.zone_id, item.capacity_type
                )
                is_open = (
                    self.is_sold(key, node_class)
                    if now
                    else self.may_launch(key, node_class)
                )
                if is_open and self.description(pool, key) is not None:
                    yield key
        for unit in self.snapshot.reservations:
            key = OfferingKey(
                unit.instance_type, unit.zone, unit.zone_id, CapacityType.RESERVED, unit.id
            )
            if unit.instance_type not in self.types or not self.is_usable(unit, node_class):
                continue
            is_open = unit.free_units > 0 and self.is_open(key, node_class)
            if (
                self.may_launch(key, node_class)
                and self.description(pool, key) is not None
                and (is_open or not now)
            ):
                yield key

    def price(self, key: OfferingKey) -> int:
        offering = self.offering(key)
        if offering is None:
            return 0
        return offering.price_micro_usd_per_hour * ATTO_USD_PER_MICRO_USD

    # -- who accepts it

    def needs(self, workload: Workload) -> Resources:
        """Return what a replica takes: a pod at least (R-54)."""
        return Resources.of({**workload.requests, PODS: max(1, workload.requests[PODS])})

    def load(self, placed: Mapping[str, int]) -> Resources:
        total = Resources.of({})
        for key, count in placed.items():
            if key in self.workloads:
                total += self.needs(self.workloads[key]) * count
        return total

    def markets(self, workload: Workload) -> frozenset[CapacityType]:
        return workload.reached_capacity_types(
            self.since.get(workload.key, self.now), self.now
        )

    def accepts(self, workload: Workload, pool: NodePool, key: OfferingKey) -> bool:
        """Whether a replica may be on a new node of the pool from the offering, taints and size apart."""
        description = self.description(pool, key)
        if description is None or key.capacity_type not in self.markets(workload):
            return False
        return any(
            description.admits(term, labels.WELL_KNOWN) for term in terms_of(workload)
        )


def _tally(placements: Sequence[PlacedReplicas]) -> Counter[str]:
    counts = Counter[str]()
    for placed in placements:
        counts[placed.workload_key] += placed.count
    return counts


def terms_of(workload: Workload) -> list[Requirements]:
    """Return the requirement sets of which one must hold (R-15)."""
    return [
        workload.node_selector.merged(term) for term in workload.required_node_terms
    ] or [workload.node_selector]


def _tolerates(workload: Workload, taints: Sequence[Taint]) -> bool:
    hard = [taint for taint in taints if taint.effect is not TaintEffect.PREFER_NO_SCHEDULE]
    return tolerates_all(hard, workload.tolerations) is None


# -- rules about launches and nodes


def _of_launches(world: _World) -> Iterator[ViolationCode]:
    for launch in world.plan.launches:
        if launch.count < 1 or not launch.placements:
            yield ViolationCode.REPLICA_COUNT
            continue
        problem = _launch_problem(world, launch)
        if problem is not None:
            yield problem
        pool = world.pools.get(launch.node_pool_name)
        if pool is not None and world.described(launch) is not None:
            yield from _of_alternatives(world, launch, pool)
            yield from _of_variety(world, launch, pool)


def _launch_problem(world: _World, launch: PlannedNodes) -> ViolationCode | None:
    key = launch.offering
    pool = world.pools.get(launch.node_pool_name)
    node_class = world.classes.get(launch.node_class_name)
    if pool is None or node_class is None or key.instance_type not in world.types:
        return ViolationCode.UNKNOWN_NAME
    if pool.node_class_name != node_class.name:
        return ViolationCode.UNKNOWN_NAME
    if pool.is_static or pool.paused is not None:
        return ViolationCode.OFFERING
    is_reserved = key.capacity_type is CapacityType.RESERVED
    problem = (
        _reserved_problem(world, launch, node_class)
        if is_reserved
        else _bought_problem(world, launch)
    )
    if problem is not None:
        return problem
    is_allowed = (
        world.may_launch(key, node_class) and world.description(pool, key) is not None
    )
    return None if is_allowed and world.is_open(key, node_class) else ViolationCode.OFFERING


def _reserved_problem(
    world: _World, launch: PlannedNodes, node_class: NodeClass
) -> ViolationCode | None:
    key = launch.offering
    reservation = world.reservations.get(launch.offering.reservation_id or "")
    if reservation is None:
        return ViolationCode.UNKNOWN_NAME
    there = (reservation.instance_type, reservation.zone, reservation.zone_id)
    if (key.instance_type, key.zone, key.zone_id) != there or not world.is_usable(
        reservation, node_class
    ):
        return ViolationCode.RESERVATION_UNUSABLE
    is_right = _is_reserved_price(
        world, world.types[key.instance_type], launch.price_atto_usd_per_hour
    )
    return None if is_right else ViolationCode.PRICE


def _bought_problem(world: _World, launch: PlannedNodes) -> ViolationCode | None:
    offering = world.offering(launch.offering)
    if offering is None or not offering.is_available(world.now):
        return ViolationCode.OFFERING
    is_right = launch.price_atto_usd_per_hour == world.price(launch.offering)
    return None if is_right else ViolationCode.PRICE


def _is_reserved_price(world: _World, instance_type: InstanceType, price: int) -> bool:
    """Whether the price keeps the ratio of rule 4; where there is none, whether it is more than nothing and small."""
    types = world.snapshot.instance_types
    offerings = list(chain.from_iterable(each.offerings for each in types))
    spot = [
        it.price_micro_usd_per_hour
        for it in offerings
        if it.capacity_type is CapacityType.SPOT
    ]
    on_demand = [
        it.price_micro_usd_per_hour
        for it in offerings
        if it.capacity_type is not CapacityType.SPOT
    ]
    on_demand += [
        each.on_demand_price_micro_usd_per_hour or 0
        for each in world.snapshot.instance_types
    ]
    own = instance_type.on_demand_price_micro_usd_per_hour
    paid_spot = [it for it in spot if it]
    if own is None or not paid_spot:
        cheapest = min([it for it in (*spot, *on_demand) if it], default=1)
        return 0 < price < max(1, cheapest) * ATTO_USD_PER_MICRO_USD
    divisor = reserved_price_divisor(max([0, *on_demand]), min(paid_spot))
    return price == reserved_price_atto_usd(own, divisor)


def _of_alternatives(
    world: _World, launch: PlannedNodes, pool: NodePool
) -> Iterator[ViolationCode]:
    """Any alternative may be launched instead: what is on the node must be able to be there."""
    if launch.offering.capacity_type is CapacityType.RESERVED and launch.alternatives:
        yield ViolationCode.ALTERNATIVE  # a reserved claim is bound to its reservation
        return
    if len(launch.alternatives) > world.policy.alternatives_max:
        yield ViolationCode.ALTERNATIVE
    seen, lowest = {launch.offering}, launch.price_atto_usd_per_hour
    node_class = world.classes[pool.node_class_name]
    carried = _tally(launch.placements)
    carriers = [world.workloads[key] for key in carried if key in world.workloads]
    for key in launch.alternatives:
        is_elsewhere = key.zone_id != launch.offering.zone_id and any(
            _is_held(world, it, _ZONES) for it in carriers
        )
        if (
            not world.is_sold(key, node_class)
            or key in seen
            or world.price(key) < lowest
            or is_elsewhere
            or not world.load(carried).fits_in(world.launched_as(pool, key).allocatable)
            or not all(world.accepts(workload, pool, key) for workload in carriers)
        ):
            yield ViolationCode.ALTERNATIVE
            return
        seen.add(key)
        lowest = world.price(key)


def _of_variety(
    world: _World, launch: PlannedNodes, pool: NodePool
) -> Iterator[ViolationCode]:
    """Strict minValues: the types that may be launched have so many values of a label (R-17)."""
    is_reserved = launch.offering.capacity_type is CapacityType.RESERVED
    if world.policy.min_values_policy is not MinValuesPolicy.STRICT or (
        is_reserved and launch.alternatives
    ):
        return
    names = {
        launch.offering.instance_type,
        *(key.instance_type for key in launch.alternatives),
    }
    if is_reserved:
        carried = _tally(launch.placements)
        load = world.load(carried)
        carriers = [world.workloads[key] for key in carried if key in world.workloads]
        names = set()
        for key in world.offered(pool, now=True):
            is_large_enough = load.fits_in(world.launched_as(pool, key).allocatable)
            if is_large_enough and all(world.accepts(it, pool, key) for it in carriers):
                names.add(key.instance_type)
    known = [world.types[name] for name in names if name in world.types]
    for label, wanted in pool.requirements.items():
        if wanted.min_values and label not in (*_ZONES, labels.CAPACITY_TYPE):
            values = set[str]().union(*[each.requirements[label].values for each in known])
            if len(values) < wanted.min_values:
                yield ViolationCode.MIN_VALUES


def _of_existing_nodes(world: _World) -> Iterator[ViolationCode]:
    nodes = {node.claim_id: node for node in world.snapshot.nodes}
    for placement in world.plan.existing:
        node = nodes.get(placement.claim_id)
        if node is None or node.deleting:
            yield ViolationCode.UNKNOWN_NAME
        elif node.drain_at is not None and node.drain_at <= world.now:
            yield ViolationCode.DURATION


def _of_contents(world: _World) -> Iterator[ViolationCode]:
    for node in world.nodes:
        if not node.placed:
            continue
        if any(key not in world.pending for key in node.placed):
            yield ViolationCode.UNKNOWN_NAME
            continue
        workloads = [world.workloads[key] for key in node.placed]
        if not world.load(node.placed).fits_in(node.free):
            yield ViolationCode.RESOURCES
        if not _can_meet_all(node.description, node.undefined, workloads):
            yield ViolationCode.REQUIREMENTS
        if not all(_tolerates(workload, node.taints) for workload in workloads):
            yield ViolationCode.TAINT
        if any(node.capacity_type not in world.markets(workload) for workload in workloads):
            yield ViolationCode.FALLBACK
        if node.drain is not None and _is_too_late(world, node, node.drain, workloads):
            yield ViolationCode.DURATION


def _can_meet_all(
    description: Requirements, undefined: frozenset[str], workloads: Sequence[Workload]
) -> bool:
    """Whether the node can be what all of them require together, with some term of each."""
    if not workloads:
        return True
    return any(
        description.admits(term, undefined)
        and _can_meet_all(description.merged(term), undefined, workloads[1:])
        for term in terms_of(workloads[0])
    )


def _is_too_late(
    world: _World, node: _OneNode, drain: BlockDrain, workloads: Sequence[Workload]
) -> bool:
    """Whether something on the node would still run when it drains, as early as the longest notice on it wants."""
    starts_at = drain.for_notice(
        max(workload.checkpoint_period_s or 0 for workload in workloads)
    ).starts_at
    for workload in workloads:
        says_when = workload.duration_s is not None or workload.checkpoint_period_s
        if (
            says_when
            and world.now + timedelta(seconds=workload.duration_s or 0) > starts_at
        ):
            return True
        if (
            workload.duration_s is None
            and world.policy.no_duration_policy is NoDurationPolicy.AVOID
        ):
            return True
    leaves_at = None if node.node is None else node.node.leaves_at
    return leaves_at is not None and starts_at < drain.starts_at and leaves_at > starts_at


# -- rules about sums


def _of_sums(world: _World) -> Iterator[ViolationCode]:
    yield from _of_counts(world)
    yield from _of_units_and_limits(world)
    yield from _of_money(world)


def _placed(world: _World) -> Counter[str]:
    placed = Counter[str]()
    for launch in world.plan.launches:
        for key, count in _tally(launch.placements).items():
            placed[key] += count * launch.count
    for placement in world.plan.existing:
        placed.update(_tally(placement.placements))
    return placed


def _of_counts(world: _World) -> Iterator[ViolationCode]:
    """Every pending replica is placed or refused, once."""
    plan, told = world.plan, _placed(world)
    for refusal in plan.unplaced:
        told[refusal.workload_key] += refusal.count
    counts = [refusal.count for refusal in plan.unplaced]
    placements = [launch.placements for launch in plan.launches]
    placements += [existing.placements for existing in plan.existing]
    counts += [placed.count for placed in chain.from_iterable(placements)]
    if any(count < 1 for count in counts):
        yield ViolationCode.REPLICA_COUNT
    for key in told.keys() | world.pending.keys():
        if told[key] != world.pending[key]:
            yield (
                ViolationCode.REPLICA_COUNT
                if key in world.workloads
                else ViolationCode.UNKNOWN_NAME
            )


def _of_units_and_limits(world: _World) -> Iterator[ViolationCode]:
    for unit in world.snapshot.reservations:
        taken = sum(
            launch.count
            for launch in world.plan.launches
            if launch.offering.reservation_id == unit.id
        )
        if taken > unit.free_units and taken:
            yield ViolationCode.RESERVATION_OVERCOMMITTED
    for pool in world.snapshot.node_pools:
        ours = [
            launch for launch in world.plan.launches if launch.node_pool_name == pool.name
        ]
        use = Counter[str]()
        for node in world.snapshot.nodes:
            if node.node_pool_name == pool.name and not node.deleting:
                there = world.types.get(node.instance_type)
                use.update(
                    {NODES: 1, **(node.allocatable if there is None else there.capacity)}
                )
        for launch in ours:
            keys = (launch.offering, *launch.alternatives)
            possible = [
                world.launched_as(pool, key).capacity
                for key in keys
                if key.instance_type in world.types
            ]
            most = Counter({NODES: 1})
            for capacity in possible:
                most |= Counter(dict(capacity))
            use.update({name: amount * launch.count for name, amount in most.items()})
        if ours and any(use[name] > limit for name, limit in (pool.limits or {}).items()):
            yield ViolationCode.LIMIT


def _of_money(world: _World) -> Iterator[ViolationCode]:
    plan, policy = world.plan, world.policy
    overhead = policy.node_overhead_micro_usd_per_hour * ATTO_USD_PER_MICRO_USD
    cost = sum(
        (launch.price_atto_usd_per_hour + overhead) * launch.count
        for launch in plan.launches
    )
    bound = plan.lower_bound_atto_usd_per_hour
    if plan.cost_atto_usd_per_hour != cost or (
        bound is not None and bound > plan.cost_atto_usd_per_hour
    ):
        yield ViolationCode.COST
    charged = Counter[str]()
    for launch in plan.launches:
        carried = [*_tally(launch.placements)]
        if len(carried) == 1:
            pool = world.pools.get(launch.node_pool_name)
            is_varied = pool is None or any(
                item.min_values for item in pool.requirements.values()
            )
            others = () if is_varied else launch.alternatives
            dearest = max([launch.price_atto_usd_per_hour, *map(world.price, others)])
            charged[carried[0]] += dearest * launch.count
    for key, price in charged.items():
        most = (
            world.workloads[key].max_price_micro_usd_per_hour
            if key in world.workloads
            else None
        )
        if most is not None and price > most * ATTO_USD_PER_MICRO_USD:
            yield ViolationCode.MAX_PRICE
    spot = Counter[OfferingKey]()
    for launch in plan.launches:
        if launch.offering.capacity_type is CapacityType.SPOT:
            spot[launch.offering] += launch.count
    most_nodes = -(-spot.total() * policy.spot_pool_share_percent // 100)
    if spot.total() >= policy.spot_share_from_nodes and any(
        count > most_nodes for count in spot.values()
    ):
        yield ViolationCode.SPOT_SHARE


# -- rules about other replicas


def _of_gangs(world: _World) -> Iterator[ViolationCode]:
    placed = _placed(world)
    for key, wanted in world.pending.items():
        workload = world.workloads[key]
        if workload.gang is None or not placed[key]:
            continue
        topology_key = workload.gang.single_topology_key
        domains = set() if topology_key is None else _domains(world, key, topology_key)
        if placed[key] < wanted or len(domains) > 1 or None in domains:
            yield ViolationCode.GANG


def _of_topology(world: _World) -> Iterator[ViolationCode]:
    for workload in world.workloads.values():
        for constraint in _hard_spread(workload):
            if not _is_even(world, workload, constraint):
                yield ViolationCode.SPREAD
        for term in _hard(workload.affinity):
            if not _is_near(world, workload, term):
                yield ViolationCode.AFFINITY
        for term in _hard(workload.anti_affinity):
            if not _is_apart(world, workload, term):
                yield ViolationCode.ANTI_AFFINITY


def _hard(terms: Sequence[AffinityTerm]) -> list[AffinityTerm]:
    return [term for term in terms if term.weight is None]


def _hard_spread(workload: Workload) -> list[TopologySpreadConstraint]:
    return [
        it
        for it in workload.topology_spread
        if it.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE
    ]


def _selected(
    world: _World, carrier: Workload, rule: AffinityTerm | TopologySpreadConstraint
) -> set[str]:
    """Return the workloads that a rule of the carrier is about."""
    selector, namespaces = rule.selector, frozenset({carrier.namespace})
    if isinstance(rule, AffinityTerm):
        namespaces = rule.namespaces or namespaces
    else:
        own = {
            (key, carrier.labels[key])
            for key in rule.match_label_keys
            if key in carrier.labels
        }
        selector = LabelSelector(
            tuple(sorted({*selector.match_labels, *own})), selector.match_expressions
        )
    return {
        it.key
        for it in world.workloads.values()
        if it.namespace in namespaces and selector.matches(it.labels)
    }


def _added(world: _World, key: str, topology_key: str) -> set[str | None]:
    """Return the domains to which the plan adds replicas of a workload; None where a node has no domain."""
    return {node.domain(topology_key) for node in world.nodes if node.placed.get(key)}


def _domains(world: _World, key: str, topology_key: str) -> set[str | None]:
    return {
        node.domain(topology_key)
        for node in world.nodes
        if key in node.placed or key in node.running
    }


def _is_even(
    world: _World, carrier: Workload, constraint: TopologySpreadConstraint
) -> bool:
    """Whether the domains that get replicas of the carrier have at most maxSkew more than the least (R-60 to R-62)."""
    added = _added(world, carrier.key, constraint.topology_key)
    if not added:
        return True
    counts, selected = Counter[str](), _selected(world, carrier, constraint)
    for node in world.nodes:
        domain = node.domain(constraint.topology_key)
        meets = any(
            node.description.admits(term, node.undefined) for term in terms_of(carrier)
        )
        is_counted = (meets or not constraint.node_affinity_policy_honor) and (
            _tolerates(carrier, node.taints) or not constraint.node_taints_policy_honor
        )
        if domain is not None and is_counted:
            counts[domain] += sum(
                node.placed.get(key, 0) + node.running.get(key, 0) for key in selected
            )
    least = 0
    if constraint.topology_key != labels.HOSTNAME:
        there = _possible_domains(world, carrier, constraint.topology_key)
        if constraint.min_domains is None or len(there) >= constraint.min_domains:
            least = min((counts[domain] for domain in there), default=0)
    return all(
        domain is not None and counts[domain] - least <= constraint.max_skew
        for domain in added
    )


def _possible_domains(world: _World, carrier: Workload, topology_key: str) -> set[str]:
    """Return the domains that a spread is measured over: those with nodes, and those where the carrier could be."""
    found = [node.domain(topology_key) for node in world.nodes if node.node is not None]
    existing = {domain for domain in found if domain is not None}
    offered = set[str]()
    for pool in world.snapshot.node_pools:
        ever = [*world.offered(pool, now=False)]
        of_pool = pool.requirements[topology_key]
        is_of_offerings = topology_key in (*_ZONES, labels.CAPACITY_TYPE)
        may_have = set[str]()
        for key in ever:
            may_have.update(_values(world, key, topology_key))
        if not is_of_offerings and not of_pool.complement:
            may_have.update(of_pool.values)
        offered |= may_have
    terms = terms_of(carrier)
    accepted = set[str]()
    for value in existing | offered:
        if any(term[topology_key].has(value) for term in terms):
            accepted.add(value)
    if topology_key == labels.CAPACITY_TYPE:
        accepted &= {str(market) for market in world.markets(carrier)}
    return {
        value
        for value in accepted
        if value in existing or _could_be_in(world, carrier, topology_key, value)
    }


def _values(world: _World, key: OfferingKey, topology_key: str) -> set[str]:
    """Return the values of a label that a new node from the offering could have."""
    of_offerings = {
        labels.ZONE: key.zone,
        labels.ZONE_ID: key.zone_id,
        labels.CAPACITY_TYPE: str(key.capacity_type),
    }
    if topology_key in of_offerings:
        return {of_offerings[topology_key]}
    requirement = world.types[key.instance_type].requirements[topology_key]
    return set() if requirement.complement else set(requirement.values)


def _could_be_in(world: _World, carrier: Workload, topology_key: str, value: str) -> bool:
    """Whether something that can be launched now, and is in the domain or may turn out to be, holds a replica."""
    is_of_offerings = topology_key in (*_ZONES, labels.CAPACITY_TYPE)
    for pool in world.snapshot.node_pools:
        if not _tolerates(
            carrier, binding_taints(pool.taints, pool.startup_taints, initialized=False)
        ):
            continue
        for key in world.offered(pool, now=True):
            is_there = not is_of_offerings or value in _values(world, key, topology_key)
            fits = world.needs(carrier).fits_in(world.launched_as(pool, key).allocatable)
            if is_there and fits and world.accepts(carrier, pool, key):
                return True
    return False


def _is_near(world: _World, carrier: Workload, term: AffinityTerm) -> bool:
    """Whether each domain of new replicas has one that the term is about (R-63).

    Those who only follow such a rule themselves may open one domain, if nobody else was or is anywhere.
    """
    by, selected = term.topology_key, _selected(world, carrier, term)
    own = _added(world, carrier.key, by)
    followers = {
        key for key in selected if _follows(world.workloads[key], term, carrier.namespace)
    }
    running, opened = set[str | None](), set[str | None]()
    for node in world.nodes:
        if any(node.running.get(key) for key in selected):
            running.add(node.domain(by))
        if any(key in node.placed for key in followers):
            opened.add(node.domain(by))
    anchored = running.union(*[_domains(world, key, by) for key in selected - followers])
    alone = own - anchored
    if None in own:
        return False
    may_open = not running and len(opened - anchored) <= 1
    return not alone or (may_open if carrier.key in selected else alone <= opened)


def _follows(workload: Workload, term: AffinityTerm, namespace: str) -> bool:
    """Whether the workload has the same rule about the same others."""
    return any(
        (own.topology_key, own.selector) == (term.topology_key, term.selector)
        and (own.namespaces or {workload.namespace}) == (term.namespaces or {namespace})
        for own in _hard(workload.affinity)
    )


def _is_apart(world: _World, carrier: Workload, term: AffinityTerm) -> bool:
    """Whether no domain has the carrier and another that the term is about, of which at least one is new (R-64)."""
    by, selected = term.topology_key, _selected(world, carrier, term)
    allowed = 1 if carrier.key in selected else 0
    added = _added(world, carrier.key, by)
    for domain in _domains(world, carrier.key, by) - {None}:
        fresh = running = 0
        for node in world.nodes:
            if node.domain(by) == domain:
                fresh += sum(node.placed.get(key, 0) for key in selected)
                running += sum(node.running.get(key, 0) for key in selected)
        if fresh + running > allowed and (fresh or domain in added):
            return False
    return True


def _is_held(world: _World, workload: Workload, topology_keys: frozenset[str]) -> bool:
    """Whether some rule by one of these topology keys depends on where replicas of the workload are."""
    if workload.single_topology_key in topology_keys:
        return True
    for carrier in world.workloads.values():
        rules: list[AffinityTerm | TopologySpreadConstraint] = [
            *_hard_spread(carrier),
            *_hard(carrier.affinity),
        ]
        for rule in (*rules, *_hard(carrier.anti_affinity)):
            is_concerned = carrier.key == workload.key or workload.key in _selected(
                world, carrier, rule
            )
            if rule.topology_key in topology_keys and is_concerned:
                return True
    return False


# -- rules about teams


def _of_teams(world: _World) -> Iterator[ViolationCode]:
    teams = {
        namespace: team for team in world.snapshot.teams for namespace in team.namespaces
    }
    paid, buyers, everything, is_new = Counter[str](), set[str](), 0, False
    for node in world.nodes:
        for key in node.placed:
            team = teams.get(world.workloads[key].namespace)
            if (
                team is not None
                and team.node_pools
                and node.pool_name not in team.node_pools
            ):
                yield ViolationCode.TEAM_POOL
        price = _paid_for(node)
        everything += price
        is_new = is_new or (node.launch is not None and price > 0)
        carried = Counter(node.running) + Counter(node.placed)
        for key, count in carried.items():
            team = teams.get(key.split("/", 1)[0])
            if team is not None:
                paid[team.name] += price * count // carried.total()
                if node.launch is not None and node.launch.offering.reservation_id is None:
                    buyers.add(team.name)
    ceiling = world.snapshot.ceiling_micro_usd_per_hour
    if ceiling is not None and is_new and everything > ceiling * ATTO_USD_PER_MICRO_USD:
        yield ViolationCode.TEAM_BUDGET
    for team in world.snapshot.teams:
        most = team.budget_micro_usd_per_hour
        if (
            most is not None
            and team.name in buyers
            and paid[team.name] > most * ATTO_USD_PER_MICRO_USD
        ):
            yield ViolationCode.TEAM_BUDGET


def _paid_for(node: _OneNode) -> int:
    """Return what a node costs an hour; a reserved one is paid for already."""
    if node.launch is not None:
        if node.launch.offering.reservation_id is not None:
            return 0
        return node.launch.price_atto_usd_per_hour
    if node.node is None or node.node.reservation_id is not None:
        return 0
    return node.node.price_atto_usd_per_hour
