"""Units are spent as if they were money: among plans that buy the same, fewer and less scarce ones are used."""

from dataclasses import replace

import pytest

from lab.oracle.brute_force import BruteForce
from lab.oracle.instances import Features, instance
from lab.oracle.world import NOW as ORACLE_NOW
from reservoir.core.checker import check
from reservoir.core.checking.final_state.facts import Facts
from reservoir.core.checking.totals import placed_counts
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.scheduler import solve
from tests.core.scheduler.world import (
    GIB,
    ON_DEMAND,
    ZONES,
    demand,
    fx_type,
    plain,
    planned,
    reservation,
    with_demand,
    workload,
)

GPU = "nvidia.com/gpu"
BOUGHT = [(ON_DEMAND, zone) for zone in ZONES]
SMALL_GPU = fx_type("gpu", 8, 32, 50, extra={GPU: 1}, offered=BOUGHT, price=1_000_000)
LARGE = fx_type("large", 32, 128, 50, offered=BOUGHT, price=4_000_000)
MEDIUM = fx_type("medium", 8, 32, 50, offered=BOUGHT, price=400_000)
FIRST, CERTIFIED = SchedulingPolicy(), SchedulingPolicy(with_certificate=True)
BOTH_FORMS = pytest.mark.parametrize(
    "policy", [FIRST, CERTIFIED], ids=["first", "certified"]
)


def units(plan: Plan) -> dict[str, int]:
    """Return how many reserved units of each type are used."""
    found: dict[str, int] = {}
    for launch in plan.launches:
        if launch.offering.reservation_id is not None:
            found[launch.offering.instance_type] = (
                found.get(launch.offering.instance_type, 0) + launch.count
            )
    return found


@BOTH_FORMS
def test_work_without_accelerators_leaves_them_free_even_where_they_are_cheaper(
    policy: SchedulingPolicy,
) -> None:
    reservations = (reservation("cr-gpu", "gpu", 5), reservation("cr-large", "large", 5))
    world = with_demand(
        plain(SMALL_GPU, LARGE, reservations=reservations),
        demand(workload("web", 3000, 12 * GIB), 12),
    )

    assert units(planned(world, policy=policy)) == {"large": 2}


@BOTH_FORMS
def test_accelerators_are_used_where_nothing_else_is_paid_for(
    policy: SchedulingPolicy,
) -> None:
    world = with_demand(
        plain(SMALL_GPU, LARGE, reservations=(reservation("cr-gpu", "gpu", 5),)),
        demand(workload("web", 3000, 12 * GIB), 4),
    )

    assert units(planned(world, policy=policy)) == {"gpu": 2}


@BOTH_FORMS
def test_room_beside_accelerated_work_is_used_before_another_unit(
    policy: SchedulingPolicy,
) -> None:
    reservations = (reservation("cr-gpu", "gpu", 5), reservation("cr-medium", "medium", 5))
    world = with_demand(
        plain(SMALL_GPU, MEDIUM, reservations=reservations),
        demand(workload("train", 2000, 8 * GIB, extra={GPU: 1}), 2),
        demand(workload("web", 1000, 4 * GIB), 8),
    )

    assert units(planned(world, policy=policy)) == {"gpu": 2}


@BOTH_FORMS
def test_a_dear_unit_is_not_used_for_what_cheap_ones_hold(policy: SchedulingPolicy) -> None:
    eight_gpus = fx_type(
        "eight-gpus", 64, 256, 50, extra={GPU: 8}, offered=BOUGHT, price=98_000_000
    )
    reservations = (
        reservation("cr-eight", "eight-gpus", 5),
        reservation("cr-gpu", "gpu", 8),
    )
    world = with_demand(
        plain(SMALL_GPU, eight_gpus, reservations=reservations),
        demand(workload("train", 4000, 16 * GIB, extra={GPU: 1}), 8),
    )

    assert units(planned(world, policy=policy)) == {"gpu": 8}


@BOTH_FORMS
def test_a_few_large_units_are_used_rather_than_many_small_ones_that_cost_as_much(
    policy: SchedulingPolicy,
) -> None:
    quarter = fx_type("quarter", 8, 32, 50, offered=BOUGHT, price=1_000_000)
    reservations = (
        reservation("cr-quarter", "quarter", 20),
        reservation("cr-large", "large", 5),
    )
    world = with_demand(
        plain(quarter, LARGE, reservations=reservations),
        demand(workload("web", 3800, 15 * GIB), 16),
    )

    assert units(planned(world, policy=policy)) == {"large": 2}


@pytest.mark.parametrize("seed", range(40))
def test_a_small_certified_plan_buys_the_least_that_any_plan_does(seed: int) -> None:
    """Against all plans of a small world, tried one after the other; a node costs nothing beside its price."""
    policy = replace(CERTIFIED, node_overhead_micro_usd_per_hour=0)
    snapshot = instance(seed, Features())

    plan = solve(snapshot, now=ORACLE_NOW, policy=policy)

    placed = placed_counts(Facts(snapshot, plan, ORACLE_NOW, policy))
    least = BruteForce(snapshot, policy).outcomes[
        tuple(placed[it.workload.key] for it in snapshot.demands)
    ]
    assert plan.cost_atto_usd_per_hour == pytest.approx(least, rel=1e-6)
    assert not check(snapshot, plan, now=ORACLE_NOW, policy=policy)
