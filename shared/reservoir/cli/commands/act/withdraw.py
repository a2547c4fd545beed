"""``reservoir withdraw``."""

from datetime import timedelta
from typing import Annotated, Final

import typer

from reservoir.cli.console import Yes, agree, fail, messages, output
from reservoir.cli.naming import names_of, workload_key
from reservoir.cli.output import number
from reservoir.cli.policy import attempt, connection
from reservoir.cli.stack import sending
from reservoir.cli.stack.connection import Connection
from reservoir.cli.waiting import Timeout, span, until
from reservoir.ports.state import WorkloadRecord

_ANSWERED_WITHIN: Final = "1m"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("withdraw")(withdraw)


def withdraw(
    context: typer.Context,
    names: Annotated[
        list[str],
        typer.Argument(
            help="NAMESPACE/NAME... or workload/NAMESPACE/NAME...; without a namespace it is default."
        ),
    ],
    yes: Yes = False,
    timeout: Timeout = _ANSWERED_WITHIN,
) -> None:
    """Withdraw workloads that are no longer wanted. Their nodes drain, as far as nothing else runs there."""
    stack = connection(context)
    records = [_stored(stack, workload_key(name)) for name in names_of("withdraw", names)]
    wanted = [record for record in records if not record.withdrawn]
    for record in wanted:
        messages().print(
            f"workload/{record.key}: {number(record.placed_count, 'replica')} will drain,"
            f" {record.pending_count} will leave the queue"
        )
    if wanted:
        agree(f"Withdraw {'it' if len(wanted) == 1 else f'these {len(wanted)}'}?", yes=yes)
    for record in records:
        _withdraw(stack, record, span(timeout))


def _stored(stack: Connection, key: str) -> WorkloadRecord:
    record = attempt(lambda: stack.outside.workloads.get(key))
    if record is None:
        fail(f"workload/{key} is not known; nothing was withdrawn")
    return record


def _withdraw(stack: Connection, record: WorkloadRecord, timeout: timedelta) -> None:
    outgoing = sending.withdraw(record)
    body = outgoing.body
    if body is None:
        output().print(f"workload/{record.key} is already withdrawn")
        return
    attempt(lambda: stack.outside.demand.send(body))

    def answered() -> WorkloadRecord | None:
        found = attempt(lambda: stack.outside.workloads.get(record.key))
        if found is None or found.withdrawn or found.generation > outgoing.generation:
            return found
        return None

    after = until(stack, timeout, answered)
    if after is None:
        fail(f"workload/{record.key}: the withdrawal was sent, but not confirmed in time")
    if not after.withdrawn:
        fail(
            f"workload/{record.key} was submitted again by somebody else meanwhile, and stays"
        )
    output().print(f"workload/{record.key} withdrawn (generation {outgoing.generation})")
