"""One deployment a test module: each plays its stories on its own world, and none may lack a permission."""

from collections.abc import Iterator

import pytest

from embedded.reservoir import DeployedReservoir
from tests.deployed.world import World


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """Deploy; when the module's tests are done, no function may have been denied anything."""
    with DeployedReservoir(report=print) as reservoir:
        world = World(reservoir)
        yield world
        denials = world.denials()
        print(world.aws.log())  # noqa: T201 - pytest shows it beside a failure
    assert denials == []
