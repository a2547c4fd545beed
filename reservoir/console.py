"""How commands are grouped, what they print and how they end: 0 done, 1 there are differences, 2 refused or failed."""

import sys
from collections.abc import Callable, Iterable
from typing import Annotated, Final, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from shared.manifests.parsing.problems import Problem, Severity

DIFFERENT: Final = 1
FAILED: Final = 2

_STYLES: Final = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.IGNORED: "dim"}


def _said(reason: str) -> str:
    if not reason.strip():
        raise typer.BadParameter("say why")
    return reason.strip()


# What commands have that let something end.
Reason = Annotated[str, typer.Option(help="Why; it is kept, and told on the bus.", callback=_said)]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def add_group(
    app: typer.Typer,
    name: str,
    purpose: str,
    *commands: Callable[..., None],
    first: Callable[[], None] | None = None,
) -> None:
    """Add commands that share a first word (``reservoir NAME COMMAND``), each under its function's name.

    ``first`` is called before any of them, and may end the command.
    """
    # help is plain text
    group = typer.Typer(help=purpose, callback=first, no_args_is_help=True, rich_markup_mode=None)
    for command in commands:
        group.command(command.__name__)(command)
    app.add_typer(group, name=name)


def output() -> Console:
    """Return the console of results. Text is never read as markup: names come from users."""
    return Console(markup=False, highlight=False, soft_wrap=True, emoji=False)


def messages() -> Console:
    """Return the console of everything that is not a result."""
    return Console(stderr=True, markup=False, highlight=False, soft_wrap=True, emoji=False)


def agree(question: str, *, yes: bool) -> None:
    """Ask before something ends. Ends the command on a no, and where there is no terminal on which to ask."""
    if yes:
        return
    if not can_ask():
        fail(f"nothing was done: there is no terminal on which to ask, and no --yes. {question}")
    if not typer.confirm(question, err=True):
        fail("nothing was done")


def can_ask() -> bool:
    """Whether somebody sits at a terminal; lines of a pipe are no answers."""
    return sys.stdin.isatty()


def report(problems: Iterable[Problem]) -> None:
    """Print problems, one a line."""
    console = messages()
    for problem in problems:
        console.print(Text(str(problem), style=_STYLES[problem.severity]))


def fail(message: str) -> NoReturn:
    """End with a sentence."""
    messages().print(Text(message, style="bold red"))
    raise typer.Exit(FAILED)
