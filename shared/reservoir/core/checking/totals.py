"""Rules about the plan as a whole: counts, reservations, gangs, limits, money."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import chain
from typing import Final

from reservoir.core.checking.constraints.topology import Topology
from reservoir.core.checking.final_state.facts import Facts
from reservoir.core.checking.violation import Violation, ViolationCode
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.plan import OfferingKey, PlannedNodes
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.core.scheduling_terms.resources import NODES, Resources

_ONE: Final = frozenset({1})


def placed_counts(facts: Facts) -> Counter[str]:
    """Count the replicas that the plan places, by workload."""
    # as if one node of each launch carried one replica of each
    placed = Counter(chain.from_iterable(facts.contents))
    for launch, content in zip(facts.plan.launches, facts.contents, strict=True):
        nodes = launch.count
        if nodes != 1 or not _ONE.issuperset(content.values()):
            for key, count in content.items():
                placed[key] += count * nodes - 1
    for placement in facts.plan.existing:
        for item in placement.placements:
            placed[item.workload_key] += item.count
    return placed


def total_violations(facts: Facts, topology: Topology) -> Iterator[Violation]:
    """Check everything that is counted over the plan."""
    placed = placed_counts(facts)
    yield from _replicas(facts, placed)
    yield from _gangs(facts, topology, placed)
    yield from _reservations(facts)
    yield from _limits(facts)
    yield from _prices(facts)
    yield from _spot_share(facts)
    yield from _cost(facts)


def _replicas(facts: Facts, placed: Mapping[str, int]) -> Iterator[Violation]:
    plan = facts.plan
    unplaced: Counter[str] = Counter()
    for refusal in plan.unplaced:
        unplaced[refusal.workload_key] += refusal.count
    if min([*facts.counts, *[refusal.count for refusal in plan.unplaced]], default=1) < 1:
        yield Violation(
            ViolationCode.REPLICA_COUNT, "plan", "a placement or a refusal of no replicas"
        )
    told = dict(placed)
    for key, count in unplaced.items():
        told[key] = told.get(key, 0) + count
    for key in (
        {key for key, _ in told.items() ^ facts.pending.items()}
        if told != facts.pending
        else ()
    ):
        wanted = facts.pending.get(key, 0)
        got = placed.get(key, 0)
        left = unplaced.get(key, 0)
        if key not in facts.workloads:
            yield Violation(ViolationCode.UNKNOWN_NAME, key, "is no workload")
        elif got + left != wanted:
            message = f"{got} placed and {left} unplaced of {wanted} pending"
            yield Violation(ViolationCode.REPLICA_COUNT, key, message, (key,))


def _gangs(
    facts: Facts, topology: Topology, placed: Mapping[str, int]
) -> Iterator[Violation]:
    for class_ in facts.workload_classes:
        gang = class_.first.gang
        if gang is None:
            continue
        for key in class_.workloads.keys() & facts.pending.keys() & placed.keys():
            count, wanted = placed[key], facts.pending[key]
            if not count:
                continue
            if count < wanted:
                yield Violation(
                    ViolationCode.GANG,
                    key,
                    f"{count} of {wanted} replicas of a gang",
                    (key,),
                )
            domains = gang_domains(topology, class_.workloads[key])
            if len(domains) > 1 or None in domains:
                where = ", ".join(sorted(map(str, domains)))
                message = f"is in {where} instead of one {gang.single_topology_key}"
                yield Violation(ViolationCode.GANG, key, message, (key,))


def gang_domains(topology: Topology, workload: Workload) -> Set[str | None]:
    """Return the domains of a gang's wanted single topology key in the final state; nothing without one."""
    key = workload.single_topology_key
    if key is None:
        return frozenset()
    return topology.domains(workload.key, key)


def used_units(facts: Facts) -> Counter[str]:
    """Count the units that the plan takes, by reservation."""
    used: Counter[str] = Counter()
    for launch in facts.plan.launches:
        if launch.offering.reservation_id is not None:
            used[launch.offering.reservation_id] += launch.count
    return used


def _keys_on(launches: Iterable[PlannedNodes]) -> tuple[str, ...]:
    """Return the workloads that the launches carry."""
    placements = chain.from_iterable(launch.placements for launch in launches)
    return tuple(sorted({item.workload_key for item in placements}))


def _reservations(facts: Facts) -> Iterator[Violation]:
    for reservation_id, used in sorted(used_units(facts).items()):
        reservation = facts.reservations.get(reservation_id)
        if reservation is not None and used > reservation.free_units:
            message = f"{used} claims on {reservation.free_units} free units"
            keys = _keys_on(
                it
                for it in facts.plan.launches
                if it.offering.reservation_id == reservation_id
            )
            yield Violation(
                ViolationCode.RESERVATION_OVERCOMMITTED, reservation_id, message, keys
            )


def node_use(capacity: Resources) -> Counter[str]:
    """Return what a node of this capacity uses of limits: also one of nodes."""
    return Counter({NODES: 1, **capacity})


