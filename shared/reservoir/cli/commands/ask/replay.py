"""``reservoir replay``."""

from typing import Annotated

import typer

from reservoir.cli.commands.ask.answers import Format, Output, print_answer
from reservoir.cli.commands.ask.edits import Policy, Prices, With, Without, edits_of
from reservoir.cli.commands.ask.what_if_text import replay_lines
from reservoir.cli.console import fail
from reservoir.cli.policy import attempt, connection
from reservoir.core.what_if.added_capacity import EditError
from reservoir.runtime.composition.parts.planning import solve_in_full
from reservoir.usecases.what_if.describe import replay_described
from reservoir.usecases.what_if.replay import Replay, ReplayError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("replay")(replay)


def replay(
    context: typer.Context,
    plan_id: Annotated[
        str, typer.Argument(metavar="PLAN", help="Id of a plan, as explain names it.")
    ],
    added: With = [],  # noqa: B006 # typer makes new lists for each call
    removed: Without = [],  # noqa: B006 - nobody changes it
    policy: Policy = [],  # noqa: B006 - nobody changes it
    prices: Prices = [],  # noqa: B006 - nobody changes it
    form: Output = Format.TEXT,
) -> None:
    """Run a stored plan again.

    Shows that it is the same to the byte, or what differs and why. With --with, --without, --policy or --price: what
    the planner would have decided in that world. Times of day are after the plan's time. Nothing is written.
    """
    stack = connection(context)
    question = Replay(stack.outside.decisions, solve_in_full, stack.solver.policy)
    try:
        found = attempt(
            lambda: question.run(
                plan_id, lambda now: edits_of(added, removed, policy, prices, now)
            )
        )
    except (EditError, ReplayError) as error:
        fail(str(error))
    if found is None:
        fail(f"plan {plan_id} is not known (plans are kept for two weeks)")
    answer = replay_described(found)
    print_answer("Replay", answer, replay_lines(answer), form)
