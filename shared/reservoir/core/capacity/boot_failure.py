"""Units of a Capacity Block that are suspected to be broken.

A block's units are certain machines, and EC2 does not say which one a launch gets. While the other units are in use,
every launch goes to the same one, so a machine that does not boot fails one node after the other, a quarter of an hour
each. One failure has many possible causes (an image, a network, bad luck). A failure is a repeat if its node was
launched soon after an earlier failure had been seen in the same block: as many units as failed in that round then rest
for a while, and are tried again. Units that are left idle in error cost at most that while; they are paid for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.capacity.back_off import doubled
from reservoir.core.model.capacity_reservation import CapacityReservation

FIRST_REST: Final = timedelta(hours=1)
LONGEST_REST: Final = timedelta(hours=12)
# A failure this long after the unit could have been used again is a new story. Much longer than a launch may take to
# fail (15 minutes), because demand for the unit may come late.
_REMEMBERED_FOR: Final = timedelta(hours=6)


@dataclass(frozen=True, slots=True)
class BootFailures:
    """The boot failures of one block: rounds in a row that failed, and the last of them.

    Failures of nodes that were launched before the first of a round was seen belong to that round: they are failures of
    different units.
    """

    round_count: int
    claim_ids: tuple[str, ...]  # that failed in the last round, sorted
    seen_at: datetime  # the first failure of the last round
    until: datetime  # the units are left alone until then

    def suspected_count(self, now: datetime) -> int:
        """Return how many units are left alone at ``now``."""
        return len(self.claim_ids) if self.round_count > 1 and now < self.until else 0


def after_boot_failure(
    previous: BootFailures | None, claim_id: str, launched_at: datetime, now: datetime
) -> BootFailures:
    """Return the failures of a block after a node, launched at ``launched_at``, has failed; repeats change nothing."""
    if previous is None or now > forgotten_at(previous):
        return BootFailures(1, (claim_id,), now, now)
    if claim_id in previous.claim_ids:
        return previous
    if now < previous.until:  # units rest already, so this is another one
        rest = _rest(previous.round_count - 1)
        claim_ids = tuple(sorted({*previous.claim_ids, claim_id}))
        return replace(previous, claim_ids=claim_ids, until=max(previous.until, now + rest))
    if launched_at < previous.seen_at:
        return replace(previous, claim_ids=tuple(sorted({*previous.claim_ids, claim_id})))
    return BootFailures(
        previous.round_count + 1, (claim_id,), now, now + _rest(previous.round_count)
    )


def _rest(round_count: int) -> timedelta:
    """Return how long units rest once one more round has failed after so many."""
    return doubled(FIRST_REST, round_count, longest=LONGEST_REST)


def forgotten_at(failures: BootFailures) -> datetime:
    """Return when a failure no longer counts as following from earlier ones."""
    return failures.until + _REMEMBERED_FOR


def without_suspected(
    reservations: Iterable[CapacityReservation],
    failures: Mapping[str, BootFailures],
    now: datetime,
) -> tuple[CapacityReservation, ...]:
    """Return the reservations with that many fewer free units."""
    return tuple(
        replace(
            reservation,
            free_units=max(
                0, reservation.free_units - failures[reservation.id].suspected_count(now)
            ),
        )
        if reservation.id in failures
        else reservation
        for reservation in reservations
    )
