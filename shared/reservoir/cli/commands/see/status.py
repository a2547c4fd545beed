"""``reservoir status``."""

from collections.abc import Sequence

import typer

from reservoir.cli.commands.ask.answers import Format, Output, print_answer
from reservoir.cli.commands.see.status_document import document
from reservoir.cli.commands.see.status_text import lines
from reservoir.cli.console import output
from reservoir.cli.policy import connection
from reservoir.cli.stack.connection import Connection
from reservoir.core.model.team import Team
from reservoir.core.sharing.reading_turns import ReadingBound, ReadingTurns
from reservoir.ports.errors import AwsError
from reservoir.usecases.history.see_status import SeeStatus
from reservoir.usecases.history.take_sample import CountWhatIsThere
from reservoir.usecases.policy.policy_objects import policy_of


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("status")(status)


def status(context: typer.Context, form: Output = Format.TEXT) -> None:
    """Show the state of the deployment on one screen.

    What is paid and idle, what waits and why, what ends soon, what was bought and for whom, what was refused.
    """
    seen = see(connection(context)).see()
    print_answer("Status", document(seen), lines(seen, output().width), form)


def see(stack: Connection, *, with_teams: bool = False) -> SeeStatus:
    """Return what reads a stack; teams are counted too, if that is wanted and the caller may read policy."""
    outside = stack.outside

    def teams() -> Sequence[Team]:
        if not with_teams:
            return ()
        try:
            return policy_of(outside.policy.list_all()).teams
        except AwsError:
            # that policy cannot be read is reported once, where it is read for itself
            return ()

    there = CountWhatIsThere(
        outside.reservations,
        outside.node_claims,
        outside.workloads,
        outside.offerings,
        outside.clock,
        teams,
        ReadingTurns(ReadingBound()),
    )
    return SeeStatus(
        there,
        outside.history,
        outside.reservations,
        outside.queues,
        outside.alarms,
        outside.passes,
        lambda: outside.policy,
        outside.offerings,
        outside.clock,
    )
