import pytest

from lab.worlds.launch_world import World


@pytest.fixture
def replica_count() -> int:
    """More than any test launches nodes for; a file of tests may say otherwise."""
    return 500


@pytest.fixture
def world(replica_count: int) -> World:
    """A reservation, and a workload of so many replicas."""
    world = World()
    world.add_reservation("cr-1")
    world.add_workload(replicas=replica_count)
    return world
