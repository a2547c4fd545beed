"""What goes on where a reservation ends, and for how long nothing does."""

import random
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest

from lab.fakes.system import START
from lab.fakes.values import observed_block
from reservoir.core.capacity.lineage import (
    SUCCEEDS_TAG,
    due_notice,
    gap,
    notice_key,
    successors,
)
from reservoir.core.model.capacity_reservation import ObservedReservation, ReservationKind

DAY = timedelta(days=1)
ENDING = observed_block(
    "cr-1", 2, start_at=START, end_at=START + 7 * DAY, tags={"team": "training"}
)
NEXT = replace(
    ENDING, id="cr-2", state="scheduled", start_at=START + 9 * DAY, end_at=START + 14 * DAY
)


def following(*others: ObservedReservation) -> str | None:
    found = successors([ENDING, *others]).get("cr-1")
    return None if found is None else found.id


def test_what_the_same_tags_find_goes_on() -> None:
    assert following(NEXT) == "cr-2"
    assert gap(ENDING, NEXT) == 2 * DAY
    assert gap(ENDING, replace(NEXT, start_at=START)) == timedelta()
    assert gap(ENDING, None) is None


def test_what_is_of_another_kind_type_or_tag_or_too_late_does_not() -> None:
    assert following() is None
    assert following(replace(NEXT, tags={"team": "web"})) is None
    assert following(replace(NEXT, instance_type="p5en.48xlarge")) is None
    assert following(replace(NEXT, kind=ReservationKind.DEFAULT)) is None
    assert following(replace(NEXT, state="cancelled")) is None
    assert (
        following(replace(NEXT, start_at=START + 22 * DAY, end_at=START + 30 * DAY)) is None
    )
    assert following(replace(NEXT, start_at=START, end_at=START + 6 * DAY)) is None


def test_the_first_to_begin_goes_on_unless_one_is_named() -> None:
    later = replace(NEXT, id="cr-0", start_at=START + 10 * DAY)
    assert following(later, NEXT) == "cr-2"
    named = replace(
        later, id="cr-3", instance_type="p5en.48xlarge", tags={SUCCEEDS_TAG: "cr-1"}
    )
    assert following(NEXT, named) == "cr-3"


def test_what_has_no_tags_of_its_owner_is_like_nothing() -> None:
    bare = {"aws:ec2capacityreservation:incrementalRequestedQuantity": "2"}
    assert successors([replace(ENDING, tags=bare), replace(NEXT, tags=bare)]) == {}


@dataclass
class Told:
    """What was told of one reservation: when, which notice, and of which end."""

    notices: list[tuple[datetime, int, datetime]] = field(default_factory=list)
    said: str | None = None

    def look(self, shown: ObservedReservation, now: datetime) -> None:
        """Look as discovery does in each pass, and remember what was told."""
        days = due_notice(shown, self.said, now)
        if days is not None and shown.end_at is not None:
            self.notices.append((now, days, shown.end_at))
            self.said = notice_key(shown, days)


def calendar_of(chance: random.Random) -> list[tuple[datetime, ObservedReservation]]:
    """Return how one reservation is seen in passes some hours apart: known early or late, moved, cancelled."""
    end_at: datetime | None = START + chance.uniform(0.1, 40) * DAY
    state = chance.choice(["active", "scheduled"])
    at = START + chance.uniform(0, 30) * DAY
    seen = []
    while at < START + 45 * DAY:
        if chance.random() < 0.03:
            moved = at + chance.uniform(0.01, 30) * DAY
            end_at = chance.choice([moved, None])
        if end_at is not None and end_at <= at:
            state = "expired"
        elif chance.random() < 0.005:
            state = "cancelled"
        seen.append((at, replace(ENDING, end_at=end_at, state=state)))
        at += chance.uniform(0.01, 0.5) * DAY
    return seen


@pytest.mark.parametrize("first", range(0, 1_000, 250))
def test_every_end_is_told_a_week_ahead_or_as_soon_as_it_is_known(first: int) -> None:
    for seed in range(first, first + 250):
        seen = calendar_of(random.Random(seed))  # noqa: S311 - a test
        told = Told()
        for at, shown in seen:
            told.look(shown, at)
            end_at = shown.end_at
            is_to_come = end_at is not None and end_at > at
            if end_at is not None and is_to_come and shown.state in {"active", "scheduled"}:
                left = end_at - at
                of_this_end = {days for _, days, end in told.notices if end == end_at}
                if left <= 7 * DAY:
                    assert of_this_end & {7, 1}, (seed, at)
                if left <= DAY:
                    assert 1 in of_this_end, (seed, at)
        assert all(end - at <= days * DAY for at, days, end in told.notices), seed
        repeated = [
            now
            for now, before in zip(told.notices[1:], told.notices, strict=False)
            if now[1:] == before[1:]
        ]
        assert not repeated, seed