def largest_use(facts: Facts, launch: PlannedNodes) -> dict[str, int]:
    """Return what one node of the launch may use of a limit: the most over all that may be launched (R-58)."""
    most: dict[str, int] = {NODES: 1}
    pool = facts.pools.get(launch.node_pool_name)
    names = {key.instance_type for key in launch.alternatives}
    for name in facts.types.keys() & {launch.offering.instance_type, *names}:
        instance_type = facts.types[name] if pool is None else facts.launched_as(pool, name)
        for resource, amount in instance_type.capacity.items():
            most[resource] = max(amount, most.get(resource, 0))
    return most


def pool_use(facts: Facts, pool_name: str, *, with_deleting: bool) -> Counter[str]:
    """Sum what the pool's nodes use of its limits: nodes that stay, planned ones, and optionally those that are ending.

    A node that is ending still runs, but its replacement may come first, so both sums are right: the check of the limit
    leaves it out, the check of a refusal counts it.
    """
    use: Counter[str] = Counter()
    for node in facts.snapshot.nodes:
        if node.node_pool_name == pool_name and (with_deleting or not node.deleting):
            instance_type = facts.types.get(node.instance_type)
            use.update(
                node_use(
                    node.allocatable if instance_type is None else instance_type.capacity
                )
            )
    for launch in facts.plan.launches:
        if launch.node_pool_name == pool_name:
            for resource, amount in largest_use(facts, launch).items():
                use[resource] += amount * launch.count
    return use


def _limits(facts: Facts) -> Iterator[Violation]:
    for pool in facts.snapshot.node_pools:
        is_used = any(launch.node_pool_name == pool.name for launch in facts.plan.launches)
        if pool.limits is None or not is_used:
            continue
        use = pool_use(facts, pool.name, with_deleting=False)
        for resource, limit in pool.limits.items():
            if use[resource] > limit:
                message = f"{use[resource]} {resource} where {limit} are allowed"
                keys = _keys_on(
                    it for it in facts.plan.launches if it.node_pool_name == pool.name
                )
                yield Violation(ViolationCode.LIMIT, f"pool {pool.name}", message, keys)


# Branches: one loop over launches and one over workloads, and what counts for nothing in a line each.
def _prices(facts: Facts) -> Iterator[Violation]:
    """Charge a workload with the new nodes that carry nothing else: any fair sharing of the others charges more.

    Each counts as the most expensive offering that it may be launched as; under minValues variety is wanted whatever it
    costs.
    """
    if all(
        class_.first.max_price_micro_usd_per_hour is None
        for class_ in facts.workload_classes
    ):
        return
    charged: Counter[str] = Counter()
    for launch in facts.plan.launches:
        keys = {item.workload_key for item in launch.placements}
        if len(keys) == 1:
            pool = facts.pools.get(launch.node_pool_name)
            become = () if pool is None or facts.min_values(pool) else launch.alternatives
            dearest = max(
                [launch.price_atto_usd_per_hour, *map(facts.price_atto_usd, become)]
            )
            charged[keys.pop()] += dearest * launch.count
    for key, price in sorted(charged.items()):
        workload = facts.workloads.get(key)
        most = None if workload is None else workload.max_price_micro_usd_per_hour
        if most is not None and price > most * ATTO_USD_PER_MICRO_USD:
            message = f"{price} atto-USD an hour where {most} micro-USD are allowed"
            yield Violation(ViolationCode.MAX_PRICE, key, message, (key,))


def _spot_share(facts: Facts) -> Iterator[Violation]:
    nodes: Counter[OfferingKey] = Counter()
    for launch in facts.plan.launches:
        if launch.offering.capacity_type is CapacityType.SPOT:
            nodes[launch.offering] += launch.count
    policy, total = facts.policy, nodes.total()
    if total < policy.spot_share_from_nodes:
        return
    most = -(-total * policy.spot_pool_share_percent // 100)
    for key, count in sorted(
        nodes.items(), key=lambda entry: (entry[0].instance_type, entry[0].zone_id)
    ):
        if count > most:
            subject = f"{key.instance_type} spot in {key.zone}"
            keys = _keys_on(it for it in facts.plan.launches if it.offering == key)
            yield Violation(
                ViolationCode.SPOT_SHARE,
                subject,
                f"{count} of {total} spot nodes, {most} allowed",
                keys,
            )


def _cost(facts: Facts) -> Iterator[Violation]:
    plan = facts.plan
    overhead = facts.policy.node_overhead_micro_usd_per_hour * ATTO_USD_PER_MICRO_USD
    cost = sum(
        (launch.price_atto_usd_per_hour + overhead) * launch.count
        for launch in plan.launches
    )
    if plan.cost_atto_usd_per_hour != cost:
        message = (
            f"says {plan.cost_atto_usd_per_hour}, its launches cost {cost} atto-USD an hour"
        )
        yield Violation(ViolationCode.COST, "plan", message)
    bound = plan.lower_bound_atto_usd_per_hour
    if bound is not None and bound > plan.cost_atto_usd_per_hour:
        yield Violation(
            ViolationCode.COST, "plan", "costs less than what it calls a lower bound"
        )
