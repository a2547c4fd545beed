from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reservoir.core.model.node_pool import Budget, DisruptionReason
from reservoir.core.model.schedule import (
    UNLIMITED,
    Allowance,
    CronSchedule,
    ScheduleError,
    allowed_disruptions,
    budget_nodes,
    is_active,
)

NOW = datetime(2000, 6, 15, 12, 30, 30, tzinfo=UTC)  # a Thursday
DAY = timedelta(days=1)
EPOCH = datetime(1990, 1, 1, tzinfo=UTC)


def allowed(
    *budgets: Budget, reason: DisruptionReason = DisruptionReason.EMPTY, nodes: int = 100
) -> Allowance:
    return allowed_disruptions(
        budgets, reason, node_count=nodes, unavailable_count=0, now=NOW
    )


def window(schedule: str, hours: int, nodes: str = "0", time_zone: str = "UTC") -> Budget:
    return Budget(
        nodes=nodes, schedule=schedule, duration_s=hours * 3600, time_zone=time_zone
    )


@pytest.mark.parametrize(
    ("nodes", "count", "result"),
    [
        ("30%", 10, 3),
        ("5%", 10, 1),
        ("10%", 0, 0),
        ("100%", 7, 7),
        ("0%", 7, 0),
        ("5", 3, 5),
        ("0", 3, 0),
    ],
)
def test_percentages_round_up(nodes: str, count: int, result: int) -> None:  # S-124
    assert budget_nodes(nodes, count) == result


@pytest.mark.parametrize("nodes", ["", "-1", "101%", "10 %", "1.5", "%", "ten", "5\n"])
def test_what_is_neither_a_count_nor_a_percentage(nodes: str) -> None:
    with pytest.raises(ScheduleError):
        budget_nodes(nodes, 10)


def test_only_inactive_budgets_do_not_limit() -> None:  # S-124
    assert allowed(window("0 0 1 1 *", 1)) == Allowance(UNLIMITED)
    assert allowed() == Allowance(UNLIMITED)


def test_an_invalid_schedule_allows_nothing_and_says_why() -> None:  # S-124
    result = allowed(
        Budget(nodes="5", schedule="@wrongly", duration_s=60), Budget(nodes="50")
    )
    assert result.nodes == 0
    assert len(result.errors) == 1


def test_the_most_restrictive_active_budget_counts() -> None:
    assert allowed(Budget("10%"), Budget("5"), window("@yearly", 1)).nodes == 5
    assert allowed(Budget("10%"), window("@daily", 24)).nodes == 0


def test_budgets_of_other_reasons_do_not_count() -> None:
    budgets = (Budget("10"), Budget("3", frozenset({DisruptionReason.DRIFTED})))
    assert allowed(*budgets, reason=DisruptionReason.DRIFTED).nodes == 3
    assert allowed(*budgets, reason=DisruptionReason.EMPTY).nodes == 10


def test_nodes_that_are_going_use_the_budget_up() -> None:
    def left(unavailable: int) -> int:
        return allowed_disruptions(
            (Budget("5"),),
            DisruptionReason.EMPTY,
            node_count=100,
            unavailable_count=unavailable,
            now=NOW,
        ).nodes

    assert (left(2), left(5), left(9)) == (3, 0, 0)


@pytest.mark.parametrize(
    ("schedule", "minutes", "active"),
    [
        ("30 12 * * *", 1, True),
        ("31 12 * * *", 60, False),
        ("29 12 * * *", 1, False),  # ended 12:30:00
        ("29 12 * * *", 2, True),
        ("@daily", 12 * 60 + 30, False),
        ("@daily", 12 * 60 + 31, True),
        ("0 0 * * THU", 13 * 60, True),
        ("0 0 * * 4", 13 * 60, True),
        ("0 0 * * FRI", 13 * 60, False),
        ("0 0 15 * FRI", 13 * 60, True),  # either day
        ("0 0 16 * THU", 13 * 60, True),
        ("0 0 16 * FRI", 13 * 60, False),
        ("0 12 ? JUN-AUG ?", 60, True),
        ("*/15 * * * *", 1, True),
        ("*/20 * * * *", 1, False),
        ("0 9-17/4,12 * * 1-5", 60, True),
        ("0 0 29 2 *", 24 * 60 * 200, True),  # the leap day of 2000
        ("0 0 29 2 7", 1, False),
    ],
)
def test_windows(schedule: str, minutes: int, active: bool) -> None:
    budget = Budget(nodes="0", schedule=schedule, duration_s=minutes * 60)
    assert is_active(budget, NOW) is active


def test_a_window_opens_at_its_start_and_closes_at_its_end() -> None:
    budget = window("0 12 * * *", 1)
    start = datetime(2000, 6, 15, 12, tzinfo=UTC)
    assert not is_active(budget, start - timedelta(seconds=1))
    assert is_active(budget, start)
    assert is_active(budget, start + timedelta(seconds=3599))
    assert not is_active(budget, start + timedelta(hours=1))


def test_a_schedule_follows_its_time_zone() -> None:
    budget = window(
        "0 9 * * *", 8, time_zone="America/New_York"
    )  # 13:00 to 21:00 UTC in June, 14:00 to 22:00 in winter
    assert not is_active(budget, NOW)
    assert is_active(budget, NOW.replace(hour=13))
    assert not is_active(budget, datetime(2000, 1, 15, 13, 30, tzinfo=UTC))


