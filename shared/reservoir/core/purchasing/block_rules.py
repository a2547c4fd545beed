"""EC2's rules for Capacity Blocks: an order that EC2 would refuse is refused before EC2 is asked, with the rule."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.model.capacity_reservation import (
    ACTIVE,
    ENDED_STATES,
    ObservedReservation,
    ReservationKind,
)

COUNTS: Final = (1, 2, 4, 8, 16, 32, 64)
_DAILY_UP_TO_DAYS: Final = 14
_WEEK_DAYS: Final = 7
LONGEST_DAYS: Final = 182
INSTANCES_AT_ONCE_MAX: Final = 256
PLATFORMS: Final = (
    "Linux/UNIX",
    "Red Hat Enterprise Linux",
    "RHEL with HA",
    "SUSE Linux",
    "Ubuntu Pro",
)
# When an extension can be bought, before the end of the block.
EXTENDED_FROM: Final = timedelta(days=57)
EXTENDED_UNTIL: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)


def duration_refusal(days: int) -> str | None:
    """Return why nothing is sold for so many days."""
    is_daily = 1 <= days <= _DAILY_UP_TO_DAYS
    is_weekly = _DAILY_UP_TO_DAYS < days <= LONGEST_DAYS and days % _WEEK_DAYS == 0
    if is_daily or is_weekly:
        return None
    return f"EC2 sells 1 to {_DAILY_UP_TO_DAYS} days, and whole weeks up to {LONGEST_DAYS} days, not {days}"


def count_refusal(count: int) -> str | None:
    """Return why no block of so many instances is sold."""
    if count in COUNTS:
        return None
    return f"EC2 sells blocks of {', '.join(map(str, COUNTS[:-1]))} or {COUNTS[-1]} instances, not of {count}"


def sold_count(count: int) -> int | None:
    """Return the smallest block of so many instances or more; None: no block is that large."""
    return next((each for each in COUNTS if each >= count), None)


def sold_days(length: timedelta) -> int | None:
    """Return the fewest days that are sold and last that long; None: no block does."""
    wanted = max(1, -(-length // _DAY))
    days = wanted if wanted <= _DAILY_UP_TO_DAYS else -(-wanted // _WEEK_DAYS) * _WEEK_DAYS
    return days if days <= LONGEST_DAYS else None


def platform_refusal(platform: str) -> str | None:
    """Return why no block is sold for an operating system."""
    if platform in PLATFORMS:
        return None
    return f"EC2 sells blocks for {', '.join(PLATFORMS)}, not for {platform}"


def quota_refusal(
    count: int,
    start_at: datetime,
    end_at: datetime,
    reservations: Iterable[ObservedReservation],
) -> str | None:
    """Return why so many more instances are too many at once, of one's own blocks that are known."""
    others = [each for each in reservations if _is_block_within(each, start_at, end_at)]
    # What overlaps is most at the window's start, or where one of the others starts.
    instants = [start_at]
    for other in others:
        if other.start_at is not None and other.start_at > start_at:
            instants.append(other.start_at)
    most = 0
    for instant in instants:
        most = max(most, sum(other.size for other in others if _covers(other, instant)))
    if most + count <= INSTANCES_AT_ONCE_MAX:
        return None
    return (
        f"EC2 sells {INSTANCES_AT_ONCE_MAX} instances at once over all Capacity Blocks, and {most} are bought of that"
        " time"
    )


def extension_refusal(block: ObservedReservation, days: int, now: datetime) -> str | None:
    """Return why a block cannot be had for so much longer."""
    if (
        block.kind is not ReservationKind.CAPACITY_BLOCK
        or block.end_at is None
        or block.start_at is None
    ):
        return f"{block.id} is no Capacity Block; on-demand reservations need no extension"
    if block.state not in (ACTIVE, "scheduled"):
        return f"{block.id} is {block.state}; EC2 extends what is active or scheduled"
    if not EXTENDED_UNTIL <= block.end_at - now <= EXTENDED_FROM:
        ends = f"{block.id} ends {block.end_at:%F %H:%M}"
        return f"EC2 extends a block from 57 days to an hour before its end, and {ends}"
    if block.end_at + timedelta(days=days) - block.start_at > timedelta(
        days=LONGEST_DAYS + 1
    ):
        return f"a block lasts at most {LONGEST_DAYS} days, extensions included"
    return duration_refusal(days)


def _is_block_within(
    reservation: ObservedReservation, start_at: datetime, end_at: datetime
) -> bool:
    return (
        reservation.kind is ReservationKind.CAPACITY_BLOCK
        and reservation.state not in ENDED_STATES
        and (reservation.start_at is None or reservation.start_at < end_at)
        and (reservation.end_at is None or reservation.end_at > start_at)
    )


def _covers(reservation: ObservedReservation, at: datetime) -> bool:
    return (reservation.start_at is None or reservation.start_at <= at) and (
        reservation.end_at is None or at < reservation.end_at
    )
