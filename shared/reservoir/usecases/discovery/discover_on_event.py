"""Discovery of reservations when AWS reports a change: once, or once more, for all events of a moment."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from reservoir.core.capacity.discovery_turn import after_event, after_reading, is_taken
from reservoir.ports.discovery_turns import DiscoveryTurnStore
from reservoir.ports.state import ConflictError
from reservoir.ports.system import Clock
from reservoir.usecases.discovery.discover_reservations import (
    DiscoverReservations,
    Discovery,
)

# Another event may win the row. Its run sees what this one would have seen, so this run has mostly nothing left to do.
_TRIES: Final = 10
# While events keep coming in one reading follows the other; after so many the next event brings a new function.
_READINGS_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class DiscoverOnEvent:
    """Lets one of many events read for all. ``pause`` waits for so many seconds, less than one."""

    discovery: DiscoverReservations
    turns: DiscoveryTurnStore
    clock: Clock
    pause: Callable[[float], None]

    def run(self, event_at: datetime) -> Discovery | None:
        """Observe, unless another reading contains the event or will; None then.

        Raises AwsError as discovery does, ConflictError when the turn is fought over for too long, and
        UnreadableRowsError when it cannot be read.
        """
        began_at = self._take(event_at)
        if began_at is None:
            return None
        for _ in range(_READINGS_MAX):
            self.pause(max(0.0, (began_at - self.clock.now()).total_seconds()))
            try:
                found = self.discovery.run()
            except Exception:
                self._give_back(began_at, failed=True)
                raise
            next_at = self._give_back(began_at, failed=False)
            if next_at is None:
                break
            began_at = next_at
        return found

    def _take(self, event_at: datetime) -> datetime | None:
        """Return when this function's reading begins; None when it need not read."""
        for _ in range(_TRIES):
            stored = self.turns.read()
            turn = after_event(stored.turn, event_at, self.clock.now())
            if turn is None:
                return None
            try:
                self.turns.write(turn, expected_revision=stored.revision)
            except ConflictError:
                continue
            return turn.began_at if is_taken(turn, stored.turn) else None
        raise ConflictError(["discovery turn"])

    def _give_back(self, began_at: datetime, *, failed: bool) -> datetime | None:
        """End the reading that began then; return when the next one begins, None when none is asked for."""
        for _ in range(_TRIES):
            stored = self.turns.read()
            if stored.turn is None or stored.turn.began_at != began_at:
                return None  # the lock expired, and another run reads by now
            turn = after_reading(stored.turn, self.clock.now(), failed=failed)
            try:
                self.turns.write(turn, expected_revision=stored.revision)
            except ConflictError:
                continue
            return None if turn.busy_until is None else turn.began_at
        raise ConflictError(["discovery turn"])
