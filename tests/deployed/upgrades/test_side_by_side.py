"""Functions of two releases side by side, deployed: each is put to a drawn release, again and again, under mishaps.

``make sim-upgrade`` plays more seeds.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.story.world import World
from reservoir.names import Function
from tests.deployed.upgrades.releases import Fleet
from tests.deployed.upgrades.side_by_side import Play, two_releases
from tests.upgrades.conftest import previous

__all__ = ["previous"]

pytestmark = pytest.mark.embedded

SEEDS = (1, 2, 3)


@pytest.fixture(scope="module")
def releases(
    world: World, previous: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Fleet, Sequence[Function]]:
    return two_releases(world, previous, tmp_path_factory.mktemp("policy"))


@pytest.mark.parametrize("seed", SEEDS)
def test_everything_comes_about_and_nothing_is_doubled_or_ended(
    releases: tuple[Fleet, Sequence[Function]], seed: int
) -> None:
    fleet, both = releases
    assert Play(fleet, seed, both).play() == []
