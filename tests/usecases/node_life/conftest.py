import pytest

from tests.usecases.worlds.launch_world import World


@pytest.fixture
def world() -> World:
    """A reservation, and more replicas than any test launches nodes for."""
    world = World()
    world.add_reservation("cr-1")
    world.add_workload(replicas=500)
    return world
