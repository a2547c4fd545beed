"""Functions die, overlap, are too slow, and find their processes again."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from lab.simulation.aws.lambdas import CLOCK_OFF_MAX, CLOCK_WRONG_MAX, Run
from lab.simulation.faults import NO_FAULTS, Faults
from lab.simulation.kernel import MINUTE, SECOND
from lab.simulation.play import hushed
from lab.simulation.world import World
from reservoir.names import Function


def world(faults: Faults = NO_FAULTS) -> World:
    made = World(1)
    made.drawn = faults
    made._now = faults
    return made


class Noting:
    """A watcher that hears of calls alone."""

    def __init__(self, called: Callable[[str], object]) -> None:
        self._called = called

    def called(self, _environment: object, point: str, _answer: object) -> None:
        self._called(point)

    def row_written(self, *_: object) -> None:
        pass

    ended = heard = row_written


def ran(made: World, function: Function) -> Run:
    """Run a function to its end."""
    ended = list[Run]()
    with hushed():
        made.lambdas.invoke(function, {"source": "aws.events"}, ended.append)
        while not ended:
            made.kernel.step()
    return ended[0]


def test_a_handler_runs_on_the_stand_ins() -> None:
    made = world()
    run = ran(made, Function.DISCOVER_OFFERINGS)
    assert (run.outcome, run.answer) == ("done", {"type_count": 3, "written_count": 3})
    assert len(made.state.offerings.load_catalogue()) == 3


@pytest.mark.parametrize(("fault", "written"), [("killed_before", 0), ("killed_after", 0)])
def test_a_function_dies_at_its_first_call(fault: str, written: int) -> None:
    made = world(replace(NO_FAULTS, **{fault: 1.0}))
    run = ran(made, Function.DISCOVER_OFFERINGS)
    assert (run.outcome, len(made.state.offerings.load_catalogue())) == ("killed", written)
    assert run.error == f"{fault.removeprefix('killed_')} instance_types.list_types"


def test_what_fails_is_reported_and_the_process_goes_on() -> None:
    made = world(replace(NO_FAULTS, throttled=1.0))
    run = ran(made, Function.DISCOVER_OFFERINGS)
    assert (run.outcome, run.error.partition(":")[0]) == ("failed", "ThrottledError")


def test_a_function_that_takes_too_long_dies() -> None:
    made = world(replace(NO_FAULTS, slow_call=1.0))
    made.kernel.at(2 * MINUTE, lambda: None)
    run = ran(made, Function.EXPIRE)
    assert run.ended_us - run.began_us <= 60 * SECOND
    assert run.outcome in ("done", "timed out")


def test_runs_overlap_and_a_warm_process_is_found_again() -> None:
    made = world()
    ended = list[Run]()
    with hushed():
        for _ in range(2):
            made.lambdas.invoke(
                Function.DISCOVER_RESERVATIONS, {"source": "aws.events"}, ended.append
            )
        assert len(made.lambdas.running) == 2
        while len(ended) < 2:
            made.kernel.step()
        first, second = sorted(ended, key=lambda run: run.number)
        assert second.began_us < first.ended_us
        ran(made, Function.DISCOVER_RESERVATIONS)
    assert len(made.lambdas._idle[Function.DISCOVER_RESERVATIONS]) == 2


def test_a_clock_that_is_set_anew_at_each_call() -> None:
    made = world(replace(NO_FAULTS, clock_jumps=1.0))
    offs = set[int]()
    made.lambdas.told = lambda environment, *_: offs.add(environment.off_us)
    ran(made, Function.DISCOVER_OFFERINGS)
    assert len(offs) > 3
    assert max(map(abs, offs)) <= 2 * SECOND


def test_an_answer_that_comes_late_comes_after_its_effect() -> None:
    made = world(replace(NO_FAULTS, late_answer=1.0))
    written_at = list[int]()
    made.watchers.append(
        Noting(
            lambda point: written_at.append(made.kernel.now_us) if "save" in point else None
        )
    )
    run = ran(made, Function.DISCOVER_OFFERINGS)
    assert (run.outcome, len(written_at)) == ("done", 1)
    assert run.ended_us - written_at[0] >= SECOND


def test_clocks_that_are_minutes_off_are_set_when_mishaps_stop() -> None:
    made = world(replace(NO_FAULTS, clock_off=1.0))
    made.lambdas.clock_off_max_us = CLOCK_WRONG_MAX
    ran(made, Function.DISCOVER_OFFERINGS)
    (warm,) = made.lambdas._idle[Function.DISCOVER_OFFERINGS]
    assert CLOCK_OFF_MAX < abs(warm.off_us) <= CLOCK_WRONG_MAX
    with hushed():
        made.calm()
    assert warm.off_us == 0


def test_a_deployment_ends_what_runs_and_leaves_nothing_warm() -> None:
    made = world()
    ended = list[Run]()
    with hushed():
        made.lambdas.invoke(
            Function.DISCOVER_OFFERINGS, {"source": "aws.events"}, ended.append
        )
        made.kernel.after(SECOND // 20, made.lambdas.deploy)
        while not ended:
            made.kernel.step()
    assert ended[0].outcome == "killed"
