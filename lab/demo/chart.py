"""A chart for the terminal: a row a reservation, block characters over emulated time.

The height of a block is the mean share of the units in use in its span of time; a dot is reserved and idle; a blank is
not there. Colour is a style beside the text, which rich leaves out where no terminal shows it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from rich.text import Text

from lab.demo.history import Curve

BLOCKS: Final = "▁▂▃▄▅▆▇█"
IDLE: Final = "·"
LEAST_CELLS: Final = 10


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the chart; ``count`` is what stands beside it, e.g. ``6`` units."""

    title: str
    kind: str
    count: str
    curve: Curve
    style: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment of the story, shown by its number below the chart."""

    at: datetime
    title: str


def draw_chart(
    rows: Sequence[Row], marks: Sequence[Mark], since: datetime, until: datetime, width: int
) -> Text:
    """Return the chart in at most ``width`` columns, as wide as that allows."""
    titles = max((len(row.title) for row in rows), default=0)
    kinds = max((len(row.kind) for row in rows), default=0)
    counts = max((len(row.count) for row in rows), default=0)
    left = titles + kinds + counts + 4
    cells = max(LEAST_CELLS, width - left - 1)
    span = max((until - since) / cells, timedelta(microseconds=1))
    text = Text(no_wrap=True, overflow="crop")
    for row in rows:
        text.append(f"{row.title:<{titles}} ", "bold").append(
            f"{row.kind:<{kinds}} ", "dim"
        )
        text.append(f"{row.count:>{counts}}  ")
        for number in range(cells):
            cell = _cell(row.curve, since + number * span, since + (number + 1) * span)
            text.append(cell, "dim" if cell == IDLE else row.style)
        text.append("\n")
    text.append(" " * left).append(_marks(marks, since, span, cells), "bold cyan").append(
        "\n"
    )
    text.append(" " * left).append(_axis(since, until, cells), "dim").append("\n")
    for number, mark in enumerate(marks, start=1):
        line = f"{number} {mark.at:%H:%M} {mark.title}"
        text.append(line[:width] + "\n", "cyan")
    return text


def _cell(curve: Curve, since: datetime, until: datetime) -> str:
    available = curve.available(since, until)
    if not available:
        return " "
    used = curve.used(since, until)
    if not used:
        return IDLE
    eighths = -(-8 * used // available)  # rounded up: what was used at all is seen
    return BLOCKS[min(8, eighths) - 1]


def _marks(marks: Sequence[Mark], since: datetime, span: timedelta, cells: int) -> str:
    line = [" "] * cells
    for number, mark in enumerate(marks, start=1):
        wanted = min(cells - 1, max(0, (mark.at - since) // span))
        free = [cell for cell in range(wanted, cells) if line[cell] == " "] or [
            cell for cell in range(wanted, -1, -1) if line[cell] == " "
        ]
        if free:
            line[free[0]] = str(number)[-1]
    return "".join(line)


def _axis(since: datetime, until: datetime, cells: int) -> str:
    first, last = f"{since:%H:%M}", f"{until:%H:%M} UTC"
    return (
        first + last.rjust(cells - len(first)) if cells > len(first) + len(last) else first
    )
