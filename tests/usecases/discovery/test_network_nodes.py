"""Discovery keeps where reservations are in the network."""

from dataclasses import replace

from lab.fakes.values import reservation
from lab.worlds.planning_world import PlanningWorld
from reservoir.ports.errors import AccessDeniedError

TEAM = {"team": "research"}
NODES = ("nn-1", "nn-12")


def placed_world() -> PlanningWorld:
    world = PlanningWorld()
    world.network.nodes["cr-1"] = NODES
    return world.ready(reservation(tags=TEAM))


def minutes_later(world: PlanningWorld) -> None:
    world.clock.advance(minutes=1)
    world.discover()


def test_what_ec2_tells_is_kept_and_not_asked_for_again() -> None:
    world = placed_world()
    asked_count = len(world.network.asked)
    minutes_later(world)
    assert world.reservation().reservation.network_nodes == NODES
    assert len(world.network.asked) == asked_count


def test_a_reservation_that_grows_is_asked_about_again() -> None:
    world = placed_world()
    world.network.nodes["cr-1"] = ("nn-1",)
    grown = reservation(tags=TEAM, total_count=9, available_count=9)
    world.reader.put(grown)
    minutes_later(world)
    assert world.reservation().reservation.network_nodes == ("nn-1",)


def test_a_refusal_is_told_and_takes_nothing_away() -> None:
    world = placed_world()
    world.network.error = AccessDeniedError(
        "UnauthorizedOperation", "DescribeCapacityReservationTopology"
    )
    world.reader.put(reservation(tags=TEAM, total_count=9, available_count=9))
    world.clock.advance(minutes=1)
    found = world.discovery().run()
    saved = world.reservation().reservation
    assert (saved.total_count, saved.network_nodes) == (9, NODES)
    assert found.failures == ("network nodes of reservations: UnauthorizedOperation",)


def test_nothing_is_asked_about_a_reservation_that_has_not_begun() -> None:
    world = PlanningWorld()
    world.network.nodes["cr-1"] = NODES
    coming = replace(reservation(tags=TEAM), state="scheduled")
    world.ready(coming)
    assert not any("cr-1" in types for types in world.network.asked)
