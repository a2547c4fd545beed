"""Known shortages of spot and on-demand offerings: how long to leave one alone after EC2 had nothing.

EC2 answers "insufficient" for a pool that is empty at this moment. Asking again at once creates and deletes NodeClaims
in a loop; never asking again wastes the cheap pool. So an offering rests for 3 minutes (Karpenter's figure, R-132); the
next launch after that is a probe, and each probe that fails doubles the rest. One batch probes at a time: others leave
the offering out or wait, so that EC2 is asked once per offering and not once per claim. A class that rested because its
instances end before they run is probed by one claim a minute, until an instance runs that was launched after that.

::

    failure --- rests --- until --- may be probed --- forgotten_at
                                      └ by one batch for PROBE_TIME: fails (rests twice as long) or launches (forgotten)
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.capacity.back_off import doubled

FIRST_REST: Final = timedelta(minutes=3)
LONGEST_REST: Final = timedelta(hours=1)
# The units of a reservation are paid for: a refusal counts until its next observation, a minute later at most.
# Only a reservation that goes on refusing what EC2 shows as free rests, longer each time.
_FIRST_RESERVED_REST: Final = timedelta(minutes=1)
_REFUSALS_TOLERATED: Final = 2
# The type is not sold in the zone at all: ask again when the catalogue is next discovered.
UNSUPPORTED_REST: Final = timedelta(hours=12)
_PROBE_WINDOW_RESTS: Final = 2
# A launch may take a quarter of an hour to fail (its deadline); a failure that long after a rest still follows from it.
_PROBE_WINDOW_MIN: Final = timedelta(minutes=20)
# A probe of an offering is one CreateFleet call: without a result for this long, it died with its function. A probe of
# a class is a claim; one is let through in each such time.
PROBE_TIME: Final = timedelta(minutes=1)
# A launch fails within seconds; an instance is interrupted, or ends before it ran, at any time after it.
_ENDING_REMEMBERED_FOR: Final = timedelta(hours=6)


@dataclass(frozen=True, slots=True)
class Shortage:
    """An offering rests until ``until``; ``failure_count`` failures in a row led to it.

    ``probe_batch_id`` is the launch batch, or the claim (of a class), that has been probing since ``probed_at``.
    ``tolerated``: the failure is remembered, and nothing rests for it yet.
    """

    until: datetime
    failure_count: int = 1
    probe_batch_id: str | None = None
    probed_at: datetime | None = None
    tolerated: bool = False


def rest_of(failure_count: int) -> timedelta:
    """Return how long an offering rests after ``failure_count`` failures in a row."""
    return doubled(FIRST_REST, failure_count, longest=LONGEST_REST)


def forgotten_at(shortage: Shortage) -> datetime:
    """Return when a failure stops counting as a failed probe and becomes a new shortage."""
    return shortage.until + max(
        _PROBE_WINDOW_MIN, rest_of(shortage.failure_count) * _PROBE_WINDOW_RESTS
    )


def after_failure(previous: Shortage | None, now: datetime) -> Shortage:
    """Return the shortage after EC2 had nothing at ``now``.

    A failure while the offering rests (a launch in progress, or the same answer applied twice) starts the same rest
    again without doubling it.
    """
    if previous is None or now > forgotten_at(previous):
        return Shortage(now + FIRST_REST)
    return _once_more(previous, now)


def after_ending(previous: Shortage | None, now: datetime) -> Shortage:
    """Return the shortage after an instance was interrupted at ``now``, or ended before it ran, although EC2 had it.

    It is remembered for longer than a failed launch, after which the next one is known within minutes.
    """
    if previous is None or now > ending_forgotten_at(previous):
        return Shortage(now + FIRST_REST)
    return _once_more(previous, now)


def ending_forgotten_at(shortage: Shortage) -> datetime:
    """Return when an ending stops counting towards the next rest."""
    return shortage.until + _ENDING_REMEMBERED_FOR


def _once_more(previous: Shortage, now: datetime) -> Shortage:
    count = previous.failure_count + (1 if now >= previous.until else 0)
    return Shortage(max(previous.until, now + rest_of(count)), count)


def after_tolerated_failure(previous: Shortage | None, now: datetime) -> Shortage:
    """Return the shortage after a failure at ``now`` that by itself means little.

    It is that of a reservation, which is observed again within a minute, or of a class whose instance ended for no
    known reason. Failures of one minute count once: they met the same observation.
    """
    if previous is None or now > forgotten_at(previous):
        return Shortage(now + _FIRST_RESERVED_REST, tolerated=True)
    if now < previous.until:
        return previous
    count = previous.failure_count + 1
    rest = doubled(
        _FIRST_RESERVED_REST, count - _REFUSALS_TOLERATED + 1, longest=LONGEST_REST
    )
    return Shortage(now + rest, count, tolerated=count <= _REFUSALS_TOLERATED)


def needs_probe(shortage: Shortage, now: datetime) -> bool:
    """Whether the next launch would be a probe."""
    return not shortage.tolerated and shortage.until <= now <= forgotten_at(shortage)


def is_probed_by_other(shortage: Shortage, batch_id: str, now: datetime) -> bool:
    """Whether another batch is already probing."""
    if shortage.probe_batch_id in (None, batch_id) or shortage.probed_at is None:
        return False
    return now < shortage.probed_at + PROBE_TIME


def probed(shortage: Shortage, batch_id: str, now: datetime) -> Shortage:
    """Return the shortage while the batch finds out."""
    return replace(shortage, probe_batch_id=batch_id, probed_at=now)
