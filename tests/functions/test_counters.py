"""Every counter that a function writes is described, and no other."""

import re
from pathlib import Path

from reservoir.core.history.counters import AMOUNTS, COUNTERS
from reservoir.names import ROWS_UNREADABLE
from reservoir.usecases.disruption.disrupt import DisruptReport

ROOT = Path(__file__).parents[2]


def test_every_counter_is_described_and_no_other() -> None:
    files = [
        *(ROOT / "functions").rglob("*.py"),
        *(ROOT / "shared" / "reservoir" / "runtime").rglob("*.py"),
    ]
    written = {
        name
        for file in files
        for name in re.findall(r'\bcount(?:_for_all)?\("(\w+)"', file.read_text())
    }
    of_disruption = {it.title().replace("_", "") for it in DisruptReport().counts()}
    assert written | of_disruption | {ROWS_UNREADABLE} == set(COUNTERS)


def test_every_amount_is_described_and_no_other() -> None:
    files = (ROOT / "functions").rglob("*.py")
    assert {
        name
        for file in files
        for name in re.findall(r'\bamount\("(\w+)"', file.read_text())
    } == set(AMOUNTS)
