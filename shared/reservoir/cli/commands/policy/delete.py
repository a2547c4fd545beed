"""``reservoir delete``."""

from collections import Counter
from typing import Annotated

import typer

from reservoir.cli import files
from reservoir.cli.commands.act.by_hand import is_node
from reservoir.cli.commands.act.drain import delete_nodes
from reservoir.cli.console import Yes, fail, messages
from reservoir.cli.objects import does_not_exist, names_of
from reservoir.cli.policy import apply_policy, attempt, connection, print_outcome
from reservoir.cli.stack.connection import Connection
from reservoir.core.model.node_pool import Disruption
from reservoir.manifests.parsing.problems import errors_of
from reservoir.manifests.validate import read_files
from reservoir.ports.policy import PolicyKind
from reservoir.usecases.policy.apply_policy import Outcome, names_in


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("delete")(delete)


def delete(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(help="KIND NAME... or KIND/NAME...; node NAME... ends nodes at once.")
    ] = None,
    filenames: files.Filenames = [],  # noqa: B006 # typer makes a new list for each call
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go, but delete nothing.")] = False,
    reason: Annotated[str | None, typer.Option(help="For nodes: why; it is kept, and told on the bus.")] = None,
    yes: Yes = False,
) -> None:
    """Delete NodePools, EC2NodeClasses and Teams. By name, or those that files name; and nodes by name."""
    if bool(names) == bool(filenames):
        fail("name objects, or files with -f")
    if names and is_node(names[0]):
        if dry_run:
            fail("nodes have no dry run: without --yes it says what would end, and asks")
        delete_nodes(context, names, reason, yes=yes)
        return
    wanted = names_of(names) if names else _named_in(filenames)
    outcome = attempt(lambda: apply_policy(context).delete(wanted, dry_run=dry_run))
    print_outcome(outcome, dry_run=dry_run)
    _tell_of_nodes(connection(context), outcome)
    gone = {(change.kind, change.name) for change in outcome.changes}
    for kind, name in dict.fromkeys(wanted):
        if (kind, name) not in gone:
            messages().print(does_not_exist(connection(context).policy, kind, name))


def _tell_of_nodes(stack: Connection, outcome: Outcome) -> None:
    """Say what becomes of the nodes of deleted pools."""
    pools = [change.name for change in outcome.changes if change.kind is PolicyKind.NODE_POOL]
    if not pools:
        return
    standing = Counter(claim.node_pool_name for claim in stack.node_claims.list_live())
    for name in pools:
        if standing[name]:
            nodes = "1 node" if standing[name] == 1 else f"{standing[name]} nodes"
            at_once = Disruption().budgets[0].nodes
            messages().print(
                f"nodepool/{name} leaves {nodes}, which are replaced where another pool can and drain, {at_once} at a"
                " time and no more in an hour than the safety envelope allows: see reservoir explain node"
            )


def _named_in(filenames: list[str]) -> list[tuple[PolicyKind, str]]:
    contents = files.read(filenames)
    problems = errors_of(read_files(contents).problems)
    if problems:
        fail("\n".join(map(str, problems)))
    return list(names_in(contents))
