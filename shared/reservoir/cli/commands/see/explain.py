"""``reservoir explain node`` and ``reservoir explain workload``."""

from typing import Annotated

import typer

from reservoir.cli.commands.ask.answers import Format, Output, print_answer
from reservoir.cli.commands.see.explanation_text import node_lines, workload_lines
from reservoir.cli.console import add_group, fail
from reservoir.cli.policy import attempt, connection
from reservoir.usecases.explaining.explain_node import ExplainNode
from reservoir.usecases.explaining.explain_workload import ExplainWorkload
from reservoir.usecases.what_if.explain_alternatives import ExplainAlternatives
from reservoir.usecases.what_if.replay import ReplayError

_DEFAULT_NAMESPACE = "default"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add_group(app, "explain", "Say why a node exists or stays, or why a workload waits.", node, workload)


def node(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="NodeClaim id or EC2 instance id.")],
    form: Output = Format.TEXT,
) -> None:
    """Say why a node exists, what disruption last decided about it, and why."""
    stack = connection(context)
    found = attempt(lambda: ExplainNode(stack.node_claims, stack.decisions).explain(name))
    if found is None:
        fail(f"node {name} is not known (nodes that ended are forgotten after a week)")
    print_answer("NodeExplanation", found, node_lines(found), form)


def workload(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="NAMESPACE/NAME, or NAME in the namespace default.")],
    alternatives: Annotated[
        bool, typer.Option("--alternatives", help="Say too what the next best places would have cost.")
    ] = False,
    form: Output = Format.TEXT,
) -> None:
    """Say where a workload's replicas are, why the others wait, and when that could change by itself."""
    stack = connection(context)
    key = name if "/" in name else f"{_DEFAULT_NAMESPACE}/{name}"
    found = attempt(lambda: ExplainWorkload(stack.workloads, stack.node_claims).explain(key))
    if found is None:
        fail(f"workload {key} is not known")
    if alternatives:
        question = ExplainAlternatives(stack.node_claims, stack.decisions, stack.solver.policy)
        try:
            found = found.model_copy(update={"alternatives": attempt(lambda: question.explain(key))})
        except ReplayError as error:
            fail(str(error))
    print_answer("WorkloadExplanation", found, workload_lines(found), form)
