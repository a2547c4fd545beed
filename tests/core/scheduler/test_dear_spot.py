"""Nothing on spot costs more than what could be had on demand (R-115): not as planned, and not as launched."""

import random
from dataclasses import replace
from typing import Any

import pytest

from reservoir.core.checker import ViolationCode, check
from reservoir.core.model.instance_type import InstanceType
from reservoir.core.model.plan import OfferingKey, Plan, PlannedNodes
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import FallbackStep, Gang, Workload
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.labels import CAPACITY_TYPE
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.resources import Resources
from tests.core.scheduler.world import (
    NOW,
    ON_DEMAND,
    POLICY,
    SPOT,
    demand,
    fx_type,
    launched,
    markets,
    near,
    plain,
    planned,
    pool,
    require,
    spread,
    with_demand,
    workload,
)

EITHER = (pool("default", markets(SPOT, ON_DEMAND)),)
# The small types are out of spot; what is left of spot is large.
SMALL = fx_type("small", 2, 8, 110, offered=((ON_DEMAND, "zone-1"),), price=96_000)
LARGE = fx_type("large", 16, 64, 110, price={ON_DEMAND: 768_000, SPOT: 256_000})


def offers(plan: Plan) -> list[str]:
    """What each launch may become, in order."""
    (launch,) = plan.launches
    return [
        f"{key.instance_type}:{key.capacity_type.value}"
        for key in (launch.offering, *launch.alternatives)
    ]


def test_a_small_job_is_not_put_on_large_spot_while_small_on_demand_costs_less() -> None:
    plan = planned(
        with_demand(plain(SMALL, LARGE, node_pools=EITHER), demand(workload(cpu=1000)))
    )
    assert launched(plan) == {"small:on-demand": 1}


def test_spot_falls_back_to_nothing_that_costs_more_than_on_demand() -> None:
    """The launch hears of the on-demand offering too, so that it can compare prices as they are by then."""
    small = fx_type(
        "small",
        2,
        8,
        110,
        offered=((ON_DEMAND, "zone-1"), (SPOT, "zone-1")),
        price={ON_DEMAND: 96_000, SPOT: 30_000},
    )
    middle = fx_type(
        "middle", 4, 16, 110, offered=((SPOT, "zone-1"),), price={SPOT: 60_000}
    )
    plan = planned(
        with_demand(
            plain(small, middle, LARGE, node_pools=EITHER), demand(workload(cpu=1000))
        )
    )
    assert offers(plan) == ["small:spot", "middle:spot", "small:on-demand"]


def test_a_job_that_fills_large_spot_stays_on_it() -> None:
    plan = planned(
        with_demand(plain(SMALL, LARGE, node_pools=EITHER), demand(workload(cpu=1000), 15))
    )
    assert launched(plan) == {"large:spot": 1}


def test_equal_prices_are_not_dearer() -> None:
    small = fx_type("small", 2, 8, 110, offered=((ON_DEMAND, "zone-1"),), price=256_000)
    plan = planned(
        with_demand(plain(small, LARGE, node_pools=EITHER), demand(workload(cpu=1000)))
    )
    assert set(offers(plan)) >= {"large:spot", "small:on-demand"} or launched(plan) == {
        "small:on-demand": 1
    }


@pytest.mark.parametrize(
    ("pools", "wanted"),
    [
        ((pool("default", markets(SPOT)),), workload(cpu=1000)),
        (
            EITHER,
            workload(cpu=1000, node_selector=require(CAPACITY_TYPE, Operator.IN, "spot")),
        ),
        (
            EITHER,
            workload(cpu=1000, fallback=(FallbackStep(SPOT, 900), FallbackStep(ON_DEMAND))),
        ),
    ],
    ids=[
        "the pool sells spot alone",
        "the workload wants spot",
        "its ladder has not come to on-demand",
    ],
)
def test_where_only_spot_may_serve_it_may_cost_what_it_costs(
    pools: tuple[object, ...], wanted: Workload
) -> None:
    plan = planned(with_demand(plain(SMALL, LARGE, node_pools=pools), demand(wanted)))
    assert launched(plan) == {"large:spot": 1}


