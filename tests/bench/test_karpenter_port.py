"""The port of Karpenter's loop against what is published and written about Karpenter."""

from dataclasses import replace

import pytest

from lab.bench.karpenter.port import provision
from lab.bench.worlds.cases import WORLDS
from lab.bench.worlds.common import (
    ALL_CAPACITY_TYPES,
    NAMESPACE,
    NOW,
    counted,
    node_pool,
    one_of,
)
from lab.bench.worlds.ladder import diverse_snapshot, ladder, preference_snapshot, snapshot
from lab.bench.worlds.mix import Mix, mix_snapshot, tuned_pools
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.workload import (
    AffinityTerm,
    LabelSelector,
    PreferredNodeTerm,
    Workload,
)
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources


@pytest.mark.parametrize("count", [1, 50, 100, 500, 1000, 2000])
def test_the_published_node_counts(count: int) -> None:
    outcome = provision(diverse_snapshot(count), NOW)
    assert (outcome.nodes, outcome.unplaced, outcome.loops) == (max(1, count // 5), 0, 1)


def test_preferences_are_given_up_until_all_pods_run() -> None:
    world = preference_snapshot(40)
    outcome = provision(world, NOW)
    # One pod in each of three zones satisfies both anti-affinities; the others keep the one by host.
    assert (outcome.nodes, outcome.unplaced) == (40, 0)


def alone(count: int) -> Workload:
    term = AffinityTerm(labels.HOSTNAME, LabelSelector((("app", "alone"),)))
    requests = Resources.of({"cpu": 100, "memory": 2**20, "pods": 1})
    return Workload(
        NAMESPACE, "", 1, count, requests, labels={"app": "alone"}, anti_affinity=(term,)
    )


def test_one_claim_a_loop_when_every_type_has_one_reserved_unit() -> None:
    outcome = provision(WORLDS["reserved-one-unit-each-400"].make(0), NOW)
    assert outcome.reserved_units == outcome.nodes == 400
    assert outcome.loops == 400


def test_a_reservation_shared_by_two_pools_serves_one_pod_and_the_other_waits_a_loop() -> (
    None
):
    # S-14: the pods name their pools, both of which may use the one unit.
    world = WORLDS["reserved-one-unit-each-400"].make(0)
    pods = [
        replace(alone(1), node_selector=Requirements.of(one_of(labels.NODE_POOL, name)))
        for name in ("np-1", "np-2")
    ]
    shared = replace(
        world,
        instance_types=ladder(1),
        reservations=world.reservations[:1],
        node_pools=(node_pool("np-1"), node_pool("np-2")),
        demands=counted(pods, "pod"),
    )
    outcome = provision(shared, NOW)
    assert (outcome.nodes, outcome.reserved_units, outcome.loops) == (2, 1, 2)


def test_weight_is_no_escape_from_a_held_reservation() -> None:
    # S-17: the second pod waits for the next loop and then stays in the pool of more weight, not reserved.
    world = WORLDS["reserved-one-unit-each-400"].make(0)
    reservations = tuple(
        replace(item, instance_type="fake-it-0", id=f"cr-{index}")
        for index, item in enumerate(world.reservations[:1])
    )
    pools = (node_pool("primary", weight=100), node_pool("fallback", weight=50))
    classes = tuple(
        replace(item, status=replace(item.status, reservation_ids=("cr-0",)))
        for item in world.node_classes
    )
    outcome = provision(
        replace(
            world,
            instance_types=ladder(1),
            reservations=reservations,
            node_classes=classes,
            node_pools=pools,
            demands=counted([alone(1)] * 2, "pod"),
        ),
        NOW,
    )
    assert (outcome.nodes, outcome.reserved_units, outcome.loops) == (2, 1, 2)


def test_a_full_reservation_is_no_reason_to_wait() -> None:
    # Karpenter 1.15.1: the lighter pool is used in the same loop, and preferences are given up
    world = WORLDS["reserved-one-unit-each-400"].make(0)
    full = replace(
        world.reservations[0],
        instance_type="fake-it-0",
        available_count=0,
        free_units=0,
    )
    only_reserved = one_of(labels.CAPACITY_TYPE, CapacityType.RESERVED.value)
    shared = replace(
        world,
        instance_types=ladder(1),
        reservations=(full,),
        node_pools=(
            node_pool("primary", only_reserved, weight=100),
            node_pool("fallback", weight=50),
        ),
    )
    preferring = replace(
        alone(1),
        preferred_node_terms=(PreferredNodeTerm(1, Requirements.of(only_reserved)),),
    )
    for wanted in (alone(1), preferring):
        outcome = provision(replace(shared, demands=counted([wanted] * 2, "pod")), NOW)
        assert (outcome.nodes, outcome.reserved_units, outcome.unplaced) == (2, 0, 0)
        assert outcome.loops == 1


def test_limits_are_charged_with_the_largest_type_that_a_claim_may_become() -> None:
    limited = node_pool("default", limits=Resources.of({"cpu": 3000}))
    pod = replace(
        alone(1), requests=Resources.of({"cpu": 1500, "memory": 2**20, "pods": 1})
    )
    world = replace(snapshot(counted([pod] * 2, "pod"), types=4), node_pools=(limited,))
    # S-140: types of two and three vCPU fit, three are charged, nothing is left for the second pod.
    outcome = provision(world, NOW)
    assert (outcome.nodes, outcome.unplaced) == (1, 1)


def test_no_reservation_is_over_committed_and_everything_is_placed() -> None:
    world = mix_snapshot(Mix(500, shapes=40))
    for pools in (None, tuned_pools(ALL_CAPACITY_TYPES)):
        outcome = provision(world, NOW, pools)
        assert (outcome.unplaced, outcome.over_commitments) == (0, 0)
        assert outcome.reserved_units <= sum(item.free_units for item in world.reservations)


def test_existing_nodes_are_used_first() -> None:
    world = mix_snapshot(
        Mix(200, shapes=20, existing=300, markets=(CapacityType.ON_DEMAND,))
    )
    without = provision(replace(world, nodes=()), NOW)
    assert provision(world, NOW).price_atto_usd < without.price_atto_usd
