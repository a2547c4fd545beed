"""``reservoir report``."""

from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from reservoir.cli.commands.see.events import span
from reservoir.cli.console import fail, output
from reservoir.cli.policy import attempt, connection
from reservoir.cli.stack.connection import Connection
from reservoir.core.model.team import by_namespace
from reservoir.core.serialisation.json_codec import dumps
from reservoir.core.sharing.accounts import NOBODY, AccountLine, Amount
from reservoir.usecases.policy.policy_objects import policy_of
from reservoir.usecases.policy.team_spending import spent_between

_NEEDED: Final = ("jinja2", "matplotlib")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report")(report)


def report(
    context: typer.Context,
    html: Annotated[Path, typer.Option("--html", help="The file to write; one that exists is replaced.")],
    since: Annotated[str, typer.Option(help="How far back: 30m, 6h, 7d.")] = "7d",
    until: Annotated[
        str | None, typer.Option(help="Up to when, such as 2026-01-31T12:00Z; without a zone in UTC. Default: now.")
    ] = None,
    json: Annotated[Path | None, typer.Option("--json", help="Another file to write: the figures as JSON.")] = None,
) -> None:
    """Write what became of reservations, money and demand.

    One page of HTML that needs no server and no network. It reads the history and the accounts, and changes nothing.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        fail(f"a report needs {' and '.join(missing)}: pip install 'reservoir-ec2[report]'")
    # imported here, because drawing takes a second to load
    from reservoir.cli.report.figures import make_report
    from reservoir.cli.report.page import page

    stack = connection(context)
    end = stack.outside.clock.now() if until is None else _instant(until)
    start = end - span(since)
    samples = attempt(lambda: list(stack.outside.history.samples(start, end)))
    events = attempt(lambda: list(stack.outside.history.timeline(start, end)))
    accounts = attempt(lambda: _accounts(stack, start, end))
    found = make_report(stack.outside.settings.deployment, start, end, samples, events, accounts)
    text = page(found)
    _write(html, text)
    if json is not None:
        _write(json, dumps(found))
    output().print(f"{html}: {len(samples)} samples and {len(events)} events, {len(text.encode()) // 1024} KB")


def _accounts(stack: Connection, start: datetime, end: datetime) -> Mapping[AccountLine, Amount]:
    """Read what instances cost whom on the days of the report."""
    owners = by_namespace(policy_of(stack.outside.policy.list_all()).teams)

    def team_of(namespace: str) -> str:
        return owners[namespace].name if namespace in owners else NOBODY

    first, last = (at.astimezone(UTC).date() for at in (start, end))
    return spent_between(stack.outside.accounts, first, last, stack.outside.clock.now(), team_of)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"cannot write {file}: {error.strerror}")


def _instant(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        fail(f"{text} is no instant such as 2026-01-31T12:00Z")
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
