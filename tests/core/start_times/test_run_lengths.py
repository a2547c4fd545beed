"""How long a run lasts, from runs that are over."""

from datetime import timedelta

import pytest

from lab.fakes.system import START
from lab.fakes.values import workload
from reservoir.core.advice.lives import Life
from reservoir.core.start_times.run_lengths import LearnedLengths, RunLengths, family

HOUR_S = 3600


def run(
    name: str, hours: float, said_h: float | None = None, namespace: str = "research"
) -> Life:
    said_s = None if said_h is None else int(said_h * HOUR_S)
    wanted = workload(name, namespace=namespace, duration_s=said_s)
    return Life(wanted, START, int(hours * HOUR_S))


def learned(*lives: Life) -> LearnedLengths:
    return LearnedLengths(lives, lambda namespace: namespace)


def test_the_next_run_is_as_likely_in_each_gap_between_those_that_were_seen() -> None:
    lengths = RunLengths((10.0, 20.0, 30.0))
    assert lengths.length_at(0.25) == 10
    assert lengths.length_at(0.5) == 20
    assert lengths.length_at(0.75) == 30
    assert lengths.length_at(0.375) == 15
    assert lengths.length_at(0.9) > 30
    assert 0 < lengths.length_at(0.0) < 10


@pytest.mark.parametrize("chance", [0.01, 0.2, 0.5, 0.7, 0.9, 0.999])
def test_a_length_and_its_chance_are_the_same_thing(chance: float) -> None:
    lengths = RunLengths((10.0, 20.0, 30.0, 50.0))
    assert lengths.chance_of(lengths.length_at(chance)) == pytest.approx(chance)


def test_what_has_run_for_a_while_is_one_of_those_that_ran_longer() -> None:
    lengths = RunLengths((10.0, 20.0, 1000.0))
    assert lengths.rest_s(0.0, 20) <= 1
    assert lengths.rest_s(0.5, 20) > 400


def test_what_is_older_than_all_is_not_taken_to_end_at_once() -> None:
    lengths = RunLengths(tuple(float(each) for each in range(100, 200, 10)))
    assert lengths.rest_s(0.5, 400) > 10
    assert lengths.rest_s(0.5, 1_000_000) >= 1


def test_runs_of_the_name_tell_before_those_of_the_team() -> None:
    others = [run(f"eval-{number}", 1) for number in range(20)]
    known = learned(*others, *(run(f"train-{number}", 10) for number in range(5)))
    found = known.of(workload("train-99"))
    assert found is not None
    assert found.lengths_s == (10.0 * HOUR_S,) * 5
    of_team = known.of(workload("sweep-1"))
    assert of_team is not None
    assert len(of_team.lengths_s) == 25


def test_nothing_is_known_of_what_ran_too_seldom() -> None:
    known = learned(*(run(f"train-{number}", 10) for number in range(4)))
    assert known.of(workload("train-9")) is None
    assert known.of(workload("train-9", namespace="web")) is None


def test_what_runs_still_says_nothing_yet() -> None:
    open_ends = [Life(workload(f"train-{number}"), START) for number in range(9)]
    assert learned(*open_ends).of(workload("train-9")) is None


def test_of_runs_that_said_how_long_those_that_said_about_the_same_tell() -> None:
    short = [run(f"train-{number}", 0.5, said_h=1) for number in range(60)]
    long = [run(f"train-{number}", 7, said_h=12) for number in range(60)]
    found = learned(*short, *long).of(
        workload("train-9", duration_s=timedelta(hours=10) // timedelta(seconds=1))
    )
    assert found is not None
    assert set(found.lengths_s) == {7.0 * HOUR_S}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("train-17", "train"),
        ("train-a8f3.2", "train"),
        ("llama-7b-tune-3", "llama-7b-tune"),
        ("resnet50", "resnet50"),
    ],
)
def test_names_of_runs_of_a_kind(name: str, kind: str) -> None:
    assert family(name) == kind
