"""What commands print, and how they end: 0 done, 1 there are differences (diff), 2 refused or failed."""

from collections.abc import Iterable
from typing import Final, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from shared.manifests.parsing.problems import Problem, Severity

DIFFERENT: Final = 1
FAILED: Final = 2

_STYLES: Final = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.IGNORED: "dim"}


def output() -> Console:
    """Return the console of results. Text is never read as markup: names come from users."""
    return Console(markup=False, highlight=False, soft_wrap=True, emoji=False)


def messages() -> Console:
    """Return the console of everything that is not a result."""
    return Console(stderr=True, markup=False, highlight=False, soft_wrap=True, emoji=False)


def report(problems: Iterable[Problem]) -> None:
    """Print problems, one a line."""
    console = messages()
    for problem in problems:
        console.print(Text(str(problem), style=_STYLES[problem.severity]))


def fail(message: str) -> NoReturn:
    """End with a sentence."""
    messages().print(Text(message, style="bold red"))
    raise typer.Exit(FAILED)
