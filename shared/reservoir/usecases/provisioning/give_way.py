"""When a pass ends before its time is used up, because others wait for the next one.

Whoever is new while a pass runs waits for the rest of it. One team whose work uses up each pass would so delay every
other team's. So a pass that has had a tenth of its time ends once wake-ups wait. What it had no time for waits for the
next pass. Work that needs more than a tenth has a pass with all of the time now and then, however often others ask.
"""

from collections.abc import Callable
from typing import Final

_AFTER_PERCENT: Final = 10
_ASKS_EVERY_PERCENT: Final = 5
# ten seconds in so many are less than one in a hundred
_WHOLE_PASS_EVERY_S: Final = 1_200


class GivingWay:
    """Cuts passes short, but for one in twenty minutes."""

    def __init__(
        self, is_awaited: Callable[[], bool], monotonic_s: Callable[[], float]
    ) -> None:
        self._is_awaited = is_awaited
        self._monotonic_s = monotonic_s
        self._whole_at_s: float | None = None  # when a pass last went on for more

    def of_a_pass(self, used_percent: Callable[[], int]) -> Callable[[], int]:
        """Return how much of its time a pass has used; all of it, and more, from the moment that it gives way on."""
        began_s = self._monotonic_s()
        whole_at_s = self._whole_at_s
        is_whole = whole_at_s is None or began_s - whole_at_s >= _WHOLE_PASS_EVERY_S
        asks_at_percent = _AFTER_PERCENT
        lost_percent = 0

        def used() -> int:
            nonlocal asks_at_percent, lost_percent
            percent = used_percent()
            if not lost_percent and percent >= asks_at_percent:
                asks_at_percent = percent + _ASKS_EVERY_PERCENT
                if is_whole:
                    self._whole_at_s = began_s
                elif self._is_awaited():
                    lost_percent = max(0, 100 - percent)
            return percent + lost_percent

        return used
