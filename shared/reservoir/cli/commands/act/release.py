"""``reservoir release``."""

from typing import Annotated, Final

import typer

from reservoir.cli.console import Yes, agree, fail, output
from reservoir.cli.naming import names_of, workload_key
from reservoir.cli.output import number
from reservoir.cli.policy import attempt, connection
from reservoir.cli.stack import sending
from reservoir.cli.waiting import Timeout, span, until
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.node_life.drain import awaited_count

_ANSWERED_WITHIN: Final = "1m"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("release")(release)


def release(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(help="NAMESPACE/NAME, or NAME in the namespace default.")
    ],
    node: Annotated[str, typer.Option(help="NodeClaim of the draining node.")],
    replicas: Annotated[
        int | None, typer.Option(min=1, help="How many have left; default: all of them.")
    ] = None,
    yes: Yes = False,
    timeout: Timeout = _ANSWERED_WITHIN,
) -> None:
    """Report that replicas have left a draining node. It is terminated when all have."""
    stack = connection(context)
    (workload,) = names_of("release", [name])
    key = workload_key(workload)
    (node,) = names_of("drain", [node])
    claim = attempt(lambda: stack.outside.node_claims.get(node))
    awaited = 0 if claim is None else awaited_count(claim, key)
    if claim is None or awaited == 0:
        fail(f"node/{node} waits for no replica of workload/{key}; nothing was released")
    leaving = min(awaited, replicas or awaited)
    left = _awaited(claim) - leaving
    then = f"which then waits for {left} more" if left else "which is then terminated"
    agree(
        f"{leaving} of {awaited} replicas of workload/{key} have left node/{node}, {then}. Release?",
        yes=yes,
    )
    attempt(lambda: stack.outside.demand.send(sending.release(key, node, replicas)))

    def answered() -> bool | None:
        current = attempt(lambda: stack.outside.node_claims.get(node))
        return True if current is None or awaited_count(current, key) < awaited else None

    if until(stack, span(timeout), answered) is None:
        fail(f"the release from node/{node} was sent, but not confirmed in time")
    output().print(
        f"workload/{key} released from node/{node} ({number(leaving, 'replica')})"
    )


def _awaited(claim: NodeClaim) -> int:
    return sum(
        placed.count for placed in (() if claim.drain is None else claim.drain.awaiting)
    )
