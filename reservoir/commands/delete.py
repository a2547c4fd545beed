"""``reservoir delete``."""

from typing import Annotated

import typer

from reservoir import files
from reservoir.console import fail, messages
from reservoir.objects import does_not_exist, names_of
from reservoir.policy import apply_policy, attempt, connection, print_outcome
from shared.manifests.problems import errors_of
from shared.manifests.validate import read_files
from shared.ports.policy import PolicyKind
from shared.usecases.apply_policy import names_in


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("delete")(delete)


def delete(
    context: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(help="KIND NAME... or KIND/NAME...")] = None,
    filenames: files.Filenames = [],  # noqa: B006 # typer makes a new list for each call
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go, but delete nothing.")] = False,
) -> None:
    """Delete NodePools and EC2NodeClasses by name, or those that files name."""
    if bool(names) == bool(filenames):
        fail("name objects, or files with -f")
    wanted = names_of(names) if names else _named_in(filenames)
    outcome = attempt(lambda: apply_policy(context).delete(wanted, dry_run=dry_run))
    print_outcome(outcome, dry_run=dry_run)
    gone = {(change.kind, change.name) for change in outcome.changes}
    for kind, name in dict.fromkeys(wanted):
        if (kind, name) not in gone:
            messages().print(does_not_exist(connection(context).policy, kind, name))


def _named_in(filenames: list[str]) -> list[tuple[PolicyKind, str]]:
    contents = files.read(filenames)
    problems = errors_of(read_files(contents).problems)
    if problems:
        fail("\n".join(map(str, problems)))
    return list(names_in(contents))
