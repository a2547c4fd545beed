"""``reservoir plan``."""

from collections.abc import Sequence

import typer

from reservoir.cli import files
from reservoir.cli.commands.ask.answers import Format, Output, print_answer
from reservoir.cli.commands.ask.edits import Policy, Prices, With, Without, edits_of
from reservoir.cli.commands.ask.what_if_text import answer_lines
from reservoir.cli.console import fail, report
from reservoir.cli.policy import attempt, connection
from reservoir.cli.side_by_side import side_by_side
from reservoir.cli.stack.starts import starts_within
from reservoir.core.model.workload import Workload
from reservoir.core.what_if.added_capacity import EditError
from reservoir.manifests.parsing.problems import errors_of
from reservoir.manifests.validate import read_files
from reservoir.usecases.what_if.describe import described
from reservoir.usecases.what_if.plan_demand import PlanDemand


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan")(plan)


def plan(
    context: typer.Context,
    filenames: files.Filenames,
    added: With = [],  # noqa: B006 # typer makes new lists for each call
    removed: Without = [],  # noqa: B006 - nobody changes it
    policy: Policy = [],  # noqa: B006 - nobody changes it
    prices: Prices = [],  # noqa: B006 - nobody changes it
    form: Output = Format.TEXT,
) -> None:
    """Show what would happen to demand now.

    Nothing is written. With --with, --without, --policy or --price the answer for the changed world is shown
    beside that for the present.
    """
    workloads = demand_of(filenames)
    stack = connection(context)
    edits = edits_of(added, removed, policy, prices, stack.outside.clock.now())
    question = PlanDemand(
        stack.snapshots,
        stack.outside.clock,
        stack.solver,
        side_by_side,
        starts_within(stack),
    )
    try:
        answer = attempt(lambda: described(question.plan(workloads, edits)))
    except EditError as error:
        fail(str(error))
    print_answer("WhatIf", answer, answer_lines(answer), form)


def demand_of(filenames: Sequence[str]) -> list[Workload]:
    """Read workloads; ends the command with everything that is wrong."""
    reading = read_files(files.read(filenames))
    report(reading.problems)
    values = [read.manifest.to_core() for read in reading.manifests]
    workloads = [value for value in values if isinstance(value, Workload)]
    if errors_of(reading.problems):
        fail("not valid")
    if len(workloads) < len(values):
        fail("the demand holds policy: pass it with --policy")
    if not workloads:
        fail("the input holds no Workload")
    return workloads
