"""``reservoir report``."""

from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from reservoir.cli.commands.past.events import span
from reservoir.cli.console import fail, messages, output
from reservoir.cli.policy import attempt, connection
from reservoir.cli.report.accounts import read_money
from reservoir.cli.report.costs import read_costs
from reservoir.cli.report.focus import as_csv
from reservoir.cli.report.money import Days
from reservoir.cli.stack.connection import Connection
from reservoir.core.serialisation.json_codec import dumps

_NEEDED: Final = ("jinja2", "matplotlib")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report")(report)


def report(
    context: typer.Context,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="The page to write; one that exists is replaced."),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="How far back: 30m, 6h, 7d. Default: 7d.")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            help="Up to when, such as 2026-01-31T12:00Z; without a zone in UTC. Default: now."
        ),
    ] = None,
    month: Annotated[
        str | None,
        typer.Option(help="A month such as 2026-01; accounts go back two years."),
    ] = None,
    beside: Annotated[
        str | None,
        typer.Option(
            help="A month to compare with. Default: the month before, or as many days before."
        ),
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option("--json", help="Another file to write: the figures as JSON."),
    ] = None,
    focus: Annotated[
        Path | None,
        typer.Option(
            "--focus",
            help="A folder to write costs to, a CSV file of FOCUS rows for each day (UTC) that is over.",
        ),
    ] = None,
) -> None:
    """Write a report on reservations, money and demand.

    One page of HTML that needs no server and no network, costs in FOCUS's columns, or both. It reads the history and
    the accounts, and changes nothing.
    """
    if html is None and focus is None:
        fail("say what to write: --html FILE, --focus DIR, or both")
    if html is None and json is not None:
        fail("--json is about the page: say --html FILE too")
    if html is not None:
        missing = [name for name in _NEEDED if find_spec(name) is None]
        if missing:
            fail(
                f"a page needs {' and '.join(missing)}: pip install 'reservoir-ec2[report]'"
            )
    stack = connection(context)
    now = stack.outside.clock.now()
    if month is not None:
        if since is not None or until is not None:
            fail("a month has its own beginning and end: leave out --since and --until")
        days = _month(month, now)
        start, end = days.since, min(days.until, now)
    else:
        end = now if until is None else _instant(until)
        start = end - span(since or "7d")
        days = Days.between(start, end)
    if focus is not None:
        _write_costs(stack, focus, days, now)
    if html is not None:
        other_days = days.before() if beside is None else _month(beside, now)
        _write_page(stack, html, json, (start, end), (days, other_days))


def _write_page(
    stack: Connection,
    html: Path,
    json: Path | None,
    time: tuple[datetime, datetime],
    compared: tuple[Days, Days],
) -> None:
    # imported here, because drawing takes a second to load
    from reservoir.cli.report.figures import make_report
    from reservoir.cli.report.page import KNOWN_LEAST_PERCENT, page

    (start, end), (days, other_days) = time, compared
    samples = attempt(lambda: list(stack.outside.history.samples(start, end)))
    events = attempt(lambda: list(stack.outside.history.timeline(start, end)))
    money = attempt(lambda: read_money(stack.outside, days))
    other = attempt(lambda: read_money(stack.outside, other_days))
    found = make_report(
        stack.outside.settings.deployment, start, end, samples, events, money, other
    )
    text = page(found)
    _write(html, text)
    if json is not None:
        _write(json, dumps(found))
    output().print(
        f"{html}: {len(samples)} samples and {len(events)} events, {len(text.encode()) // 1024} KB"
    )
    if found.known_percent < KNOWN_LEAST_PERCENT:
        messages().print(
            f"samples cover {found.known_percent} % of the time; what was paid is metered, and known"
        )


def _write_costs(stack: Connection, folder: Path, days: Days, now: datetime) -> None:
    over = days.over(now)
    if over is None:
        fail(f"{days.last} is not over: costs are written for whole days (UTC)")
    costs = attempt(lambda: read_costs(stack.outside, over))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"cannot make {folder}: {error.strerror}")
    for day, rows in costs.rows.items():
        _write(folder / f"focus-{day}.csv", as_csv(rows))
    count = sum(map(len, costs.rows.values()))
    output().print(f"{folder}: {over.first} to {over.last}, {count} rows")
    if costs.known_percent < 100:
        messages().print(
            f"samples cover {costs.known_percent} % of the time: of the rest there are no rows of reservations"
        )
    for name in costs.without_price:
        messages().print(
            f"{name} is not in all rows: what its units cost is not known (a Capacity Block that was bought elsewhere,"
            " or a type without a price)"
        )


def _month(text: str, now: datetime) -> Days:
    try:
        days = Days.of_month(text)
    except ValueError:
        fail(f"{text} is not a month such as 2026-01")
    if days.since > now:
        fail(f"{text} is in the future")
    return days


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"cannot write {file}: {error.strerror}")


def _instant(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        fail(f"{text} is not a time such as 2026-01-31T12:00Z")
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
