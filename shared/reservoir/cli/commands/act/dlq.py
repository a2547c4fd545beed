"""``reservoir dlq list``, ``show``, ``redrive`` and ``purge``."""

from collections.abc import Callable, Mapping
from typing import Annotated, Final, TypeVar

import typer

from reservoir.cli.console import Yes, add_group, agree, fail, messages, output
from reservoir.cli.output import Column, Form, Listing, Output, number, printable, show
from reservoir.cli.policy import connection
from reservoir.cli.stack.dead_letters import DeadLetterQueue, Letter
from reservoir.core.scheduling_terms.labels import closest

T = TypeVar("T")
_Counted = tuple[DeadLetterQueue, int]

_MOST: Final = 100

QueueName = Annotated[
    str, typer.Argument(metavar="QUEUE", help="As `reservoir dlq list` calls it.")
]

_QUEUES: Final = Listing[_Counted](
    columns=(
        Column("QUEUE", lambda row: row[0].name),
        Column(
            "LETTERS",
            lambda row: str(row[1]),
            is_number=True,
            style=lambda row: "yellow" if row[1] else "",
        ),
        Column("SENT AGAIN", lambda row: "no" if row[0].source_url is None else "yes"),
    ),
    name=lambda row: row[0].name,
    document=lambda row: {
        "kind": "DeadLetterQueue",
        "metadata": {"name": row[0].name},
        "status": {"letters": row[1], "canBeSentAgain": row[0].source_url is not None},
    },
)
_LETTERS: Final = Listing[Letter](
    columns=(
        Column("ID", lambda letter: letter.id),
        Column("SENT", lambda letter: f"{letter.sent_at:%Y-%m-%d %H:%M:%S}"),
        Column("REASON", lambda letter: letter.reason, gives_way=True),
        Column("BODY", lambda letter: letter.body, is_wide=True, gives_way=True),
    ),
    name=lambda letter: letter.id,
    document=lambda letter: {
        "kind": "DeadLetter",
        "metadata": {"name": letter.id},
        "status": {
            "sentAt": letter.sent_at.isoformat(timespec="milliseconds"),
            "reason": letter.reason,
            "body": letter.body,
            "isCut": letter.is_cut,
        },
    },
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    purpose = "Inspect messages that failed too often. Send them again, or delete them."
    add_group(app, "dlq", purpose, list_, show_, redrive, purge)


def list_(context: typer.Context, form: Output = Form.TABLE) -> None:
    """List the dead-letter queues, and how many messages each holds."""
    rows = _asked(lambda: [(queue, queue.count()) for queue in _queues(context).values()])
    show(rows, _QUEUES, form, nothing="no dead-letter queues")


def show_(
    context: typer.Context,
    name: QueueName,
    limit: Annotated[
        int, typer.Option(min=1, max=_MOST, help="How many to show at most.")
    ] = 10,
    form: Output = Form.TABLE,
) -> None:
    """Show messages of a dead-letter queue with their reasons. Each is hidden from others for 30 seconds."""
    queue = _queue(context, name)
    show(
        _asked(lambda: list(queue.letters(limit))),
        _LETTERS,
        form,
        nothing=f"{name} is empty",
    )


def redrive(context: typer.Context, name: QueueName, yes: Yes = False) -> None:
    """Send the messages of a dead-letter queue back to where they came from, one by one."""
    queue = _queue(context, name)
    if queue.source_url is None:
        fail(
            f"{name} accepts no messages from operators; the runbook says what to do with its dead letters"
        )
    count = _asked(queue.count)
    if count == 0:
        output().print(f"{name} is empty: nothing to send again")
        return
    agree(f"{number(count, 'message')} of {name} will be sent again. Redrive?", yes=yes)
    sent, kept = _asked(lambda: _move(queue, count))
    output().print(
        f"{name}: {sent} sent again"
        + (f", {kept} kept, because they are cut off" if kept else "")
    )


def _move(queue: DeadLetterQueue, most: int) -> tuple[int, int]:
    """Send letters again, but none that arrive meanwhile; return how many were sent, and how many were not."""
    sent = kept = 0
    for letter in queue.letters(most):
        if letter.is_cut:
            kept += 1
        else:
            queue.send_again(letter)
            sent += 1
    return sent, kept


def purge(context: typer.Context, name: QueueName, yes: Yes = False) -> None:
    """Delete all messages of a dead-letter queue."""
    queue = _queue(context, name)
    count = _asked(queue.count)
    if count == 0:
        output().print(f"{name} is empty: nothing to delete")
        return
    if queue.source_url is not None:
        messages().print(
            printable(
                f"what these messages ask for will be lost: see reservoir dlq show {name}"
            )
        )
    agree(f"{number(count, 'message')} of {name} will be deleted for good. Purge?", yes=yes)
    _asked(queue.purge)
    output().print(f"{name}: {count} deleted")


def _queues(context: typer.Context) -> Mapping[str, DeadLetterQueue]:
    return connection(context).dead_letter_queues


def _queue(context: typer.Context, name: str) -> DeadLetterQueue:
    queues = _queues(context)
    if name not in queues:
        hint = closest(name, queues)
        which = f"did you mean {hint}?" if hint else f"there are {', '.join(queues)}"
        fail(f"there is no dead-letter queue {name!a}; {which}")
    return queues[name]


def _asked(call: Callable[[], T]) -> T:
    """Ask SQS; end the command when it refuses."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return call()
    except (BotoCoreError, ClientError) as error:
        fail(f"AWS refused: {error}")
