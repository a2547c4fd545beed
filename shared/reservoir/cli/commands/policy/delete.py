"""``reservoir delete``."""

from typing import Annotated, Final, assert_never

import typer

from reservoir.cli import files
from reservoir.cli.commands.act.drain import delete_nodes
from reservoir.cli.console import Yes, agree, fail, messages
from reservoir.cli.naming import named
from reservoir.cli.policy import apply_policy, attempt, connection, print_outcome
from reservoir.core.history.past_event import NODE
from reservoir.core.model.node_pool import Disruption
from reservoir.core.scheduling_terms.labels import closest
from reservoir.manifests.parsing.problems import errors_of
from reservoir.manifests.validate import read_files
from reservoir.ports.policy import PolicyKind, PolicyStore
from reservoir.usecases.policy.apply_policy import Name, names_in
from reservoir.usecases.policy.nodes_of_policy import nodes_of

_KINDS: Final = {kind.lower(): kind for kind in PolicyKind}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("delete")(delete)


def delete(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="KIND NAME... or KIND/NAME...; node NAME... ends nodes at once."
        ),
    ] = None,
    filenames: files.Filenames = [],  # noqa: B006 # typer makes a new list for each call
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what would be deleted, but delete nothing."),
    ] = False,
    reason: Annotated[
        str | None,
        typer.Option(help="For nodes: the reason; it is stored, and published on the bus."),
    ] = None,
    yes: Yes = False,
) -> None:
    """Delete NodePools, EC2NodeClasses and Teams. By name, or those that files name; and nodes by name.

    Asks if an object has nodes; without a terminal and without --yes it then deletes nothing.
    """
    if bool(names) == bool(filenames):
        fail("name objects, or files with -f")
    given = named("delete", names) if names else []
    nodes = [name for kind, name in given if kind.kind == NODE]
    if nodes and len(nodes) < len(given):
        fail("delete nodes in a command of their own: they end at once, and need a reason")
    if nodes and dry_run:
        fail("nodes have no dry run: without --yes it says what would end, and asks")
    if nodes:
        delete_nodes(context, nodes, reason, yes=yes)
        return
    wanted = (
        [(_KINDS[kind.kind], name) for kind, name in given]
        if names
        else _named_in(filenames)
    )
    _delete_policy(context, wanted, dry_run=dry_run, yes=yes)


def _delete_policy(
    context: typer.Context, wanted: list[Name], *, dry_run: bool, yes: bool
) -> None:
    """Delete the objects that exist, all or none; where they have nodes, say what happens to these, and ask first."""
    stack, policy = connection(context), apply_policy(context)
    foreseen = attempt(lambda: policy.delete(wanted, dry_run=True))
    standing = attempt(
        lambda: nodes_of(foreseen.changes, list(stack.outside.node_claims.list_live()))
    )
    for each, count in standing.items():
        if count:
            messages().print(_what_becomes(each, count))
    if any(standing.values()) and not dry_run:
        objects = ", ".join(_written(name) for name in standing)
        agree(f"Delete {objects}?", yes=yes)
    outcome = foreseen if dry_run else attempt(lambda: policy.delete(wanted))
    print_outcome(outcome, dry_run=dry_run)
    gone = {(change.kind, change.name) for change in outcome.changes}
    for kind, name in dict.fromkeys(wanted):
        if (kind, name) not in gone:
            messages().print(_does_not_exist(stack.outside.policy, kind, name))


def _written(name: Name) -> str:
    kind, text = name
    return f"{kind.lower()}/{text}"


def _what_becomes(name: Name, count: int) -> str:
    """Say what happens to the nodes of an object that is deleted."""
    nodes = "1 node" if count == 1 else f"{count} nodes"
    match name[0]:
        case PolicyKind.NODE_POOL:
            at_once = Disruption().budgets[0].nodes
            return (
                f"{_written(name)} has {nodes}. They drain, {at_once} at a time and no more in an hour than the safety"
                " envelope allows; other pools replace them where they can"
            )
        case PolicyKind.NODE_CLASS:
            return (
                f"{_written(name)} has {nodes}. They count as drifted, and other pools replace them where they can; no"
                " pool that names the class launches anything until it exists again"
            )
        case PolicyKind.TEAM:
            return (
                f"{_written(name)} has work on {nodes}. It loses its quotas and its budget: units that the team"
                " borrows or owns may go to others"
            )
        case _:
            assert_never(name[0])


def _named_in(filenames: list[str]) -> list[Name]:
    contents = files.read(filenames)
    problems = errors_of(read_files(contents).problems)
    if problems:
        fail("\n".join(map(str, problems)))
    return list(names_in(contents))


def _does_not_exist(store: PolicyStore, kind: PolicyKind, name: str) -> str:
    """Say that there is no such object, and which one may have been meant."""
    hint = closest(name, [row.name for row in store.list_all() if row.kind is kind])
    return f"{kind.lower()}/{name} does not exist" + (
        f"; did you mean {hint}?" if hint else ""
    )
