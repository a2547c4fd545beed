"""Edits of a snapshot, judged by what the scheduler makes of them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.node_class import CapacityReservationSelectorTerm
from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.what_if.added_capacity import AddedCapacity, EditError
from reservoir.core.what_if.edits import WorldEdits, edited
from tests.core.scheduler.world import (
    NOW,
    ON_DEMAND,
    RESERVED,
    block,
    demand,
    fx_reserved,
    launched,
    markets,
    node,
    plain,
    planned,
    pool,
    reservation,
    with_demand,
    workload,
)

HOUR = timedelta(hours=1)


def world(**changes: Any) -> Snapshot:
    """Reservations of medium and small with a unit each; two replicas that fit every type."""
    base = fx_reserved(**changes)
    (node_class,) = base.node_classes
    selecting = replace(
        node_class,
        capacity_reservation_selector_terms=(
            CapacityReservationSelectorTerm(id="r-small"),
        ),
    )
    wanted = workload("job", cpu=1500)
    return replace(
        base,
        node_classes=(selecting,),
        demands=(demand(wanted, 2),),
        workloads={wanted.key: wanted},
    )


def after(snapshot: Snapshot, edits: WorldEdits) -> Snapshot:
    return edited(snapshot, edits, NOW).snapshot


def test_added_units_are_used() -> None:
    more = after(world(), WorldEdits(added=(AddedCapacity(3, "large", "zone-1"),)))
    with_more = with_demand(more, demand(workload("job", cpu=5000), 2))
    assert launched(planned(with_more)) == {"large:with-1": 2}


def test_added_units_that_are_to_come_are_waited_for() -> None:
    pools = (pool("default", markets(RESERVED)),)
    coming = AddedCapacity(2, "large", "id-zone-1", NOW + HOUR, NOW + 6 * HOUR)
    more = with_demand(
        after(world(pools=pools), WorldEdits(added=(coming,))),
        demand(workload("job", cpu=5000), 2),
    )
    (waiting,) = planned(more).unplaced
    assert (waiting.code, waiting.earliest_at) == (
        ReasonCode.RESERVATION_NOT_STARTED,
        NOW + HOUR,
    )
    (added,) = [item for item in more.reservations if item.id == "with-1"]
    assert (added.kind, added.zone) == (ReservationKind.CAPACITY_BLOCK, "zone-1")


def test_nobody_may_use_what_no_class_selects() -> None:
    none_selects = replace(world(), node_classes=(replace(fx_reserved().node_classes[0]),))
    with pytest.raises(
        EditError,
        match=r"no EC2NodeClass selects reservations: say who may use 1 large, with for NAME",
    ):
        after(none_selects, WorldEdits(added=(AddedCapacity(1, "large", "zone-1"),)))
    named = after(
        none_selects,
        WorldEdits(added=(AddedCapacity(1, "large", "zone-1", node_class_name="default"),)),
    )
    assert "with-1" in named.node_classes[0].status.reservation_ids


def test_units_that_are_gone_are_bought() -> None:
    assert launched(planned(world())) == {"medium:r-medium": 1, "small:r-small": 1}
    fewer = after(world(), WorldEdits(removed_ids=("r-small",)))
    assert launched(planned(fewer))["medium:r-medium"] == 1
    assert not any(where.endswith("r-small") for where in launched(planned(fewer)))


def test_nodes_in_an_on_demand_reservation_that_is_gone_run_on() -> None:
    small = world().instance_types[2]
    held = node(
        "n-1", small, {"other": 1}, capacity_type=RESERVED, reservation_id="r-small"
    )
    found = edited(world(nodes=(held,)), WorldEdits(removed_ids=("r-small",)), NOW)
    assert [(item.capacity_type, item.reservation_id) for item in found.snapshot.nodes] == [
        (ON_DEMAND, None)
    ]
    assert found.notes == ("1 node in r-small would run on, on demand",)


def test_nodes_in_a_block_that_is_gone_end_and_their_replicas_are_demand_again() -> None:
    ending = block("r-block", "small", 1, ends_in=8 * HOUR)
    small = world().instance_types[2]
    held = node("n-1", small, {"job": 1}, capacity_type=RESERVED, reservation_id="r-block")
    found = edited(world_with(ending, held), WorldEdits(removed_ids=("r-block",)), NOW)
    assert found.snapshot.nodes == ()
    assert [item.pending_count for item in found.snapshot.demands] == [3]
    assert found.notes == (
        "1 node in r-block would end, and their replicas be demand again",
    )


def world_with(ending: Any, held: Any) -> Snapshot:
    base = world(nodes=(held,))
    return replace(base, reservations=(*base.reservations, ending))


def test_other_prices_move_demand() -> None:
    start = with_demand(plain(), demand(workload("job", cpu=1500), 1))
    only_bought = replace(start, node_pools=(pool("default", markets(ON_DEMAND)),))
    assert launched(planned(only_bought)) == {"small:on-demand": 1}
    dear = after(
        only_bought, WorldEdits(on_demand_micro_usd_per_hour={"small": 90_000_000})
    )
    assert launched(planned(dear)) == {"default:on-demand": 1}


def test_changed_pools_are_the_ones_that_count() -> None:
    strict = after(world(), WorldEdits(node_pools=(pool("default", markets(RESERVED)),)))
    many = with_demand(strict, demand(workload("job", cpu=1500), 4))
    plan = planned(many)
    assert sum(launched(plan).values()) == 2
    assert plan.unplaced[0].code is ReasonCode.RESERVATION_FULL


def test_a_class_that_selects_otherwise_is_resolved_anew() -> None:
    other = replace(
        world().node_classes[0],
        capacity_reservation_selector_terms=(
            CapacityReservationSelectorTerm(tags={"team": "a"}),
        ),
    )
    tagged = reservation("r-tagged", "large", 1, tags={"team": "a"})
    base = world()
    snapshot = replace(base, reservations=(*base.reservations, tagged))
    found = edited(snapshot, WorldEdits(node_classes=(other,)), NOW)
    assert found.snapshot.node_classes[0].status.reservation_ids == ("r-tagged",)
    (note,) = found.notes
    assert note.startswith("EC2NodeClass default selects other reservations")


def test_a_new_class_is_taken_as_ready_and_that_is_said() -> None:
    new = replace(world().node_classes[0], name="new")
    found = edited(world(), WorldEdits(node_classes=(new,)), NOW)
    assert found.notes[0].startswith("EC2NodeClass new is new: assumed that its subnets")


def test_everything_that_names_nothing_is_told_at_once() -> None:
    edits = WorldEdits(
        added=(
            AddedCapacity(1, "larg", "zon-1"),
            AddedCapacity(1, "large", "zone-1", node_class_name="defualt"),
        ),
        removed_ids=("r-smal",),
        on_demand_micro_usd_per_hour={"smal": 1},
    )
    with pytest.raises(EditError) as error:
        after(world(), edits)
    assert str(error.value).splitlines() == [
        "there is no instance type 'larg'; did you mean large?",
        "there is no zone 'zon-1'; did you mean zone-1?",
        "there is no EC2NodeClass 'defualt'; did you mean default?",
        "there is no reservation 'r-smal'; did you mean r-small?",
        "there is no instance type 'smal'; did you mean small?",
    ]
