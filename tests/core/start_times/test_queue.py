"""A queue on few units, counted by hand."""

from collections.abc import Mapping
from typing import Any

from lab.fakes.system import START
from reservoir.core.start_times.queue import Need, Occupied, UnitPlace, starts_of

HOUR_S = 3600
DAY_S = 24 * HOUR_S


def need(
    key: str, count: int = 1, milli: int = 1000, priority: int = 0, **changes: Any
) -> Need:
    order = -priority, 0, 0, START, key
    return Need(key, count, order, {"cr-1": milli}, **changes)


def busy(unit: str, hours: float | None, milli: int = 1000, **changes: Any) -> Occupied:
    ends_s = None if hours is None else int(hours * HOUR_S)
    return Occupied("cr-1", unit, milli, ends_s, **changes)


def hours(
    place: UnitPlace, occupied: list[Occupied], *needs: Need, until_s: int = 30 * DAY_S
) -> Mapping[str, float]:
    """After how many hours each has its places."""
    starts = starts_of([place], occupied, needs, [each.key for each in needs], until_s)
    return {key: at / HOUR_S for key, at in starts.items()}


FULL = UnitPlace("cr-1", 0)


def test_who_waits_gets_the_unit_that_becomes_free_first() -> None:
    occupied = [busy("a", 5), busy("b", 2)]
    found = hours(FULL, occupied, need("x", run_s=10 * HOUR_S), need("y"))
    assert found == {"x": 2, "y": 5}


def test_who_starts_frees_the_unit_again() -> None:
    found = hours(FULL, [busy("a", 2)], need("x", run_s=3 * HOUR_S), need("y"))
    assert found == {"x": 2, "y": 5}


def test_what_nobody_knows_the_length_of_stays() -> None:
    assert hours(FULL, [busy("a", None)], need("x")) == {}
    assert hours(FULL, [busy("a", 1)], need("x"), need("y")) == {"x": 1}


def test_priority_comes_before_age() -> None:
    found = hours(FULL, [busy("a", 1)], need("x"), need("y", priority=5, run_s=HOUR_S))
    assert found == {"y": 1, "x": 2}


def test_a_gang_waits_for_all_and_others_slip_in_before_it() -> None:
    occupied = [busy("a", 1), busy("b", 4)]
    gang = need("gang", 2, is_gang=True)
    assert hours(FULL, occupied, gang) == {"gang": 4}
    late = need("late", arrives_s=2 * HOUR_S, run_s=5 * HOUR_S)
    assert hours(FULL, occupied, gang, late) == {"late": 2, "gang": 7}


def test_replicas_without_a_gang_start_one_by_one_and_the_last_one_counts() -> None:
    assert hours(FULL, [busy("a", 1), busy("b", 4)], need("x", 2)) == {"x": 4}


def test_small_work_shares_a_unit() -> None:
    half = busy("a", 1, milli=500), busy("a", 3, milli=500)
    assert hours(FULL, list(half), need("small", milli=500)) == {"small": 1}
    assert hours(FULL, list(half), need("large", milli=600)) == {"large": 3}


def test_a_block_that_begins_opens_its_units() -> None:
    block = UnitPlace("cr-1", 2, opens_s=6 * HOUR_S)
    assert hours(block, [], need("x", 2)) == {"x": 6}


def test_nothing_starts_that_does_not_end_before_its_block_drains() -> None:
    block = UnitPlace("cr-1", 0, closes_s=10 * HOUR_S, is_drained=True)
    fits = need("fits", declared_s=5 * HOUR_S)
    longer = need("longer", declared_s=6 * HOUR_S)
    assert hours(block, [busy("a", 5)], fits) == {"fits": 5}
    assert hours(block, [busy("a", 5)], longer) == {}


def test_what_has_to_leave_a_block_waits_again() -> None:
    block = UnitPlace("cr-1", 0, closes_s=2 * HOUR_S, is_drained=True)
    again = Need("old", 1, (0, 0, 0, START, "a"), {"cr-2": 1000})
    starts = starts_of(
        [block, UnitPlace("cr-2", 0)],
        [
            busy("a", 5, need=again),
            Occupied("cr-2", "b", 1000, 3 * HOUR_S),
        ],
        [Need("new", 1, (0, 0, 0, START, "b"), {"cr-2": 1000})],
        ["new"],
        DAY_S,
    )
    # The old work has three hours left when it moves at 3, ahead of the new.
    assert starts == {"old": 3 * HOUR_S, "new": 6 * HOUR_S}


def test_what_an_on_demand_reservation_held_stays_when_it_ends() -> None:
    ending = UnitPlace("cr-1", 0, closes_s=2 * HOUR_S)
    assert hours(ending, [busy("a", 5, need=need("old"))], need("new")) == {}


def test_a_ladder_that_reaches_what_is_sold_ends_the_wait() -> None:
    assert hours(FULL, [busy("a", 5)], need("x", bought_from_s=2 * HOUR_S)) == {"x": 2}
    assert hours(FULL, [busy("a", 1)], need("x", bought_from_s=2 * HOUR_S)) == {"x": 1}


def test_nothing_is_told_of_what_starts_too_late() -> None:
    assert hours(FULL, [busy("a", 5)], need("x"), until_s=4 * HOUR_S) == {}


def test_no_more_arrivals_are_read_than_matter() -> None:
    read = []

    def arrivals() -> Any:
        yield need("first")
        for day in range(1000):
            read.append(day)
            yield need(f"other-{day}", arrives_s=day * DAY_S + 1)

    starts_of([FULL], [busy("a", 30)], arrivals(), ["first"], 30 * DAY_S)
    assert len(read) < 5
