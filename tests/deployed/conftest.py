"""One deployment a test module: each plays its stories on its own world, and none may lack a permission.

A module that deploys with settings of its own names them ``SETTINGS``; one whose instances run their user data says
``RUN_NODES = True``.
"""

import hashlib
import json
from collections.abc import Iterator

import pytest

from embedded.reservoir import DeployedReservoir, Synthesis
from tests.deployed.world import World
from tests.once import MakeOnce, make_once

__all__ = ["make_once"]


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest, make_once: MakeOnce) -> Iterator[World]:
    """Deploy; when the module's tests are done, no function may have been denied anything."""
    settings = getattr(request.module, "SETTINGS", {})
    name = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]
    assembly = make_once(f"deployed-{name}", lambda folder: folder.symlink_to(Synthesis(settings).finish()))
    run_nodes = getattr(request.module, "RUN_NODES", False)
    with DeployedReservoir(print, settings, assembly, run_nodes=run_nodes) as reservoir:
        world = World(reservoir)
        yield world
        denials = world.denials()
        print(world.aws.log())  # noqa: T201 - pytest shows it beside a failure
    assert denials == []
