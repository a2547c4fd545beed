"""What is advised, and what it would have come to, on demand small enough to be counted by hand."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from lab.worlds.demand_traces import (
    JUDGING,
    SINCE,
    Stream,
    Trace,
    lives_of,
    snapshot_of,
    steady,
)
from reservoir.core import scheduler
from reservoir.core.advice.advise import Advice, Question
from reservoir.core.advice.count import Cost, Counted
from reservoir.core.advice.lives import Life
from reservoir.core.advice.play import Played, play
from reservoir.core.advice.units import Ground, ground_of
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot

WEEKS = timedelta(days=28)
UNTIL = SINCE + WEEKS
HOUR_S = 3600
P5, M7 = "p5.48xlarge", "m7i.8xlarge"
P5_PRICE, M7_PRICE = 55_040_000, 1_612_800
POLICY = SchedulingPolicy()


def solve(snapshot: Snapshot, now: datetime) -> Plan:
    return scheduler.solve(snapshot, now=now, policy=POLICY)


def trace(held: int, market: str = "reserved", type_name: str = P5) -> Trace:
    stream = Stream("train", type_name, 1, 1, steady, market=market)
    return Trace("by-hand", is_stationary=True, streams=(stream,), units={type_name: held})


def lives(asked: Trace, *times: tuple[float, float], replicas: int = 1) -> list[Life]:
    """Work that arrives after so many hours and runs for so many."""
    first = lives_of(asked, 1)[0].workload
    return [
        Life(
            replace(first, name=f"job-{number}", replicas=replicas),
            SINCE + timedelta(hours=begin),
            int(hours * HOUR_S),
            number=number,
        )
        for number, (begin, hours) in enumerate(times)
    ]


def ground(asked: Trace, found: Iterable[Life]) -> Ground:
    return ground_of(snapshot_of(asked), list(found), solve, UNTIL)


def played(asked: Trace, found: list[Life], units: int, type_name: str = P5) -> Played:
    return play(
        ground(asked, found), found, {f"cr-{type_name}": units}, solve, SINCE, UNTIL, 100
    )


def advised(asked: Trace, found: list[Life], budget: int | None = None) -> Advice:
    return Question(
        ground(asked, found), found, solve, SINCE, UNTIL, budget_micro_usd_per_hour=budget
    ).advise()


def every_day(hours: float) -> list[tuple[float, float]]:
    return [(24 * day, hours) for day in range(28)]


def test_who_waits_for_a_unit_runs_when_it_is_free() -> None:
    asked = trace(1)
    came = played(asked, lives(asked, (0, 10), (4, 10)), 1)
    assert came.cost.waiting_replica_s == 6 * HOUR_S
    assert came.cost.waiting_micro_usd == 6 * P5_PRICE
    assert came.cost.bought_micro_usd == 0
    assert came.cost.held_micro_usd == 28 * 24 * P5_PRICE
    assert sorted(came.started_s.values()) == [0, 6 * HOUR_S]


def test_a_ladder_is_climbed_and_what_was_bought_moves_into_a_unit_that_becomes_free() -> (
    None
):
    asked = trace(1, "ladder", M7)
    came = played(asked, lives(asked, (0, 10), (4, 20)), 1, M7)
    # The second waits for two hours, is bought at 6, and moves a minute after the first has gone at 10.
    assert came.cost.waiting_replica_s == 2 * HOUR_S
    assert came.cost.bought_micro_usd == M7_PRICE * (4 * 60 + 1) // 60


def test_counting_comes_to_what_playing_comes_to() -> None:
    asked = trace(2)
    found = lives(
        asked, *every_day(20), *((24 * day + 3, 9.0) for day in range(28)), (60, 40)
    )
    on = ground(asked, found)
    for units in (1, 2, 3):
        counted = sum(
            Counted(on, found, SINCE, UNTIL).cost({"cr-p5.48xlarge": units}, 100), Cost()
        )
        assert counted == played(asked, found, units).cost


def test_a_gang_waits_for_all_of_its_units() -> None:
    asked = trace(2)
    gang = [
        replace(life, workload=replace(life.workload, gang=None))
        for life in lives(asked, (0, 5))
    ]
    pair = replace(JUDGING[2].streams[0], replicas=(2,))
    wanted = lives_of(replace(asked, streams=(pair,)), 1)[0].workload
    came = played(
        asked, [*gang, Life(wanted, SINCE + timedelta(hours=1), HOUR_S, number=9)], 2
    )
    assert came.cost.waiting_replica_s == 2 * 4 * HOUR_S


def test_units_that_are_never_used_are_given_back() -> None:
    asked = trace(5)
    advice = advised(asked, lives(asked, *every_day(24)))
    assert [
        (it.kind.id, it.kind.held, it.units, it.weeks_saved, it.weeks)
        for it in advice.changes
    ] == [("cr-p5.48xlarge", 5, 1, 4, 4)]
    assert advice.changes[0].saved == Cost(held_micro_usd=4 * 28 * 24 * P5_PRICE)


def test_units_are_added_where_work_waits_long_enough_to_pay_for_them() -> None:
    asked = trace(1)
    found = lives(asked, *every_day(20), *every_day(20))
    advice = advised(asked, found)
    assert [(it.kind.held, it.units) for it in advice.changes] == [(1, 2)]
    assert advice.changes[0].saved.waiting_replica_s > 0
    assert advice.changes[0].saved.paid_micro_usd < 0


def test_a_budget_bounds_what_is_held_more() -> None:
    asked = trace(1)
    found = lives(asked, *every_day(20), *every_day(20))
    assert advised(asked, found, budget=P5_PRICE - 1).changes == ()
    assert advised(asked, found, budget=P5_PRICE).changes != ()


def test_nothing_is_an_answer() -> None:
    asked = trace(1)
    advice = advised(asked, lives(asked, *every_day(24)))
    assert advice.changes == ()
    assert advice.after == advice.before


def growing(sign: int) -> list[tuple[float, float]]:
    """Jobs of a day: one a day in the first week and one more each week, or four and one fewer."""
    jobs = []
    for week in range(4):
        at_once = week + 1 if sign > 0 else 4 - week
        jobs += [(24.0 * day, 24.0) for day in range(7 * week, 7 * week + 7)] * at_once
    return jobs


def test_units_that_growing_demand_will_want_are_not_given_back() -> None:
    asked = trace(8)
    assert advised(asked, lives(asked, *growing(+1))).changes == ()


def test_units_beyond_what_growing_demand_will_want_are_given_back() -> None:
    asked = trace(20)
    (change,) = advised(asked, lives(asked, *growing(+1))).changes
    assert 4 < change.units < 20


def test_units_that_falling_demand_left_are_given_back() -> None:
    asked = trace(8)
    (change,) = advised(asked, lives(asked, *growing(-1))).changes
    assert change.units < 8


def test_units_are_kept_that_either_half_of_the_time_would_have_kept() -> None:
    """Five jobs arrive together in the first half, and one in the second: all weeks together would keep one unit."""
    asked = trace(4)
    together = [(24.0 * day, 4.5) for day in range(14)]
    found = lives(asked, *every_day(4.5), *together, *together, *together, *together)
    (change,) = advised(asked, found).changes
    assert (change.kind.held, change.units) == (4, 2)


def test_what_one_week_alone_would_have_saved_is_not_advised() -> None:
    asked = trace(2)
    crowded = [(24.0 * day, 24.0) for day in range(21, 28)]
    found = lives(asked, *every_day(24), *every_day(24), *crowded, *crowded, *crowded)
    assert advised(asked, found).changes == ()


@pytest.mark.parametrize("name", ["steady", "ladder", "gangs"])
def test_counting_is_near_playing_on_traces(name: str) -> None:
    asked = next(item for item in JUDGING if item.name == name)
    found = [
        life for life in lives_of(asked, 1) if life.arrived_at < SINCE + timedelta(days=7)
    ]
    on = ground(asked, found)
    units = {kind.id: kind.held * 2 // 3 for kind in on.kinds}
    counted = sum(Counted(on, found, SINCE, UNTIL).cost(units, 100), Cost())
    came = play(on, found, units, solve, SINCE, UNTIL, 100).cost
    assert abs(counted.micro_usd - came.micro_usd) <= came.micro_usd * 5 // 100
