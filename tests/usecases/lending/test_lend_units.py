"""Idle units are lent, and come back for whoever needs them; whatever is killed, none is promised twice."""

from typing import Any

import pytest

from lab.fakes.effects import Effects, mishaps
from lab.worlds.disrupt_world import DisruptWorld
from lab.worlds.planning_world import node_class_manifest
from reservoir.core.model.workload import Gang
from reservoir.names import LENDABLE_TAG, LENDABLE_VALUE, LENT_FROM_TAG

TAGS = {LENDABLE_TAG: LENDABLE_VALUE}
LENT = "cr-1-lent"


def lending_world(
    *capacity_types: str, units: int = 4, tags: dict[str, str] = TAGS, **lending: Any
) -> DisruptWorld:
    """A reservation whose idle units are lent after five minutes, and nothing to do."""
    world = DisruptWorld(*capacity_types or ("reserved",))
    change_lending(world, {"after": "5m", **lending})
    world.add_reservation("cr-1", total_count=units, tags=tags)
    return world


def change_lending(world: DisruptWorld, lending: dict[str, Any] | None) -> None:
    world.apply(node_class_manifest(role=None, instanceProfile="nodes", lending=lending))


def lent(world: DisruptWorld) -> int:
    found = world.ec2.reservations["cr-1"].lent
    return 0 if found is None else found.count


def borrow(world: DisruptWorld, count: int) -> None:
    """Let somebody else run instances in lent units."""
    world.lender.borrowed["cr-1"] = count


def units(world: DisruptWorld) -> int:
    """Own and lent units together."""
    return world.ec2.reservations["cr-1"].total_count + lent(world)


def test_units_that_have_been_idle_are_lent_but_for_those_kept_free() -> None:
    world = lending_world(keepFree=1)
    world.minutes(4)
    assert lent(world) == 0
    world.minutes(7)
    assert lent(world) == 3
    world.minutes(2)
    assert (world.free_units("cr-1"), units(world)) == (1, 4)
    assert world.ec2.reservations[LENT].tags[LENT_FROM_TAG] == "cr-1"


def test_nothing_is_lent_without_the_owners_tag_or_the_class() -> None:
    untagged = lending_world(tags={})
    untagged.minutes(20)
    unwilling = lending_world()
    change_lending(unwilling, None)
    unwilling.minutes(20)
    assert (untagged.lender.calls, unwilling.lender.calls) == ([], [])


def test_units_come_back_at_once_for_work_that_waits_and_no_more_than_it_needs() -> None:
    world = lending_world()
    world.minutes(11)
    assert lent(world) == 4
    world.submit("train", replicas=1, gpus=8)
    world.plan_and_launch()
    assert lent(world) == 3, "the planner itself takes it back, in the same second"
    world.minutes(2)
    assert world.at_work() == 1
    world.minutes(2)
    assert lent(world) == 3


def test_no_more_is_taken_back_while_the_leases_of_lending_still_stand() -> None:
    world = lending_world()
    while lent(world) == 0:
        world.minutes(1)
    world.observe("cr-1")
    world.submit("train", replicas=1, gpus=8)
    for _ in range(3):
        world.plan_and_launch()
        world.observe("cr-1")
    assert lent(world) == 3


def test_a_gang_waits_for_the_notice_and_no_longer() -> None:
    world = lending_world()
    world.minutes(11)
    borrow(world, 4)
    world.submit("train", replicas=3, gpus=8, gang=Gang())
    world.minutes(2)
    found = world.ec2.reservations["cr-1"].lent
    assert found is not None
    assert (found.count, found.target_count) == (4, 1)
    world.lender.give_all_back()
    world.minutes(2)
    assert world.at_work() == 3
    assert lent(world) == 1


def test_more_is_lent_only_when_nothing_is_on_its_way() -> None:
    world = lending_world()
    world.minutes(11)
    borrow(world, 4)
    world.submit("train", replicas=1, gpus=8)
    world.minutes(1)
    world.scale("train", 0)
    world.minutes(6)
    assert world.lender.calls == [("cr-1", 4), ("cr-1", 3)]


