"""``reservoir describe``."""

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import typer

from reservoir.cli.console import messages, output
from reservoir.cli.nouns import selection
from reservoir.cli.nouns.events import LISTING as EVENTS
from reservoir.cli.nouns.found import Found, end_with_missing, print_left_out
from reservoir.cli.nouns.noun import Noun
from reservoir.cli.output import as_table, printable
from reservoir.cli.policy import attempt, connection
from reservoir.cli.stack.connection import Connection
from reservoir.cli.stack.lately import LATE
from reservoir.core.history.past_event import PastEvent
from reservoir.manifests.answers.render import to_yaml

_EVENTS_SHOWN: Final = 20
_EVER: Final = datetime(2000, 1, 1, tzinfo=UTC)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("describe")(describe)


def describe(
    context: typer.Context,
    words: selection.Words = None,
    labels: selection.Labels = None,
    namespace: selection.Namespace = None,
    all_namespaces: selection.AllNamespaces = False,
    pool: selection.Pool = None,
    state: selection.State = None,
) -> None:
    """Show everything about objects. Why they are as they are, their fields, their last events.

    Ends with 2 if a name does not exist.
    """
    stack = connection(context)
    given = selection.Given(
        labels=labels,
        namespace=namespace,
        all_namespaces=all_namespaces,
        pool=pool,
        state=state,
    )
    meant = selection.meant(words or (), **given)
    found = [Found.of(stack, noun, chosen) for noun, chosen in meant]
    is_first = True
    for each in found:
        for row in each.rows:
            if not is_first:
                output().print()
            _print(stack, each.noun, row)
            is_first = False
    if is_first and not any(each.unknown for each in found):
        messages().print(f"no such {' or '.join(each.noun.plural for each in found)}")
    print_left_out(found)
    end_with_missing(stack, found)


def _print(stack: Connection, noun: Noun[Any], row: Any) -> None:
    console = output()
    listing = noun.listing(stack.outside.clock.now())
    console.print(printable(listing.name(row)), style="bold")
    for line in attempt(lambda: list(noun.details(stack, row))):
        console.print(printable(line))
    console.print(to_yaml([listing.document(row)]), end="")
    events = attempt(lambda: list(_last_events(stack, listing.name(row))))
    if events:
        width = console.width if console.is_terminal else None
        console.print("events:")
        for told in as_table(events, EVENTS, width, is_wide=False):
            console.print("  ", told, sep="")


def _last_events(stack: Connection, name: str) -> Iterator[PastEvent]:
    """Yield the last events, oldest first; the history of one object is read page by page."""
    until = stack.outside.clock.now() + LATE
    yield from deque(
        stack.outside.history.of_object(name, _EVER, until), maxlen=_EVENTS_SHOWN
    )
