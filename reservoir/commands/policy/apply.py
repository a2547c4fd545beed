"""``reservoir apply``."""

from typing import Annotated

import typer

from reservoir import files
from reservoir.console import fail
from reservoir.impact import print_impact
from reservoir.policy import apply_policy, attempt, print_outcome


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("apply")(apply)


def apply(
    context: typer.Context,
    filenames: files.Filenames,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check, compare and say the impact, but write nothing.")
    ] = False,
) -> None:
    """Create or change NodePools and EC2NodeClasses. All that are given, or none."""
    contents = files.read(filenames)
    outcome = attempt(lambda: apply_policy(context).apply(contents, dry_run=dry_run))
    if not outcome.changes:
        fail("there is no manifest in what was given")
    print_outcome(outcome, dry_run=dry_run)
    if dry_run:
        print_impact(context, outcome)
