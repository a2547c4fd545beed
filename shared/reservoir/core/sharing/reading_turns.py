"""Which of the workloads that wait a pass reads, where they are more than it has room for.

Each team has its part of that room, in bytes, and what one leaves the others have. A pass goes on where the one before
stopped, so that all that waits is looked at in turn. Workloads that were just written are named and come first.
"""

import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import heapify, heappop, heapreplace
from typing import Final

# A process that has read nothing yet begins at another place each minute: a step that no count of keys divides.
_STEP: Final = 104_729


@dataclass(frozen=True, slots=True)
class ReadingBound:
    """What a pass reads at most. It may go beyond the bytes by what one page holds."""

    rows: int = 20_000
    stored_bytes: int = 64 * 2**20
    page_rows: int = 800


# A function that only counts waiting workloads has less memory than a planner, and holds nothing else of it.
COUNTED_AT_ONCE: Final = ReadingBound(stored_bytes=32 * 2**20, page_rows=400)

# for people, and for callers that must leave none out
WHOLE: Final = ReadingBound(rows=sys.maxsize, stored_bytes=sys.maxsize)


class DemandReading:
    """One pass's way through what waits, page by page."""

    def __init__(
        self, keys: Mapping[str, Sequence[str]], named: Sequence[str], bound: ReadingBound
    ) -> None:
        """``keys`` by team, each in the order in which they are read; ``named`` are read first."""
        self._keys = keys
        self._bound = bound
        self._named = list(named)
        self._team_of: dict[str, str] = {}
        for team, some in keys.items():
            self._team_of.update(dict.fromkeys(some, team))
        self._is_named = frozenset(named)
        self._taken: Counter[str] = Counter()  # of the keys of each team
        self._read: Counter[str] = Counter()  # rows of each team
        self._bytes: Counter[str] = Counter()
        self._read_count = 0
        self._read_bytes = 0

    def next_page(self) -> list[str]:
        """Return keys to read next; none: there is no more, or no more room."""
        room = min(self._bound.page_rows, self._bound.rows - self._read_count)
        if room <= 0 or self._read_bytes >= self._bound.stored_bytes:
            return []
        page, self._named = self._named[:room], self._named[room:]
        page += self._shared_out(room - len(page))
        self._read_count += len(page)
        return page

    def took(self, stored_bytes: Mapping[str, int]) -> None:
        """Record how large the rows of a page are; a row that is gone since it was listed has no size."""
        for key, size in stored_bytes.items():
            team = self._team_of[key]
            self._read[team] += 1
            self._bytes[team] += size
            self._read_bytes += size

    @property
    def unread_count(self) -> int:
        """How many workloads there was no room for."""
        return len(self._team_of) - self._read_count

    def unread(self) -> list[str]:
        """Return the keys that there was no room for, by team."""
        left: list[str] = []
        for team, some in self._keys.items():
            left += [key for key in some[self._taken[team] :] if key not in self._is_named]
        return left + self._named

    def reached(self) -> Mapping[str, str]:
        """Return the last key that was read of each team that was not read to its end."""
        return {
            team: some[self._taken[team] - 1]
            for team, some in self._keys.items()
            if 0 < self._taken[team] < len(some)
        }

    def _shared_out(self, room: int) -> list[str]:
        """Return the next keys: always of the team that has read the fewest bytes, as far as its rows show."""
        turns = [
            (self._bytes[team], team)
            for team, some in self._keys.items()
            if self._taken[team] < len(some)
        ]
        heapify(turns)
        page: list[str] = []
        while turns and len(page) < room:
            spent, team = turns[0]
            key = self._next_key(team)
            if key is None:
                heappop(turns)
                continue
            page.append(key)
            heapreplace(turns, (spent + self._row_bytes(team), team))
        return page

    def _next_key(self, team: str) -> str | None:
        keys = self._keys[team]
        while self._taken[team] < len(keys):
            key = keys[self._taken[team]]
            self._taken[team] += 1
            if key not in self._is_named:
                return key
        return None

    def _row_bytes(self, team: str) -> int:
        """Return what a row of a team has had until now; as long as none is known, rows count as rows."""
        return max(1, self._bytes[team] // max(1, self._read[team]))


class ReadingTurns:
    """Where the reading of each team goes on. One instance a process; another process begins by the clock."""

    def __init__(self, bound: ReadingBound | None = None) -> None:
        self._bound = bound or ReadingBound()
        self._minute = 0
        self._after: Mapping[str, str] = {}
        self._reading: DemandReading | None = None

    def begin(self, now: datetime) -> None:
        """Begin a pass: it reads, however often, from where the pass before stopped."""
        self._minute = int(now.timestamp()) // 60
        if self._reading is not None:
            self._after = self._reading.reached()

    def unread(self) -> list[str]:
        """Return the keys that the last reading had no room for."""
        return [] if self._reading is None else self._reading.unread()

    @property
    def unread_count(self) -> int:
        """How many workloads the last reading had no room for."""
        return 0 if self._reading is None else self._reading.unread_count

    def reading(
        self,
        keys: Collection[str],
        named: Collection[str],
        team_of: Callable[[], Callable[[str], str]],
    ) -> DemandReading:
        """Return how these keys are read. ``team_of`` is asked for where not all of them are one page."""
        found: dict[str, list[str]] = {}
        if len(keys) <= self._bound.page_rows:
            found[""] = sorted(keys)
        else:
            whose = team_of()
            for key in sorted(keys):
                found.setdefault(whose(key.partition("/")[0]), []).append(key)
        in_turn = {team: self._in_turn(team, some) for team, some in found.items()}
        first = sorted(set(named).intersection(keys))
        self._reading = DemandReading(in_turn, first, self._bound)
        return self._reading

    def _in_turn(self, team: str, keys: Sequence[str]) -> Sequence[str]:
        """Return sorted keys from where their turn has come to."""
        if team in self._after:
            start = bisect_right(keys, self._after[team])
        else:
            start = self._minute * _STEP % max(1, len(keys))
        return [*keys[start:], *keys[:start]]
