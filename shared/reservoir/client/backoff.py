"""How long to wait before the next try."""

from collections.abc import Callable, Iterator
from typing import Final

FIRST_PAUSE_S: Final = 4.0
LONGEST_PAUSE_S: Final = 64.0


def pauses_s(jitter: Callable[[float, float], float]) -> Iterator[float]:
    """Yield pauses without end, each up to twice the one before; ``jitter`` picks between two bounds.

    At least half of each is waited, so that an answer that takes its time is not asked for twice.
    """
    pause_s = FIRST_PAUSE_S
    while True:
        yield jitter(pause_s / 2, pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
