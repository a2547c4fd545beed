"""Passes of disruption: processor time of the first, passes until rest, savings against packing everything anew.

``nodes-N`` has the shape of Karpenter's consolidation benchmark, with the nodes in the snapshot: node i is of type
ladder[i mod 100] in zone i mod 3, on demand, 16 vCPU / 64 GiB / 110 pods, with ten replicas of 100 to 499 millicores
and 128 to 639 MiB, every replica a workload of its own. ``fleet-N`` is a fleet of EC2 types on three markets, a third
to nine tenths full of replicas of 60 workloads, with a few free reserved units. Budgets are 100 %, so that only the
effort that a pass may spend bounds it.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from lab.bench.harness import fresh, peak_rss_mib, repeated
from lab.bench.worlds.catalogue import ec2_catalogue
from lab.bench.worlds.common import NAMESPACE, node_class, node_pool
from lab.bench.worlds.fleet import Fleet
from lab.bench.worlds.ladder import ZONES, ladder
from lab.calibration import Figures
from reservoir.core.capacity.offerings import ReservedPrices
from reservoir.core.disruption.decide import decide_disruption
from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.plan import OfferingKey, Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms.labels import INSTANCE_CATEGORY
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.core.scheduling_terms.resources import Resources

_SIZES: Final = (100, 500, 2000, 5000)
_SEED: Final = 42
_MIB: Final = 2**20
_ALLOCATABLE: Final = Resources.of({"cpu": 16_000, "memory": 64 * 1024 * _MIB, "pods": 110})
_REPLICAS_A_NODE: Final = 10
_WORKLOADS: Final = 60
_NODE_TYPES: Final = 24
_RESERVED_TYPES: Final = 6
_CPUS: Final = (250, 500, 1000, 2000)
_GIB_PER_CPU: Final = (1, 2, 4, 8)
_PASSES_MAX: Final = 60
_QUIET_PASSES: Final = 3  # each begins at other nodes
# What a node costs beside its price is left out, so that what is compared is prices alone.
_BARE: Final = SchedulingPolicy(node_overhead_micro_usd_per_hour=0)


def cases() -> Sequence[str]:
    """Name the fleets."""
    return [f"{shape}-{size}" for shape in ("nodes", "fleet") for size in _SIZES]


def run(case: str) -> Figures:
    """Measure one fleet; the first pass as the median of fresh processes, the way to rest once."""
    return repeated("lab.bench.scheduling.disruption:first_pass", case) | fresh(
        "lab.bench.scheduling.disruption:until_quiet", case
    )


def make(case: str) -> Fleet:
    """Make the fleet of a case."""
    shape, _, size = case.partition("-")
    return _karpenters(int(size)) if shape == "nodes" else _mixed(int(size))


def first_pass(case: str) -> Figures:
    """Measure one pass on the fleet as it is."""
    it = make(case)
    given = it.given()
    simulated: list[int] = []

    def ask(snapshot: Snapshot) -> Plan:
        simulated.append(1)
        return solve(snapshot, now=it.now, policy=SchedulingPolicy())

    started = time.process_time()
    decision = decide_disruption(given, ask, now=it.now)
    pass_s = time.process_time() - started
    return {
        "pass_cpu_s": pass_s,
        "peak_rss_mib": peak_rss_mib(),
        "simulations": len(simulated),
        "commands": len(decision.commands),
        "nodes_removed": sum(len(command.claim_ids) for command in decision.commands),
        "nodes_launched": sum(
            nodes.count for command in decision.commands for nodes in command.replacements
        ),
    }


def until_quiet(case: str) -> Figures:
    """Apply passes, a minute apart, until three in a row (or one that looked at everything) have nothing to do."""
    it = make(case)
    nodes, before = len(it.claims), it.cost()
    anew = packed_anew(it) if it.reservations else None
    bound = anew.lower_bound_atto_usd_per_hour if anew is not None else _bound_by_totals(it)
    assert bound is not None
    replicas = it.replicas()
    working = quiet = 0
    slowest_s = 0.0
    for _ in range(_PASSES_MAX):
        given, cost = it.given(), it.cost()
        started = time.process_time()
        decision = decide_disruption(
            given, partial(solve, now=it.now, policy=SchedulingPolicy()), now=it.now
        )
        slowest_s = max(slowest_s, time.process_time() - started)
        it.apply(decision, SchedulingPolicy())
        assert it.replicas() == replicas
        if decision.commands:
            assert it.cost() < cost, "a pass made the fleet dearer"
            working, quiet = working + 1, 0
        else:
            quiet += 1
            if quiet == _QUIET_PASSES or not any(
                "later pass" in refusal.reason for refusal in decision.refusals
            ):
                break
    return {
        "slowest_pass_cpu_s": round(slowest_s, 4),
        "passes_that_changed_something": working,
        "nodes_before": nodes,
        "nodes_after": len(it.claims),
        "instances_ended": it.ended,
        "instances_started": it.started,
        "replicas": replicas.total(),
        "replica_moves": it.moved,
        "cost_before_usd_per_hour": _usd(before),
        "cost_after_usd_per_hour": _usd(it.cost()),
        "packed_anew_usd_per_hour": None
        if anew is None
        else _usd(anew.cost_atto_usd_per_hour),
        "bound_usd_per_hour": _usd(bound),
        "saved_share_of_possible": round((before - it.cost()) / (before - bound), 4),
    }


def _usd(atto: int) -> float:
    return round(atto / ATTO_USD_PER_MICRO_USD / 10**6, 2)


def packed_anew(it: Fleet) -> Plan:
    """Plan for all replicas of the fleet as if no node stood and all units of the reservations were free; certified."""
    demands = tuple(
        Demand(it.workloads[key], count, it.now)
        for key, count in sorted(it.replicas().items())
    )
    free = tuple(replace(each, free_units=each.total_count) for each in it.reservations)
    anew = replace(it.snapshot(demands), nodes=(), reservations=free)
    plan = solve(anew, now=it.now, policy=replace(_BARE, with_certificate=True))
    assert not plan.unplaced
    return plan


def _bound_by_totals(it: Fleet) -> int:
    """Return a price an hour, in atto-USD, below which nothing can hold all replicas of a fleet on the ladder.

    By CPU and by memory alone: the cheapest nodes that stand, in fractions, then fractions of new ones (prices are
    linear in size).
    """
    return max(_by_one_resource(it, name) for name in ("cpu", "memory"))


def _by_one_resource(it: Fleet, name: str) -> int:
    left = sum(
        it.workloads[key].requests[name] * count for key, count in it.replicas().items()
    )
    new = [
        (_price(kind, CapacityType.ON_DEMAND), kind.allocatable[name]) for kind in it.types
    ]
    new_price, new_size = min(new, key=lambda offer: offer[0] / offer[1])
    total = 0
    for claim in sorted(
        it.claims.values(),
        key=lambda claim: claim.price_atto_usd_per_hour / claim.allocatable[name],
    ):
        price, size = claim.price_atto_usd_per_hour, claim.allocatable[name]
        if left <= 0 or price * new_size > new_price * size:
            break
        taken = min(left, size)
        total += price * taken // size
        left -= taken
    return total + max(0, left) * new_price // new_size


def _price(kind: InstanceType, market: CapacityType) -> int:
    prices = [
        it.price_micro_usd_per_hour for it in kind.offerings if it.capacity_type is market
    ]
    return min(prices) * ATTO_USD_PER_MICRO_USD


def _karpenters(size: int) -> Fleet:
    rng = random.Random(_SEED)
    types = ladder(100)
    pool = node_pool("pool-0", capacity_types=(CapacityType.ON_DEMAND,))
    workloads: dict[str, Workload] = {}
    it = Fleet(types, pool, node_class(ZONES), workloads)
    for index in range(size):
        kind, zone = types[index % len(types)], ZONES[index % len(ZONES)]
        alone = [_replica(index, position, rng) for position in range(_REPLICAS_A_NODE)]
        workloads.update({workload.key: workload for workload in alone})
        offering = OfferingKey(kind.name, *zone, CapacityType.ON_DEMAND)
        placed = dict.fromkeys((workload.key for workload in alone), 1)
        it.add(
            f"nc-{index:05d}",
            offering,
            _price(kind, CapacityType.ON_DEMAND),
            _ALLOCATABLE,
            placed,
        )
    return it


def _replica(index: int, position: int, rng: random.Random) -> Workload:
    requests = {
        "cpu": rng.randrange(100, 500),
        "memory": rng.randrange(128, 640) * _MIB,
        "pods": 1,
    }
    app = {"app": f"bench-{position % 5}"}
    return Workload(
        NAMESPACE, f"w-{index}-{position}", 1, 1, Resources.of(requests), labels=app
    )


def _mixed(size: int) -> Fleet:
    rng = random.Random(_SEED)
    catalogue = ec2_catalogue()
    usual = [
        kind
        for kind in catalogue.instance_types
        if kind.requirements.labels()[INSTANCE_CATEGORY] in "cmr"
        and 4_000 <= kind.capacity["cpu"] <= 32_000
    ]
    kinds = rng.sample(usual, _NODE_TYPES)
    drawn = [_workload(index, rng) for index in range(_WORKLOADS)]
    workloads = {workload.key: workload for workload in drawn}
    chosen = [_choice(kinds, rng) for _ in range(size)]
    reservations = tuple(
        _reservation(kind, chosen, max(1, size // 100)) for kind in kinds[:_RESERVED_TYPES]
    )
    prices = ReservedPrices.of(catalogue.instance_types)
    classes = node_class(catalogue.zones, (it.id for it in reservations))
    it = Fleet(
        catalogue.instance_types, node_pool("pool-0"), classes, workloads, reservations
    )
    for index, (kind, offering) in enumerate(chosen):
        if offering.capacity_type is CapacityType.RESERVED:
            price = prices.atto_usd_per_hour(kind)
        else:
            price = next(
                each.price_micro_usd_per_hour * ATTO_USD_PER_MICRO_USD
                for each in kind.offerings
                if (each.zone, each.capacity_type)
                == (offering.zone, offering.capacity_type)
            )
        it.add(
            f"nc-{rng.randrange(10**6):06d}-{index:05d}",
            offering,
            price,
            kind.allocatable,
            _content(kind, it, rng),
        )
    return it


def _workload(index: int, rng: random.Random) -> Workload:
    cpu = rng.choice(_CPUS)
    requests = {
        "cpu": cpu,
        "memory": cpu * rng.choice(_GIB_PER_CPU) * 1024 * _MIB // 1000,
        "pods": 1,
    }
    return Workload(NAMESPACE, f"w-{index:02d}", 1, 1, Resources.of(requests))


def _choice(
    kinds: Sequence[InstanceType], rng: random.Random
) -> tuple[InstanceType, OfferingKey]:
    """Choose a type and an offering: half on demand, three tenths spot, two tenths reserved (in the first zone)."""
    market = rng.choices(
        (CapacityType.ON_DEMAND, CapacityType.SPOT, CapacityType.RESERVED), (5, 3, 2)
    )[0]
    if market is CapacityType.RESERVED:
        kind = rng.choice(kinds[:_RESERVED_TYPES])
        first = kind.offerings[0]
        return kind, OfferingKey(
            kind.name, first.zone, first.zone_id, market, f"cr-{kind.name}"
        )
    kind = rng.choice([kind for kind in kinds if _is_sold(kind, market)])
    offering = rng.choice([it for it in kind.offerings if it.capacity_type is market])
    return kind, OfferingKey(kind.name, offering.zone, offering.zone_id, market)


def _is_sold(kind: InstanceType, market: CapacityType) -> bool:
    return any(offering.capacity_type is market for offering in kind.offerings)


def _reservation(
    kind: InstanceType, chosen: Sequence[tuple[InstanceType, OfferingKey]], free: int
) -> CapacityReservation:
    standing = sum(key.reservation_id == f"cr-{kind.name}" for _, key in chosen)
    first = kind.offerings[0]
    return CapacityReservation(
        f"cr-{kind.name}",
        "1",
        kind.name,
        first.zone,
        first.zone_id,
        ReservationKind.DEFAULT,
        "active",
        standing + free,
        free,
        free_units=free,
    )


def _content(kind: InstanceType, it: Fleet, rng: random.Random) -> dict[str, int]:
    """Fill a node with random replicas up to a share of its CPU."""
    wanted = kind.allocatable["cpu"] * rng.uniform(0.33, 0.9)
    free, placed = dict(kind.allocatable), dict.fromkeys(it.workloads, 0)
    for key in rng.choices(list(it.workloads), k=100):
        requests = it.workloads[key].requests
        if kind.allocatable["cpu"] - free["cpu"] + requests["cpu"] > wanted:
            break
        if all(amount <= free[name] for name, amount in requests.items()):
            placed[key] += 1
            for name, amount in requests.items():
                free[name] -= amount
    return {key: count for key, count in placed.items() if count}
