"""``reservoir apply``."""

from typing import Annotated

import typer

from reservoir.cli import files
from reservoir.cli.commands.ask.answers import Format, Output, print_answer
from reservoir.cli.console import fail, report
from reservoir.cli.impact import impact_of, print_impact
from reservoir.cli.policy import apply_policy, attempt, print_outcome
from reservoir.manifests.answers.what_if import AppliedObject, ApplyAnswer
from reservoir.usecases.policy.apply_policy import Outcome
from reservoir.usecases.what_if.describe import impact_described


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("apply")(apply)


def apply(
    context: typer.Context,
    filenames: files.Filenames,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check, compare and say the impact, but write nothing.")
    ] = False,
    form: Output = Format.TEXT,
) -> None:
    """Create or change NodePools, EC2NodeClasses and Teams. All that are given, or none."""
    contents = files.read(filenames)
    outcome = attempt(lambda: apply_policy(context).apply(contents, dry_run=dry_run))
    if not outcome.changes:
        fail("the input holds no manifest")
    if form is not Format.TEXT:
        report(outcome.problems)
        print_answer("Apply", _answer(context, outcome, dry_run=dry_run), (), form)
        return
    print_outcome(outcome, dry_run=dry_run)
    if dry_run:
        print_impact(context, outcome)


def _answer(context: typer.Context, outcome: Outcome, *, dry_run: bool) -> ApplyAnswer:
    changes = [AppliedObject(kind=each.kind, name=each.name, change=each.change) for each in outcome.changes]
    impact = impact_described(impact_of(context, outcome)) if dry_run else None
    return ApplyAnswer(dry_run=dry_run, changes=changes, impact=impact)
