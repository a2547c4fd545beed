"""``reservoir explain``."""

from typing import Annotated, Final

import typer

from reservoir.cli.commands.ask.answers import Format, Output, print_answer
from reservoir.cli.commands.see.explanation_text import node_lines, workload_lines
from reservoir.cli.console import fail
from reservoir.cli.naming import named, workload_key
from reservoir.cli.policy import attempt, connection
from reservoir.cli.stack.connection import Connection
from reservoir.cli.stack.starts import described_starts
from reservoir.core.start_times.foreseen import is_foreseen
from reservoir.usecases.explaining.explain_node import ExplainNode
from reservoir.usecases.explaining.explain_workload import ExplainWorkload
from reservoir.usecases.what_if.explain_alternatives import ExplainAlternatives
from reservoir.usecases.what_if.replay import ReplayError

_WORKLOADS: Final = "workloads"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("explain")(explain)


def explain(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="KIND NAME | KIND/NAME",
            help="A node, by NodeClaim or EC2 instance, or a workload, by NAMESPACE/NAME or a NAME in default.",
        ),
    ],
    alternatives: Annotated[
        bool,
        typer.Option(
            "--alternatives",
            help="Of a workload: what the next best places would have cost.",
        ),
    ] = False,
    form: Output = Format.TEXT,
) -> None:
    """Say why a node exists or stays, or why a workload waits.

    Of a node: what it was launched for, and what disruption decided about it last. Of a workload: where its replicas
    are, why the others wait, and when that could change by itself.
    """
    found = named("explain", words)
    if len(found) > 1:
        fail("explain one object at a time")
    ((kind, name),) = found
    if kind.plural == _WORKLOADS:
        _workload(connection(context), workload_key(name), form, alternatives=alternatives)
        return
    if alternatives:
        fail("--alternatives are those of a workload")
    _node(connection(context), name, form)


def _node(stack: Connection, name: str, form: Format) -> None:
    found = attempt(
        lambda: ExplainNode(stack.outside.node_claims, stack.outside.decisions).explain(
            name
        )
    )
    if found is None:
        fail(f"node {name} is not known (nodes that ended are forgotten after a week)")
    print_answer("NodeExplanation", found, node_lines(found), form)


def _workload(stack: Connection, key: str, form: Format, *, alternatives: bool) -> None:
    found = attempt(
        lambda: ExplainWorkload(
            stack.outside.workloads,
            stack.outside.node_claims,
            stack.outside.reservations,
            stack.outside.shortage_history,
            stack.outside.clock,
        ).explain(key)
    )
    if found is None:
        fail(f"workload {key} is not known")
    if found.pending and is_foreseen(each.reason for each in found.waiting):
        starts = described_starts(stack, [key])
        found = found.model_copy(update={"starts": starts.get(key)})
    if alternatives:
        question = ExplainAlternatives(
            stack.outside.node_claims, stack.outside.decisions, stack.solver.policy
        )
        try:
            found = found.model_copy(
                update={"alternatives": attempt(lambda: question.explain(key))}
            )
        except ReplayError as error:
            fail(str(error))
    print_answer("WorkloadExplanation", found, workload_lines(found), form)
