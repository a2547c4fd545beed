"""``reservoir drain``, and ``reservoir delete node``, a drain whose deadline is now."""

from typing import Annotated

import typer

from reservoir.cli.commands.act.by_hand import (
    Nodes,
    carry_out,
    describe,
    found,
    request_of,
    say,
)
from reservoir.cli.console import Reason, Yes, agree, fail
from reservoir.cli.naming import names_of
from reservoir.cli.policy import connection
from reservoir.cli.stack.connection import Connection
from reservoir.manifests.answers.operations import OperationRequest, Verb


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("drain")(drain)


def drain(
    context: typer.Context,
    nodes: Nodes,
    reason: Reason,
    deadline: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="End them after that long at the latest, such as 30m."
        ),
    ] = None,
    yes: Yes = False,
) -> None:
    """Drain nodes, then terminate them. Their replicas get notice, and wait for another place from now on."""
    request = request_of(Verb.DRAIN, names_of(Verb.DRAIN, nodes), reason, deadline)
    until = (
        f"within {deadline}"
        if deadline
        else "when all replicas have left, or their notice is over"
    )
    _end(connection(context), request, until, yes=yes)


def delete_nodes(
    context: typer.Context, names: list[str], reason: str | None, *, yes: bool
) -> None:
    """End nodes without giving their replicas time."""
    if reason is None:
        fail("give the reason, with --reason: it is stored, and published on the bus")
    request = request_of(Verb.DELETE, names, reason)
    _end(connection(context), request, "at once, without notice to replicas", yes=yes)


def _end(stack: Connection, request: OperationRequest, until: str, *, yes: bool) -> None:
    """Say what ends, ask, and have it done."""
    claims = found(stack, request.names)
    if all(claim is None for claim in claims.values()):
        fail("\n".join(describe(name, claim) for name, claim in claims.items()))
    say(describe(name, claim) for name, claim in claims.items())
    what = "The node" if len(claims) == 1 else f"Each of these {len(claims)} nodes"
    agree(
        f"{what} terminates {until}; the replicas wait for another place now. {request.verb.capitalize()}?",
        yes=yes,
    )
    carry_out(stack, request)
