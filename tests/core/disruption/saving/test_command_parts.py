"""Groups of nodes: what one node saves pays for moving no other."""

from dataclasses import replace

import pytest

from reservoir.core.disruption.candidate import Candidate, make_candidate
from reservoir.core.disruption.command import DisruptionDecision
from reservoir.core.disruption.saving.command_parts import parts_of
from reservoir.core.disruption.saving.node_prices import NodePrices
from reservoir.core.launching.claim_nodes import node_of
from reservoir.core.model.plan import OfferingKey, Plan, PlannedNodes
from reservoir.core.model.snapshot import PlacedReplicas
from tests.core.disruption.world import (
    LARGE,
    ON_DEMAND,
    RESERVED,
    SMALL,
    SPOT,
    Fleet,
    instance_type,
    node_pool,
    refusal,
    reservation,
    short,
    workload,
)

TINY, OTHER, THREE, SIX = (
    workload("tiny", 1),
    workload("other", 1),
    workload("three", 3),
    workload("six", 6),
)
WORK = {it.key: it for it in (TINY, OTHER, THREE, SIX)}
FREE_LARGE = (reservation("L", "large", 1, 1),)


def gone(decision: DisruptionDecision) -> list[tuple[str, ...]]:
    return [command.claim_ids for command in decision.commands]


# --- what a group may not do


def test_the_saving_of_one_node_does_not_pay_for_a_dearer_one_of_another() -> None:
    """One node's work fits the free reserved unit; the other's type is short, and the next one costs half more."""
    cheap, dear = (
        instance_type(name, 4, on_demand=price)
        for name, price in (("cheap", 100_000), ("dear", 150_000))
    )
    it = Fleet(
        (short(cheap), dear, LARGE),
        (node_pool("default", RESERVED, ON_DEMAND),),
        WORK,
        FREE_LARGE,
    )
    it.add_node("saves", "large", ON_DEMAND, {SIX.key: 1})
    it.add_node("stays", "cheap", ON_DEMAND, {THREE.key: 1})

    assert gone(it.decide()) == [("saves",)]


@pytest.mark.parametrize("gate", [False, True])
def test_a_spot_node_needs_the_gate_in_a_mixed_group_too(gate: bool) -> None:
    """With the gate, 15 cheaper types are needed as well (R-181): there is one."""
    dear, cheap = (
        instance_type(n, 4, on_demand=None, spot=price)
        for n, price in (("dear", 90_000), ("cheap", 40_000))
    )
    it = Fleet((dear, cheap, LARGE), (node_pool(),), WORK, FREE_LARGE, spot_to_spot=gate)
    it.add_node("saves", "large", ON_DEMAND, {SIX.key: 1})
    it.add_node("spot", "dear", SPOT, {THREE.key: 1})

    decision = it.decide()

    assert gone(decision) == [("saves",)]
    assert refusal(decision, "spot") == (
        "spot to spot requires 15 cheaper types, got 1"
        if gate
        else "spot nodes are not replaced by spot nodes (spotToSpotConsolidation is off)"
    )


def test_a_spot_node_and_an_on_demand_node_become_one_also_without_the_gate() -> None:
    wide = instance_type("wide", 12, on_demand=None, spot=60_000)
    it = Fleet((wide, SMALL, LARGE), (node_pool(),), WORK, spot_to_spot=False)
    it.add_node("bought", "large", ON_DEMAND, {SIX.key: 1})
    it.add_node("spot", "large", SPOT, {THREE.key: 1})

    assert gone(it.decide()) == [("bought", "spot")]


def test_a_reserved_node_that_fits_its_type_is_not_moved_with_one_that_does_not() -> None:
    held = (
        reservation("L", "large", 1, 0),
        reservation("S1", "small", 1, 0),
        reservation("S2", "small", 2, 2),
    )
    it = Fleet((SMALL, LARGE), (node_pool("default", RESERVED),), WORK, held)
    it.add_node("roomy", "large", RESERVED, {TINY.key: 2}, reservation_id="L")
    it.add_node("fits", "small", RESERVED, {OTHER.key: 2}, reservation_id="S1")

    assert gone(it.decide()) == [("roomy",)]


