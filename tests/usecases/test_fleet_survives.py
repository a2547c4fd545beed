"""From any state of the tables, and whatever EC2 answers, no pass of any function ends a fleet that is at work."""

import inspect
import re
from collections.abc import Mapping
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.fakes.stores.safety import ROLES
from lab.worlds.disrupt_world import DisruptWorld
from lab.worlds.mishaps import (
    NO_BOUNDS,
    NODES,
    NOTICED,
    ONE_EACH,
    TABLES,
    Answers,
    FleetWorld,
    History,
    Mishap,
    befallen,
    history,
)
from reservoir.core.safety.endings import EndingKind
from tests.strategies import dear
from tests.test_tidy import ROOT

WHOLE = dict.fromkeys(TABLES, Mishap.NOTHING)
NOBODY: set[str] = set()

mishaps = st.fixed_dictionaries({role: st.sampled_from(Mishap) for role in TABLES})
one_is_noticed = mishaps.filter(
    lambda chosen: not NOTICED.isdisjoint(chosen[role] for role in ROLES)
)
answers = st.sampled_from(Answers)
seeds = st.integers(0, 1000)
OF_AGE_MEANWHILE = "125m"
"""The first half of the fleet, launched in the first minutes of two hours, comes of age while the functions go on."""
ages = st.sampled_from(["Never", OF_AGE_MEANWHILE])


@cache
def then(expire_after: str = "Never") -> History:
    return history(expire_after)


def test_a_fleet_at_work_is_left_alone() -> None:
    assert befallen(then(), WHOLE, Answers.WHOLE, bounds=NO_BOUNDS) == NOBODY


@dear
@given(one_is_noticed, answers, seeds, ages)
def test_when_a_table_was_emptied_or_restored_nothing_ends_whatever_the_bounds(
    chosen: Mapping[str, Mishap], answering: Answers, seed: int, age: str
) -> None:
    assert befallen(then(age), chosen, answering, bounds=NO_BOUNDS, seed=seed) == NOBODY


@dear
@given(mishaps, answers, seeds, ages)
def test_whatever_befell_the_tables_no_more_ends_than_the_bounds_allow(
    chosen: Mapping[str, Mishap], answering: Answers, seed: int, age: str
) -> None:
    assert len(befallen(then(age), chosen, answering, bounds=ONE_EACH, seed=seed)) <= len(
        EndingKind
    )


@pytest.mark.parametrize("role", TABLES)
@pytest.mark.parametrize(
    "mishap", [mishap for mishap in Mishap if mishap is not Mishap.NOTHING]
)
def test_one_table_alone(role: str, mishap: Mishap) -> None:
    chosen = WHOLE | {role: mishap}
    if role in ROLES and mishap in NOTICED | {Mishap.NEWER_FORM}:
        assert befallen(then(), chosen, Answers.WHOLE, bounds=NO_BOUNDS) == NOBODY
    assert len(befallen(then(), chosen, Answers.WHOLE, bounds=ONE_EACH)) <= len(EndingKind)


@pytest.mark.parametrize("answering", [Answers.PARTIAL, Answers.FAILING])
def test_ec2_alone(answering: Answers) -> None:
    assert befallen(then(), WHOLE, answering, bounds=ONE_EACH) == NOBODY


@pytest.mark.parametrize(
    ("role", "mishap", "answering"),
    [
        ("NodeClaims", Mishap.OLDER_FORM, Answers.WHOLE),  # everything has drifted
        ("NodeClaims", Mishap.TORN, Answers.WHOLE),  # launches are known, claims are not
        ("NodeClaims", Mishap.REWRITTEN, Answers.WHOLE),  # every node is empty
        ("Workloads", Mishap.REWRITTEN, Answers.WHOLE),  # nobody wants anything
        ("Policy", Mishap.ROWS_DELETED, Answers.WHOLE),  # every pool was deleted
        # what EC2 did not show comes back without a claim
        ("NodeClaims", Mishap.NOTHING, Answers.PARTIAL),
        ("NodeClaims", Mishap.NOTHING, Answers.UNWELL),  # nothing seems to be fit for work
    ],
)
def test_without_bounds_a_fleet_would_not_survive(
    role: str, mishap: Mishap, answering: Answers
) -> None:
    """The tests above can fail: what befalls the fleet would end it."""
    assert (
        befallen(then(), WHOLE | {role: mishap}, answering, bounds=NO_BOUNDS, seed=2)
        != NOBODY
    )


def test_without_bounds_half_of_the_fleet_would_come_of_age() -> None:
    assert (
        len(befallen(then(OF_AGE_MEANWHILE), WHOLE, Answers.WHOLE, bounds=NO_BOUNDS))
        >= NODES // 2
    )
    assert (
        befallen(then(OF_AGE_MEANWHILE), WHOLE, Answers.WHOLE, bounds=ONE_EACH) == NOBODY
    ), "all that is wanted, or nothing"


# It ends what an operator names in a message, and nothing by itself.
ASKED = {"operate"}


def test_every_function_that_can_end_something_takes_part() -> None:
    """Whichever reaches the drain protocol, EC2's terminations or the stores of policy, by what it is wired with."""
    ending = {
        path.stem
        for path in (ROOT / "shared/reservoir/runtime/composition").glob("*.py")
        if re.search(
            r"(terminator=|draining_from\(|node_life_from\()",
            path.read_text(encoding="utf-8"),
        )
    }
    assert ending >= ASKED
    ending -= ASKED
    assert ending == {
        "collect",
        "disrupt",
        "expire",
        "launch",
        "provision",
        "react",
    }
    played = inspect.getsource(FleetWorld) + inspect.getsource(DisruptWorld.plan_and_launch)
    assert {name for name in ending if f"self.{name}()" in played} == ending
