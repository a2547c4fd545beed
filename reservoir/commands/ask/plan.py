"""``reservoir plan``."""

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from reservoir import files
from reservoir.commands.ask.what_if_text import answer_lines
from reservoir.console import fail, output, report
from reservoir.policy import attempt, connection
from shared.core.model.node_class import NodeClass
from shared.core.model.node_pool import NodePool
from shared.core.model.workload import Workload
from shared.core.what_if.added_capacity import FORM, EditError, parse_added_capacity
from shared.core.what_if.edits import WorldEdits
from shared.manifests.parsing.fields import Price, micro_usd
from shared.manifests.parsing.problems import errors_of
from shared.manifests.render import to_yaml
from shared.manifests.validate import read_files
from shared.ports.system import Clock
from shared.usecases.what_if.describe import described
from shared.usecases.what_if.plan_demand import PlanDemand

_PRICE: TypeAdapter[str] = TypeAdapter(Price)


class Format(StrEnum):
    """How to print."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


Output = Annotated[Format, typer.Option("--output", "-o", help="For people: text. For programs: json, yaml.")]
With = Annotated[list[str], typer.Option("--with", metavar="CAPACITY", help=f"Capacity that is not there: {FORM}.")]
Without = Annotated[list[str], typer.Option("--without", metavar="cr-…", help="A reservation that shall not be there.")]
Policy = Annotated[
    list[str],
    typer.Option("--policy", metavar="FILE|DIR", help="NodePools and EC2NodeClasses as if they were applied."),
]
Prices = Annotated[list[str], typer.Option("--price", metavar="TYPE=USD", help="Another on-demand price an hour.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan")(plan)


def plan(
    context: typer.Context,
    filenames: files.Filenames,
    added: With = [],  # noqa: B006 # typer makes new lists for each call
    removed: Without = [],  # noqa: B006
    policy: Policy = [],  # noqa: B006
    prices: Prices = [],  # noqa: B006
    form: Output = Format.TEXT,
) -> None:
    """Say what would happen to demand now.

    Nothing is written. With --with, --without, --policy or --price the changed world stands beside the present.
    """
    workloads = demand_of(filenames)
    stack = connection(context)
    edits = edits_of(added, removed, policy, prices, stack.clock)
    question = PlanDemand(stack.snapshots, stack.clock, stack.solver)
    try:
        answer = attempt(lambda: described(question.plan(workloads, edits)))
    except EditError as error:
        fail(str(error))
    document = {"apiVersion": "reservoir/v1", "kind": "WhatIf", **answer.model_dump(mode="json", exclude_none=True)}
    if form is Format.JSON:
        output().print(json.dumps(document, indent=2))
    elif form is Format.YAML:
        output().print(to_yaml([document]), end="")
    else:
        for line in answer_lines(answer):
            output().print(line)


def demand_of(filenames: Sequence[str]) -> list[Workload]:
    """Read workloads; ends the command with everything that is wrong."""
    reading = read_files(files.read(filenames))
    report(reading.problems)
    values = [read.manifest.to_core() for read in reading.manifests]
    workloads = [value for value in values if isinstance(value, Workload)]
    if errors_of(reading.problems):
        fail("not valid")
    if len(workloads) < len(values):
        fail("there is policy among the demand: give it with --policy")
    if not workloads:
        fail("there is no Workload in what was given")
    return workloads


def edits_of(
    added: Sequence[str], removed: Sequence[str], policy: Sequence[str], prices: Sequence[str], clock: Clock
) -> WorldEdits:
    """Read the options that change the world; ends the command when one is not understood."""
    now = clock.now()
    pools, classes = _policy_of(policy) if policy else ((), ())
    try:
        return WorldEdits(
            added=tuple(parse_added_capacity(text, now) for text in added),
            removed_ids=tuple(dict.fromkeys(removed)),
            on_demand_micro_usd_per_hour=dict(map(_price_of, prices)),
            node_pools=pools,
            node_classes=classes,
        )
    except EditError as error:
        fail(str(error))


def _policy_of(filenames: Sequence[str]) -> tuple[tuple[NodePool, ...], tuple[NodeClass, ...]]:
    reading = read_files(files.read(filenames))
    report(reading.problems)
    if errors_of(reading.problems):
        fail("not valid")
    values = [read.manifest.to_core() for read in reading.manifests]
    if any(isinstance(value, Workload) for value in values):
        fail("there is demand among the policy: give it with -f")
    pools = tuple(value for value in values if isinstance(value, NodePool))
    return pools, tuple(value for value in values if isinstance(value, NodeClass))


def _price_of(text: str) -> tuple[str, int]:
    name, equals, price = text.partition("=")
    try:
        if name and equals:
            return name, micro_usd(_PRICE.validate_python(price))
    except ValidationError:
        pass
    raise EditError(f"{text!a} is not of the form TYPE=USD, such as p5.48xlarge=55.04, with at most 6 decimals")
