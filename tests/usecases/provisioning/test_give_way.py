"""A pass ends early for whoever waits for the next one, but now and then one has all of its time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count

import pytest

from lab.fakes.values import reservation
from lab.worlds.planning_world import PlanningWorld
from reservoir.runtime.composition.parts.planning import solve_within
from reservoir.usecases.provisioning.give_way import GivingWay


@dataclass
class Passes:
    """Passes of a hundred seconds, in which each second asks how much of the time is used."""

    now_s: float = 0.0
    is_awaited: bool = False
    asked_at_s: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Have one planner make all of them."""
        self.giving_way = GivingWay(self.ask, lambda: self.now_s)

    def ask(self) -> bool:
        self.asked_at_s.append(self.now_s)
        return self.is_awaited

    def lasts_s(self, comes_at_s: float = float("inf")) -> float:
        """Return how long the next pass lasts, if somebody comes so long after its beginning."""
        began_s = self.now_s
        used: Callable[[], int] = self.giving_way.of_a_pass(
            lambda: int(self.now_s - began_s)
        )
        while used() < 100:
            self.now_s += 1
            self.is_awaited = self.is_awaited or self.now_s - began_s >= comes_at_s
        return self.now_s - began_s


def after_a_whole_pass() -> Passes:
    passes = Passes()
    assert passes.lasts_s(0) == 100
    return passes


def test_a_pass_gives_way_once_it_had_a_tenth_of_its_time() -> None:
    assert after_a_whole_pass().lasts_s(0) == 10


def test_who_comes_later_waits_for_a_twentieth_at_most() -> None:
    passes = after_a_whole_pass()
    passes.is_awaited = False
    assert passes.lasts_s(42) == 45


def test_where_nobody_waits_a_pass_has_all_of_its_time() -> None:
    passes = after_a_whole_pass()
    passes.is_awaited = False
    assert passes.lasts_s() == 100
    assert len(passes.asked_at_s) < 20


def test_work_that_needs_a_whole_pass_has_one_in_twenty_minutes() -> None:
    passes = after_a_whole_pass()
    lasted = [passes.lasts_s() for _ in range(240)]
    whole = [index for index, lasts_s in enumerate(lasted) if lasts_s == 100]
    assert set(lasted) == {10, 100}
    assert len(whole) == 2


def test_what_has_given_way_says_so_in_each_part_of_a_pass() -> None:
    passes = after_a_whole_pass()
    began_s = passes.now_s
    used = passes.giving_way.of_a_pass(lambda: int(passes.now_s - began_s))
    passes.now_s += 10
    assert used() == 100
    passes.now_s += 15
    assert used() == 115


@pytest.mark.parametrize(
    ("teams", "asks"), [((), False), (("a",), False), (("a", "b"), True)]
)
def test_passes_give_way_only_where_there_are_several_teams(
    teams: tuple[str, ...], asks: bool
) -> None:
    world = PlanningWorld().ready(reservation("cr-1", 4, tags={"team": "research"}))
    for name in teams:
        world.apply(
            {
                "apiVersion": "reservoir/v1",
                "kind": "Team",
                "metadata": {"name": name},
                "spec": {"namespaces": [name]},
            }
        )
    seconds = count()
    asked: list[bool] = []

    def is_awaited() -> bool:
        asked.append(True)
        return False

    # each look at the clock takes a second, and a pass looks more often than ten times
    solve = solve_within(timedelta(seconds=100), lambda: float(next(seconds)), is_awaited)
    for name in ("first", "second"):
        world.submit(name, replicas=1)
        assert world.provisioner(solve=solve).run().placed_count == 1

    assert bool(asked) is asks
