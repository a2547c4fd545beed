"""What EC2 forbids for on-demand reservations, so that it is refused before EC2 is asked, with the rule.

The rules are those of the EC2 user guide, "Create", "Modify", "Move", "Split off" and "Cancel a Capacity Reservation".
"""

import re
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.model.capacity_reservation import ACTIVE, ReservationKind
from reservoir.core.purchasing.change import HeldReservation

COUNT_MAX: Final = 1000
SOONEST: Final = timedelta(days=5)
LATEST: Final = timedelta(days=120)
VCPUS_MIN: Final = 32
COMMITMENT_MIN: Final = timedelta(days=14)
COMMITMENT_MIN_LONG: Final = timedelta(weeks=12)
PUSHED_OUT_MAX: Final = timedelta(days=30)
LAST_PUSH_OUT: Final = timedelta(hours=1)
# Gr, Im, Inf, Is, Mac and Trn are series of their own.
_SERIES: Final = ("c", "g", "i", "m", "r", "t", "u", "x")
_SERIES_OF_LONG_COMMITMENT: Final = ("u", "x")
_SCHEDULED: Final = "scheduled"
_CANCELLABLE: Final = ("assessing", _SCHEDULED, ACTIVE, "delayed")


def count_refusal(count: int) -> str | None:
    """Return why no reservation of so many units is made."""
    if 1 <= count <= COUNT_MAX:
        return None
    return f"EC2 reserves 1 to {COUNT_MAX} instances at once, not {count}"


def end_refusal(
    end_at: datetime | None, now: datetime, commitment_end_at: datetime | None = None
) -> str | None:
    """Return why a reservation cannot end then."""
    if end_at is None:
        return None
    if end_at <= now:
        return "it would end before now"
    if commitment_end_at is not None and end_at < commitment_end_at:
        return f"it cannot end within its commitment, which lasts until {commitment_end_at:%F %H:%M} UTC"
    return None


def future_dated_refusals(
    instance_type: str,
    vcpus: int | None,
    count: int,
    lead: timedelta,
    commitment: timedelta,
    match_criteria: str,
) -> tuple[str, ...]:
    """Return why EC2 takes no such reservation ahead of its start; ``vcpus``: of one instance, None if not known."""
    found = []
    if not SOONEST <= lead <= LATEST:
        found.append("EC2 takes reservations 5 to 120 days ahead of their start")
    series = re.split(r"[\d-]", instance_type, maxsplit=1)[0]
    if series not in _SERIES:
        names = ", ".join(each.upper() for each in _SERIES)
        found.append(
            f"EC2 takes instance types of the series {names} ahead, not {instance_type}"
        )
    if vcpus is not None and vcpus * count < VCPUS_MIN:
        found.append(
            f"EC2 takes {VCPUS_MIN} vCPUs or more ahead, and these are {vcpus * count}"
        )
    minimum = (
        COMMITMENT_MIN_LONG if series in _SERIES_OF_LONG_COMMITMENT else COMMITMENT_MIN
    )
    if commitment < minimum:
        found.append(
            f"the commitment for {instance_type} is {minimum.days} days or more, not {commitment.days}"
        )
    if match_criteria != "targeted":
        found.append("what is reserved ahead has to be targeted, not open")
    return tuple(found)


def change_refusal(held: HeldReservation, account_id: str) -> str | None:
    """Return why nothing of a reservation can be changed by this account."""
    if held.owner_id != account_id:
        return f"{held.id} belongs to the account {held.owner_id}"
    if held.kind == ReservationKind.CAPACITY_BLOCK:
        return (
            f"{held.id} is a Capacity Block, which AWS does not let anyone change or cancel"
        )
    if held.kind != ReservationKind.DEFAULT:
        return f"{held.id} is interruptible: its owner changes it at its source"
    return None


def resize_refusals(held: HeldReservation, count: int, now: datetime) -> tuple[str, ...]:
    """Return why a reservation cannot have so many units."""
    found = [_busy(held)]
    if held.state != ACTIVE:
        found.append(f"{held.id} is {held.state}; EC2 resizes what is active")
    if count < 1:
        found.append("a reservation keeps one unit or more: cancel it instead")
    if count == held.total_count:
        found.append(f"{held.id} has {count} units already")
    if abs(count - held.total_count) > COUNT_MAX:
        found.append(f"EC2 changes a reservation by {COUNT_MAX} units at once at most")
    if held.is_committed(now) and count < held.committed_count:
        found.append(
            f"{held.committed_count} units of {held.id} are committed to until"
            f" {held.commitment_end_at:%F %H:%M} UTC"
        )
    return _reasons(found)


