"""Reserved offerings inside the scheduler: what Karpenter reaches after its last loop, in one pass (rules 2 and 3)."""

from dataclasses import replace
from typing import Any

import pytest

from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.workload import Gang
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from tests.core.scheduler.world import (
    ON_DEMAND,
    RESERVED,
    SPOT,
    demand,
    fx_anti,
    fx_reserved,
    fx_type,
    launched,
    markets,
    near,
    node,
    node_class,
    placed_count,
    plain,
    planned,
    pool,
    require,
    reservation,
    spread,
    types_launched,
    unplaced_count,
    with_demand,
    workload,
)


def test_both_reservations_are_used_before_anything_is_paid_for() -> None:
    plan = planned(with_demand(fx_reserved(), demand(workload(cpu=1800), 3)))

    told = launched(plan)
    assert told["small:r-small"] == 1
    assert told["medium:r-medium"] == 1
    assert types_launched(plan) == {"small": 2, "medium": 1}
    assert unplaced_count(plan) == 0


def test_two_pools_share_one_reservation_without_counting_it_twice() -> None:
    pools = (pool("np-1"), pool("np-2"))
    demands = tuple(
        demand(
            replace(
                fx_anti(1)[0].workload,
                name=f"anti-{index}",
                labels={"app": "job"},
                node_selector=require(labels.INSTANCE_TYPE, Operator.IN, "small").merged(
                    require(labels.NODE_POOL, Operator.IN, f"np-{index}")
                ),
            )
        )
        for index in (1, 2)
    )
    plan = planned(replace(fx_reserved(pools=pools), demands=demands))

    assert types_launched(plan) == {"small": 2}
    assert launched(plan)["small:r-small"] == 1


def test_every_unit_of_two_reservations_of_one_type_is_used() -> None:
    extra = reservation("r-small-2", "small", 2)
    plan = planned(with_demand(fx_reserved(extra), *fx_anti(4)))

    told = launched(plan)
    assert (told["small:r-small"], told["small:r-small-2"]) == (1, 2)
    assert types_launched(plan) == {"small": 4}


def test_weight_decides_between_pools_but_never_against_a_free_unit() -> None:
    fallback_unit = reservation("r-fallback", "small", 1)
    snapshot = fx_reserved(fallback_unit)
    snapshot = replace(
        snapshot,
        node_pools=(
            pool("np-primary", class_name="primary", weight=100),
            pool("np-fallback", class_name="fallback", weight=50),
        ),
        node_classes=(
            node_class("primary", ["r-small"]),
            node_class("fallback", ["r-fallback"]),
        ),
    )
    plan = planned(with_demand(snapshot, *fx_anti(3)))

    by_pool = {
        (launch.offering.reservation_id, launch.node_pool_name) for launch in plan.launches
    }
    paid = {name for reservation_id, name in by_pool if reservation_id is None}
    assert ("r-small", "np-primary") in by_pool
    assert ("r-fallback", "np-fallback") in by_pool
    assert paid == {"np-primary"}


def test_replicas_share_a_reserved_node_and_take_one_unit() -> None:
    wanted = workload(
        affinity=(near(labels.ZONE),),
        node_selector=require(labels.INSTANCE_TYPE, Operator.IN, "small")
        .merged(require(labels.CAPACITY_TYPE, Operator.IN, "reserved"))
        .merged(require(labels.ZONE, Operator.IN, "zone-1")),
    )
    plan = planned(with_demand(fx_reserved(), demand(wanted, 2)))

    assert launched(plan) == {"small:r-small": 1}
    assert placed_count(plan) == 2


def test_a_pool_that_allows_no_type_says_so() -> None:
    snapshot = fx_reserved(
        pools=(
            pool(
                "np-1", *require(labels.INSTANCE_TYPE, Operator.IN, "unheard-of").values()
            ),
        )
    )
    plan = planned(with_demand(snapshot, demand(workload(), 2)))

    assert not plan.launches
    assert plan.unplaced[0].code is ReasonCode.INCOMPATIBLE
    assert "filtered out all available instance types" in plan.unplaced[0].message


@pytest.mark.parametrize("units", [0, 1, 3])
def test_a_claim_a_unit_however_many_replicas_must_be_apart(units: int) -> None:
    snapshot = fx_reserved(reservation("r-many", "small", units))
    plan = planned(with_demand(snapshot, *fx_anti(50)))

    told = launched(plan)
    assert told["small:r-many"] == units
    assert told["small:r-small"] == 1
    assert placed_count(plan) == 50


@pytest.mark.parametrize(
    ("allowed", "reserved_nodes", "unplaced"),
    [
        ((RESERVED,), 1, 2),
        ((RESERVED, ON_DEMAND), 1, 0),
        ((RESERVED, SPOT, ON_DEMAND), 1, 0),
    ],
    ids=["strict", "reserved, then on demand", "reserved, then spot or on demand"],
)
def test_strictness_is_a_plain_requirement(
    allowed: tuple[object, ...], reserved_nodes: int, unplaced: int
) -> None:
    snapshot = fx_reserved(pools=(pool("np-1", markets(*allowed)),))  # type: ignore[arg-type]  # pytest loses the type
    plan = planned(with_demand(snapshot, *fx_anti(3)))

    assert launched(plan)["small:r-small"] == reserved_nodes
    assert unplaced_count(plan) == unplaced
    if unplaced:
        assert plan.unplaced[0].code is ReasonCode.RESERVATION_FULL


