"""``reservoir finished``."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Final

import typer

from reservoir.cli.commands.ask.answers import Format, Output, print_answer
from reservoir.cli.commands.past.events import span
from reservoir.cli.nouns import noun
from reservoir.cli.output import Column, Line, lines_of, printable, terminal_width
from reservoir.cli.policy import attempt, connection
from reservoir.core.history.finished import Finished, finished
from reservoir.core.model.team import Team, by_namespace
from reservoir.manifests.answers.finished import FinishedAnswer, FinishedPlace, FinishedRun
from reservoir.usecases.policy.policy_objects import policy_of

# a run may have begun this much earlier than asked for, and is still shown whole
_BEFORE: Final = timedelta(days=7)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("finished")(list_finished)


def list_finished(
    context: typer.Context,
    since: Annotated[str, typer.Option(help="How far back: 6h, 7d.")] = "24h",
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Of this namespace only.")
    ] = None,
    team: Annotated[
        str | None, typer.Option(help="Of the namespaces of this Team only.")
    ] = None,
    form: Output = Format.TEXT,
) -> None:
    """List workloads that have ended.

    Their teams, where and how long they ran, what their nodes cost outside reservations, and how they ended.
    """
    stack = connection(context)
    until = stack.outside.clock.now()
    start = until - span(since)
    owners = attempt(lambda: by_namespace(policy_of(stack.outside.policy.list_all()).teams))
    told = attempt(
        lambda: list(
            stack.outside.history.timeline(start - _BEFORE, until + timedelta(minutes=1))
        )
    )
    runs = [
        _described(each, owners) for each in finished(told, until) if each.ended_at >= start
    ]
    chosen = [
        each
        for each in runs
        if namespace in (None, each.namespace) and team in (None, each.team)
    ]
    answer = FinishedAnswer(since=start, until=until, runs=chosen)
    print_answer("Finished", answer, finished_lines(answer), form)


def _described(each: Finished, owners: Mapping[str, Team]) -> FinishedRun:
    return FinishedRun(
        namespace=each.namespace,
        name=each.name,
        team=owners[each.namespace].name if each.namespace in owners else None,
        how=each.how,
        replicas=each.replicas,
        submitted_at=each.submitted_at,
        placed_at=each.placed_at,
        ended_at=each.ended_at,
        ran_s=each.ran_s,
        micro_usd=each.micro_usd,
        failures=each.failure_count,
        exit_code=each.exit_code,
        places=[
            FinishedPlace(instance_type=kind, capacity_type=market, zone=zone)
            for kind, market, zone in each.places
        ],
    )


def finished_lines(answer: FinishedAnswer) -> Iterator[Line | str]:
    """Yield a table; a sentence where nothing is over."""
    if not answer.runs:
        yield "Nothing has finished."
        return
    columns: tuple[Column[FinishedRun], ...] = (
        Column("WORKLOAD", lambda row: printable(f"{row.namespace}/{row.name}")),
        Column("TEAM", lambda row: row.team or "-", leaves=2),
        Column("REPLICAS", lambda row: str(row.replicas), is_number=True, leaves=1),
        Column("ENDED", lambda row: f"{row.ended_at:%Y-%m-%d %H:%M}"),
        Column(
            "RAN",
            lambda row: (
                "-" if row.ran_s is None else noun.span(timedelta(seconds=row.ran_s))
            ),
        ),
        Column("USD", lambda row: noun.price(row.micro_usd), is_number=True),
        Column("HOW", lambda row: row.how),
        Column(
            "EXIT",
            lambda row: "-" if row.exit_code is None else str(row.exit_code),
            is_number=True,
        ),
        Column("WHERE", _where, gives_way=True),
    )
    yield from lines_of(answer.runs, columns, terminal_width())


def _where(row: FinishedRun) -> str:
    return (
        ", ".join(
            f"{each.instance_type} {each.capacity_type} {each.zone}" for each in row.places
        )
        or "-"
    )
