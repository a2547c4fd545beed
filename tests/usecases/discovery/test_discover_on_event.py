"""Discovery that events wake: one function reads for all events of a moment, however many come while it does."""

import pytest

from lab.fakes.stores.discovery_turns import MemoryDiscoveryTurns
from lab.fakes.system import START
from lab.fakes.values import reservation
from lab.worlds.planning_world import PlanningWorld, node_class_manifest
from reservoir.ports.errors import ThrottledError
from reservoir.usecases.discovery.discover_on_event import DiscoverOnEvent


class World(PlanningWorld):
    """A pause moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = MemoryDiscoveryTurns()
        self.apply(
            node_class_manifest(
                capacityReservationSelectorTerms=[{"tags": {"team": "research"}}]
            )
        )

    def event(self) -> bool:
        """Bring an event that was told at the start; return whether its function read EC2."""
        on_event = DiscoverOnEvent(
            self.discovery(), self.turns, self.clock, pause=self._pause
        )
        return on_event.run(START) is not None

    def _pause(self, seconds: float) -> None:
        self.clock.advance(seconds=seconds)


def test_sixty_four_events_at_once_are_two_readings() -> None:
    world = World()
    answers: list[bool] = []
    world.reader.meanwhile = lambda: answers.extend(world.event() for _ in range(63))

    assert world.event()

    assert answers == [False] * 63
    assert world.reader.call_count == 2


def test_what_happened_during_the_first_reading_is_in_the_second() -> None:
    world = World()

    def another() -> None:
        world.reader.put(reservation("cr-new", tags={"team": "research"}))
        assert not world.event()

    world.reader.meanwhile = another
    world.event()

    assert world.state.reservations.get("cr-new") is not None


def test_an_event_that_arrives_after_everything_was_read_reads_nothing() -> None:
    world = World()
    world.clock.advance(seconds=2)
    assert world.event()
    world.clock.advance(seconds=5)
    assert not world.event()
    assert world.reader.call_count == 1


def test_after_a_reading_that_failed_the_next_event_reads() -> None:
    world = World()
    world.reader.failing = True
    with pytest.raises(ThrottledError):
        world.event()

    world.reader.failing = False
    assert world.event()
