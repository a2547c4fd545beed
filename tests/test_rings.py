"""Every test belongs to one ring, which can be run alone and is described."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAKEFILE = (ROOT / "Makefile").read_text()


def rings() -> dict[str, list[Path]]:
    """Return the test files of each ring as the Makefile lists them."""
    found = {}
    for name, places in re.findall(r"^RING_(\w+) := (.+)$", MAKEFILE, re.MULTILINE):
        patterns = places.removeprefix("$(wildcard ").removesuffix(")").split()
        paths = [path for pattern in patterns for path in ROOT.glob(pattern)]
        assert len(paths) >= len(patterns), f"{name} names something that is not there: {places}"
        found[name] = [file for path in paths for file in (path.rglob("test_*.py") if path.is_dir() else [path])]
    return found


def make(target: str) -> str:
    """Return what make would run, with everything installed."""
    answer = subprocess.run(  # noqa: S603 - our own Makefile
        ["make", "--dry-run", "--old-file=setup", target],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return answer.stdout


def test_every_test_belongs_to_one_ring() -> None:
    in_rings = [file for files in rings().values() for file in files]
    assert sorted(in_rings) == sorted((ROOT / "tests").rglob("test_*.py"))


def test_the_rings_that_are_listed_and_described_are_those_that_there_are() -> None:
    (listed,) = re.findall(r"^RINGS := (.+)$", MAKEFILE, re.MULTILINE)
    assert set(listed.split()) == rings().keys()
    described = (ROOT / "docs" / "testing.md").read_text()
    assert [name for name in listed.split() if f"`make test-{name}`" not in described] == []


@pytest.mark.parametrize("ring", sorted(rings()))
def test_a_ring_is_run_alone_by_its_name(ring: str) -> None:
    said = make(f"test-{ring}")
    assert "python -m pytest" in said
    assert "--durations=20" in said
    assert all(str(folder.relative_to(ROOT)) in said for folder in {file.parent for file in rings()[ring][:1]})


def test_a_ring_that_does_not_exist_is_refused_with_the_names_of_all() -> None:
    assert "no ring is called nothing; there are: unit " in make("test-nothing")
