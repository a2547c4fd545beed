"""Plain scheduling: what a user of Karpenter expects of packing, labels, limits, preferences and topology."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from lab.bench.worlds import ladder
from lab.bench.worlds.cases import half_limited
from lab.bench.worlds.common import NOW as BENCH_NOW
from lab.bench.worlds.common import counted
from reservoir.core.checker import check
from reservoir.core.model.instance_type import Offering
from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.policy import MinValuesPolicy, PreferencePolicy, SchedulingPolicy
from reservoir.core.model.workload import Demand, Gang, PreferredNodeTerm
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.scheduling_terms.taint import Taint, Toleration
from tests.core.scheduler.world import (
    GIB,
    GPU_A,
    MIB,
    NOW,
    ON_DEMAND,
    SPOT,
    ZONES,
    demand,
    fx_catalogue,
    fx_ladder,
    fx_type,
    launched,
    markets,
    near,
    node,
    one_of,
    placed_count,
    plain,
    planned,
    pool,
    replicas_by,
    require,
    spread,
    types_launched,
    unplaced_count,
    with_demand,
    workload,
)

AMD = require(labels.ARCH, Operator.IN, "amd64")
ON_DEMAND_ONLY = (pool("default", markets(ON_DEMAND)),)


@pytest.mark.parametrize(
    ("megabytes", "expected"), [(100, "small"), (2000, "small"), (3000, "default")]
)
def test_one_replica_gets_the_cheapest_type_that_holds_it(
    megabytes: int, expected: str
) -> None:
    plan = planned(
        with_demand(plain(), demand(workload(memory=megabytes * 10**6, node_selector=AMD)))
    )
    assert types_launched(plan) == {expected: 1}


def test_pairs_share_a_node_and_small_ones_fill_the_gaps() -> None:
    large = demand(workload("large", memory=1_800_000_000, node_selector=AMD), 40)
    little = demand(workload("little", memory=400_000_000, node_selector=AMD), 20)

    assert types_launched(planned(with_demand(plain(), large))) == {"default": 20}
    assert types_launched(planned(with_demand(plain(), large, little))) == {"default": 20}


def test_the_ladder_gives_each_its_size() -> None:
    snapshot = plain(*fx_ladder(5))
    plan = planned(
        with_demand(
            snapshot, demand(workload("a", cpu=4500)), demand(workload("b", cpu=1000))
        )
    )
    assert len(types_launched(plan)) == 2


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        (workload(extra={"unknown.com/device": 0}), True),
        (workload(memory=2 * 2**40), False),
    ],
    ids=["none of an unknown resource", "2 TiB"],
)
def test_what_fits_is_placed_and_what_cannot_says_too_large(
    wanted: object, fits: bool
) -> None:
    plan = planned(with_demand(plain(), demand(wanted)))  # type: ignore[arg-type]  # pytest loses the type
    assert placed_count(plan) == int(fits)
    if not fits:
        assert plan.unplaced[0].code is ReasonCode.TOO_LARGE


def test_alternatives_are_listed_in_price_order() -> None:
    types = [
        fx_type(name, price=price)
        for name, price in (("large", 1), ("medium", 2), ("small", 3))
    ]
    snapshot = plain(*(replace(item) for item in types), node_pools=ON_DEMAND_ONLY)
    launch = planned(with_demand(snapshot, demand(workload(cpu=100)))).launches[0]

    names = [
        launch.offering.instance_type,
        *dict.fromkeys(key.instance_type for key in launch.alternatives),
    ]
    assert list(dict.fromkeys(names)) == ["large", "medium", "small"]


def test_nodes_that_may_be_launched_as_the_same_types_share_one_list_of_them() -> None:
    """The checker tells by that which nodes it has judged already; with a list each it takes three times as long."""
    alone = spread(labels.HOSTNAME, app="job")
    small, large = (
        workload("job", cpu=cpu, labels={"app": "job"}, topology_spread=(alone,))
        for cpu in (2100, 2200)
    )
    world = with_demand(
        plain(), demand(replace(small, name="small")), demand(replace(large, name="large"))
    )

    first, second = planned(world).launches

    assert first.placements != second.placements
    assert first.alternatives
    assert first.alternatives is second.alternatives


def test_only_prices_of_allowed_markets_count() -> None:
    types = (
        fx_type("a", 1, 1, price={ON_DEMAND: 1_000_000, SPOT: 200_000}),
        fx_type("b", 1, 1, price={ON_DEMAND: 1_300_000, SPOT: 100_000}),
    )
    plan = planned(
        with_demand(plain(*types, node_pools=ON_DEMAND_ONLY), demand(workload(cpu=100)))
    )
    assert launched(plan) == {"a:on-demand": 1}


def test_accelerators_go_to_accelerated_types() -> None:
    plan = planned(with_demand(plain(), demand(workload(extra={GPU_A: 1}), 3)))
    assert types_launched(plan) == {"gpu-a": 2}


# -- minValues


def _pool_with_min_types(least: int) -> tuple[object, ...]:
    wanted = Requirement.new(labels.INSTANCE_TYPE, Operator.EXISTS, (), min_values=least)
    return (pool("default", wanted, markets(ON_DEMAND)),)


@pytest.mark.parametrize(
    ("least", "policy", "placed"),
    [
        (10, SchedulingPolicy(), 1),
        (11, SchedulingPolicy(), 0),
        (11, SchedulingPolicy(min_values_policy=MinValuesPolicy.BEST_EFFORT), 1),
        (3, SchedulingPolicy(alternatives_max=1), 0),
    ],
    ids=["enough", "one too few", "best effort", "cut off"],
)
def test_min_values(least: int, policy: SchedulingPolicy, placed: int) -> None:
    types = [
        fx_type(f"type-{index}", offered=((ON_DEMAND, "zone-1"),), price=100 + index)
        for index in range(10)
    ]
    snapshot = plain(*types, node_pools=_pool_with_min_types(least))
    plan = planned(with_demand(snapshot, demand(workload(cpu=100))), policy=policy)

    assert placed_count(plan) == placed
    if not placed:
        assert plan.unplaced[0].code is ReasonCode.MIN_VALUES


# -- limits


@pytest.mark.parametrize(
    ("limit", "cpu", "placed"),
    [({"cpu": 2000}, 1750, 1), ({"cpu": 2000}, 2100, 0), ({"nodes": 0}, 100, 0)],
)
def test_limits_bound_what_is_launched(
    limit: dict[str, int], cpu: int, placed: int
) -> None:
    snapshot = plain(node_pools=(pool(limits=Resources.of(limit)),))
    plan = planned(with_demand(snapshot, demand(workload(cpu=cpu))))
    assert placed_count(plan) == placed
    if not placed:
        assert plan.unplaced[0].code is ReasonCode.LIMIT_EXCEEDED


def test_capacity_in_use_counts_against_the_limit() -> None:
    large = fx_type("huge", 100, 100)
    snapshot = plain(
        *fx_catalogue(),
        large,
        node_pools=(pool(limits=Resources.of({"cpu": 20_000})),),
        nodes=(node("n-1", large, deleting=True),),
    )
    plan = planned(with_demand(snapshot, demand(workload(cpu=100))))
    assert placed_count(plan) == 0
    assert plan.unplaced[0].code is ReasonCode.LIMIT_EXCEEDED


@pytest.mark.parametrize(
    ("limit", "replicas", "placed"), [({"cpu": 3000}, 2, 1), ({"nodes": 2}, 3, 2)]
)
def test_apart_under_a_limit(limit: dict[str, int], replicas: int, placed: int) -> None:
    wanted = workload(cpu=1500, anti_affinity=(near(labels.HOSTNAME),))
    snapshot = plain(node_pools=(pool(limits=Resources.of(limit)),))
    assert placed_count(planned(with_demand(snapshot, demand(wanted, replicas)))) == placed


@pytest.mark.parametrize("replicas", [10, 100])
def test_spread_stays_even_when_a_limit_cuts_it_short(replicas: int) -> None:
    limited = (pool(limits=Resources.of({"cpu": 400 * replicas})),)
    wanted = workload(cpu=900, topology_spread=(spread(labels.ZONE),))
    plan = planned(
        with_demand(plain(*fx_ladder(4), node_pools=limited), demand(wanted, replicas))
    )
    counts = replicas_by(plan, labels.ZONE)
    assert sum(counts) == replicas * 4 // 10
    assert max(counts) - min(counts) <= 1


# -- labels, taints, preferences


@pytest.mark.parametrize(
    ("defined", "operator", "values", "placed"),
    [
        (None, Operator.IN, ("blue",), 0),
        (None, Operator.EXISTS, (), 0),
        (None, Operator.NOT_IN, ("blue",), 1),
        (None, Operator.DOES_NOT_EXIST, (), 1),
        ("blue", Operator.IN, ("blue",), 1),
        ("blue", Operator.IN, ("red",), 0),
        ("blue", Operator.NOT_IN, ("blue",), 0),
        ("blue", Operator.NOT_IN, ("red",), 1),
        ("blue", Operator.EXISTS, (), 1),
        ("blue", Operator.DOES_NOT_EXIST, (), 0),
    ],
)
def test_custom_labels(
    defined: str | None, operator: Operator, values: tuple[str, ...], placed: int
) -> None:
    own = () if defined is None else (one_of("example.com/team", defined),)
    wanted = workload(node_selector=require("example.com/team", operator, *values))
    plan = planned(with_demand(plain(node_pools=(pool("default", *own),)), demand(wanted)))
    assert placed_count(plan) == placed


def test_conflicting_values_of_an_open_label_take_two_nodes() -> None:
    open_pool = pool("default", one_of("example.com/team", "blue", "red"))

    def wants(*teams: str) -> list[Demand]:
        return [
            demand(
                workload(
                    f"w-{index}",
                    node_selector=require("example.com/team", Operator.IN, team),
                )
            )
            for index, team in enumerate(teams)
        ]

    apart = planned(with_demand(plain(node_pools=(open_pool,)), *wants("blue", "red")))
    together = planned(with_demand(plain(node_pools=(open_pool,)), *wants("blue", "blue")))
    assert sum(types_launched(apart).values()) == 2
    assert {launch.labels["example.com/team"] for launch in apart.launches} == {
        "blue",
        "red",
    }
    assert sum(types_launched(together).values()) == 1


@pytest.mark.parametrize(
    ("zones", "placed"), [(("nowhere", "zone-2"), 1), (("nowhere",), 0)]
)
def test_required_terms_are_alternatives_and_never_dropped(
    zones: tuple[str, ...], placed: int
) -> None:
    terms = tuple(require(labels.ZONE, Operator.IN, zone) for zone in zones)
    plan = planned(with_demand(plain(), demand(workload(required_node_terms=terms))))
    assert placed_count(plan) == placed
    assert replicas_by(plan, labels.ZONE) == [1] * placed


def test_a_preference_gives_way_to_a_requirement() -> None:
    wanted = workload(
        node_selector=require(labels.ZONE, Operator.IN, "zone-1"),
        preferred_node_terms=(
            PreferredNodeTerm(1, require(labels.ZONE, Operator.IN, "zone-3")),
        ),
    )
    plan = planned(with_demand(plain(), demand(wanted)))
    assert plan.launches[0].offering.zone == "zone-1"
    assert plan.launches[0].relaxed


def test_a_preference_that_can_be_met_is_met_unless_ignored() -> None:
    cheap = fx_type("cheap", price=1, offered=((ON_DEMAND, "zone-1"),))
    dear = fx_type("dear", price=10, offered=((ON_DEMAND, "zone-3"),))
    wanted = workload(
        preferred_node_terms=(
            PreferredNodeTerm(1, require(labels.ZONE, Operator.IN, "zone-3")),
        )
    )
    snapshot = with_demand(plain(cheap, dear), demand(wanted))

    assert types_launched(planned(snapshot)) == {"dear": 1}
    ignoring = SchedulingPolicy(preference_policy=PreferencePolicy.IGNORE)
    assert types_launched(planned(snapshot, policy=ignoring)) == {"cheap": 1}


def test_taints_must_be_tolerated() -> None:
    tainted = (pool(taints=(Taint("dedicated", "ml"),)),)
    toleration = Toleration("dedicated", value="ml")
    refused = planned(with_demand(plain(node_pools=tainted), demand(workload())))
    accepted = planned(
        with_demand(plain(node_pools=tainted), demand(workload(tolerations=(toleration,))))
    )
    assert refused.unplaced[0].code is ReasonCode.INCOMPATIBLE
    assert "dedicated" in refused.unplaced[0].message
    assert placed_count(accepted) == 1


def test_startup_taints_do_not_block() -> None:
    starting = (pool(startup_taints=(Taint("example.com/starting"),)),)
    assert (
        placed_count(planned(with_demand(plain(node_pools=starting), demand(workload()))))
        == 1
    )


# -- topology


@pytest.mark.parametrize(
    ("key", "skew", "replicas", "expected"),
    [
        (labels.ZONE, 1, 4, [1, 1, 2]),
        (labels.HOSTNAME, 1, 4, [1, 1, 1, 1]),
        (labels.HOSTNAME, 4, 4, [4]),
        (labels.CAPACITY_TYPE, 1, 4, [2, 2]),
    ],
)
def test_spread(key: str, skew: int, replicas: int, expected: list[int]) -> None:
    wanted = workload(cpu=100, topology_spread=(spread(key, skew),))
    plan = planned(with_demand(plain(), demand(wanted, replicas)))
    assert replicas_by(plan, key) == expected


def test_spread_counts_domains_that_can_no_longer_be_launched() -> None:
    default = fx_type("default")
    wanted = workload(cpu=100, topology_spread=(spread(labels.ZONE, 5),))
    full = {"allocatable": Resources.of({"cpu": 0, "memory": 0, "pods": 1})}
    nodes = tuple(
        node(f"n-{zone}", default, {"job": 1}, zone=zone, **full)
        for zone in ("zone-1", "zone-2")
    )
    snapshot = plain(
        node_pools=(pool("default", one_of(labels.ZONE, "zone-3")),),
        nodes=nodes,
        workloads={"ns/job": wanted},
    )
    plan = planned(with_demand(snapshot, demand(wanted, 10)))
    assert (placed_count(plan), unplaced_count(plan)) == (6, 4)
    assert plan.unplaced[0].code is ReasonCode.TOPOLOGY


@pytest.mark.parametrize(("honor", "expected"), [(True, [2, 2]), (False, [1, 1])])
def test_a_zone_behind_a_taint_counts_unless_taints_are_honored(
    honor: bool, expected: list[int]
) -> None:
    pools = (
        pool("open", one_of(labels.ZONE, "zone-1", "zone-2")),
        pool("tainted", one_of(labels.ZONE, "zone-3"), taints=(Taint("dedicated", "yes"),)),
    )
    rule = spread(labels.ZONE, node_taints_policy_honor=honor)
    wanted = workload(topology_spread=(rule,))
    plan = planned(
        with_demand(plain(fx_type("one-pod", pods=1), node_pools=pools), demand(wanted, 4))
    )
    assert replicas_by(plan, labels.ZONE) == expected


def test_replicas_behind_a_taint_do_not_count_where_taints_are_honored() -> None:
    rule = spread(labels.ZONE, node_taints_policy_honor=True)
    pools = (pool("open"), pool("tainted", taints=(Taint("dedicated", "yes"),)))
    selector = Requirements.of(
        one_of(labels.ZONE, "zone-1"), one_of(labels.NODE_POOL, "tainted")
    )
    behind = workload(
        "behind",
        node_selector=selector,
        tolerations=(Toleration("dedicated", value="yes"),),
    )
    demands = (
        demand(workload(topology_spread=(rule,)), 6),
        demand(replace(behind, labels={"app": "job"}), 4),
    )
    plan = planned(
        with_demand(plain(fx_type("one-pod", pods=1), node_pools=pools), *demands)
    )
    assert replicas_by(plan, labels.ZONE) == [2, 2, 6]


@pytest.mark.parametrize(
    ("least", "zones", "replicas", "expected"),
    [(3, ZONES[:2], 3, [1, 1]), (3, ZONES, 11, [3, 4, 4]), (2, ZONES, 11, [3, 4, 4])],
)
def test_min_domains(
    least: int, zones: tuple[str, ...], replicas: int, expected: list[int]
) -> None:
    wanted = workload(cpu=100, topology_spread=(spread(labels.ZONE, min_domains=least),))
    snapshot = plain(node_pools=(pool("default", one_of(labels.ZONE, *zones)),))
    assert (
        replicas_by(planned(with_demand(snapshot, demand(wanted, replicas))), labels.ZONE)
        == expected
    )


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [(2, [1, 1]), (5, [1, 2, 2]), (10, [3, 3, 4]), (21, [7, 7, 7])],
)
def test_zone_and_host_spread_together(replicas: int, expected: list[int]) -> None:
    wanted = workload(
        cpu=10, topology_spread=(spread(labels.ZONE), spread(labels.HOSTNAME, 3))
    )
    plan = planned(with_demand(plain(), demand(wanted, replicas)))
    assert replicas_by(plan, labels.ZONE) == expected
    assert max(replicas_by(plan, labels.HOSTNAME)) <= 3


@pytest.mark.parametrize("zone", [None, "zone-3"])
def test_self_affinity_keeps_replicas_in_one_zone(zone: str | None) -> None:
    selector = (
        Requirements.of() if zone is None else require(labels.ZONE, Operator.IN, zone)
    )
    wanted = workload(cpu=100, affinity=(near(labels.ZONE),), node_selector=selector)
    plan = planned(with_demand(plain(), demand(wanted, 3)))
    assert sum(types_launched(plan).values()) == 1
    if zone is not None:
        assert plan.launches[0].offering.zone == zone


def test_affinity_to_nobody_is_not_met() -> None:
    plan = planned(
        with_demand(
            plain(), demand(workload(affinity=(near(labels.ZONE, app="ghost"),)), 2)
        )
    )
    assert placed_count(plan) == 0
    assert plan.unplaced[0].code is ReasonCode.TOPOLOGY


def test_no_zone_is_left_for_one_who_avoids_all() -> None:
    pinned = [
        demand(
            workload(
                f"p-{zone}",
                cpu=2000,
                labels={"app": "l"},
                node_selector=require(labels.ZONE, Operator.IN, zone),
            )
        )
        for zone in ZONES
    ]
    shy = demand(workload("shy", cpu=100, anti_affinity=(near(labels.ZONE, app="l"),)))
    plan = planned(with_demand(plain(), *pinned, shy))
    assert [item.workload_key for item in plan.unplaced] == ["ns/shy"]


def test_one_pass_separates_who_avoids_from_who_is_avoided() -> None:
    shy = demand(workload("shy", cpu=2000, anti_affinity=(near(labels.ZONE, app="l"),)))
    liked = demand(workload("liked", cpu=100, labels={"app": "l"}))
    plan = planned(with_demand(plain(), shy, liked))
    assert placed_count(plan) == 2
    assert len({launch.offering.zone for launch in plan.launches}) == 2


# -- existing and in-flight nodes


def test_room_on_nodes_is_used_first_and_initialised_nodes_before_others() -> None:
    default = fx_type("default")
    nodes = (node("a-starting", default, initialized=False), node("b-ready", default))
    plan = planned(with_demand(plain(nodes=nodes), demand(workload(cpu=1000))))
    assert [item.claim_id for item in plan.existing] == ["b-ready"]
    assert not plan.launches


@pytest.mark.parametrize(
    "changes",
    [
        {"deleting": True},
        {"drain_at": NOW},
        {"used": Resources.of({"cpu": 3500})},
        {"taints": (Taint("dedicated", "other"),)},
    ],
    ids=["deleting", "draining", "full", "tainted"],
)
def test_nodes_that_cannot_take_it_are_passed_over(changes: dict[str, Any]) -> None:
    nodes = (node("n-1", fx_type("default"), **changes),)
    plan = planned(with_demand(plain(nodes=nodes), demand(workload(cpu=1000))))
    assert not plan.existing
    assert sum(types_launched(plan).values()) == 1


def test_many_spread_and_apart_replicas_all_have_a_place() -> None:
    snapshot = plain(*fx_ladder(40))
    demands = [
        demand(
            workload(
                f"free-{index}", cpu=100 * (1 + index), memory=128 * MIB * (1 + index)
            ),
            40,
        )
        for index in range(5)
    ]
    apart = demand(
        workload(
            "apart",
            cpu=500,
            memory=GIB,
            anti_affinity=(near(labels.HOSTNAME, app="apart"),),
        ),
        20,
    )
    zonal = demand(
        workload("zonal", cpu=250, topology_spread=(spread(labels.ZONE, app="zonal"),)), 31
    )
    plan = planned(with_demand(snapshot, *demands, apart, zonal))

    assert unplaced_count(plan) == 0
    assert sum(types_launched(plan).values()) >= 20
    zones: Counter[str] = Counter()
    for launch in plan.launches:
        zones[launch.offering.zone] += sum(
            item.count * launch.count
            for item in launch.placements
            if item.workload_key == "ns/zonal"
        )
    assert max(zones.values()) - min(zones.values()) <= 1


def test_an_empty_snapshot_gives_an_empty_plan() -> None:
    plan = planned(plain(demands=()))
    assert (plan.launches, plan.existing, plan.unplaced, plan.cost_atto_usd_per_hour) == (
        (),
        (),
        (),
        0,
    )


def test_no_pool_says_so() -> None:
    plan = planned(replace(plain(), node_pools=(), demands=(demand(workload()),)))
    assert plan.unplaced[0].code is ReasonCode.NO_NODE_POOL


def test_requirements_on_the_market_of_one_workload_do_not_bind_others() -> None:
    calm = demand(
        workload(
            "calm",
            cpu=1000,
            node_selector=require(labels.CAPACITY_TYPE, Operator.IN, "on-demand"),
        )
    )
    cheap = fx_type("only", price={SPOT: 100_000, ON_DEMAND: 400_000})
    plan = planned(with_demand(plain(cheap), calm, demand(workload("any", cpu=3500))))
    assert launched(plan) == {"only:on-demand": 1, "only:spot": 1}


@pytest.mark.parametrize("seed", [505, 516])
def test_a_node_that_is_not_needed_leaves_its_part_of_a_limit_to_others(seed: int) -> None:
    """Half of the CPU that 90 replicas ask for; the checker objects to whoever waits and would have a place."""
    world = half_limited(
        ladder.snapshot(counted(ladder.diverse(90, seed), "pod"), types=20)
    )
    policy = SchedulingPolicy()
    assert (
        check(
            world, solve(world, now=BENCH_NOW, policy=policy), now=BENCH_NOW, policy=policy
        )
        == ()
    )


@pytest.mark.parametrize("gang", [None, Gang()], ids=["", "a gang"])
def test_a_spread_is_even_although_its_skew_allows_more(gang: Gang | None) -> None:
    """Zone 1 is the cheapest, and might have three more than the others."""
    offerings = [
        Offering(f"zone-{n}", f"id-zone-{n}", ON_DEMAND, 100_000 * n) for n in (1, 2, 3)
    ]
    only = replace(fx_type("only", pods=1), offerings=tuple(offerings))
    job = workload(cpu=100, gang=gang, topology_spread=(spread(labels.ZONE, 3),))
    plan = planned(with_demand(plain(only), demand(job, 6)))
    assert replicas_by(plan, labels.ZONE) == [2, 2, 2]


@pytest.mark.parametrize("key", [labels.HOSTNAME, labels.ZONE])
@pytest.mark.parametrize(
    "follower",
    [
        {"cpu": 500},
        {"cpu": 2000},
        {"cpu": 200, "extra": {GPU_A: 1}},
        {"cpu": 500, "node_selector": require(labels.ZONE, Operator.IN, "zone-3")},
    ],
    ids=["small", "large", "gpu", "elsewhere"],
)
def test_who_must_be_near_somebody_of_the_same_batch_is_placed_with_it(
    key: str, follower: Any
) -> None:
    web = workload("web", affinity=(near(key, app="cache"),), **follower)
    plan = planned(with_demand(plain(), demand(workload("cache", cpu=1000)), demand(web)))
    assert unplaced_count(plan) == 0


def test_replicas_spread_over_what_pools_leave_open() -> None:
    """A ratio of four to one: four values of a label of one's own are spot's, and the fifth is on demand's."""
    spot = pool("spot", markets(SPOT), one_of("capacity-spread", "2", "3", "4", "5"))
    dear = pool("dear", markets(ON_DEMAND), one_of("capacity-spread", "1"))
    job = workload(cpu=1800, topology_spread=(spread("capacity-spread"),))
    plan = planned(
        with_demand(plain(fx_type("small", 2, 2), node_pools=(spot, dear)), demand(job, 20))
    )
    assert Counter(
        launch.node_pool_name for launch in plan.launches for _ in range(launch.count)
    ) == {
        "spot": 16,
        "dear": 4,
    }
    assert replicas_by(plan, "capacity-spread") == [4, 4, 4, 4, 4]


def test_a_label_with_a_choice_of_values_gets_one_although_nobody_asks() -> None:
    plan = planned(
        with_demand(
            plain(node_pools=(pool("any", one_of("rack", "r2", "r1")),)), demand(workload())
        )
    )
    assert [launch.labels["rack"] for launch in plan.launches] == ["r1"]
