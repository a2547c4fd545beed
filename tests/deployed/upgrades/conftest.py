"""Worlds on which both releases can run: the tables have the indexes of both."""

from collections.abc import Iterator

import pytest

from lab.embedded.reservoir import DeployedReservoir
from lab.story.world import World
from tests.deployed.upgrades.releases import assembly_for_both


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Deploy as an update begins; when the module's tests are done, no function may have been denied anything."""
    assembly = assembly_for_both(tmp_path_factory.mktemp("both"))
    with DeployedReservoir(print, assembly=assembly) as reservoir:
        world = World(reservoir)
        yield world
        denials = world.denials()
        print(world.aws.log())  # noqa: T201 - pytest shows it beside a failure
    assert denials == []