def test_who_asks_for_variety_gets_it() -> None:
    variety = Requirement.new(labels.INSTANCE_TYPE, Operator.EXISTS, (), min_values=2)
    small = fx_type(
        "small",
        2,
        8,
        110,
        offered=((ON_DEMAND, "zone-1"), (SPOT, "zone-1")),
        price={ON_DEMAND: 96_000, SPOT: 30_000},
    )
    pools = (pool("default", markets(SPOT, ON_DEMAND), variety),)
    plan = planned(
        with_demand(plain(small, LARGE, node_pools=pools), demand(workload(cpu=1000)))
    )
    assert set(offers(plan)) == {"small:spot", "large:spot"}


def test_markets_that_are_spread_stay_as_they_were_dealt() -> None:
    wanted = workload(cpu=1000, topology_spread=(spread(CAPACITY_TYPE),))
    plan = planned(with_demand(plain(SMALL, LARGE, node_pools=EITHER), demand(wanted, 2)))
    assert launched(plan) == {"large:spot": 1, "small:on-demand": 1}


def test_nor_whom_others_spread_over_markets() -> None:
    """Three who look alike go to both markets because the last of them spreads over them, the others carry no rule."""
    others = [
        demand(workload(name, cpu=1000, labels={"app": "job"})) for name in ("a", "b")
    ]
    last = demand(workload("job", cpu=1000, topology_spread=(spread(CAPACITY_TYPE),)))
    plan = planned(with_demand(plain(SMALL, LARGE, node_pools=EITHER), *others, last))
    assert launched(plan).keys() == {"large:spot", "small:on-demand"}


def test_the_checker_sees_spot_that_costs_more() -> None:
    world = with_demand(plain(SMALL, LARGE, node_pools=EITHER), demand(workload(cpu=1000)))
    bad = plan_of(world, OfferingKey("large", "zone-1", "id-zone-1", SPOT))
    (violation,) = check(world, bad, now=NOW, policy=POLICY)
    assert violation.code is ViolationCode.DEAR_SPOT
    assert not violation.forbids_commit  # it does what was asked, for too much


def test_the_checker_sees_an_alternative_that_costs_more() -> None:
    small = fx_type("small", 2, 8, 110, price={ON_DEMAND: 96_000, SPOT: 30_000})
    world = with_demand(plain(small, LARGE, node_pools=EITHER), demand(workload(cpu=1000)))
    large = OfferingKey("large", "zone-1", "id-zone-1", SPOT)
    bad = plan_of(world, OfferingKey("small", "zone-1", "id-zone-1", SPOT), large)
    (violation,) = check(world, bad, now=NOW, policy=POLICY)
    assert violation.code is ViolationCode.DEAR_SPOT


def plan_of(world: Snapshot, first: OfferingKey, *alternatives: OfferingKey) -> Plan:
    """One node for the world's only replica."""
    good = planned(world).launches[0]
    prices = {
        (it.name, o.zone, o.capacity_type): o.price_micro_usd_per_hour
        for it in world.instance_types
        for o in it.offerings
    }
    price = prices[first.instance_type, first.zone, first.capacity_type] * 10**12
    own = {
        labels.INSTANCE_TYPE: first.instance_type,
        CAPACITY_TYPE: "spot",
        labels.ZONE: first.zone,
        labels.ZONE_ID: first.zone_id,
    }
    launch = PlannedNodes(
        good.node_pool_name,
        good.node_class_name,
        first,
        price,
        1,
        good.placements,
        alternatives,
        {**good.labels, **own},
    )
    overhead = POLICY.node_overhead_micro_usd_per_hour * 10**12
    return Plan((launch,), cost_atto_usd_per_hour=price + overhead)