def test_a_node_that_is_paid_for_takes_a_lent_unit_back() -> None:
    world = lending_world("reserved", "on-demand")
    world.minutes(11)
    world.submit("train", replicas=1, gpus=8)
    world.plan_and_launch()
    assert world.types() == ["p5.48xlarge on-demand"]
    world.minutes(1)
    assert lent(world) == 3
    world.minutes(6)
    assert world.types() == ["p5.48xlarge reserved"]


def test_work_that_was_bought_as_another_type_takes_a_lent_unit_back_too() -> None:
    world = lending_world("reserved", "on-demand")
    world.minutes(11)
    world.submit("web", replicas=1, cpus=1)
    world.plan_and_launch()
    assert world.types() == ["m5.large on-demand"]
    world.minutes(1)
    assert lent(world) == 3
    world.minutes(6)
    assert world.types() == ["p5.48xlarge reserved"]
    world.minutes(20)
    assert lent(world) == 3


def test_a_unit_is_not_taken_back_for_work_that_stays_where_it_is() -> None:
    world = lending_world("reserved", "on-demand", units=4)
    world.change_pool(
        disruption={"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s"}
    )
    world.minutes(11)
    world.submit("web", replicas=1, cpus=1)
    world.minutes(6)
    assert world.types() == ["m5.large on-demand"]
    assert lent(world) == 4


def test_all_comes_back_when_the_class_lends_no_more() -> None:
    world = lending_world()
    world.minutes(11)
    change_lending(world, None)
    world.minutes(6)
    assert (lent(world), world.free_units("cr-1")) == (0, 4)


def test_what_a_person_lends_is_left_alone() -> None:
    world = lending_world()
    world.lender.begin("cr-1", 2, {}, "by hand")
    world.minutes(20)
    assert world.lender.calls == [("cr-1", 2)]


def test_a_number_that_a_person_changed_meanwhile_is_not_changed_back() -> None:
    world = lending_world(keepFree=2)
    world.minutes(11)
    world.lender.change("cr-1", 1)
    change_lending(world, {"after": "5m", "keepFree": 1})
    world.disruption_pass()
    assert lent(world) == 1, "decided on an older view: EC2 was read before it was asked"


def test_what_ec2_refuses_is_given_back_and_asked_later() -> None:
    world = lending_world()
    world.lender.refuses = True
    world.minutes(11)
    assert any(
        it.lending_refused == {"cr-1": "OperationNotPermitted"} for it in world.reports
    )
    world.minutes(1)
    assert world.free_units("cr-1") == 4
    world.lender.refuses = False
    world.minutes(15)
    assert lent(world) == 4


def test_each_change_is_told_with_its_reason() -> None:
    world = lending_world(keepFree=3)
    world.minutes(11)
    change_lending(world, None)
    world.minutes(6)
    told = world.bus.of("Reservation Lending Changed")
    assert [(it["lentBefore"], it["lentCount"]) for it in told] == [(0, 1), (1, 0)]
    assert told[0]["reason"].startswith("4 units have been idle since")


def play(world: DisruptWorld) -> None:
    """Lend, take back what is to be kept free now, and for work, and lend what is left."""
    world.minutes(11)
    change_lending(world, {"after": "5m", "keepFree": 1})
    world.minutes(5)
    world.submit("train", replicas=2, gpus=8)
    world.minutes(4)
    world.lender.give_all_back()
    world.minutes(12)


def test_killed_anywhere_no_unit_is_lost_or_promised_twice() -> None:
    calm = lending_world()
    calm.armed = effects = Effects()
    play(calm)
    assert {"begin", "change"} <= {name.rpartition(".")[2] for name in effects.log}
    for mishap in mishaps(range(1, effects.count + 1)):
        world = lending_world()
        world.armed = mishap
        play(world)
        assert units(world) == 4, mishap
        assert world.at_work() == 2
        assert world.free_units("cr-1") + lent(world) == 2


@pytest.mark.parametrize("throttled", [1, 3])
def test_a_throttled_call_is_repeated(throttled: int) -> None:
    world = lending_world()
    world.lender.throttle_count = throttled
    world.minutes(46)
    assert lent(world) == 4
