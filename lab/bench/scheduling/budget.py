"""How long a pass takes whose demand is too much for its budget: the budget must bound it, whatever the demand is.

``budget-KIND-N-Ss``: N workloads that all differ, each of one replica (a gang of four for ``gangs``), over EC2's
catalogue with reservations, planned as the deployed planner does within S seconds of processor time. Kinds: ``plain``;
``accelerated``, a third of it on GPUs; ``spread``, with a rule over zones each; ``gangs``; ``flexible``, where a pool
wants five instance types to choose from; ``pools``, fifty pools of a family and a zone each; ``impossible``, where
nothing holds any of them, so that a reason is looked for each; ``region1``, ``region10`` and ``region50``,
so many pools that admit all that EC2 sells in a region.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from importlib import import_module
from typing import Final

from lab.bench.harness import fresh, peak_rss_mib
from lab.bench.worlds.catalogue import GPU
from lab.bench.worlds.common import NOW, node_class, one_of
from lab.bench.worlds.mix import Mix, mix_snapshot
from lab.bench.worlds.region import whole_region
from lab.calibration import Figures
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import (
    Demand,
    Gang,
    LabelSelector,
    TopologySpreadConstraint,
    Workload,
)
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.runtime.composition.parts.planning import solve_within
from reservoir.runtime.garbage import collection_paused

_SEED: Final = 31
_POOLS: Final = 50
_GANG_SIZE: Final = 4
_POLICY: Final = SchedulingPolicy(with_certificate=True)


def cases() -> Sequence[str]:
    """Return one case a kind, size and budget."""
    sizes = {
        "plain": (3_000, 20_000),
        "accelerated": (3_000,),
        "spread": (3_000,),
        "gangs": (1_000,),
    }
    sizes |= {"flexible": (3_000,), "pools": (3_000,), "impossible": (3_000,)}
    sizes |= {"region1": (1_000,), "region10": (1_000,), "region50": (1_000,)}
    return [
        f"budget-{kind}-{size}-{seconds}s"
        for kind in sizes
        for size in sizes[kind]
        for seconds in (1, 5, 10)
    ]


def run(case: str) -> Figures:
    """Plan a case in a process of its own."""
    return fresh("lab.bench.scheduling.budget:measure", case)


def measure(case: str) -> Figures:
    """Return how long the pass took, what it left over for lack of time, and what its plan costs."""
    _, kind, size, seconds = case.split("-")
    budget_s = int(seconds.removesuffix("s"))
    snapshot = world(kind, int(size))
    # a process imports it once, not in each pass
    import_module("reservoir.core.solver.column_generation.improve")
    solve = solve_within(timedelta(seconds=budget_s), time.process_time)
    with collection_paused():
        started_s = time.process_time()
        plan = solve(snapshot, NOW, _POLICY)
        took_s = time.process_time() - started_s
    left = sum(item.count for item in plan.unplaced)
    return {
        "budget_s": budget_s,
        "pass_cpu_s": round(took_s, 2),
        "of_budget_percent": round(100 * took_s / budget_s),
        "replicas": sum(demand.pending_count for demand in snapshot.demands),
        "left_over": left,
        "cost_usd_per_hour": round(plan.cost_atto_usd_per_hour / 1e18, 2),
        "has_certificate": plan.lower_bound_atto_usd_per_hour is not None,
        "peak_mib": peak_rss_mib(),
    }


def world(kind: str, size: int) -> Snapshot:
    """Return the world of a kind: so many workloads that all differ."""
    return _KINDS[kind](size)


def _plain(size: int) -> Snapshot:
    return mix_snapshot(Mix(size, shapes=size, seed=_SEED))


def _accelerated(size: int) -> Snapshot:
    """Draw until a third of the workloads ask for GPUs."""
    snapshot = _plain(8 * size)
    on_gpus = [demand for demand in snapshot.demands if demand.workload.requests[GPU]][
        : size // 3
    ]
    others = [demand for demand in snapshot.demands if not demand.workload.requests[GPU]]
    return replace(snapshot, demands=(*on_gpus, *others[: size - len(on_gpus)]))


def _spread(size: int) -> Snapshot:
    def with_rule(workload: Workload) -> Workload:
        rule = TopologySpreadConstraint(
            labels.ZONE, 1, LabelSelector((("app", workload.name),))
        )
        return replace(workload, labels={"app": workload.name}, topology_spread=(rule,))

    return _each(_plain(size), with_rule)


def _gangs(size: int) -> Snapshot:
    def as_gang(workload: Workload) -> Workload:
        return replace(workload, replicas=_GANG_SIZE, gang=Gang())

    return _each(_plain(size), as_gang)


def _flexible(size: int) -> Snapshot:
    snapshot = _plain(size)
    pools = []
    for pool in snapshot.node_pools:
        of_types = replace(pool.requirements[labels.INSTANCE_TYPE], min_values=5)
        pools.append(replace(pool, requirements=pool.requirements.add(of_types)))
    return replace(snapshot, node_pools=tuple(pools))


def _pools(size: int) -> Snapshot:
    """Divide the plain pool by family and zone, the families with most types first."""
    snapshot = _plain(size)
    plain, *others = snapshot.node_pools
    types = [item for item in snapshot.instance_types if not item.capacity[GPU]]
    counts: dict[str, int] = {}
    for item in types:
        family = item.name.partition(".")[0]
        counts[family] = counts.get(family, 0) + 1
    families = sorted(counts, key=lambda family: (-counts[family], family))
    zones = sorted({offering.zone for item in types for offering in item.offerings})
    places = [(family, zone) for family in families for zone in zones][:_POOLS]
    narrow = []
    for family, zone in places:
        where = (one_of(labels.INSTANCE_FAMILY, family), one_of(labels.ZONE, zone))
        narrow.append(
            replace(
                plain, name=f"{family}-{zone}", requirements=plain.requirements.add(*where)
            )
        )
    return replace(snapshot, node_pools=(plain, *narrow, *others))


def _region(size: int, pools: int) -> Snapshot:
    """Sell all types of a region, through so many pools that admit all of them."""
    snapshot, region = _plain(size), whole_region()
    plain, *others = snapshot.node_pools
    alike = [replace(plain, name=f"{plain.name}-{number}") for number in range(pools)]
    reservation_ids = [reservation.id for reservation in snapshot.reservations]
    return replace(
        snapshot,
        instance_types=region.instance_types,
        node_pools=(*alike, *others),
        node_classes=(node_class(region.zones, reservation_ids),),
    )


def _impossible(size: int) -> Snapshot:
    def grown(workload: Workload) -> Workload:
        requests = Resources.of(
            {
                **dict(workload.requests.items()),
                "memory": 2**50 + workload.requests["memory"],
            }
        )
        return replace(workload, requests=requests)

    return _each(_plain(size), grown)


def _each(snapshot: Snapshot, changed: Callable[[Workload], Workload]) -> Snapshot:
    demands = []
    for demand in snapshot.demands:
        workload = changed(replace(demand.workload, replicas=1))
        demands.append(Demand(workload, workload.replicas, demand.pending_since))
    return replace(snapshot, demands=tuple(demands))


_KINDS: Final[Mapping[str, Callable[[int], Snapshot]]] = {
    "plain": _plain,
    "accelerated": _accelerated,
    "spread": _spread,
    "gangs": _gangs,
    "flexible": _flexible,
    "pools": _pools,
    "impossible": _impossible,
    "region1": partial(_region, pools=1),
    "region10": partial(_region, pools=10),
    "region50": partial(_region, pools=50),
}
