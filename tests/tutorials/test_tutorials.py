"""Tutorials do what they say, one after the other on one deployment."""

from pathlib import Path

import pytest

from lab.embedded.reservoir import ROOT
from lab.embedded.reservoir.play import PLAY_SETTINGS
from lab.story.world import World
from tests.tutorials.reader import Reader, Typed, commands_of, missing_of

SETTINGS = PLAY_SETTINGS
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


@pytest.mark.embedded
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: str(page.stem))
def test_a_tutorial_does_what_it_says(page: Path, world: World, tmp_path: Path) -> None:
    Reader(world, tmp_path).follow(page)


def test_outputs_are_compared_loosely_and_in_order() -> None:
    written = ["NAME   UNITS", "cr-0a1b     2", "done"]
    assert missing_of(("NAME UNITS", "cr-… 2"), written) is None
    assert missing_of(("cr-… 3",), written) == "cr-… 3"
    assert missing_of(("done", "NAME UNITS"), written) == "NAME UNITS"
    assert missing_of(("cr-0a1b …",), written) is None


def test_commands_stand_behind_a_dollar() -> None:
    block = "$ reservoir get  # all\nNAME\n\n$ aws ec2 \\\n    describe\n"
    assert list(commands_of(block)) == [
        Typed("reservoir get", ("NAME",)),
        Typed("aws ec2      describe", ()),
    ]
