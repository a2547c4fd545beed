"""Every test belongs to one ring, which can be run alone and is described."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def make(target: str) -> str:
    """Return what make would run, with everything installed."""
    answer = subprocess.run(  # noqa: S603 - our own Makefile
        ["make", "--dry-run", "--old-file=setup", target],  # noqa: S607 - make is on the PATH
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return answer.stdout


def listed() -> list[str]:
    """Return the names of the rings, as the Makefile tells whoever asks for another."""
    refusal = make("test-nothing")
    (names,) = re.findall(r"there are: ([a-z ]+)", refusal)
    return str(names).split()


def files_of(target: str) -> set[Path]:
    """Return the test files that make would run for a target."""
    words = make(target).split()
    left_out = [
        ROOT / word.removeprefix("--ignore=")
        for word in words
        if word.startswith("--ignore=")
    ]
    places = [ROOT / word for word in words if word.startswith("tests/")]
    assert all(place.exists() for place in (*places, *left_out)), (
        f"{target} names something that is not there"
    )
    found = {
        file
        for place in places
        for file in (place.rglob("test_*.py") if place.is_dir() else [place])
    }
    return {
        file for file in found if not any(file.is_relative_to(place) for place in left_out)
    }


def test_every_test_belongs_to_one_ring() -> None:
    in_rings = [file for ring in listed() for file in files_of(f"test-{ring}")]
    assert sorted(in_rings) == sorted((ROOT / "tests").rglob("test_*.py"))


def test_the_two_halves_run_every_test_once() -> None:
    first, more = files_of("test"), files_of("test-more")
    assert first | more == set((ROOT / "tests").rglob("test_*.py"))
    assert first & more == set()


def test_every_ring_is_described() -> None:
    described = (ROOT / "docs" / "testing.md").read_text()
    assert [ring for ring in listed() if f"`make test-{ring}`" not in described] == []


@pytest.mark.parametrize("ring", listed())
def test_a_ring_is_run_alone_and_prints_its_slowest_tests(ring: str) -> None:
    assert files_of(f"test-{ring}")
    assert "--durations=20" in make(f"test-{ring}")


def test_a_ring_that_does_not_exist_is_refused_with_the_names_of_all() -> None:
    assert "no ring is called nothing; there are: main " in make("test-nothing")


def test_a_recipe_keeps_bytecode_also_where_the_shell_forbids_it() -> None:
    shown = subprocess.run(
        ["env", "PYTHONDONTWRITEBYTECODE=1", "make", "--eval=show:; @env", "show"],  # noqa: S607 - both are on the PATH
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "PATH=" in shown.stdout
    assert "PYTHONDONTWRITEBYTECODE" not in shown.stdout
