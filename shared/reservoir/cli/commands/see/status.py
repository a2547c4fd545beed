"""``reservoir status``."""

import typer

from reservoir.cli.commands.ask.answers import Format, Output, print_answer
from reservoir.cli.commands.see.status_document import document
from reservoir.cli.commands.see.status_text import lines
from reservoir.cli.console import output
from reservoir.cli.policy import connection
from reservoir.cli.stack.connection import Connection
from reservoir.usecases.history.see_status import SeeStatus
from reservoir.usecases.history.take_sample import CountWhatIsThere


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("status")(status)


def status(context: typer.Context, form: Output = Format.TEXT) -> None:
    """Show the state of the deployment on one screen.

    What is paid and idle, what waits and why, what ends soon, what was bought and for whom, what was refused.
    """
    seen = see(connection(context)).see()
    print_answer("Status", document(seen), lines(seen, output().width), form)


def see(stack: Connection) -> SeeStatus:
    """Return what looks at a stack."""
    outside = stack.outside
    there = CountWhatIsThere(
        outside.reservations,
        outside.node_claims,
        outside.workloads,
        outside.offerings,
        outside.clock,
    )
    return SeeStatus(
        there,
        outside.history,
        outside.reservations,
        outside.queues,
        outside.alarms,
        outside.passes,
        lambda: outside.policy,
        outside.clock,
    )
