"""``reservoir events``."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, NoReturn

import typer

from reservoir.cli.console import fail, output
from reservoir.cli.naming import workload_key
from reservoir.cli.nouns import selection
from reservoir.cli.nouns.events import LISTING, NOUN, labelled
from reservoir.cli.nouns.noun import Selection
from reservoir.cli.nouns.registry import registered
from reservoir.cli.output import Form, Output, as_data, printable, show
from reservoir.cli.policy import attempt, connection
from reservoir.cli.stack.connection import Connection
from reservoir.cli.stack.lately import LATE
from reservoir.core.history.past_event import (
    NODE,
    RESERVATION,
    WORKLOAD,
    PastEvent,
    node_name,
)
from reservoir.ports.system import Clock

_DEFAULT_SINCE: Final = "1h"
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}
_SPAN: Final = re.compile(r"([0-9]{1,5})([mhd])")
_KINDS: Final = (WORKLOAD, NODE, RESERVATION, "nodepool", "ec2nodeclass", "team")
_EVER: Final = datetime(2000, 1, 1, tzinfo=UTC)
# How often to look for more, and how far back each time: an event is kept seconds after it was published, and rarely
# later.
_EVERY_S: Final = 2.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("events")(events)


def events(
    context: typer.Context,
    wanted: Annotated[
        str | None,
        typer.Option(
            "--for",
            help="NOUN/NAME: workload/[NAMESPACE/]NAME, node/ID (claim or instance), class/NAME, team/NAME ...",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="How far back from then: 30m, 6h, 7d. Default: 1h, or with --for all that is kept."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            help="Up to when: 2026-01-31T03:00Z, or how long ago: 2h. Default: now."
        ),
    ] = None,
    labels: selection.Labels = None,
    namespace: selection.Namespace = None,
    pool: selection.Pool = None,
    state: selection.State = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Go on listing new events, until Ctrl-C."),
    ] = False,
    form: Output = Form.TABLE,
) -> None:
    """List what happened, to everything or to one object."""
    stack = connection(context)
    name = None if wanted is None else attempt(lambda: _object_of(wanted, stack))
    now = stack.outside.clock.now()
    if form.takes and follow:
        fail("--follow goes with table, wide, json, yaml and name")
    if until is not None and follow:
        fail("--until ends what --follow goes on with; give one of them")
    end = now + LATE if until is None else _instant(until, now)
    start = (
        _EVER
        if since is None and name is not None
        else min(now, end) - span(since or _DEFAULT_SINCE)
    )
    chosen = selection.selection(
        [NOUN],
        labels=labels,
        namespace=namespace,
        all_namespaces=False,
        pool=pool,
        state=state,
    )
    look = Look(stack, name, chosen)
    told = attempt(lambda: list(look(start, end)))
    show(told, LISTING, form, nothing=_nothing(name, chosen))
    if follow:
        _follow(Tail(look, stack.outside.clock, told), form)


def _nothing(name: str | None, chosen: Selection) -> str:
    """Say that there are no events."""
    return f"no events{'' if name is None else f' of {name}'}{'' if chosen == Selection() else ' match'}"


@dataclass(frozen=True, slots=True)
class Look:
    """Looks for what happened within a time: to everything or one object, as far as it is meant."""

    stack: Connection
    name: str | None
    chosen: Selection

    def __call__(self, since: datetime, until: datetime) -> Iterator[PastEvent]:
        """Yield it, the oldest first."""
        history = self.stack.outside.history
        told = (
            history.timeline(since, until)
            if self.name is None
            else history.of_object(self.name, since, until)
        )
        meant = labelled(self.stack, self.chosen.labels, told)
        yield from (event for event in meant if self.chosen.has(NOUN.facts(event)))


def _instant(text: str, now: datetime) -> datetime:
    """Read an instant, in UTC where it names no zone, or how long ago it was."""
    if _SPAN.fullmatch(text) is not None:
        return now - span(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        fail(
            f"{text} is neither a time such as 2026-01-31T03:00Z nor a duration such as 2h"
        )
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def span(text: str) -> timedelta:
    """Return how long ``30m``, ``6h`` or ``7d`` is. Ends the command for anything else."""
    match = _SPAN.fullmatch(text)
    if match is None:
        fail(f"{text} is not a duration such as 30m, 6h or 7d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


class Tail:
    """What happens next, each event once."""

    def __init__(
        self,
        look: Callable[[datetime, datetime], Iterator[PastEvent]],
        clock: Clock,
        told: list[PastEvent],
    ) -> None:
        self._look = look
        self._clock = clock
        self._told = {event.id: event.at for event in told}

    def more(self) -> list[PastEvent]:
        """Return the events that were kept since the last time."""
        now = self._clock.now()
        found = list(self._look(now - LATE, now + LATE))
        new = [event for event in found if event.id not in self._told]
        # all that the next look can bring again
        self._told = {event.id: event.at for event in found}
        return new


def _follow(
    tail: Tail, form: Form, sleep: Callable[[float], None] = time.sleep
) -> NoReturn:
    console = output()
    while True:
        for event in attempt(tail.more):
            line = _line(event) if form.is_for_people else as_data([event], LISTING, form)
            console.print(line, end="\n" if form.is_for_people else "")
        sleep(_EVERY_S)


def _line(event: PastEvent) -> str:
    return "  ".join(
        printable(column.text(event)) for column in LISTING.columns if not column.is_wide
    )


def _object_of(wanted: str, stack: Connection) -> str:
    """Return the history's name of an object that a user names."""
    word, _, name = wanted.partition("/")
    kind = registered(word).kind if word else ""
    if kind not in _KINDS or not name:
        fail(f"{wanted} is not KIND/NAME with one of {', '.join(_KINDS)}")
    if kind == WORKLOAD:
        name = workload_key(name)
    if kind == NODE and name.startswith("i-"):
        claims: Any = stack.outside.node_claims.find_by_instance([name])
        if name not in claims:
            fail(
                f"instance {name} is not known (nodes that ended are forgotten after a week): name its claim"
            )
        return node_name(claims[name].id)
    return f"{kind}/{name}"
