"""What goes on where a reservation ends, and for how long nothing does."""

from dataclasses import replace
from datetime import timedelta

from lab.fakes.system import START
from lab.fakes.values import observed_block
from reservoir.core.capacity.lineage import SUCCEEDS_TAG, gap, successors
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
