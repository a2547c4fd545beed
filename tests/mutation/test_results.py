"""The figures of the mutation tests, and what they rest on, are of this repository."""

from pathlib import Path

import pytest

from lab.mutation.results import (
    DOCUMENT,
    ROOT,
    Change,
    Figures,
    equivalents,
    stored,
    table,
    table_in,
)
from lab.mutation.rooms import ROOMS


def source(function: str) -> Path:
    """The module of a function, or of a method."""
    path = ROOT / "shared" / "reservoir"
    for part in function.split("."):
        path = path / part
        if path.with_suffix(".py").exists():
            return path.with_suffix(".py")
    raise AssertionError(f"no module has {function}")


def test_the_table_of_the_document_has_the_figures_on_file() -> None:
    assert table_in(DOCUMENT.read_text(encoding="utf-8")) == table(stored())


def test_figures_are_of_rooms_that_there_are() -> None:
    assert {each.room for each in stored()} <= {room.name for room in ROOMS}


@pytest.mark.parametrize("change", equivalents(), ids=lambda change: change.function)
def test_an_equivalent_mutant_is_of_the_present_code(change: Change) -> None:
    text = " ".join(source(change.function).read_text(encoding="utf-8").split())
    assert " ".join(change.was.split()) in text


def test_an_equivalent_mutant_has_a_reason() -> None:
    assert [change for change, reason in equivalents().items() if len(reason) < 20] == []


def test_what_nobody_could_see_does_not_count_against_the_tests() -> None:
    assert Figures("a", 100, 50, 10, 38).killed_percent == 95.0


def test_a_room_that_was_tried_in_part_says_so() -> None:
    rows = table([Figures("a", 1000, 1000, 0, 990), Figures("b", 1000, 200, 1, 199)])
    assert rows.splitlines()[2:] == [
        "| `a` | 1,000 | all | 0 | 990 | 99.0 % |",
        "| `b` | 1,000 | 200, by chance | 1 | 199 | 100.0 % |",
    ]
