"""``reservoir diff``."""

import typer

from reservoir.cli import files
from reservoir.cli.console import DIFFERENT
from reservoir.cli.impact import print_impact
from reservoir.cli.policy import apply_policy, attempt, print_diff


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("diff")(diff)


def diff(context: typer.Context, filenames: files.Filenames) -> None:
    """Show what `apply` would change. Ends with 0 without differences, with 1 with some."""
    contents = files.read(filenames)
    outcome = attempt(lambda: apply_policy(context).apply(contents, dry_run=True))
    print_diff(outcome)
    print_impact(context, outcome)
    if outcome.effective:
        raise typer.Exit(DIFFERENT)
