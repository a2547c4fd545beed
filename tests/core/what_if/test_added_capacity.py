"""The grammar of ``--with``."""

from datetime import UTC, datetime

import pytest

from reservoir.core.what_if.added_capacity import (
    AddedCapacity,
    EditError,
    parse_added_capacity,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 3, day, hour, minute, tzinfo=UTC)


def test_a_reservation_from_now_on() -> None:
    assert parse_added_capacity("2 m5.large in us-east-1a", NOON) == AddedCapacity(
        2, "m5.large", "us-east-1a"
    )


def test_one_class_alone_may_use_it() -> None:
    assert (
        parse_added_capacity("2 m5.large in use1-az1 for gpu", NOON).node_class_name
        == "gpu"
    )


@pytest.mark.parametrize(
    ("text", "start_at", "end_at"),
    [
        ("from 14:00 to 20:00", at(1, 14), at(1, 20)),  # to come
        ("from 9:30 to 20:00", at(1, 9, 30), at(1, 20)),  # has begun
        ("from 06:00 to 11:00", at(2, 6), at(2, 11)),  # over for today
        ("from 22:00 to 04:00", at(1, 22), at(2, 4)),  # over midnight
        # a whole day, which ends next
        ("from 14:00 to 14:00", datetime(2026, 2, 28, 14, tzinfo=UTC), at(1, 14)),
        ("from 14:00", at(1, 14), None),
        ("from 11:00", at(2, 11), None),
        ("to 20:00", None, at(1, 20)),
        ("from 2026-03-05T14:00Z to 2026-03-06T02:00+01:00", at(5, 14), at(6, 1)),
    ],
)
def test_times(text: str, start_at: datetime | None, end_at: datetime | None) -> None:
    found = parse_added_capacity(f"4 p5.48xlarge in us-east-1b {text}", NOON)
    assert (found.start_at, found.end_at) == (start_at, end_at)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("p5.48xlarge in us-east-1b", "is not of the form COUNT TYPE in ZONE [from TIME]"),
        (
            "four p5.48xlarge in us-east-1b",
            "'four' in 'four p5.48xlarge in us-east-1b' is not a count",
        ),
        (
            "0 p5.48xlarge in us-east-1b",
            "'0' in '0 p5.48xlarge in us-east-1b' is not a count from 1 to 100000",
        ),
        (
            "4 p5.48xlarge in us-east-1b from 25:00",
            "'25:00' in '4 p5.48xlarge in us-east-1b from 25:00' is no time",
        ),
        (
            "4 p5.48xlarge in us-east-1b from 2026-03-05T14:00",
            "is no time: write 14:00 (UTC), or an instant such as",
        ),
        (
            "4 p5.48xlarge in us-east-1b to 2026-02-01T00:00Z",
            "is over: it ended at 2026-02-01T00:00Z",
        ),
        (
            "4 p5.48xlarge in us-east-1b from 2026-03-05T14:00Z to 2026-03-05T13:00Z",
            "ends before it begins",
        ),
        ("4 p5.48xlarge in us-east-1b until 20:00", "is not of the form"),
        ("4 p5.48xlarge in " + "a" * 400, "is not of the form"),
    ],
)
def test_what_is_refused_says_why(text: str, told: str) -> None:
    with pytest.raises(EditError) as error:
        parse_added_capacity(text, NOON)
    assert told in str(error.value)
