"""One deployment a test module: each plays its stories on its own world, and none may lack a permission.

A module that deploys with settings of its own names them ``SETTINGS``, one that must make something in AWS for them
has a function ``prepare``; one whose instances run their user data says
``RUN_NODES = True``. Deploying takes longer than going on with what was kept, so that what most modules want is
deployed once.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from lab.embedded.reservoir import DeployedReservoir, Settings
from lab.embedded.reservoir.stack import Prepare
from lab.story.world import World
from tests.once import MakeOnce, make_once

__all__ = ["make_once"]

DEFAULTS: Final[Settings] = {}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What all nodes see, as a file system in the network would be."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def world(
    request: pytest.FixtureRequest,
    make_once: MakeOnce,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    """Deploy; when the module's tests are done, no function may have been denied anything."""
    settings: Settings = getattr(request.module, "SETTINGS", DEFAULTS)
    prepare: Prepare | None = getattr(request.module, "prepare", None)
    kept = None
    if settings == DEFAULTS and prepare is None:
        kept = tmp_path_factory.mktemp("kept") / "deployed"
        # What is large is never written again: a state names it by the hash of its content.
        shutil.copytree(make_once("deployed", deploy_and_keep), kept, copy_function=os.link)
    run_nodes = getattr(request.module, "RUN_NODES", False)
    with DeployedReservoir(
        print, settings, keep=kept, run_nodes=run_nodes, prepare=prepare
    ) as reservoir:
        world = World(reservoir, runs_nodes=run_nodes)
        yield world
        denials = world.denials()
        print(world.aws.log())  # noqa: T201 - pytest shows it beside a failure
    assert denials == []


def deploy_and_keep(folder: Path) -> None:
    """Deploy, wait until a new deployment has done what it does first, and keep that in a folder."""
    with DeployedReservoir(print, DEFAULTS, keep=folder) as reservoir:
        reservoir.aws.keep()
        assert World(reservoir).denials() == []
