"""Free units move to equal reservations where they are needed, if pool and owner say so, and only then."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reservoir.core.disruption.command import DisruptionDecision
from reservoir.core.disruption.methods.unit_moves import equal_groups, spare_units
from reservoir.core.disruption.unit_move import UnitMove
from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from reservoir.core.model.node_pool import Disruption
from reservoir.core.model.workload import Demand
from reservoir.names import MOVABLE_TAG, MOVABLE_VALUE
from tests.core.disruption.world import (
    NOW,
    ON_DEMAND,
    RESERVED,
    Fleet,
    instance_type,
    node_pool,
    reservation,
    workload,
)

LARGE = instance_type("large", 8, on_demand=400_000)
WORK = {w.key: w for w in (workload("big", 6), workload("tiny", 1))}
TAGS = {MOVABLE_TAG: MOVABLE_VALUE}


def tagged(identity: str, total: int, free: int, **changes: object) -> CapacityReservation:
    return reservation(identity, "large", total, free, **{"tags": TAGS, **changes})


def fleet(
    *reservations: CapacityReservation, wanted: bool = True, **changes: object
) -> Fleet:
    """One pool, whose class selects cr-mine alone."""
    pool = node_pool(
        "default", RESERVED, ON_DEMAND, disruption=Disruption(move_reserved_units=wanted)
    )
    settings: dict[str, object] = {
        "types": (LARGE,),
        "pools": (pool,),
        "workloads": WORK,
        "selected": ("cr-mine",),
    }
    return Fleet(**{**settings, **changes}, reservations=reservations)  # type: ignore[arg-type]  # checked by the dataclass


def moves(decision: DisruptionDecision) -> list[tuple[str, str, int]]:
    return [(move.source_id, move.destination_id, move.count) for move in decision.moves]


def paid(count: int = 1, *, wanted: bool = True, budget: int = 100) -> Fleet:
    """Paid nodes, a full reservation that they could use, and an equal one that lies idle."""
    it = fleet(
        tagged("cr-idle", 3, 3), tagged("cr-mine", 1, 0), wanted=wanted, budget=budget
    )
    for number in range(count):
        it.add_node(f"paid-{number}", "large", ON_DEMAND, {"default/big": 1})
    return it


def test_an_idle_unit_moves_to_where_a_paid_node_can_use_it() -> None:
    it = paid()

    decision = it.decide()

    assert decision.commands == ()
    (move,) = decision.moves
    assert move == UnitMove("cr-idle", "cr-mine", 1, move.explanation, ("paid-0",))
    assert [refusal.reason for refusal in decision.refusals] == [
        "waits for a unit that moves from cr-idle to cr-mine"
    ]


def test_then_the_node_moves_in_and_nothing_moves_any_more() -> None:
    it = paid()
    it.reservations = (tagged("cr-idle", 2, 2), tagged("cr-mine", 2, 1))

    decision = it.decide()
    assert decision.moves == ()
    assert [
        p.offering.reservation_id
        for command in decision.commands
        for p in command.replacements
    ] == ["cr-mine"]
    it.apply(decision)

    at_rest = it.decide()
    assert (at_rest.commands, at_rest.moves) == ((), ())


def test_one_unit_always_stays_because_ec2_cancels_what_it_has_emptied() -> None:
    assert moves(paid(5).decide()) == [("cr-idle", "cr-mine", 2)]
    assert spare_units(tagged("cr-1", 1, 1)) == 0
    assert spare_units(tagged("cr-1", 4, 2)) == 2
    # the other one may be on its way out
    assert spare_units(tagged("cr-1", 2, 1, available_count=2)) == 0


@pytest.mark.parametrize("count", [1, 2])
def test_no_more_move_than_are_needed(count: int) -> None:
    it = paid(count)
    it.reservations = (tagged("cr-idle", 9, 9), tagged("cr-mine", 1, 0))

    assert moves(it.decide()) == [("cr-idle", "cr-mine", count)]


def test_it_is_off_by_default() -> None:
    assert not Disruption().move_reserved_units
    assert paid(wanted=False).decide().moves == ()


def test_a_budget_that_is_used_up_needs_no_unit() -> None:
    assert paid(budget=0).decide().moves == ()


def test_a_node_that_no_unit_could_hold_takes_no_others_place_in_the_budget() -> None:
    it = paid(2, budget=1)
    it.types = (LARGE, instance_type("huge", 16, on_demand=800_000))
    wide = workload("wide", 12)
    it.workloads = {**WORK, wide.key: wide}
    for number in range(3):
        it.add_node(f"wide-{number}", "huge", ON_DEMAND, {wide.key: 1})

    assert moves(it.decide()) == [("cr-idle", "cr-mine", 1)]


def test_an_empty_node_goes_and_takes_no_unit() -> None:
    it = fleet(tagged("cr-idle", 3, 3), tagged("cr-mine", 1, 0))
    it.add_node("idle", "large", ON_DEMAND, {})

    assert it.decide().moves == ()


def test_a_unit_moves_for_demand_that_waits() -> None:
    it = fleet(
        tagged("cr-idle", 3, 3),
        tagged("cr-mine", 1, 0),
        pools=(
            node_pool("default", RESERVED, disruption=Disruption(move_reserved_units=True)),
        ),
    )

    decision = it.decide(demands=(Demand(WORK["default/big"], 2, NOW),))

    assert moves(decision) == [("cr-idle", "cr-mine", 2)]
    assert "demand waits" in decision.moves[0].explanation


def test_a_unit_that_can_be_used_where_it_lies_stays_there() -> None:
    it = fleet(
        tagged("cr-idle", 3, 3), tagged("cr-mine", 1, 0), selected=("cr-idle", "cr-mine")
    )
    it.add_node("paid", "large", ON_DEMAND, {"default/big": 1})

    assert it.decide(demands=(Demand(WORK["default/big"], 1, NOW),)).moves == ()


def exchange(*reservations: CapacityReservation) -> bool:
    return any(len(group) > 1 for group in equal_groups(reservations, NOW))


@pytest.mark.parametrize(
    "change",
    [
        {"tags": {}},
        {"tags": {MOVABLE_TAG: "false"}},
        {"owner_id": "2"},
        {"zone_id": "z2"},
        {"platform": "Windows"},
        {"tenancy": "dedicated"},
        {"placement_group_arn": "arn:aws:ec2:us-east-1:1:placement-group/pg"},
        {"end_at": NOW + timedelta(days=1)},
        {"kind": ReservationKind.CAPACITY_BLOCK},
        {"kind": ReservationKind.INTERRUPTIBLE},
        {"state": "cancelled"},
        {"stale": True},
        {"instance_type": "small"},
    ],
)
def test_only_equal_reservations_whose_owner_says_so_exchange_units(
    change: dict[str, object],
) -> None:
    source, destination = tagged("cr-1", 3, 3), tagged("cr-2", 1, 0)

    assert exchange(source, destination)
    assert not exchange(replace(source, **change), destination)  # type: ignore[arg-type]  # field by field


def test_that_one_is_open_and_the_other_targeted_does_not_matter() -> None:
    assert exchange(
        tagged("cr-1", 3, 3, instance_match_criteria="open"), tagged("cr-2", 1, 0)
    )


def test_one_move_is_tried_however_much_demand_that_waits_has_used_up() -> None:
    it = paid(2)
    it.effort = -1_000  # as many pools and types do

    assert moves(it.decide()) == [("cr-idle", "cr-mine", 1)]


def apply(it: Fleet, decision: DisruptionDecision) -> None:
    """Do what a pass decided; EC2 moves the units when the commands are through."""
    it.apply(replace(decision, moves=()))
    for move in decision.moves:
        change = {move.source_id: -move.count, move.destination_id: move.count}
        it.reservations = tuple(
            replace(
                one,
                total_count=one.total_count + change.get(one.id, 0),
                free_units=one.free_units + change.get(one.id, 0),
                available_count=one.available_count + change.get(one.id, 0),
            )
            for one in it.reservations
        )


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=2, max_size=3),
    st.lists(st.sampled_from(["default/big", "default/tiny"]), max_size=4),
)
def test_a_fleet_comes_to_rest_and_no_unit_goes_back_and_forth(
    sizes: list[tuple[int, int]], keys: list[str]
) -> None:
    names = ("cr-mine", "cr-2", "cr-3")
    it = fleet(
        *(
            tagged(name, total, min(free, total))
            for name, (total, free) in zip(names, sizes, strict=False)
        )
    )
    it.selected = names[: len(sizes)] if keys[:1] == ["default/tiny"] else ("cr-mine",)
    # in the units that are not free stand nodes of ours, or of others
    for one in it.reservations:
        for number in range(
            one.total_count - one.free_units if one.id in it.selected else 0
        ):
            it.add_node(
                f"{one.id}-{number}",
                "large",
                RESERVED,
                {"default/big": 1},
                reservation_id=one.id,
            )
    for number, key in enumerate(keys):
        it.add_node(f"paid-{number}", "large", ON_DEMAND, {key: 1})
    moved = 0
    for _ in range(12):
        before, decision = it.cost(), it.decide()
        if not decision.commands and not decision.moves:
            break
        moved += sum(move.count for move in decision.moves)
        apply(it, decision)
        assert it.cost() <= before
    assert (decision.commands, decision.moves) == ((), ())
    assert moved <= len(keys)
    assert all(one.total_count >= 1 for one in it.reservations)
