"""Runs of the code that stop before each effect that a model knows, and go on when the model lets it happen."""

from collections.abc import Callable, Collection
from typing import Any

from greenlet import getcurrent, greenlet


class Died(BaseException):
    """The function ends here. Not an Exception, so that nothing in the product can catch it."""


class Run:
    """One run of a function. ``at`` names the effect before which it stands; None: it has returned."""

    def __init__(self, what: Callable[[], object]) -> None:
        self._greenlet = greenlet(what)
        self.at: str | None = None
        self._go_on()

    def step(self, *effects: str) -> None:
        """Let the effect happen before which it stands, and everything up to the next."""
        assert self.at in effects, (
            f"the code is about to {self.at}, the model to {' or '.join(effects)}"
        )
        self._go_on()

    def die(self) -> None:
        """End the run where it stands."""
        if not self._greenlet.dead:
            try:
                self._greenlet.throw(Died())
            except Died:
                self.at = None

    def _go_on(self) -> None:
        self.at = self._greenlet.switch()
        if self._greenlet.dead:
            self.at = None


def stand_before(effect: str) -> None:
    """Stop the run that calls this; outside of runs nothing stops."""
    parent = getcurrent().parent
    if parent is not None:
        parent.switch(effect)


class Stopping:
    """A port whose ``effects`` the runs stop before."""

    def __init__(self, port: Any, effects: Collection[str]) -> None:
        self._port = port
        self._effects = frozenset(effects)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if name not in self._effects:
            return method

        def stopping(*arguments: Any, **options: Any) -> Any:
            if arguments[:1] != ([],):  # to write nothing is no effect
                stand_before(name)
            return method(*arguments, **options)

        return stopping
