"""Whoever asks AWS from another machine lives in AWS's time."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from reservoir.adapters.system import AwsClock


def told(clock: AwsClock, ahead: timedelta) -> timedelta:
    """Let AWS answer with a time that is so far ahead of this machine's; return how far ahead the clock is then."""
    here = datetime.now(UTC)  # noqa: TID251 - what the clock is compared with
    clock.hear(format_datetime(here + ahead, usegmt=True))
    return clock.now() - here


def test_until_aws_answers_it_is_this_machines_time() -> None:
    here = datetime.now(UTC)  # noqa: TID251 - what the clock is compared with
    assert AwsClock().now() - here < timedelta(hours=1)


def test_it_is_aws_time_where_this_machines_clock_is_wrong() -> None:
    clock = AwsClock()
    for ahead in (timedelta(days=2), timedelta(days=-30), timedelta(0)):
        assert abs(told(clock, ahead) - ahead) < timedelta(hours=1)


def test_whole_seconds_do_not_move_a_clock_that_is_right() -> None:
    clock = AwsClock()
    told(clock, timedelta(days=1))
    before = clock.now()
    told(clock, timedelta(days=1, milliseconds=-900))
    assert clock.now() >= before
