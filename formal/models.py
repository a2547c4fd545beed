"""The models with their bounds, and the mistakes that each must find."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Case:
    """A model with bounds; ``mistake`` says what is wrong in it, None that nothing is."""

    model: str
    shows: str
    defines: tuple[str, ...]
    mistake: str | None = None


_WRITES: Final = ("DEATHS=1", "ATTEMPTS=2", "WRITES=2")
_POOL: Final = ("DEATHS=1", "ATTEMPTS=2", "WRITES=1", "POOL_LATER")

CASES: Final = (
    Case("wake.pml", "demand that is written and told is planned, one workload changing twice", _WRITES),
    Case("wake.pml", "and where a node pool comes later", _POOL),
    Case("wake.pml", "in the end everything is placed", ("DEATHS=1", "ATTEMPTS=2", "WRITES=1", "LIVENESS")),
    Case("wake.pml", "", (*_WRITES, "ACK_FIRST"), "the pass deletes what woke it before it commits"),
    Case("wake.pml", "", (*_WRITES, "DEDUPLICATED"), "the queue drops a wake-up like an earlier one"),
    Case("wake.pml", "", (*_WRITES, "UNNAMED"), "wake-ups name nobody, and no pass waits for the index"),
    Case("wake.pml", "", (*_WRITES, "NO_SECOND_WAKE"), "a pass that lost its races wakes nobody"),
    Case("wake.pml", "", (*_POOL, "ANY_LAG"), "the index lags longer than the pass waits"),
    Case("wake.pml", "", (*_POOL, "EMPTY_HANDED"), "a pass that finds nobody listed waits for no index"),
)
