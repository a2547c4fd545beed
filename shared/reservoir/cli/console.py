"""How commands are grouped, what they print and how they end (docs/cli.md has the exit codes)."""

import os
import sys
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, Literal, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from reservoir.manifests.parsing.problems import Problem, Severity

DIFFERENT: Final = 1
FAILED: Final = 2

_STYLES: Final = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "yellow",
    Severity.IGNORED: "dim",
}


def _said(reason: str) -> str:
    if not reason.strip():
        raise typer.BadParameter("say why")
    return reason.strip()


# What commands have that let something end.
Reason = Annotated[
    str,
    typer.Option(
        help="The reason; it is stored, and published on the bus.", callback=_said
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def add_group(
    app: typer.Typer,
    name: str,
    purpose: str,
    *commands: Callable[..., None],
    first: Callable[[], None] | None = None,
) -> None:
    """Add commands that share a first word (``reservoir NAME COMMAND``), each under its function's name.

    A name that Python has already ends in an underscore, which the command does without; others become hyphens.

    ``first`` is called before any of them, and may end the command.
    """
    # help is plain text
    group = typer.Typer(
        help=purpose, callback=first, no_args_is_help=True, rich_markup_mode=None
    )
    for command in commands:
        name_of_command = command.__name__.removesuffix("_").replace("_", "-")
        group.command(name_of_command)(command)
    app.add_typer(group, name=name)


class SafeConsole(Console):
    """Prints what users and AWS wrote: as it is, but nothing of it does anything to the terminal."""

    def print(self, *objects: Any, **how: Any) -> None:
        """Print; in strings, all but new lines is made printable."""
        super().print(
            *(_safe(each) if isinstance(each, str) else each for each in objects), **how
        )


def _safe(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def printable(text: str) -> str:
    """Return text that does nothing to a terminal: what is not printed is escaped, as in a Python string."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def output() -> Console:
    """Return the console of results. Text is never read as markup: names come from users."""
    return SafeConsole(
        markup=False, highlight=False, soft_wrap=True, emoji=False, color_system=_colours()
    )


def messages() -> Console:
    """Return the console of everything that is not a result."""
    return SafeConsole(
        stderr=True,
        markup=False,
        highlight=False,
        soft_wrap=True,
        emoji=False,
        color_system=_colours(),
    )


def _colours() -> Literal["auto"] | None:
    """Return rich's colours; None, where NO_COLOR is set, leaves bold and dim out too."""
    return None if os.environ.get("NO_COLOR") else "auto"


def agree(question: str, *, yes: bool) -> None:
    """Ask before something ends. Ends the command on a no, and where there is no terminal on which to ask."""
    if yes:
        return
    if not can_ask():
        fail(
            f"nothing was done: there is no terminal on which to ask, and no --yes. {question}"
        )
    if not typer.confirm(question, err=True):
        fail("nothing was done")


def can_ask() -> bool:
    """Whether a person is at a terminal; lines of a pipe are no answers."""
    return sys.stdin.isatty()


def report(problems: Iterable[Problem]) -> None:
    """Print problems, one a line."""
    console = messages()
    for problem in problems:
        console.print(Text(_safe(str(problem)), style=_STYLES[problem.severity]))


def fail(message: str) -> NoReturn:
    """End with a sentence."""
    messages().print(Text(_safe(message), style="bold red"))
    raise typer.Exit(FAILED)
