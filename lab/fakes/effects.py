"""Counts the effects of a run (AWS calls and commits) and kills it, or loses an answer, at a chosen one."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from reservoir.ports.errors import UnknownOutcomeError


class Killed(BaseException):
    """The function died here. Not an Exception, so that nothing in the product can catch it."""


@dataclass
class Effects:
    """``kill_before`` / ``lose_answer_of``: number of the effect, from 1; None lets everything happen."""

    kill_before: int | None = None
    lose_answer_of: int | None = None
    # what else happens just before an effect
    before: Mapping[int, Callable[[], None]] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.log)

    def watch(self, port: Any, methods: Collection[str], *, remote: bool = False) -> Any:
        """Return the port with these methods counted; the lost answer of a ``remote`` one is an error, else death."""
        return _Watched(self, port, frozenset(methods), remote)


def _nothing() -> None:
    """Let the effect happen as it is."""


def mishaps(numbers: Iterable[int]) -> Iterator[Effects]:
    """Kill before each of these effects, and lose the answer of each."""
    for number in numbers:
        yield Effects(kill_before=number)
        yield Effects(lose_answer_of=number)


class _Watched:
    def __init__(
        self, effects: Effects, port: Any, methods: frozenset[str], remote: bool
    ) -> None:
        self._effects = effects
        self._port = port
        self._methods = methods
        self._remote = remote

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if name not in self._methods:
            return method

        def counted(*arguments: Any, **options: Any) -> Any:
            effects = self._effects
            number = effects.count + 1
            if effects.kill_before == number:
                raise Killed(f"before {name}")
            effects.before.get(number, _nothing)()
            effects.log.append(name)
            answer = method(*arguments, **options)
            if effects.lose_answer_of == number:
                if self._remote:
                    raise UnknownOutcomeError("ReadTimeout", name)
                raise Killed(f"after {name}")
            return answer

        return counted
