"""``reservoir dlq list``, ``show``, ``redrive`` and ``purge``."""

from collections.abc import Callable, Mapping
from typing import Annotated, Final, TypeVar

import typer

from reservoir.cli.console import Yes, add_group, agree, fail, messages, output
from reservoir.cli.output import Column, Form, Listing, Output, printable, show
from reservoir.cli.policy import connection
from reservoir.cli.stack.dead_letters import DeadLetterQueue, Letter
from reservoir.core.scheduling_terms.labels import closest

T = TypeVar("T")
_Counted = tuple[DeadLetterQueue, int]

_MOST: Final = 100

QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="As `reservoir dlq list` calls it.")]

_QUEUES: Final = Listing[_Counted](
    columns=(
        Column("QUEUE", lambda row: row[0].name),
        Column("LETTERS", lambda row: str(row[1]), is_number=True, style=lambda row: "yellow" if row[1] else ""),
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
    purpose = "Look at messages that were given up. Send them again, or throw them away."
    add_group(app, "dlq", purpose, list_, show_, redrive, purge)


def list_(context: typer.Context, form: Output = Form.TABLE) -> None:
    """Show the dead-letter queues, and how many messages lie in each."""
    rows = _asked(lambda: [(queue, queue.count()) for queue in _queues(context).values()])
    show(rows, _QUEUES, form, nothing="the stack has no dead-letter queues")


def show_(
    context: typer.Context,
    name: QueueName,
    limit: Annotated[int, typer.Option(min=1, max=_MOST, help="At most so many.")] = 10,
    form: Output = Form.TABLE,
) -> None:
    """Show messages of a dead-letter queue with their reasons. Each is hidden from others for 30 seconds."""
    queue = _queue(context, name)
    show(_asked(lambda: list(queue.letters(limit))), _LETTERS, form, nothing=f"nothing lies in {name}")


def redrive(context: typer.Context, name: QueueName, yes: Yes = False) -> None:
    """Send what lies in a dead-letter queue now to where it came from, one by one."""
    queue = _queue(context, name)
    if queue.source_url is None:
        fail(f"{name} takes no messages from people; the runbook says what to do with what was given up there")
    count = _asked(queue.count)
    if count == 0:
        output().print(f"{name}: nothing to send again")
        return
    agree(f"{count} messages of {name} are sent again. Redrive?", yes=yes)
    sent, kept = _asked(lambda: _move(queue, count))
    output().print(f"{name}: {sent} sent again" + (f", {kept} that lack their end left" if kept else ""))


def _move(queue: DeadLetterQueue, most: int) -> tuple[int, int]:
    """Send letters again, no more than there were: what is given up anew meanwhile stays; return how many, and not."""
    sent = kept = 0
    for letter in queue.letters(most):
        if letter.is_cut:
            kept += 1
        else:
            queue.send_again(letter)
            sent += 1
    return sent, kept


def purge(context: typer.Context, name: QueueName, yes: Yes = False) -> None:
    """Throw away everything that lies in a dead-letter queue."""
    queue = _queue(context, name)
    count = _asked(queue.count)
    if count == 0:
        output().print(f"{name}: nothing to throw away")
        return
    if queue.source_url is not None:
        messages().print(printable(f"what these messages asked for is then lost: see reservoir dlq show {name}"))
    agree(f"{count} messages of {name} are thrown away for good. Purge?", yes=yes)
    _asked(queue.purge)
    output().print(f"{name}: {count} thrown away")


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
