"""Work that has stopped coming is told from work that comes back."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import pytest

from lab.fakes.system import START
from lab.fakes.values import workload
from reservoir.core.advice.departed import departed, without_departed
from reservoir.core.advice.lives import Life

HOUR_S = 3600
END = START + timedelta(days=28)


def day(number: int) -> datetime:
    return START + timedelta(days=number)


def of(namespace: str, days: Iterable[int], hours: int = 4) -> list[Life]:
    wanted = workload(namespace=namespace, replicas=2)
    return [Life(wanted, day(number), hours * HOUR_S) for number in days]


def test_a_team_that_left_is_told_with_when() -> None:
    lives = [*of("old", range(17)), *of("new", range(28))]
    assert departed(lives, START, END) == {"old": day(17)}


def test_a_little_work_that_is_left_does_not_hide_it() -> None:
    lives = [*of("old", range(17)), *of("old", [23], hours=1)]
    assert departed(lives, START, END) == {"old": day(17)}


@pytest.mark.parametrize(
    "days",
    [
        pytest.param(range(19), id="not long enough ago"),
        pytest.param([*range(3), *range(14, 17)], id="campaigns, every second week"),
        pytest.param([it for it in range(21) if it % 7 < 5], id="a holiday of a week"),
        pytest.param(range(5), id="not there for a week"),
        pytest.param(range(7), id="quiet for longer than could be seen before"),
    ],
)
def test_what_may_come_back_has_not_left(days: Iterable[int]) -> None:
    assert departed(of("old", days), START, END) == {}


def test_what_has_left_counts_no_longer_but_for_what_still_runs() -> None:
    still = Life(workload(namespace="old", replicas=1), day(16))
    lives = [*of("old", range(17)), still, *of("new", range(28))]
    assert without_departed(lives, START, END) == [still, *of("new", range(28))]


def test_without_a_whole_day_nothing_is_told() -> None:
    assert departed(of("old", [0]), START, START + timedelta(hours=20)) == {}