def test_a_start_that_daylight_saving_skips_happens_after_the_jump() -> None:
    schedule = CronSchedule.parse("30 2 * * *", "America/New_York")
    # 2 a.m. became 3 a.m. on 2 April 2000
    assert schedule.latest_start(datetime(2000, 4, 2, 12, tzinfo=UTC), EPOCH) == datetime(
        2000, 4, 2, 7, 30, tzinfo=UTC
    )


def test_a_start_that_daylight_saving_repeats_happens_once() -> None:
    schedule = CronSchedule.parse("30 1 * * *", "America/New_York")
    # 2 a.m. became 1 a.m. on 29 October 2000, so 1:30 came at 5:30 and at 6:30 UTC
    first = datetime(2000, 10, 29, 5, 30, tzinfo=UTC)
    assert schedule.latest_start(first + timedelta(minutes=90), EPOCH) == first


def test_a_day_that_a_zone_left_out_has_no_start() -> None:
    # Samoa had no 30 December 2011
    schedule = CronSchedule.parse("0 0 30 12 *", "Pacific/Apia")
    start = schedule.latest_start(
        datetime(2012, 6, 1, tzinfo=UTC), datetime(2011, 6, 1, tzinfo=UTC)
    )
    # taken at the old offset: the instant of the jump
    assert start == datetime(2011, 12, 30, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    "schedule",
    [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 13 *",
        "* * * * 8",
        "5-1 * * * *",
        "*/0 * * * *",
        "1/ * * * *",
        "a * * * *",
        "1,,2 * * * *",
        "@every 1h",
        "@reboot",
        "0 0 30 2 *",
        "0 0 31 4,6 *",
        "٣ * * * *",
        "* " * 1000,
        "1,1" * 100 + " * * * *",
    ],
)
def test_what_is_not_a_schedule(schedule: str) -> None:
    with pytest.raises(ScheduleError):
        CronSchedule.parse(schedule)


@pytest.mark.parametrize(
    "zone", ["", "Nowhere/Town", "../etc/passwd", "/etc/localtime", "a\0b", "x" * 300]
)
def test_what_is_not_a_time_zone(zone: str) -> None:
    with pytest.raises(ScheduleError):
        CronSchedule.parse("@daily", zone)


def test_the_rarest_date_is_found() -> None:
    schedule = CronSchedule.parse("0 0 29 2 *")
    assert schedule.latest_start(datetime(2103, 1, 1, tzinfo=UTC), EPOCH) == datetime(
        2096, 2, 29, tzinfo=UTC
    )


def numbers(low: int, high: int) -> st.SearchStrategy[str]:
    def text(pair: tuple[int, int]) -> str:
        return f"{min(pair)}-{max(pair)}"

    number = st.integers(low, high)
    span = st.tuples(number, number).map(text)
    stepped = st.tuples(span | st.just("*"), st.integers(1, high)).map(
        lambda pair: f"{pair[0]}/{pair[1]}"
    )
    part = st.just("*") | number.map(str) | span | stepped
    return st.lists(part, min_size=1, max_size=2).map(",".join)


schedules = st.tuples(
    numbers(0, 59), numbers(0, 23), numbers(1, 28), numbers(1, 12), numbers(0, 6)
).map(" ".join)
instants = st.integers(0, 40 * 365 * 86_400).map(
    lambda seconds: EPOCH + timedelta(seconds=seconds)
)
zones = st.sampled_from(
    ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]
)


def listed(text: str, low: int, high: int) -> set[int]:
    """Read a field the slow way, independently of the code under test."""
    found = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
        end = int(last) if last else (high if step else int(first))
        found |= {
            n
            for n in range(low, high + 1)
            if int(first) <= n <= end and (n - int(first)) % int(step or 1) == 0
        }
    return found


def starts(schedule: str, local: datetime) -> bool:
    minute, hour, day, month, weekday = schedule.split()
    by_day, by_weekday = (
        local.day in listed(day, 1, 31),
        local.isoweekday() % 7 in listed(weekday, 0, 6),
    )
    either = day != "*" and weekday != "*"
    return (
        local.minute in listed(minute, 0, 59)
        and local.hour in listed(hour, 0, 23)
        and local.month in listed(month, 1, 12)
        and (by_day or by_weekday if either else by_day and by_weekday)
    )


@given(schedules, instants, zones)
def test_the_latest_start_is_the_last_minute_that_matches(
    schedule: str, now: datetime, zone: str
) -> None:
    span = timedelta(hours=30)
    found = CronSchedule.parse(schedule, zone).latest_start(now, now - span)
    first_minute = now.replace(second=0, microsecond=0)
    minutes = (
        (first_minute - timedelta(minutes=back)).astimezone(ZoneInfo(zone))
        for back in range(30 * 60)
    )
    by_hand = next(
        (
            local.astimezone(UTC)
            for local in minutes
            if starts(schedule, local) and local.fold == 0
        ),
        None,
    )
    expected = by_hand if by_hand is not None and by_hand > now - span else None
    # only a start that the clocks skipped is not a minute that a clock showed
    if found != expected:
        assert found is not None
        assert not starts(schedule, found.astimezone(ZoneInfo(zone)))


@given(st.text(alphabet="0123456789*/-,? @abcJANSUN", max_size=40))
def test_any_text_is_a_schedule_or_a_schedule_error(text: str) -> None:
    try:
        schedule = CronSchedule.parse(text)
    except ScheduleError:
        return
    schedule.latest_start(NOW, NOW - DAY)
