"""The quick look: what could be emptied, what could be cheaper, and what is hopeless."""

from dataclasses import replace
from functools import partial

import pytest

from reservoir.core.disruption.candidate import Candidate, make_candidate
from reservoir.core.disruption.feasibility_filter import FeasibilityFilter
from reservoir.core.disruption.free_capacity import Destination, FreeCapacity
from reservoir.core.disruption.saving.node_prices import NodePrices
from reservoir.core.disruption.simulation import PassState
from reservoir.core.launching.claim_nodes import node_of
from reservoir.core.model.plan import Plan
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from tests.core.disruption.world import (
    NOW,
    ON_DEMAND,
    RESERVED,
    SPOT,
    Fleet,
    reservation,
    workload,
)

ONLY_ON_DEMAND = Requirements.of(
    Requirement.new(labels.CAPACITY_TYPE, Operator.IN, ("on-demand",))
)
WORK = {
    w.key: w
    for w in (
        workload("tiny", 1),
        workload("big", 6),
        workload("whole", 8),
        workload("choosy", 1, node_selector=ONLY_ON_DEMAND),
    )
}
fleet = partial(Fleet, workloads=WORK)


def no_solve(_: Snapshot) -> Plan:
    raise AssertionError("the quick look asks the scheduler nothing")


def candidates(it: Fleet) -> list[Candidate]:
    prices = NodePrices.of(it.types)
    found = [
        make_candidate(
            node_of(claim, it.workloads), claim, it.pools[0], it.workloads, prices
        )
        for _, claim in sorted(it.claims.items())
    ]
    return sorted(found, key=lambda candidate: candidate.order)


def emptiable(it: Fleet) -> list[str]:
    everyone = candidates(it)
    world = PassState.of(it.snapshot(), no_solve, NOW)
    feasibility = FeasibilityFilter(world, everyone)
    return [
        candidate.id
        for candidate in feasibility.emptiable(
            feasibility.free_capacity(world, everyone), everyone
        )
    ]


def hopeless(it: Fleet, claim_id: str) -> bool:
    everyone = candidates(it)
    world = PassState.of(it.snapshot(), no_solve, NOW)
    feasibility = FeasibilityFilter(world, everyone)
    candidate = next(candidate for candidate in everyone if candidate.id == claim_id)
    return (
        feasibility.refusal(feasibility.free_capacity(world, everyone), candidate)
        is not None
    )


def test_a_node_that_cannot_be_emptied_does_not_stand_in_the_way() -> None:
    it = fleet()
    it.add_node("a-full", "large", ON_DEMAND, {"default/whole": 1})
    it.add_node("b", "large", ON_DEMAND, {"default/tiny": 1})
    it.add_node("c", "large", ON_DEMAND, {"default/big": 1})

    assert emptiable(it) == ["b"]


def test_the_nodes_that_are_hardest_to_move_take_the_rest() -> None:
    it = fleet(reservations=(reservation("cr-1", "large", 1, 0),))
    for name in ("a", "b", "c"):
        it.add_node(name, "large", ON_DEMAND, {"default/tiny": 1})
    it.add_node("prepaid", "large", RESERVED, {"default/tiny": 1}, reservation_id="cr-1")

    assert emptiable(it) == ["a", "b", "c"]


def test_choosy_work_finds_room_only_where_it_may_run() -> None:
    it = fleet()
    it.add_node("a", "large", ON_DEMAND, {"default/choosy": 1})
    it.add_node("b", "large", SPOT, {"default/whole": 0})

    assert "a" not in emptiable(it)
    it.add_node("c", "large", ON_DEMAND, {"default/tiny": 2})
    assert "a" in emptiable(it)


@pytest.mark.parametrize(
    ("type_name", "market", "placed", "is_hopeless"),
    [
        ("large", ON_DEMAND, {"default/tiny": 1}, False),  # fits a small one
        # fits the same size on the spot market
        ("large", ON_DEMAND, {"default/whole": 1}, False),
        ("large", SPOT, {"default/whole": 1}, True),
        ("small", SPOT, {"default/tiny": 1}, True),
        # spot would be cheaper, but not for this
        ("small", ON_DEMAND, {"default/choosy": 1}, True),
    ],
)
def test_alone_a_node_is_hopeless_unless_something_cheaper_holds_its_work(
    type_name: str, market: object, placed: dict[str, int], is_hopeless: bool
) -> None:
    it = fleet()
    it.add_node("n", type_name, market, placed)  # type: ignore[arg-type]  # a capacity type

    assert hopeless(it, "n") is is_hopeless


def test_a_free_unit_is_a_hope_for_paid_nodes_and_for_larger_reserved_ones() -> None:
    it = fleet(
        reservations=(
            reservation("cr-s", "small", 2, 1),
            reservation("cr-l", "large", 1, 0),
        )
    )
    it.add_node("paid", "large", SPOT, {"default/tiny": 8})
    it.add_node("roomy", "large", RESERVED, {"default/tiny": 8}, reservation_id="cr-l")
    it.add_node("right", "small", RESERVED, {"default/tiny": 2}, reservation_id="cr-s")

    assert [hopeless(it, name) for name in ("paid", "roomy", "right")] == [
        False,
        False,
        True,
    ]


def test_a_try_is_taken_back_and_a_closed_node_takes_nothing() -> None:
    free = FreeCapacity(
        [Destination("a", 1, [4, 4, 9]), Destination("b", 1, [4, 4, 9])], least=(1, 1, 1)
    )

    assert free.put((2, 2, 1), 1, 3, besides="b") == (1, 2)
    free.take_back()
    assert not free.has_arrivals("a")
    assert free.put((2, 2, 1), 1, 2, besides="b")[0] == 0
    free.close("b")
    assert free.has_arrivals("a")
    assert free.put((2, 2, 1), 1, 1, besides="x")[0] == 1  # a is full, b is gone
    assert free.put((1, 1, 1), 2, 1, besides="x")[0] == 1  # nobody meets that wish


def test_looks_are_counted_and_bounded() -> None:
    it = fleet()
    it.add_node("a", "large", ON_DEMAND, {"default/tiny": 1})
    it.add_node("b", "large", ON_DEMAND, {"default/tiny": 2})
    everyone = candidates(it)
    world = PassState.of(it.snapshot(), no_solve, NOW)
    feasibility = FeasibilityFilter(world, everyone)
    feasibility.evaluations_left = 0

    assert feasibility.emptiable(feasibility.free_capacity(world, everyone), everyone) == []
    assert (
        feasibility.refusal(feasibility.free_capacity(world, everyone), everyone[0]) is None
    )  # not looked at: worth a simulation


def test_work_that_is_no_longer_known_needs_nothing() -> None:
    it = fleet()
    claim = it.add_node("a", "large", ON_DEMAND, {"default/tiny": 1})
    it.workloads = {}
    bare = node_of(replace(claim, placements=()), it.workloads)
    everyone = [make_candidate(bare, claim, it.pools[0], {}, NodePrices.of(it.types))]
    world = PassState.of(
        Snapshot(tuple(it.types), nodes=(everyone[0].node,), node_pools=tuple(it.pools)),
        no_solve,
        NOW,
    )

    assert FeasibilityFilter(world, everyone).asks(everyone[0]) == []
