"""``reservoir advise``."""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Annotated, Final

import typer

from reservoir.cli.commands.ask.answers import Format, Output, print_answer
from reservoir.cli.commands.past.events import span
from reservoir.cli.console import fail
from reservoir.cli.output import Column, Line, lines_of, printable, terminal_width
from reservoir.cli.policy import attempt, connection
from reservoir.manifests.answers.advice import AdviceAnswer, AdvisedChange, AdvisedCost
from reservoir.usecases.what_if.advise import Advise, TooYoungError
from reservoir.usecases.what_if.describe_advice import advice_described

_MICRO: Final = 1_000_000
_HOURS_A_MONTH: Final = 720


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("advise")(advise)


def advise(
    context: typer.Context,
    since: Annotated[
        str, typer.Option(help="How far back to look: 7d, 30d; 90d are kept.")
    ] = "30d",
    budget: Annotated[
        str | None,
        typer.Option(help="The most to pay for additional units, in USD a month."),
    ] = None,
    worth: Annotated[
        int,
        typer.Option(
            min=0,
            max=1000,
            help="The cost of waiting, in percent of the waiting replica's on-demand price.",
        ),
    ] = 100,
    form: Output = Format.TEXT,
) -> None:
    """Show what to reserve, and what that would have saved.

    Plays past demand again through the scheduler, with more, fewer and other units. Nothing is written.
    """
    stack = connection(context)
    question = Advise(
        stack.snapshots, stack.outside.history, stack.outside.clock, stack.solver
    )
    a_hour = None if budget is None else _micro_usd(budget) // _HOURS_A_MONTH
    try:
        answer = attempt(
            lambda: advice_described(question.advise(span(since), worth, a_hour), worth)
        )
    except TooYoungError as error:
        fail(str(error))
    print_answer("Advice", answer, advice_lines(answer), form)


def _micro_usd(text: str) -> int:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        fail(f"{text} is not an amount of USD such as 1200")
    if not amount.is_finite() or amount < 0:
        fail(f"{text} is not an amount of USD such as 1200")
    return int(amount * _MICRO)


def advice_lines(answer: AdviceAnswer) -> Iterator[Line | str]:
    """Yield the lines: the changes, each with its command; their sum; and what to know about them."""
    yield (
        f"{answer.workloads} workloads of {answer.since:%Y-%m-%d %H:%M} to {answer.until:%Y-%m-%d %H:%M} UTC,"
        " simulated again; all amounts for 30 days"
    )
    if answer.changes:
        yield from _table(answer.changes)
        for number, change in enumerate(answer.changes, start=1):
            yield f"{number}: {printable(change.command)}"
            yield f"   but {printable('; '.join(change.against))}"
        yield f"now:       {_in_words(answer.before)}"
        yield f"with this: {_in_words(answer.after)}"
    else:
        yield "change nothing: no other number of units would surely have been cheaper"
        yield f"now: {_in_words(answer.before)}"
    for note in answer.notes:
        yield f"note: {printable(note)}"


def _table(changes: Sequence[AdvisedChange]) -> Iterable[Line]:
    numbered = list(enumerate(changes, start=1))
    columns: tuple[Column[tuple[int, AdvisedChange]], ...] = (
        Column("#", lambda row: str(row[0]), is_number=True),
        Column("CHANGE", lambda row: _changed(row[1]), gives_way=True),
        Column("PAID LESS", lambda row: _usd(row[1].paid_less_micro_usd), is_number=True),
        Column(
            "WAITING LESS",
            lambda row: _hours(row[1].waiting_less_replica_s),
            is_number=True,
            leaves=1,
        ),
        Column("SAVES", lambda row: _usd(row[1].saves_micro_usd), is_number=True),
        Column("SURE", lambda row: f"{row[1].weeks_saved} of {row[1].weeks} weeks"),
    )
    return lines_of(numbered, columns, terminal_width())


def _changed(change: AdvisedChange) -> str:
    name = printable(change.capacity_reservation_id or "new")
    return f"{name}: {change.units} to {change.units_advised} {printable(change.instance_type)} in {change.zone}"


def _in_words(cost: AdvisedCost) -> str:
    return (
        f"reservations {_usd(cost.held_micro_usd)}, beside them {_usd(cost.bought_micro_usd)}, waiting"
        f" {_hours(cost.waiting_replica_s)} of replicas, worth {_usd(cost.waiting_micro_usd)}"
    )


def _usd(micro_usd: int) -> str:
    return f"{micro_usd / _MICRO:,.2f} USD"


def _hours(seconds: int) -> str:
    return f"{seconds / 3600:,.1f} h"
