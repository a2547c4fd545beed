"""A release before this one, as far as rows go: functions that do not know what this one has added, and write it away.

Until a function is replaced, its processes read rows without the fields that are new, see neither Teams nor pauses, and
write rows back as they read them. It knows less than any release that was cut, so that the next ones may add as much;
what the one before really loses is listed in ``tests/upgrades/``.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lab.simulation.kernel import MINUTE, SECOND, Chance, Kernel
from reservoir.core.model.node_claim import NodeClaim
from reservoir.names import Function
from reservoir.ports.policy import Pause, PolicyKind, PolicyObject
from reservoir.ports.state import WorkloadRecord

# functions that it did not have
_NEW: Final = frozenset({Function.FOLLOW, Function.OPERATE, Function.RECORD})


class OldStore:
    """A store as the old release reads it."""

    def __init__(self, behind: Any) -> None:
        self._behind = behind

    def __getattr__(self, method: str) -> Any:
        target = getattr(self._behind, method)
        return lambda *arguments, **options: as_it_knows(target(*arguments, **options))


def as_it_knows(answer: Any) -> Any:
    """Return what the old release understands of an answer."""
    if isinstance(answer, NodeClaim):
        return replace(
            answer,
            finished=(),
            cordoned=False,
            operations=(),
            relaxed=(),
            min_values={},
            placed_with=(),
            unknown={},
        )
    if isinstance(answer, WorkloadRecord):
        return replace(
            answer, finished_count=0, sent_by=None, sent_at=None, former=(), unknown={}
        )
    if isinstance(answer, PolicyObject):
        return replace(answer, pause=Pause())
    if isinstance(answer, Mapping):
        return {key: as_it_knows(value) for key, value in answer.items()}
    if isinstance(answer, tuple):
        return tuple(as_it_knows(each) for each in answer if not _is_team(each))
    return answer


def _is_team(value: Any) -> bool:
    return isinstance(value, PolicyObject) and value.kind is PolicyKind.TEAM


def behind_old(
    behind: Mapping[str, Any],
    names: Collection[str] = ("node_claims", "workloads", "policy"),
) -> Any:
    """Return what is behind the ports of an old process."""
    return {**behind, **{name: OldStore(behind[name]) for name in names}}


@dataclass
class Upgrade:
    """The functions are replaced one after the other, some taken back to the old release for a while.

    ``replaced`` hears of each replacement.
    """

    kernel: Kernel
    chance: Chance
    replaced: Callable[[Function], None]
    is_made: bool = False
    old: set[Function] = field(default_factory=set)
    _is_over: bool = False

    def begin(self) -> None:
        """Let all functions be old, and be replaced within a quarter of an hour."""
        if self.is_made:
            for function in [each for each in Function if each not in _NEW]:
                self.old.add(function)
                within = self.chance.between("upgrade", MINUTE, 15 * MINUTE)
                self.kernel.after(within, lambda function=function: self._replace(function))  # type: ignore[misc] # binds it

    def finish(self) -> None:
        """Replace what is left, for good."""
        self._is_over = True
        for function in sorted(self.old):
            self._replace(function)

    def _replace(self, function: Function) -> None:
        if function in self.old:
            self.old.discard(function)
            self.replaced(function)
            if not self._is_over and self.chance.between("rollback", 0, 2) == 0:
                self.kernel.after(
                    self.chance.between("rollback", SECOND, 3 * MINUTE),
                    lambda: self._roll_back(function),
                )

    def _roll_back(self, function: Function) -> None:
        """Take a function back to the release before, and replace it some minutes later."""
        if not self._is_over:
            self.old.add(function)
            self.replaced(function)
            self.kernel.after(
                self.chance.between("rollback", MINUTE, 5 * MINUTE),
                lambda: self._replace(function),
            )