def split_refusals(held: HeldReservation, count: int, now: datetime) -> tuple[str, ...]:
    """Return why so many units cannot be split off."""
    found = [_busy(held), _not_to_take_from(held, now)]
    if not 1 <= count < held.total_count:
        found.append(f"{held.id} has {held.total_count} units, of which one has to stay")
    return _reasons([*found, _too_much_used(held, count, held.match_criteria == "open")])


def move_refusals(
    held: HeldReservation, into: HeldReservation, count: int, now: datetime
) -> tuple[str, ...]:
    """Return why so many units cannot move from one reservation into another."""
    found = [_busy(held), _not_to_take_from(held, now), _not_to_take_from(into, now)]
    if held.id == into.id:
        found.append("it is the same reservation")
    for name, own, other in (
        ("instance type", held.instance_type, into.instance_type),
        ("zone", held.zone, into.zone),
        ("platform", held.platform, into.platform),
        ("tenancy", held.tenancy, into.tenancy),
        ("placement group", held.placement_group_arn, into.placement_group_arn),
        ("end", held.end_at, into.end_at),
    ):
        if own != other:
            found.append(f"both need the same {name}")
    if not 1 <= count <= held.total_count:
        found.append(f"{held.id} has {held.total_count} units")
    both_open = held.match_criteria == into.match_criteria == "open"
    return _reasons([*found, _too_much_used(held, count, both_open)])


def cancel_refusals(held: HeldReservation, now: datetime) -> tuple[str, ...]:
    """Return why a reservation cannot be cancelled, with a quote or without."""
    found = [_busy(held)]
    if held.state not in _CANCELLABLE:
        found.append(f"{held.id} is {held.state}; EC2 cancels {', '.join(_CANCELLABLE)}")
    if held.is_committed(now) and held.used_count:
        found.append(
            f"{held.used_count} instances run in {held.id}; within its commitment EC2 cancels it only when it is empty"
        )
    return _reasons(found)


def push_out_refusals(
    held: HeldReservation, new_start_at: datetime, now: datetime
) -> tuple[str, ...]:
    """Return why the start of a reservation cannot be put off until then."""
    found = [_busy(held)]
    if held.state != _SCHEDULED or held.start_at is None:
        found.append(f"{held.id} is {held.state}; EC2 puts off what is scheduled")
        return _reasons(found)
    if held.start_at - now < LAST_PUSH_OUT:
        found.append("EC2 puts nothing off in the last hour before its start")
    if new_start_at <= held.start_at:
        found.append(f"{held.id} starts at {held.start_at:%F %H:%M} UTC, not before")
    first = held.original_start_at or held.start_at
    if new_start_at - first > PUSHED_OUT_MAX:
        found.append(
            f"EC2 puts a start off by {PUSHED_OUT_MAX.days} days in all, until {first + PUSHED_OUT_MAX:%F %H:%M} UTC"
        )
    return _reasons(found)


def _busy(held: HeldReservation) -> str | None:
    if held.adjustment_status != "requested":
        return None
    return f"EC2 still looks at a change of {held.id} that was asked for"


def _not_to_take_from(held: HeldReservation, now: datetime) -> str | None:
    if held.state != ACTIVE:
        return f"{held.id} is {held.state}; EC2 moves units of what is active"
    if held.is_committed(now):
        return f"{held.id} is committed to until {held.commitment_end_at:%F %H:%M} UTC; until then its units stay"
    return None


def _too_much_used(held: HeldReservation, count: int, may_move: bool) -> str | None:
    """Return why so many units cannot leave; which used ones may go, EC2 knows alone."""
    free_count = max(0, held.total_count - held.used_count)
    if count <= free_count or may_move:
        return None
    return f"{free_count} units of {held.id} are free; used ones move between open reservations only"


def _reasons(found: list[str | None]) -> tuple[str, ...]:
    return tuple(each for each in found if each is not None)
