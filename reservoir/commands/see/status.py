"""``reservoir status``."""

import typer

from reservoir.commands.ask.answers import Format, Output, print_answer
from reservoir.commands.see.status_document import document
from reservoir.commands.see.status_text import lines
from reservoir.console import output
from reservoir.policy import connection
from reservoir.stack.connection import Connection
from shared.usecases.history.see_status import SeeStatus
from shared.usecases.history.take_sample import CountWhatIsThere


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("status")(status)


def status(context: typer.Context, form: Output = Format.TEXT) -> None:
    """Show in one screen how things are.

    What is paid and idle, what waits and why, what ends soon, what was bought and for whom, what was refused.
    """
    seen = see(connection(context)).see()
    print_answer("Status", document(seen), lines(seen, output().width), form)


def see(stack: Connection) -> SeeStatus:
    """Return what looks at a stack."""
    there = CountWhatIsThere(stack.reservations, stack.node_claims, stack.workloads, stack.offerings, stack.clock)
    return SeeStatus(there, stack.history, stack.reservations, stack.queues, stack.alarms, stack.passes, stack.clock)