def test_a_bought_node_of_a_gang_moves_whole_to_a_unit_that_stays_free() -> None:
    """Where the limit allows one node, what it uses of the limit is given back before the unit takes it."""
    pools = (pool("default", limits=Resources.of({"nodes": 1})),)
    gang = replace(workload("gang", cpu=1000), gang=Gang())
    plan = planned(
        with_demand(
            fx_reserved(pools=pools), demand(gang), demand(workload("later", cpu=1000))
        )
    )

    assert launched(plan) == {"medium:r-medium": 1}
    assert unplaced_count(plan) == 0


def test_who_pays_does_not_depend_on_how_much_lower_priorities_could_place() -> None:
    """The one unit is the urgent workload's, although the casual one can run nowhere else."""
    world = fx_reserved(
        pools=(pool(),), reservations=(reservation("r-medium", "medium", 1),)
    )
    casual = workload("casual", cpu=2500, node_selector=Requirements.of(markets(RESERVED)))
    plan = planned(
        with_demand(
            world, demand(workload("urgent", cpu=2500, priority=10)), demand(casual)
        )
    )

    assert launched(plan) == {"medium:r-medium": 1}
    assert [(item.workload_key, item.count) for item in plan.unplaced] == [("ns/casual", 1)]


@pytest.mark.parametrize("gang", [None, Gang()], ids=["counted", "one by one"])
def test_nobody_joins_a_node_that_is_bought_and_leaves_units_to_the_less_important(
    gang: Gang | None,
) -> None:
    """The node is bought for the most urgent; who would fit there too takes a unit, before the casual one does."""
    bound = Requirements.of(markets(ON_DEMAND))
    urgent = workload("urgent", cpu=1000, priority=20, gang=Gang(), node_selector=bound)
    joining = workload("joining", cpu=800, priority=10, gang=gang)
    casual = workload("casual", cpu=1000, node_selector=Requirements.of(markets(RESERVED)))
    plan = planned(
        with_demand(fx_reserved(), demand(urgent), demand(joining), demand(casual))
    )

    units = [
        launch.placements for launch in plan.launches if launch.offering.reservation_id
    ]
    assert "ns/joining" in {
        item.workload_key for placements in units for item in placements
    }
    assert unplaced_count(plan) == 0


# -- rules over zones and markets

FAR = {"zone": "zone-3", "zone_id": "id-zone-3"}


@pytest.mark.parametrize(
    ("rules", "replicas", "reserved"),
    [
        ({"topology_spread": (spread(labels.ZONE),)}, 1, 1),
        ({"topology_spread": (spread(labels.ZONE),)}, 2, 1),
        ({"topology_spread": (spread(labels.ZONE),)}, 4, 2),
        ({"topology_spread": (spread(labels.ZONE, 2),)}, 2, 2),
        ({"topology_spread": (spread(labels.CAPACITY_TYPE),)}, 1, 1),
        ({"affinity": (near(labels.ZONE),)}, 2, 2),
        ({"affinity": (near(labels.ZONE),)}, 3, 2),
    ],
)
def test_rules_over_domains_use_units_as_far_as_they_hold(
    rules: Any, replicas: int, reserved: int
) -> None:
    """Two units are free in zone 3, where nothing else is cheaper or less crowded."""
    snapshot = plain(
        fx_type("small", 2, 2), reservations=(reservation("r", "small", 2, **FAR),)
    )
    plan = planned(with_demand(snapshot, demand(workload(cpu=1800, **rules), replicas)))
    assert launched(plan)["small:r"] == reserved
    assert unplaced_count(plan) == 0


@pytest.mark.parametrize(
    "rules",
    [{"topology_spread": (spread(labels.ZONE),)}, {"affinity": (near(labels.ZONE),)}],
)
def test_rules_over_zones_use_a_running_node_before_a_new_one(rules: Any) -> None:
    small = fx_type("small", 2, 2)
    plan = planned(
        with_demand(
            plain(small, nodes=(node("n-1", small, zone="zone-3"),)),
            demand(workload(**rules)),
        )
    )
    assert [placed.claim_id for placed in plan.existing] == ["n-1"]


def test_units_go_to_the_important_who_want_one_zone_before_the_others() -> None:
    snapshot = plain(
        fx_type("small", 2, 2), reservations=(reservation("r", "small", 2, **FAR),)
    )
    together = workload(
        "important", cpu=1800, priority=5, affinity=(near(labels.ZONE, app="important"),)
    )
    plan = planned(
        with_demand(snapshot, demand(together, 2), demand(workload("other", cpu=1800), 2))
    )
    on_units = [launch for launch in plan.launches if launch.offering.reservation_id == "r"]
    assert [placed.workload_key for launch in on_units for placed in launch.placements] == [
        "ns/important"
    ]


def test_of_equally_empty_zones_pools_of_more_weight_decide() -> None:
    pools = (
        pool("light"),
        pool("heavy", Requirement.new(labels.ZONE, Operator.IN, ("zone-3",)), weight=90),
    )
    snapshot = plain(fx_type("small", 2, 2), node_pools=pools)
    plan = planned(
        with_demand(
            snapshot, demand(workload(cpu=1800, topology_spread=(spread(labels.ZONE),)))
        )
    )
    assert [launch.node_pool_name for launch in plan.launches] == ["heavy"]
