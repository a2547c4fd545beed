"""Known shortages of spot and on-demand offerings: how long to leave one alone after EC2 had nothing.

EC2 answers "insufficient" for a pool that is empty at this moment. Asking again at once creates and deletes NodeClaims
in a loop; never asking again wastes the cheap pool. So an offering rests for 3 minutes (Karpenter's figure, R-132);
the next launch after that is a probe, and each probe that fails doubles the rest.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

FIRST_REST: Final = timedelta(minutes=3)
LONGEST_REST: Final = timedelta(hours=1)
# The type is not sold in the zone at all: ask again when the catalogue is next discovered.
UNSUPPORTED_REST: Final = timedelta(hours=12)
_PROBE_WINDOW_RESTS: Final = 2


@dataclass(frozen=True, slots=True)
class Shortage:
    """An offering rests until ``until``; ``failure_count`` failures in a row led to it."""

    until: datetime
    failure_count: int = 1


def rest_of(failure_count: int) -> timedelta:
    """Return how long an offering rests after ``failure_count`` failures in a row."""
    return min(LONGEST_REST, FIRST_REST * (1 << min(failure_count - 1, 10)))


def forgotten_at(shortage: Shortage) -> datetime:
    """Return from when on a failure is no failed probe any more but a new shortage."""
    return shortage.until + rest_of(shortage.failure_count) * _PROBE_WINDOW_RESTS


def after_failure(previous: Shortage | None, now: datetime) -> Shortage:
    """Return the shortage after EC2 had nothing at ``now``.

    A failure while the offering rests (a launch that was under way, or the same answer applied twice) starts the same
    rest again without doubling it.
    """
    if previous is None or now > forgotten_at(previous):
        return Shortage(now + FIRST_REST)
    count = previous.failure_count + (1 if now >= previous.until else 0)
    return Shortage(max(previous.until, now + rest_of(count)), count)
