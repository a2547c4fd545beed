"""``reservoir top``."""

import time
from collections.abc import Callable, Iterator
from typing import Annotated, Final

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from reservoir.cli.commands.see.status import see
from reservoir.cli.commands.see.status_text import lines
from reservoir.cli.console import output
from reservoir.cli.policy import connection
from reservoir.usecases.history.see_status import SeeStatus

_LEAST_S: Final = 1
_MOST_S: Final = 600


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("top")(top)


def top(
    context: typer.Context,
    every_s: Annotated[
        int,
        typer.Option("--every", help="Seconds between looks.", min=_LEAST_S, max=_MOST_S),
    ] = 5,
) -> None:
    """Show the status, and keep it up to date until Ctrl-C."""
    console = output()
    keep_live(see(connection(context)), console, pictures(every_s, time.sleep))


def pictures(every_s: int, sleep: Callable[[float], None]) -> Iterator[None]:
    """Yield each time when it is time to look again."""
    while True:
        yield
        sleep(every_s)


def keep_live(seeing: SeeStatus, console: Console, looks: Iterator[None]) -> None:
    """Show the status at each look: in the place of the one before on a terminal, one below the other elsewhere."""
    if not console.is_terminal:
        for _ in looks:
            console.print(_picture(seeing, console.width))
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        for _ in looks:
            live.update(_picture(seeing, console.width), refresh=True)


def _picture(seeing: SeeStatus, width: int) -> Group:
    seen = seeing.see()
    return Group(Text(f"{seen.asked_at:%Y-%m-%d %H:%M:%S}Z", "dim"), *lines(seen, width))
