"""Rooms of the mutation tests are of this repository."""

import pytest

from lab.mutation.results import ROOT
from lab.mutation.rooms import ROOMS, Room


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_a_room_and_its_tests_are_there(room: Room) -> None:
    assert (ROOT / "shared" / "reservoir" / room.name).exists()
    assert [path for path in room.tests if not (ROOT / path).exists()] == []