def test_no_equal_node_is_launched_for_what_a_node_of_the_group_could_hold() -> None:
    """Both would fit the free small unit; but the small node that is there holds both as well."""
    held = (
        reservation("L", "large", 1, 0),
        reservation("S1", "small", 1, 0),
        reservation("S2", "small", 1, 1),
    )
    it = Fleet((SMALL, LARGE), (node_pool("default", RESERVED),), WORK, held)
    it.add_node("roomy", "large", RESERVED, {TINY.key: 1}, reservation_id="L")
    it.add_node("fits", "small", RESERVED, {OTHER.key: 1}, reservation_id="S1")

    (command,) = it.decide().commands

    assert (command.claim_ids, command.destinations) == (("roomy",), ("fits",))


def test_nodes_that_save_only_together_go_together() -> None:
    middle = instance_type("middle", 4, on_demand=150_000)
    it = Fleet((SMALL, middle), (node_pool("default", ON_DEMAND),), WORK)
    for name, key in (("a", TINY.key), ("b", OTHER.key)):
        it.add_node(name, "small", ON_DEMAND, {key: 2})

    assert gone(it.decide()) == [("a", "b")]


# --- how a group is divided


def nodes(**placements: dict[str, int]) -> list[Candidate]:
    """Small on-demand nodes by name."""
    it = Fleet((SMALL,), (node_pool(),), WORK)
    claims = [
        it.add_node(name, "small", ON_DEMAND, placed) for name, placed in placements.items()
    ]
    prices = NodePrices.of(it.types)
    return [
        make_candidate(
            node_of(claim, it.workloads), claim, it.pools[0], it.workloads, prices
        )
        for claim in claims
    ]


def launches(*hosts: dict[str, int]) -> Plan:
    """A plan that launches a small node for each of these placements."""
    key = OfferingKey("small", "zone-1", "z1", SPOT)
    planned = [
        PlannedNodes(
            "default",
            "default",
            key,
            1,
            1,
            tuple(PlacedReplicas(*it) for it in sorted(host.items())),
        )
        for host in hosts
    ]
    return Plan(launches=tuple(planned))


def divided(removed: list[Candidate], plan: Plan) -> set[frozenset[str]]:
    return {
        frozenset(candidate.id for candidate in part.removed)
        for part in parts_of(removed, plan, {})
    }


def test_nodes_whose_work_goes_to_nodes_of_its_own_are_parts_of_their_own() -> None:
    removed = nodes(a={TINY.key: 1}, b={OTHER.key: 1})

    assert divided(removed, launches({TINY.key: 1}, {OTHER.key: 1})) == {
        frozenset("a"),
        frozenset("b"),
    }


def test_nodes_whose_work_shares_a_new_node_are_one_part() -> None:
    removed = nodes(a={TINY.key: 1}, b={OTHER.key: 1}, c={TINY.key: 1})

    assert divided(removed, launches({TINY.key: 1, OTHER.key: 1})) == {
        frozenset("ab"),
        frozenset("c"),
    }


def test_replicas_of_one_workload_are_taken_from_one_node_where_that_is_possible() -> None:
    removed = nodes(a={TINY.key: 1}, b={TINY.key: 2})

    assert divided(removed, launches({TINY.key: 2}, {TINY.key: 1})) == {
        frozenset("a"),
        frozenset("b"),
    }


def test_equal_new_nodes_are_counted_in_the_parts_that_they_belong_to() -> None:
    removed = nodes(a={TINY.key: 1}, b={TINY.key: 1})
    (planned,) = launches({TINY.key: 1}).launches

    parts = parts_of(removed, Plan(launches=(replace(planned, count=2),)), {})

    assert [[(it.count, it.placements) for it in part.plan.launches] for part in parts] == [
        [(1, planned.placements)],
        [(1, planned.placements)],
    ]
