"""Charts as SVG within the page: no script, colours of the page's own variables, a title for blind readers."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from io import StringIO
from typing import Any, Final, cast

import matplotlib as mpl
import numpy as np
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from reservoir.cli.report.figures import NodePoint, Point, Waits

# Names of variables of the page's style sheet, which has their colours for light, dark and print.
_INK, _GRID = "#010101", "#020202"
_SERIES: Final = ("#030303", "#040404", "#050505")
_VARIABLES: Final = {
    _INK: "var(--ink)",
    _GRID: "var(--line)",
    _SERIES[0]: "var(--ours)",
    _SERIES[1]: "var(--others)",
    _SERIES[2]: "var(--free)",
}
_STYLE: Final[Mapping[str, Any]] = {
    "axes.edgecolor": _GRID,
    "axes.facecolor": "none",
    "axes.labelcolor": _INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "font.size": 9,
    "grid.color": _GRID,
    "savefig.facecolor": "none",
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "reservoir",  # the same page for the same figures
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}
_WIDTH_IN: Final = 7.2
_HOUR_S: Final = 3600
_MINUTES_UP_TO_S: Final = 3 * _HOUR_S
# Of years, months, days, hours, minutes and seconds: a tick, and a tick at which the next larger one begins.
_TIME_FORMATS: Final = ("%Y", "%b %Y", "%d %b", "%H:%M", "%H:%M", "%H:%M:%S")
_TURN_FORMATS: Final = ("", "%Y", "%d %b", "%d %b", "%H:%M", "%H:%M")
# Matplotlib's dates have no types.
_locator: Final[Any] = AutoDateLocator
_formatter: Final[Any] = ConciseDateFormatter


def units_over_time(title: str, points: Sequence[Point], until: datetime) -> str:
    """Draw ours, others' and free units of one reservation, stacked; nothing where nothing is known."""
    with mpl.rc_context(cast("Any", _STYLE)):
        figure, axes = _figure(1.7)
        at = [*(point.at for point in points), until]
        counts = [
            (point.ours_count, point.others_count, point.free_count) for point in points
        ]
        stacks = np.array([*counts, counts[-1]], dtype=float).transpose()
        axes.stackplot(at, stacks, step="post", colors=_SERIES, linewidth=0)
        _hide_unknown(axes, points, until)
        axes.set_ylim(0, max(1, *(sum(each) for each in counts)))
        _time_axis(axes, "units", at[0], until)
        return _svg(figure, title)


def nodes_over_time(
    title: str, points: Sequence[NodePoint], markets: Sequence[str], until: datetime
) -> str:
    """Draw how many nodes of each market there were, stacked; nothing where nothing is known."""
    with mpl.rc_context(cast("Any", _STYLE)):
        figure, axes = _figure(2.0)
        at = [*(point.at for point in points), until]
        counts = [point.counts for point in points]
        stacks = np.zeros((len(markets), len(at)))
        for row, market in enumerate(markets):
            stacks[row] = [each.get(market, 0) for each in (*counts, counts[-1])]
        axes.stackplot(at, stacks, step="post", colors=_SERIES, linewidth=0)
        _hide_unknown(axes, points, until)
        totals = [sum(each.values()) for each in counts]
        axes.set_ylim(0, max(1, *totals))
        _time_axis(axes, "nodes", at[0], until)
        return _svg(figure, title)


def waits_by_reason(title: str, waits: Sequence[Waits]) -> str:
    """Draw median, 90th percentile and longest wait for each reason, one within the other."""
    with mpl.rc_context(cast("Any", _STYLE)):
        figure, axes = _figure(0.6 + 0.32 * len(waits))
        rows = range(len(waits))
        is_long = max(each.longest_s for each in waits) > _MINUTES_UP_TO_S
        unit_s = _HOUR_S if is_long else 60
        lengths_s = [(each.longest_s, each.p90_s, each.median_s) for each in waits]
        for index, (height, colour) in enumerate(
            zip((0.8, 0.55, 0.3), reversed(_SERIES), strict=True)
        ):
            axes.barh(
                rows,
                [each[index] / unit_s for each in lengths_s],
                color=colour,
                height=height,
            )
        axes.set_yticks(list(rows), [each.reason for each in waits])
        axes.invert_yaxis()
        axes.set_xlabel("hours" if is_long else "minutes")
        return _svg(figure, title)


def _figure(height_in: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(_WIDTH_IN, height_in), layout="constrained")
    axes = figure.subplots()
    axes.grid(visible=True, linewidth=0.5)
    axes.set_axisbelow(True)
    return figure, axes


def _time_axis(axes: Any, counted: str, since: datetime, until: datetime) -> None:
    axes.set_ylabel(counted)
    axes.set_xlim(since, until)
    locator: Any = _locator(maxticks=7)
    axes.xaxis.set_major_locator(locator)
    formats = {
        "formats": list(_TIME_FORMATS),
        "zero_formats": list(_TURN_FORMATS),
        "show_offset": False,
    }
    axes.xaxis.set_major_formatter(_formatter(locator, **formats))
    axes.yaxis.get_major_locator().set_params(integer=True)


def _hide_unknown(axes: Any, points: Sequence[Point | NodePoint], until: datetime) -> None:
    """Hatch the times without samples."""
    ends = [*(point.at for point in points[1:]), until]
    for point, end in zip(points, ends, strict=True):
        if not point.known and end > point.at:
            axes.axvspan(
                point.at, end, facecolor="#060606", edgecolor=_GRID, hatch="//", linewidth=0
            )


def _svg(figure: Figure, title: str) -> str:
    """Return the chart as an element of the page, named by its title."""
    text = StringIO()
    figure.savefig(
        text,
        format="svg",
        metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
    )
    _, _, body = text.getvalue().partition("<svg ")
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    for colour, variable in {**_VARIABLES, "#060606": "var(--page)"}.items():
        body = body.replace(colour, variable)
    head, _, rest = body.partition(">")
    head = re.sub(r'(width|height)="[^"]*"\s*', "", head)
    return f'<svg role="img" aria-label="{escape(title)}" {head}><title>{escape(title)}</title>{rest}'
