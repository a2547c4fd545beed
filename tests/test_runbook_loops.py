"""The runbook's table of loops is complete, and every test that it names exists."""

import ast
import re
from typing import Final

import pytest

from tests.test_tidy import ROOT, functions_in, name_of, tracked

SECTION: Final = "## Loops and their back-off"
PRODUCT: Final = (
    "shared/reservoir/adapters",
    "shared/reservoir/usecases",
    "shared/reservoir/runtime",
    "shared/reservoir/cli",
    "shared/reservoir/client",
    "shared/reservoir/agent",
    "functions",
)
# What a module that repeats something has: a bound on its tries, a pause, a delay, or a timer.
BOUNDED: Final = re.compile(
    r"\b_?(\w*_)?(ATTEMPTS|TRIES|READS|READINGS|PLANS)(_MAX)?\b|total_max_attempts"
)
REPEATS: Final = frozenset(
    {"sleep", "_sleep", "pause", "pause_with_jitter", "hasten", "retry_delay_s"}
)
TIMERS: Final = frozenset({"set_timer", "set_start_timer", "set_deadline_timer"})
# Set the first timer for something that they found or launched; who sets it again is in the table.
FIRST_TIMERS: Final = frozenset(
    {
        "shared/reservoir/usecases/discovery/discover_reservations.py",
        "shared/reservoir/usecases/launching/apply_outcome.py",
    }
)


def rows() -> list[list[str]]:
    """Return the cells of each row."""
    text = (ROOT / "docs/runbook.md").read_text(encoding="utf-8")
    section = text.partition(SECTION)[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def named(cell: str) -> list[str]:
    """Return what a cell names in code."""
    return re.findall(r"`([^`]+)`", cell)


def is_in_a_loop_of_its_own(tree: ast.Module) -> bool:
    """Whether a module bounds its tries, pauses, delays or sets timers."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if (
                name in REPEATS | TIMERS
            ):
                return True
            case ast.Call(func=ast.Name(id="range")) if BOUNDED.search(ast.unparse(node)):
                return True
            case ast.Dict() if BOUNDED.search(ast.unparse(node)):
                return True
    return False


def test_every_module_that_tries_again_waits_or_sets_timers_is_in_the_table() -> None:
    told = {path for row in rows() for path in named(row[2])}
    found = {
        name_of(path)
        for path in tracked(".py")
        if name_of(path).startswith(PRODUCT)
        and is_in_a_loop_of_its_own(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found - FIRST_TIMERS - told == set()
    assert len(found & told) > len(told) // 2, "the search finds what is known"


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:60])
def test_what_a_row_names_exists(row: list[str]) -> None:
    assert len(row) == 4
    assert row[1], "how often"
    for path in named(row[2]):
        assert (ROOT / path).is_file(), path
    shown = named(row[3])
    assert shown, "a test shows it"
    for test in shown:
        path, _, name = test.partition("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {function.name for function in functions_in(tree)}, test
