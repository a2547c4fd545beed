"""The handler of reservation discovery: the schedule always looks, events of a moment share a reading."""

from typing import Any

import pytest

from functions.discover_reservations.handler import handler
from lab.fakes.stores.discovery_turns import MemoryDiscoveryTurns
from lab.worlds.planning_world import PlanningWorld, node_class_manifest
from reservoir.usecases.discovery.discover_on_event import DiscoverOnEvent

EVENT = {
    "source": "aws.ec2",
    "detail-type": "Capacity Block Expiration Warning",
    "time": "2026-01-15T11:59:50Z",
}
SCHEDULE = {
    "source": "aws.events",
    "detail-type": "Scheduled Event",
    "time": "2026-01-15T12:00:00Z",
}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> PlanningWorld:
    """A world whose use cases stand in the composition root's place."""
    world, turns = PlanningWorld(), MemoryDiscoveryTurns()
    world.apply(
        node_class_manifest(
            capacityReservationSelectorTerms=[{"tags": {"team": "research"}}]
        )
    )
    monkeypatch.setattr(
        "functions.discover_reservations.handler.discover_reservations", world.discovery
    )
    on_event = DiscoverOnEvent(world.discovery(), turns, world.clock, pause=lambda _: None)
    monkeypatch.setattr(
        "functions.discover_reservations.handler.discover_on_event", lambda: on_event
    )
    return world


def test_a_second_event_of_a_moment_reads_nothing(world: PlanningWorld) -> None:
    assert handler(EVENT, None) is not None
    assert handler(EVENT, None) is None
    assert world.reader.call_count == 1


@pytest.mark.parametrize("event", [SCHEDULE, {}, {**EVENT, "time": "soon"}])
def test_the_schedule_and_whatever_tells_no_time_read_always(
    world: PlanningWorld, event: dict[str, Any]
) -> None:
    handler(EVENT, None)
    assert handler(event, None) is not None
    assert handler(event, None) is not None
    assert world.reader.call_count == 3
