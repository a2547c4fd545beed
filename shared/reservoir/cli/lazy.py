"""Commands that are imported when they are called: ``--help`` and completion need their names and purposes only."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group


@dataclass(frozen=True, slots=True)
class Listed:
    """A command as ``--help`` lists it.

    ``module`` has a ``register`` that adds the command; ``purpose`` is the first line of the command's own help.
    """

    name: str
    module: str
    purpose: str

    def load(self) -> Any:
        """Import the module and return the command."""
        only = typer.Typer(rich_markup_mode=None)
        only.callback()(_nothing)
        import_module(self.module).register(only)
        return get_group(only).commands[self.name]


class LazyCommand(TyperCommand):
    """Takes a command's place until its arguments are read."""

    def __init__(self, listed: Listed) -> None:
        super().__init__(listed.name, help=listed.purpose, rich_markup_mode=None)
        self._listed = listed

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Hand over to the command itself, which from then on is the one in the context."""
        return self._listed.load().make_context(info_name, args, parent=parent, **extra)


def lazy_group(commands: Iterable[Listed]) -> type[TyperGroup]:
    """Return the class of a group that has these commands."""
    listed = tuple(commands)

    class LazyGroup(TyperGroup):
        """A group of lazy commands."""

        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            for each in listed:
                self.add_command(LazyCommand(each))

    return LazyGroup


def _nothing() -> None:
    """Make a group of an application that has one command only."""
