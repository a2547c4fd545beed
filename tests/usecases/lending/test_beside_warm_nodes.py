"""Units that are kept warm and units that are lent are the same free units: none is counted as both, or as neither."""

from typing import Any, Final

from lab.worlds.disrupt_world import DisruptWorld
from lab.worlds.planning_world import node_class_manifest
from reservoir.core.model.workload import Gang
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.names import LENDABLE_TAG, LENDABLE_VALUE

UNITS: Final = 5
OTHER: Final = Requirements.from_labels({labels.NODE_POOL: "other"})


def world_with(warm: int | str, **lending: Any) -> DisruptWorld:
    """Five units, a pool that keeps some warm and lends, and a pool of the same class that keeps nothing warm."""
    world = DisruptWorld("reserved")
    world.copy_pool("other")
    world.change_pool(warmReserved=warm)
    spec = {"role": None, "instanceProfile": "nodes", "lending": {"after": "5m", **lending}}
    world.apply(node_class_manifest(**spec))
    tags = {LENDABLE_TAG: LENDABLE_VALUE}
    world.add_reservation("cr-1", total_count=UNITS, tags=tags)
    return world


def warm(world: DisruptWorld) -> int:
    return sum(claim.is_kept_warm for claim in world.live())


def lent(world: DisruptWorld) -> int:
    found = world.ec2.reservations["cr-1"].lent
    return 0 if found is None else found.target_count


def assert_that_no_unit_is_doubled_or_lost(world: DisruptWorld) -> None:
    assert world.ec2.reservations["cr-1"].total_count + lent(world) == UNITS
    nodes = [it for it in world.live() if it.offering.reservation_id == "cr-1"]
    assert len(nodes) + lent(world) <= UNITS


def test_warm_units_are_not_lent_and_the_others_are() -> None:
    world = world_with(2)
    world.minutes(15)
    assert (warm(world), lent(world)) == (2, 3)
    assert_that_no_unit_is_doubled_or_lost(world)


def test_nothing_is_lent_where_all_that_is_free_is_kept_warm() -> None:
    world = world_with("All")
    world.minutes(15)
    assert (warm(world), world.lender.calls) == (UNITS, [])


def test_a_warm_unit_is_one_of_those_that_are_kept_free() -> None:
    world = world_with(2, keepFree=2)
    world.minutes(25)
    assert (warm(world), lent(world)) == (2, 3)
    assert world.lender.calls == [("cr-1", 3)], "and none of them was taken back again"


def test_work_takes_warm_units_before_any_is_taken_back() -> None:
    world = world_with(2)
    world.minutes(15)
    world.submit("train", replicas=2, gpus=8, node_selector=OTHER)
    world.minutes(6)
    assert (world.at_work(), lent(world)) == (2, 3)
    assert_that_no_unit_is_doubled_or_lost(world)


def test_a_gang_takes_back_only_what_warm_units_do_not_give_it() -> None:
    for selector in (OTHER, Requirements.from_labels({})):
        world = world_with(2)
        world.minutes(15)
        world.submit("train", replicas=3, gpus=8, gang=Gang(), node_selector=selector)
        world.minutes(12)
        assert (world.at_work(), lent(world)) == (3, 2)
        assert world.lender.calls == [("cr-1", 3), ("cr-1", 2)]
        assert_that_no_unit_is_doubled_or_lost(world)


def test_what_has_come_back_for_a_gang_is_not_lent_again_before_it_has_it() -> None:
    world = world_with(2)
    world.minutes(15)
    world.submit("train", replicas=3, gpus=8, gang=Gang(), node_selector=OTHER)
    world.plan_and_launch()
    world.observe("cr-1")
    world.clock.advance(minutes=10)
    world.disruption_pass()
    assert lent(world) == 2
    world.minutes(6)
    assert world.at_work() == 3
