"""Demand as it lived, from the steps that are kept of it."""

from datetime import datetime, timedelta

from lab.fakes.system import START
from lab.fakes.values import workload
from reservoir.core.advice.lives import Life, lives_of, with_present
from reservoir.core.history.past_demand import DemandStep, DemandStepKind
from reservoir.core.model.workload import Workload

WANTED, PLACED, FINISHED, WITHDRAWN = (
    DemandStepKind.WANTED,
    DemandStepKind.PLACED,
    DemandStepKind.FINISHED,
    DemandStepKind.WITHDRAWN,
)
HOUR_S = 3600


def at(hours: float) -> datetime:
    return START + timedelta(hours=hours)


def step(
    hours: float, kind: DemandStepKind, wanted: Workload | None = None, replicas: int = 0
) -> DemandStep:
    key = "research/train" if wanted is None else wanted.key
    return DemandStep(f"e-{hours}", at(hours), kind, key, 1, replicas, wanted)


def told(*steps: DemandStep, since: float = 0) -> list[tuple[float, int, int | None]]:
    """Of each life: when it arrived, how many replicas, and for how many hours they ran."""
    lives = lives_of(steps, at(since)).lives
    return [
        (
            (it.arrived_at - START) / timedelta(hours=1),
            it.workload.replicas,
            it.ran_s and it.ran_s // HOUR_S,
        )
        for it in lives
    ]


def test_work_runs_from_its_place_to_its_withdrawal() -> None:
    assert told(
        step(1, WANTED, workload()), step(3, PLACED, replicas=4), step(8, WITHDRAWN)
    ) == [(1, 4, 5)]


def test_work_that_is_still_there_has_no_end() -> None:
    assert told(step(1, WANTED, workload()), step(3, PLACED, replicas=4)) == [(1, 4, None)]


def test_work_that_never_had_a_place_was_gone_when_it_was_withdrawn() -> None:
    (life,) = lives_of([step(1, WANTED, workload()), step(8, WITHDRAWN)], START).lives
    assert (life.ran_s, life.gone_at) == (None, at(8))


def test_replicas_that_finish_before_others_end_by_themselves() -> None:
    steps = (
        step(1, WANTED, workload()),
        step(1, PLACED, replicas=4),
        step(3, FINISHED, replicas=3),
    )
    assert told(*steps, step(6, FINISHED, replicas=1)) == [(1, 3, 2), (1, 1, 5)]


def test_more_replicas_are_another_life_that_begins_where_the_first_ends() -> None:
    steps = (step(1, WANTED, workload()), step(1, PLACED, replicas=4))
    more = workload(replicas=6, generation=2)
    assert told(*steps, step(5, WANTED, more), step(9, WITHDRAWN)) == [(1, 4, 4), (5, 6, 4)]


def test_a_message_that_changes_nothing_begins_nothing() -> None:
    again = workload(generation=2)
    assert told(
        step(1, WANTED, workload()), step(5, WANTED, again), step(9, WITHDRAWN)
    ) == [(1, 4, None)]


def test_what_runs_when_the_look_back_begins_arrives_with_it() -> None:
    ran = (step(1, WANTED, workload()), step(2, PLACED, replicas=4), step(8, WITHDRAWN))
    assert told(*ran, since=5) == [(5, 4, 3)]
    assert told(*ran, since=8) == []


def test_what_had_gone_before_anybody_looked_is_counted() -> None:
    assert lives_of([step(1, WANTED)], START).unknown_count == 1


def test_what_is_there_and_was_never_told_of_was_there_before() -> None:
    known = lives_of([step(1, WANTED, workload())], START)
    older = workload("older")
    found = with_present(
        known, {older.key: (older, START), "research/train": (workload(), START)}
    )
    assert [(it.workload.name, it.arrived_at) for it in found.lives] == [
        ("older", START),
        ("train", at(1)),
    ]


def test_lives_of_one_workload_are_told_apart() -> None:
    lives = (Life(workload(), START, number=1), Life(workload(), START, number=2))
    assert len({life.key for life in lives}) == 2
