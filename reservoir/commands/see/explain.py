"""``reservoir explain node`` and ``reservoir explain workload``."""

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import typer

from reservoir.commands.see.explanation_text import node_lines, workload_lines
from reservoir.console import add_group, fail, output
from reservoir.policy import attempt, connection
from shared.manifests.answers.explanations import NodeExplanation, WorkloadExplanation
from shared.usecases.explaining.explain_node import ExplainNode
from shared.usecases.explaining.explain_workload import ExplainWorkload
from shared.usecases.what_if.explain_alternatives import ExplainAlternatives
from shared.usecases.what_if.replay import ReplayError

_DEFAULT_NAMESPACE = "default"


class Format(StrEnum):
    """How to print."""

    TEXT = "text"
    JSON = "json"


Output = Annotated[Format, typer.Option("--output", "-o", help="What to print.")]


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
    _print(found, node_lines(found), form)


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
    _print(found, workload_lines(found), form)


def _print(found: NodeExplanation | WorkloadExplanation, lines: Iterator[str], form: Format) -> None:
    console = output()
    if form is Format.JSON:
        console.print(json.dumps(found.model_dump(mode="json", exclude_none=True), indent=2))
        return
    for line in lines:
        console.print(line)
