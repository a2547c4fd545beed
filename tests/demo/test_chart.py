"""The chart: a row a reservation, in block characters, as wide as the terminal."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from lab.demo.chart import BLOCKS, IDLE, Mark, Row, draw_chart
from lab.demo.history import Curve
from tests.demo.support import at, curve


def row(title: str, it: Curve, count: str = "4/4") -> Row:
    return Row(title, "m5.large", count, it, "green")


def lines(rows: list[Row], marks: list[Mark], minutes: float, width: int) -> list[str]:
    return draw_chart(rows, marks, at(0), at(minutes), width).plain.splitlines()


def cells(line: str) -> str:
    return line.split("4/4  ")[1]


def test_height_is_the_share_in_use() -> None:
    (first, *_) = lines(
        [row("general", curve((0, 0, 4), (10, 1, 4), (20, 2, 4), (30, 4, 4)))], [], 40, 60
    )
    shown = cells(first)
    quarter = len(shown) // 4
    assert set(shown[: quarter - 1]) == {IDLE}
    assert set(shown[quarter + 1 : 2 * quarter - 1]) == {BLOCKS[1]}
    assert set(shown[2 * quarter + 1 : 3 * quarter - 1]) == {BLOCKS[3]}
    assert set(shown[3 * quarter + 1 :]) == {BLOCKS[7]}


def test_what_is_not_there_is_blank_and_what_is_idle_is_a_dot() -> None:
    (first, *_) = lines([row("block", curve((10, 0, 4), (20, 0, 0)))], [], 30, 60)
    shown = cells(first)
    third = len(shown) // 3
    assert shown[: third - 1].strip() == ""
    assert set(shown[third + 1 : 2 * third - 1]) == {IDLE}
    assert shown[2 * third + 1 :].strip() == ""


def test_a_moment_of_use_is_seen() -> None:
    (first, *_) = lines(
        [row("short", curve((0, 0, 4), (20, 1, 4), (20.1, 0, 4)))], [], 40, 80
    )
    assert BLOCKS[0] in cells(first)


def test_marks_stand_where_they_happened_and_are_told() -> None:
    marks = [
        Mark(at(0), "demand arrives"),
        Mark(at(0.1), "a race"),
        Mark(at(39.9), "the end"),
    ]
    shown = lines([row("general", curve((0, 4, 4)))], marks, 40, 80)
    below = shown[1][shown[0].index("4/4  ") + 5 :]
    assert below.startswith("12")
    assert below.endswith("3")
    assert shown[3:] == ["1 08:00 demand arrives", "2 08:00 a race", "3 08:39 the end"]


def test_the_axis_says_from_when_to_when() -> None:
    assert lines([row("general", curve((0, 4, 4)))], [], 150, 80)[2].split() == [
        "08:00",
        "10:30",
        "UTC",
    ]


@given(width=st.integers(50, 200), minutes=st.floats(0, 10_000), count=st.integers(1, 12))
def test_it_is_never_wider_than_the_terminal(
    width: int, minutes: float, count: int
) -> None:
    rows = [
        row("Capacity Block", curve((0, 0, 4), (minutes / 2, 3, 4))),
        row("spot", curve((0, count, count))),
    ]
    marks = [
        Mark(at(minutes / number), "something that takes long to tell " * 3)
        for number in range(1, count + 1)
    ]
    shown = lines(rows, marks, minutes, width)
    assert max(map(len, shown)) <= width
    assert len(shown[0]) == len(shown[1])


@pytest.mark.parametrize("is_terminal", [True, False])
def test_there_is_colour_on_a_terminal_only(is_terminal: bool) -> None:
    out = io.StringIO()
    console = Console(
        file=out,
        force_terminal=is_terminal,
        color_system="standard" if is_terminal else None,
        width=80,
    )
    console.print(draw_chart([row("general", curve((0, 4, 4)))], [], at(0), at(10), 80))
    assert ("\x1b[" in out.getvalue()) is is_terminal