def random_types(rng: random.Random) -> list[InstanceType]:
    """Types of many sizes; a third of them out of spot, and spot at any share of the on-demand price."""
    types = []
    for index in range(12):
        cpus = rng.choice((1, 2, 4, 8, 16, 32))
        price = cpus * rng.randint(30_000, 60_000)
        markets_sold = [ON_DEMAND] + [SPOT] * (rng.random() < 0.66)
        types.append(
            fx_type(
                f"t{index}",
                cpus,
                cpus * rng.choice((2, 4, 8)),
                110,
                offered=[
                    (market, zone)
                    for market in markets_sold
                    for zone in ("zone-1", "zone-2")
                ],
                price={ON_DEMAND: price, SPOT: price * rng.randint(20, 100) // 100},
            )
        )
    return types


def random_workload(rng: random.Random, index: int) -> Workload:
    """Some of a whole group, some that share no node, some with a bound on what they may cost."""
    app = f"job-{index}"
    changes: dict[str, Any] = rng.choice(
        (
            {},
            {"anti_affinity": (near(labels.HOSTNAME, app=app),)},
            {"topology_spread": (spread(labels.HOSTNAME, rng.randint(1, 3), app=app),)},
            {"topology_spread": (spread(labels.ZONE, app=app),)},
            {"gang": Gang()},
            {"max_price_micro_usd_per_hour": rng.randint(200_000, 3_000_000)},
        )
    )
    return workload(
        app, cpu=rng.randint(100, 8_000), memory=rng.randint(1, 16) << 30, **changes
    )


@pytest.mark.parametrize("seed", [*range(60), 909])
@pytest.mark.parametrize("share", [100, 40])
def test_no_launch_may_become_anything_dearer_than_every_on_demand_offering_that_would_do(
    seed: int, share: int
) -> None:
    """By brute force over the catalogue, for each launch of random worlds, with and without shares of spot pools."""
    rng = random.Random(seed)  # noqa: S311 - reproducible, not secret
    types = random_types(rng)
    demands = [
        demand(random_workload(rng, index), rng.randint(1, 9))
        for index in range(rng.randint(1, 6))
    ]
    limits = (
        Resources.of({"cpu": rng.randint(10, 100) * 1000}) if rng.random() < 0.5 else None
    )
    pools = (replace(EITHER[0], limits=limits),)
    world = with_demand(plain(*types, node_pools=pools), *demands)
    policy = SchedulingPolicy(spot_pool_share_percent=share, spot_share_from_nodes=1)
    plan = solve(world, now=NOW, policy=policy)
    assert ViolationCode.DEAR_SPOT not in {
        violation.code for violation in check(world, plan, now=NOW, policy=policy)
    }
    by_name = {it.name: it for it in types}
    requests = {item.workload.key: item.workload.requests for item in demands}
    for launch in plan.launches:
        load = sum(
            (
                requests[placed.workload_key] * placed.count
                for placed in launch.placements[1:]
            ),
            start=requests[launch.placements[0].workload_key] * launch.placements[0].count,
        )
        pods = sum(placed.count for placed in launch.placements)
        cpus = by_name[launch.offering.instance_type].capacity["cpu"]
        fitting = [
            it
            for it in types
            if load.fits_in(it.allocatable) and pods <= it.allocatable["pods"]
        ]
        if limits is not None:
            fitting = [it for it in fitting if it.capacity["cpu"] <= cpus]
        ceiling = min(
            o.price_micro_usd_per_hour
            for it in fitting
            for o in it.offerings
            if o.capacity_type is ON_DEMAND
        )
        for key in (launch.offering, *launch.alternatives):
            if key.capacity_type is SPOT:
                (price,) = {
                    o.price_micro_usd_per_hour
                    for o in by_name[key.instance_type].offerings
                    if (o.zone, o.capacity_type) == (key.zone, SPOT)
                }
                assert price <= ceiling, key
