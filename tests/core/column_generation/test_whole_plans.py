"""Certified plans keep every rule, leave no more over than first ones, and carry a bound that no plan undercuts."""

from dataclasses import replace
from functools import cache

import pytest

from lab.bench.worlds import ladder
from lab.bench.worlds.common import NOW as BENCH_NOW
from lab.bench.worlds.common import counted
from lab.bench.worlds.mix import Mix, mix_snapshot
from lab.oracle.brute_force import BruteForce
from lab.oracle.instances import Features, instance
from lab.oracle.world import NOW
from reservoir.core.checker import check
from reservoir.core.checking.final_state.facts import Facts
from reservoir.core.checking.totals import placed_counts
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.serialisation.json_codec import dumps

FIRST, CERTIFIED = SchedulingPolicy(), SchedulingPolicy(with_certificate=True)
FAMILIES = {
    "plain": Features(),
    "topology": Features(topology=True),
    "limits": Features(limits=True),
    "nodes": Features(nodes=True),
}
SEEDS = range(40)


@cache
def mix(seed: int) -> Snapshot:
    return mix_snapshot(Mix(400, shapes=25, seed=seed, reserved_percent=50))


def limited(snapshot: Snapshot) -> Snapshot:
    """Return the world with limits that bind on CPU bought for plain work."""
    bought = solve(snapshot, now=BENCH_NOW, policy=FIRST)
    types = {item.name: item for item in snapshot.instance_types}
    used = sum(
        types[launch.offering.instance_type].capacity["cpu"] * launch.count
        for launch in bought.launches
        if launch.node_pool_name == "general"
    )
    limits = Resources.of({"cpu": used, "nodes": 400})
    pools = (replace(snapshot.node_pools[0], limits=limits), *snapshot.node_pools[1:])
    return replace(snapshot, node_pools=pools)


def unplaced(plan: Plan) -> int:
    return sum(item.count for item in plan.unplaced)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["plain", "limits", "floor"])
def test_a_certified_plan_is_right_and_costs_no_less_than_its_bound(
    kind: str, seed: int
) -> None:
    snapshot = limited(mix(seed)) if kind == "limits" else mix(seed)
    floor = 30 if kind == "floor" else 0
    first = solve(
        snapshot, now=BENCH_NOW, policy=replace(FIRST, reserved_floor_percent=floor)
    )
    policy = replace(CERTIFIED, reserved_floor_percent=floor)

    certified = solve(snapshot, now=BENCH_NOW, policy=policy)

    assert check(snapshot, certified, now=BENCH_NOW, policy=policy) == ()
    assert unplaced(certified) <= unplaced(first)
    assert certified.lower_bound_atto_usd_per_hour is not None
    assert 0 < certified.lower_bound_atto_usd_per_hour <= certified.cost_atto_usd_per_hour


def ranked(snapshot: Snapshot) -> Snapshot:
    """Return the world with three priorities."""
    ranks = enumerate(snapshot.demands)
    demands = (
        replace(item, workload=replace(item.workload, priority=10 * (index % 3)))
        for index, item in ranks
    )
    return replace(snapshot, demands=tuple(demands))


@pytest.mark.parametrize("seed", [0, 2, 5])
def test_column_generation_leaves_reserved_units_to_the_important(seed: int) -> None:
    snapshot = ranked(mix(seed))
    first = solve(snapshot, now=BENCH_NOW, policy=FIRST)
    certified = solve(snapshot, now=BENCH_NOW, policy=CERTIFIED)

    assert check(snapshot, first, now=BENCH_NOW, policy=FIRST) == ()
    assert check(snapshot, certified, now=BENCH_NOW, policy=CERTIFIED) == ()
    assert unplaced(certified) == unplaced(first) == 0


@pytest.mark.parametrize("seed", [13, 17, 29, 38])
def test_a_certified_plan_is_never_dearer_than_the_first_one(seed: int) -> None:
    """The program finds a cheaper packing for these, from which elimination and rightsizing make a dearer plan."""
    snapshot = ladder.snapshot(counted(ladder.diverse(100, seed), "pod"))
    first = solve(snapshot, now=BENCH_NOW, policy=FIRST)

    certified = solve(snapshot, now=BENCH_NOW, policy=CERTIFIED)

    assert certified.cost_atto_usd_per_hour <= first.cost_atto_usd_per_hour


def test_column_generation_repeats_itself() -> None:
    certified = solve(mix(0), now=BENCH_NOW, policy=CERTIFIED)

    assert dumps(solve(mix(0), now=BENCH_NOW, policy=CERTIFIED)) == dumps(certified)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_no_plan_that_places_as_much_undercuts_the_bound(family: str, seed: int) -> None:
    snapshot = instance(seed, FAMILIES[family])
    plan = solve(snapshot, now=NOW, policy=CERTIFIED)
    placed = placed_counts(Facts(snapshot, plan, NOW, CERTIFIED))
    vector = tuple(placed[item.workload.key] for item in snapshot.demands)

    least = BruteForce(snapshot, CERTIFIED).outcomes[vector]

    assert plan.lower_bound_atto_usd_per_hour is not None
    assert plan.lower_bound_atto_usd_per_hour <= least
    assert check(snapshot, plan, now=NOW, policy=CERTIFIED) == ()
