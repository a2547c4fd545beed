"""From any state of the tables, and whatever EC2 answers, no pass of any function ends a fleet that is at work."""

from collections.abc import Mapping
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.safety.endings import EndingKind
from tests.fakes.safety import ROLES
from tests.usecases.mishaps import NO_BOUNDS, NOTICED, ONE_EACH, Answers, History, Mishap, befallen, history

WHOLE = dict.fromkeys(ROLES, Mishap.NOTHING)
NOBODY: set[str] = set()

mishaps = st.fixed_dictionaries({role: st.sampled_from(Mishap) for role in ROLES})
one_is_noticed = mishaps.filter(lambda chosen: not NOTICED.isdisjoint(chosen.values()))
answers = st.sampled_from(Answers)
seeds = st.integers(0, 1000)


@cache
def then() -> History:
    return history()


def test_a_fleet_at_work_is_left_alone() -> None:
    assert befallen(then(), WHOLE, Answers.WHOLE, bounds=NO_BOUNDS) == NOBODY


@given(one_is_noticed, answers, seeds)
def test_when_a_table_was_emptied_or_restored_nothing_ends_whatever_the_bounds(
    chosen: Mapping[str, Mishap], answering: Answers, seed: int
) -> None:
    assert befallen(then(), chosen, answering, bounds=NO_BOUNDS, seed=seed) == NOBODY


@given(mishaps, answers, seeds)
def test_whatever_befell_the_tables_no_more_ends_than_the_bounds_allow(
    chosen: Mapping[str, Mishap], answering: Answers, seed: int
) -> None:
    assert len(befallen(then(), chosen, answering, bounds=ONE_EACH, seed=seed)) <= len(EndingKind)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("mishap", [mishap for mishap in Mishap if mishap is not Mishap.NOTHING])
def test_one_table_alone(role: str, mishap: Mishap) -> None:
    chosen = WHOLE | {role: mishap}
    if mishap in NOTICED:
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
        ("NodeClaims", Mishap.NOTHING, Answers.PARTIAL),  # what EC2 did not show comes back without a claim
    ],
)
def test_without_bounds_a_fleet_would_not_survive(role: str, mishap: Mishap, answering: Answers) -> None:
    """The tests above can fail: what befalls the fleet would end it."""
    assert befallen(then(), WHOLE | {role: mishap}, answering, bounds=NO_BOUNDS, seed=1) != NOBODY
