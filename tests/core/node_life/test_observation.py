"""What an instance, re-read, means for its claim: every state of one against every state of the other."""

from dataclasses import replace
from datetime import timedelta

import pytest

from lab.fakes.system import START
from lab.fakes.values import ZONE, ZONE_ID, node_claim
from reservoir.core.model.instance import Instance
from reservoir.core.model.node_claim import ALLOWED_TRANSITIONS, ClaimState
from reservoir.core.node_life.observation import (
    RUNNING_WITHIN,
    VISIBLE_WITHIN,
    Meaning,
    meaning,
)

NOW = START + timedelta(minutes=1)
CLAIM = node_claim("nc-1", state=ClaimState.RUNNING, instance_id="i-1", launched_at=START)
INSTANCE = Instance("i-1", "running", "p5.48xlarge", ZONE, ZONE_ID, START)
N, R, E, S, T = (
    Meaning.NOTHING,
    Meaning.RUNNING,
    Meaning.ENDED,
    Meaning.STOPPED,
    Meaning.TERMINATE_AGAIN,
)
INSTANCE_STATES = (
    "pending",
    "running",
    "stopping",
    "stopped",
    "shutting-down",
    "terminated",
)
TABLE = {
    ClaimState.LAUNCHED: (N, R, S, S, E, E),
    ClaimState.RUNNING: (N, N, S, S, E, E),
    ClaimState.DRAINING: (N, N, S, S, E, E),
    ClaimState.TERMINATING: (T, T, T, T, N, E),
    ClaimState.TERMINATED: (N, N, N, N, N, N),
    ClaimState.FAILED: (N, N, N, N, N, N),
}


@pytest.mark.parametrize("state", sorted(TABLE))
def test_the_table(state: ClaimState) -> None:
    claim = replace(CLAIM, state=state)
    found = tuple(
        meaning(claim, replace(INSTANCE, state=each), NOW) for each in INSTANCE_STATES
    )
    assert found == TABLE[state]


@pytest.mark.parametrize("state", sorted(TABLE))
def test_no_meaning_asks_for_a_forbidden_move(state: ClaimState) -> None:
    moves = {R: ClaimState.RUNNING, E: ClaimState.TERMINATED, S: ClaimState.TERMINATING}
    for found in TABLE[state]:
        if found in moves:
            assert moves[found] in ALLOWED_TRANSITIONS[state]


def test_an_instance_that_is_not_shown_is_first_waited_for() -> None:
    assert meaning(CLAIM, None, START + VISIBLE_WITHIN) is Meaning.NOTHING
    assert (
        meaning(CLAIM, None, START + VISIBLE_WITHIN + timedelta(seconds=1)) is Meaning.ENDED
    )


def test_a_launch_that_never_comes_up_is_stuck() -> None:
    launched, pending = (
        replace(CLAIM, state=ClaimState.LAUNCHED),
        replace(INSTANCE, state="pending"),
    )
    assert meaning(launched, pending, START + RUNNING_WITHIN) is Meaning.NOTHING
    assert (
        meaning(launched, pending, START + RUNNING_WITHIN + timedelta(seconds=1))
        is Meaning.STUCK
    )


def test_a_claim_without_an_instance_means_nothing() -> None:
    assert (
        meaning(replace(CLAIM, state=ClaimState.PLANNED, instance_id=None), None, NOW)
        is Meaning.NOTHING
    )
