"""The ablation names parts of the solver: one that is renamed must not be measured as if it bought nothing."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from lab.bench.harness import fresh
from lab.bench.scheduling.ablation import CONSTANTS, MECHANISMS, WORLDS, cases, lines
from lab.bench.worlds.common import NOW
from reservoir.core.checker import check
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduler import solve

_CERTIFIED = """
from lab.bench.worlds.common import NOW
from lab.bench.worlds.mix import Mix, mix_snapshot
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.scheduler import solve

plan = solve(mix_snapshot(Mix(1000, seed=705)), now=NOW, policy=SchedulingPolicy(with_certificate=True))
print(len(plan.unplaced), plan.gap_percent is not None)
"""


def test_each_mechanism_can_be_taken_out_and_each_constant_halved() -> None:
    assert fresh("lab.bench.scheduling.ablation:take_out_all") == {
        "taken_out": len(MECHANISMS),
        "halved": len(CONSTANTS),
    }


def test_without_column_generation_a_certified_plan_costs_what_the_first_one_does() -> None:
    without = fresh(
        "lab.bench.scheduling.ablation:measure", "without-column-generation", "few"
    )

    assert without["certified_cost"] == without["first_cost"]


def test_cases_are_named_after_what_is_changed() -> None:
    assert "without-topping-up" in cases()
    assert "half-packing.item_types:_SIZE_STEP" in cases()


@pytest.mark.parametrize("name", MECHANISMS)
def test_lines_are_counted_of_code_that_exists(name: str) -> None:
    assert (lines(name) > 0) is bool(MECHANISMS[name].code)


@pytest.mark.parametrize("make", WORLDS["tight"])
def test_nobody_is_left_over_who_fits_into_what_limits_leave(
    make: Callable[[], Snapshot],
) -> None:
    snapshot, policy = make(), SchedulingPolicy()

    assert (
        check(snapshot, solve(snapshot, now=NOW, policy=policy), now=NOW, policy=policy)
        == ()
    )


def test_a_certified_plan_ends_where_simplex_would_not() -> None:
    # In a process of its own: HiGHS hears no signal, so nothing else could end it if it did not end by itself.
    command = [sys.executable, "-c", _CERTIFIED]
    done = subprocess.run(  # noqa: S603 - our own interpreter and text
        command, capture_output=True, text=True, timeout=300, check=True
    )

    assert done.stdout.split() == ["0", "True"]
