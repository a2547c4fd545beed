"""``reservoir tables show`` and ``reservoir tables adopt``."""

import typer

from reservoir.cli.console import Reason, Yes, add_group, fail, output
from reservoir.cli.policy import attempt, connection
from reservoir.cli.stack.connection import Connection
from reservoir.core.safety.table_mark import MarkedTable, recognise
from reservoir.usecases.safety.tables import AdoptTables, OwnTables


def register(app: typer.Typer) -> None:
    """Add the commands."""
    purpose = "Show whether the tables are complete, or adopt them."
    add_group(app, "tables", purpose, show, adopt)


def show(context: typer.Context) -> None:
    """Show the marks on the tables, what is wrong with them, and what the tables know of what runs."""
    stack = connection(context)
    _describe(stack, attempt(_use_case(stack).look))


def adopt(
    context: typer.Context,
    reason: Reason,
    yes: Yes = False,
) -> None:
    """Mark the tables, as they are now, as this deployment's own: the way back after a restore."""
    stack = connection(context)
    seen = attempt(_use_case(stack).look)
    _describe(stack, seen)
    if not yes:
        typer.confirm(
            "From now on, nodes that these tables do not want may be ended. Adopt them?",
            abort=True,
        )
    by, now = stack.caller(), stack.outside.clock.now()
    recognition = attempt(
        lambda: _use_case(stack).adopt(seen, by=by, reason=reason, now=now)
    )
    if not recognition.is_whole:
        fail("\n".join(("the tables changed meanwhile:", *recognition.problems)))
    output().print("adopted")


def _use_case(stack: Connection) -> AdoptTables:
    return AdoptTables(
        OwnTables(stack.outside.table_marks, stack.outside.settings.deployment),
        stack.outside.publisher,
    )


def _describe(stack: Connection, seen: tuple[MarkedTable, ...]) -> None:
    """Print what a person should check before confirming that the tables are right."""
    recognition = recognise(stack.outside.settings.deployment, seen)
    for table in seen:
        mark = (
            "no mark"
            if table.mark is None
            else f"marked {table.mark.made_at:%Y-%m-%d %H:%M} UTC"
        )
        by = "" if table.mark is None else f" by {table.mark.made_by} ({table.mark.reason})"
        output().print(f"{table.role} {table.table_id}: {mark}{by}")
    for problem in recognition.problems:
        output().print(f"  {problem}")
    owned = [
        instance
        for instance in attempt(stack.outside.instances.list_owned)
        if not instance.is_gone
    ]
    claimed = {claim.instance_id for claim in stack.outside.node_claims.list_live()}
    unknown = [instance.id for instance in owned if instance.id not in claimed]
    output().print(
        f"{len(owned)} instances carry this deployment's tag; {len(owned) - len(unknown)} have a claim"
    )
    if unknown:
        output().print(f"without one: {', '.join(unknown)}")
