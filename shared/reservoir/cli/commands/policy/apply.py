"""``reservoir apply``."""

from datetime import datetime, timedelta
from typing import Annotated, Final

import typer

from reservoir.cli import files
from reservoir.cli.commands.ask.answers import Format, Output, print_answer
from reservoir.cli.commands.see.wait import Wanted, wait_for
from reservoir.cli.console import fail, messages, report
from reservoir.cli.impact import impact_of, print_impact
from reservoir.cli.nouns.noun import Selection
from reservoir.cli.nouns.registry import noun_of
from reservoir.cli.policy import apply_policy, attempt, connection, print_outcome
from reservoir.cli.stack.connection import Connection
from reservoir.cli.waiting import NOT_YET, Timeout, span, until
from reservoir.manifests.answers.what_if import AppliedObject, ApplyAnswer
from reservoir.manifests.events import Change
from reservoir.names import Function
from reservoir.usecases.policy.apply_policy import Outcome
from reservoir.usecases.what_if.describe import impact_described

_DEFAULT_TIMEOUT: Final = "5m"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("apply")(apply)


def apply(
    context: typer.Context,
    filenames: files.Filenames,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Check, compare and show the impact, but write nothing."
        ),
    ] = False,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="Wait until all applied objects are ready; ends with 1 if they are not in time.",
        ),
    ] = False,
    timeout: Timeout = _DEFAULT_TIMEOUT,
    form: Output = Format.TEXT,
) -> None:
    """Create or change NodePools, EC2NodeClasses and Teams. All of them, or none.

    Within a minute after that, discovery looks whether AWS has what a class selects: --wait waits for it.
    """
    contents = files.read(filenames)
    outcome = attempt(lambda: apply_policy(context).apply(contents, dry_run=dry_run))
    if not outcome.changes:
        fail("the input holds no manifest")
    if form is not Format.TEXT:
        report(outcome.problems)
        print_answer("Apply", _answer(context, outcome, dry_run=dry_run), (), form)
    else:
        print_outcome(outcome, dry_run=dry_run)
    if dry_run and form is Format.TEXT:
        print_impact(context, outcome)
    if wait and not dry_run:
        _wait(connection(context), outcome, timeout)


def _wait(stack: Connection, outcome: Outcome, timeout: str) -> None:
    """Wait until each object is ready, classes first: a pool is ready when its class is."""
    end = stack.outside.clock.now() + span(timeout)
    if any(each.change is Change.UPDATED for each in outcome.changes):
        _wait_for_discovery(stack, stack.outside.clock.now(), span(timeout))
    meant = [
        (noun_of(each.kind.lower()), Selection((each.name,))) for each in outcome.changes
    ]
    wait_for(
        stack,
        meant,
        Wanted(condition="Ready"),
        max(timedelta(), end - stack.outside.clock.now()),
    )


def _wait_for_discovery(
    stack: Connection, applied_at: datetime, timeout: timedelta
) -> None:
    """Wait for a pass of discovery that began after an update: until then the conditions are the earlier ones.

    CloudWatch has the minute of each pass.
    """
    next_minute = applied_at.replace(second=0, microsecond=0) + timedelta(minutes=1)

    def looked() -> bool | None:
        last = attempt(lambda: stack.outside.passes.last(Function.DISCOVER_RESERVATIONS))
        return True if last is not None and last >= next_minute else None

    if until(stack, timeout, looked) is None:
        messages().print(
            "the time is up: discovery has not read the applied objects yet; see reservoir doctor"
        )
        raise typer.Exit(NOT_YET)


def _answer(context: typer.Context, outcome: Outcome, *, dry_run: bool) -> ApplyAnswer:
    changes = [
        AppliedObject(kind=each.kind, name=each.name, change=each.change)
        for each in outcome.changes
    ]
    impact = impact_described(impact_of(context, outcome)) if dry_run else None
    return ApplyAnswer(dry_run=dry_run, changes=changes, impact=impact)
