"""The page as one file of HTML: nothing fetched, no script."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from markupsafe import Markup

from reservoir.cli import report
from reservoir.cli.commands.see.status_text import duration
from reservoir.cli.report.charts import nodes_over_time, units_over_time
from reservoir.cli.report.figures import Report
from reservoir.cli.report.page import changes, pages
from reservoir.cli.ui.lanes import WHOLE, Lane, Window
from reservoir.cli.ui.picture import Picture, TeamMoney
from reservoir.core.history.sample import Sample
from reservoir.usecases.history.see_status import Unknown

LANES_MAX: Final = 24  # the most expensive idle units; all are in `get reservations`
WAITS_MAX: Final = 50
TEAMS_MAX: Final = 50
NOTABLE_MAX: Final = 20
CHARTS_MAX: Final = 3  # the worst reservations
COLOURS: Final = 6  # of teams; the others share one
_TICKS: Final = (
    timedelta(hours=1),
    timedelta(hours=6),
    timedelta(days=1),
    timedelta(days=7),
    timedelta(days=28),
)
_TICKS_MAX: Final = 7


def page(picture: Picture) -> str:
    """Return the page. Names and messages of users are escaped, whatever they hold."""
    environment = pages(Path(__file__).parent, Path(report.__file__).parent)
    environment.filters["duration"] = duration
    environment.filters["percent"] = lambda place: f"{place * 100 / WHOLE:g}%"
    environment.tests["unknown"] = lambda found: isinstance(found, Unknown)
    found = () if isinstance(picture.lanes, Unknown) else picture.lanes
    return environment.get_template("live.html.j2").render(
        it=picture,
        now=picture.window.now,
        lanes=found[:LANES_MAX],
        lane_count=len(found),
        waits_max=WAITS_MAX,
        teams_max=TEAMS_MAX,
        notable_max=NOTABLE_MAX,
        ticks=ticks(picture.window),
        colours=colours(found[:LANES_MAX]),
        charts=_charts(picture.past),
        total=_totals(picture.there),
        sum_of_teams=None if isinstance(picture.teams, Unknown) else _sum_of(picture.teams),
    )


def ticks(window: Window) -> list[tuple[int, datetime]]:
    """Return full hours or days and where they are, seven at most."""
    length = window.until - window.since
    step = next(
        (each for each in _TICKS if length / each <= _TICKS_MAX), length / _TICKS_MAX
    )
    midnight = window.since.replace(hour=0, minute=0, second=0, microsecond=0)
    at = midnight + step * ((window.since - midnight) // step + 1)
    found: list[tuple[int, datetime]] = []
    while at < window.until:
        found.append((window.place(at), at))
        at += step
    return found


def colours(lanes: Sequence[Lane]) -> Mapping[str, str]:
    """Return the class of each team's colour: the first by name have one of their own."""
    names: set[str] = set()
    for lane in lanes:
        names.update(bar.team for bar in lane.bars)
    found = {
        name: f"t{min(number, COLOURS)}" for number, name in enumerate(sorted(names - {""}))
    }
    return {**found, "": "none"} if "" in names else found


def _charts(past: Report | Unknown) -> Mapping[str, object]:
    if isinstance(past, Unknown):
        return {"units": (), "nodes": ""}
    # Markup: what the charts hold of users' text, they have escaped.
    units = [
        (
            use,
            Markup(  # noqa: S704 - the chart escapes what it is told
                units_over_time(
                    f"Units of {use.id} over time", changes(use.points), past.until
                )
            ),
        )
        for use in past.reservations[:CHARTS_MAX]
        if use.free_unit_s
    ]
    nodes = Markup("")
    if past.markets:
        markets = [market.capacity_type for market in past.markets]
        nodes = Markup(  # noqa: S704 - as said
            nodes_over_time("Nodes by market", changes(past.nodes), markets, past.until)
        )
    return {"units": units, "nodes": nodes}


def _totals(there: Sample | None) -> Mapping[str, int | None]:
    """Return the sums of now, which are those of ``reservoir status``."""
    if there is None:
        return dict.fromkeys(
            ("paid", "avoided", "idle", "units", "ours", "free", "waiting")
        )
    avoided = [it.avoided_micro_usd_per_hour for it in there.markets]
    idle = [it.idle_micro_usd_per_hour for it in there.reservations if it.free_count]
    return {
        "paid": sum(it.micro_usd_per_hour for it in there.markets),
        "avoided": _sum(avoided),
        "idle": _sum(idle),
        "units": sum(it.total_count for it in there.reservations),
        "ours": sum(it.ours_count for it in there.reservations),
        "free": sum(it.free_count for it in there.reservations),
        "waiting": sum(it.replica_count for it in there.waiting),
    }


def _sum_of(teams: Sequence[TeamMoney]) -> Mapping[str, int]:
    return {
        "week": sum(team.week or 0 for team in teams),
        "week_before": sum(team.week_before or 0 for team in teams),
    }


def _sum(amounts: Sequence[int | None]) -> int | None:
    return None if None in amounts else sum(it for it in amounts if it is not None)
