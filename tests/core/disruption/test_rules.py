"""Consolidation under rules between workloads: they hold in what is proposed, and few types make all domains."""

from dataclasses import replace

from reservoir.core.disruption.simulation import types_for_domains
from reservoir.core.model.instance_type import Offering
from reservoir.core.model.workload import (
    AffinityTerm,
    LabelSelector,
    TopologySpreadConstraint,
)
from reservoir.core.scheduling_terms import labels
from tests.core.disruption.world import (
    ON_DEMAND,
    RESERVED,
    Fleet,
    instance_type,
    node_pool,
    reservation,
    workload,
)

LARGE = instance_type("large", 8, on_demand=400_000)
APP = LabelSelector(match_labels=(("app", "web"),))
APART = workload(
    "web",
    1,
    labels={"app": "web"},
    anti_affinity=(AffinityTerm(labels.HOSTNAME, APP),),
    replicas=3,
)
EVEN = workload(
    "web",
    1,
    labels={"app": "web"},
    topology_spread=(TopologySpreadConstraint(labels.ZONE, 1, APP),),
)


def test_replicas_that_must_stand_apart_keep_their_nodes() -> None:
    it = Fleet((LARGE,), (node_pool("default", ON_DEMAND),), {APART.key: APART})
    for name in ("a", "b", "c"):
        it.add_node(name, "large", ON_DEMAND, {APART.key: 1})

    assert it.decide().commands == ()


def test_a_zone_that_a_pool_could_launch_into_counts_although_no_node_stands_there() -> (
    None
):
    # With zone-2 empty, a skew of 1 allows one replica in zone-1: the two nodes' replicas cannot be moved together.
    elsewhere = replace(
        LARGE, offerings=(*LARGE.offerings, Offering("zone-2", "z2", ON_DEMAND, 400_000))
    )
    for kinds, goes in (((LARGE,), True), ((elsewhere,), False)):
        it = Fleet(kinds, (node_pool("default", ON_DEMAND),), {EVEN.key: EVEN})
        for name in ("a", "b"):
            it.add_node(name, "large", ON_DEMAND, {EVEN.key: 1})

        destinations = [command.destinations for command in it.decide().commands]

        assert (destinations == [("b",)]) is goes


def test_few_types_make_all_domains() -> None:
    kinds = tuple(
        instance_type(f"t{number}", 4, on_demand=100_000 + number) for number in range(20)
    )
    spot = instance_type("spot-too", 4, on_demand=100_000, spot=1)
    it = Fleet(
        (*kinds, spot),
        (node_pool("default", RESERVED, ON_DEMAND),),
        {EVEN.key: EVEN},
        (reservation("cr-1", "t7", 1, 1),),
    )

    assert [kind.name for kind in types_for_domains(it.snapshot())] == [
        "t0",
        "t7",
        "spot-too",
    ]


def test_rules_about_something_else_than_place_need_all_types() -> None:
    families = TopologySpreadConstraint(labels.INSTANCE_FAMILY, 1, APP)
    it = Fleet(
        (LARGE,), (node_pool(),), {EVEN.key: replace(EVEN, topology_spread=(families,))}
    )

    assert types_for_domains(it.snapshot()) == (LARGE,)
