"""How long to wait before what could not be reached is tried again."""

from typing import Final

FIRST_RETRY_S: Final = 5.0
LONGEST_RETRY_S: Final = 60.0


class Retries:
    """Waits longer after each failure in a row: twice as long each time, at most ``LONGEST_RETRY_S``."""

    def __init__(self) -> None:
        self._next_s = FIRST_RETRY_S

    def failed(self) -> float:
        """Return how long to wait now, in seconds."""
        pause_s = self._next_s
        self._next_s = min(2 * pause_s, LONGEST_RETRY_S)
        return pause_s

    def succeeded(self) -> None:
        """Let the next failure be a first one."""
        self._next_s = FIRST_RETRY_S
