"""The report as one page of HTML: all in one file, nothing fetched, no script."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from reservoir.cli.report.charts import nodes_over_time, units_over_time, waits_by_reason
from reservoir.cli.report.figures import NodePoint, Point, Report

CHARTS_MAX: Final = 20  # of reservations; the table has all of them
KNOWN_LEAST_PERCENT: Final = 95  # of the time: below, the page begins with a warning
_COLOURS: Final = ("var(--ours)", "var(--others)", "var(--free)")  # as charts stack them
_MICRO: Final = 1_000_000
P = TypeVar("P", Point, NodePoint)


def page(report: Report) -> str:
    """Return the page. Names and messages of users are escaped, whatever they hold."""
    return (
        pages(Path(__file__).parent)
        .get_template("page.html.j2")
        .render(
            report=report,
            charts=_charts(report),
            total=_totals(report),
            colours=_COLOURS,
            told={story.about for story in report.stories},
            is_little_known=report.known_percent < KNOWN_LEAST_PERCENT,
            avoided={
                market.capacity_type: market.avoided_micro_usd for market in report.markets
            },
        )
    )


def pages(*folders: Path) -> Environment:
    """Return what renders the templates of these folders; whatever users wrote is escaped."""
    environment = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters |= _FILTERS
    return environment


def changes(points: Sequence[P]) -> list[P]:
    """Return the points at which something is another than before."""
    kept: list[P] = []
    for point in points:
        if not kept or replace(point, at=kept[-1].at) != kept[-1]:
            kept.append(point)
    return kept


def _day(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d}"


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"


def _hours(seconds: int) -> str:
    return f"{seconds / 3600:,.1f} h"


def _span(seconds: int) -> str:
    return str(timedelta(seconds=seconds))


def _usd(micro_usd: int | None) -> str:
    return "not known" if micro_usd is None else f"{micro_usd / _MICRO:,.2f} USD"


def _change(now: int, before: int) -> str:
    """Return by how much something is more or less than it was."""
    if not before:
        return "was zero" if now else "the same"
    return f"{100 * (now - before) / before:+,.0f} %"


def _anchor(name: str) -> str:
    """Return an id that no other name has, whatever characters it is made of."""
    return f"about-{sha256(name.encode()).hexdigest()[:12]}"


_FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "anchor": _anchor,
    "change": _change,
    "changes": changes,
    "day": _day,
    "hours": _hours,
    "moment": _moment,
    "span": _span,
    "usd": _usd,
}


def _charts(report: Report) -> dict[str, object]:
    # Markup: what the charts hold of users' text, they have escaped.
    units = [
        (
            use,
            Markup(  # noqa: S704 - the chart escapes what it is told
                units_over_time(
                    f"Units of {use.id} over time", changes(use.points), _end(report)
                )
            ),
        )
        for use in report.reservations[:CHARTS_MAX]
    ]
    nodes = waits = Markup("")
    if report.markets:
        markets = [market.capacity_type for market in report.markets]
        # Markup: as above.
        nodes = Markup(  # noqa: S704 - the chart escapes what it is told
            nodes_over_time("Nodes by market", changes(report.nodes), markets, _end(report))
        )
    if report.waits:
        waits = Markup(waits_by_reason("Waiting by reason", report.waits))  # noqa: S704 - as said
    return {"units": units, "nodes": nodes, "waits": waits}


def _end(report: Report) -> datetime:
    return max([report.until, *(point.at for point in report.nodes[-1:])])


def _totals(report: Report) -> dict[str, int | None]:
    paid = None if report.money is None else report.money.total.spent_micro_usd
    if not report.known_s:
        return {"paid": paid, **dict.fromkeys(("avoided", "idle", "ours_percent"))}
    idle = [use.idle_micro_usd for use in report.reservations if use.free_unit_s]
    avoided = [market.avoided_micro_usd for market in report.markets]
    ours = sum(use.ours_unit_s for use in report.reservations)
    units = ours + sum(use.others_unit_s + use.free_unit_s for use in report.reservations)
    return {
        "paid": paid,
        "avoided": None if None in avoided else sum(it for it in avoided if it is not None),
        "idle": None if None in idle else sum(it for it in idle if it is not None),
        "ours_percent": 100 * ours // units if units else 0,
    }
