"""How long reservations are known to have been as samples saw them.

A sample holds until the next one. Where the next is missing for longer than ``LONGEST_GAP``, nothing is known of the
time between. A reservation that the next sample lacks was there until then, and one with an end no longer than until
that.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.history.sample import ReservationSample, Sample

LONGEST_GAP: Final = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class Seen:
    """A reservation in a sample that was taken at ``at``; the next one was at ``until``."""

    at: datetime
    until: datetime
    what: ReservationSample
    known: bool

    @property
    def ends_at(self) -> datetime:
        """Until when it was there at most: until its end, if the next sample is later."""
        end_at = self.what.end_at
        return self.until if end_at is None else max(self.at, min(self.until, end_at))

    @property
    def seconds(self) -> int:
        """How long it is known to have been as it was seen."""
        return seconds_between(self.at, self.ends_at) if self.known else 0


def held(samples: Sequence[Sample], until: datetime) -> Iterator[tuple[Sample, int]]:
    """Yield each sample with how many seconds it held, 0 where that is not known."""
    ends = [*(sample.taken_at for sample in samples[1:]), until]
    for sample, end in zip(samples, ends, strict=False):
        gap = end - sample.taken_at
        yield sample, int(gap.total_seconds()) if timedelta() < gap <= LONGEST_GAP else 0


def seen_by_id(
    samples: Sequence[tuple[Sample, int]], until: datetime
) -> Mapping[str, Sequence[Seen]]:
    """Return how each reservation was seen, oldest first; the samples with how long they held."""
    found: dict[str, list[Seen]] = {}
    ends = [*(sample.taken_at for sample, _ in samples[1:]), until]
    for (sample, seconds), end in zip(samples, ends, strict=False):
        for it in sample.reservations:
            found.setdefault(it.id, []).append(Seen(sample.taken_at, end, it, seconds > 0))
    return found


def seconds_between(since: datetime, until: datetime) -> int:
    """Return the whole seconds between two instants, 0 where the second is not later."""
    return max(0, int((until - since).total_seconds()))
