import pytest

from lab.fakes.values import node_claim
from reservoir.core.model.node_claim import ALLOWED_TRANSITIONS, LIVE_STATES, ClaimState


def reachable(state: ClaimState) -> set[ClaimState]:
    seen: set[ClaimState] = set()
    frontier = {state}
    while frontier:
        seen |= frontier
        frontier = {
            after for before in frontier for after in ALLOWED_TRANSITIONS[before]
        } - seen
    return seen


def test_every_state_has_a_row_in_the_table() -> None:
    assert set(ALLOWED_TRANSITIONS) == set(ClaimState)


@pytest.mark.parametrize("state", ClaimState)
def test_no_event_moves_a_claim_backwards(state: ClaimState) -> None:
    for after in ALLOWED_TRANSITIONS[state]:
        assert state not in reachable(after)


@pytest.mark.parametrize("state", sorted(LIVE_STATES))
def test_every_live_claim_can_end(state: ClaimState) -> None:
    assert reachable(state) & {ClaimState.TERMINATED, ClaimState.FAILED}


def test_a_late_running_event_does_not_revive_a_terminated_claim() -> None:
    assert not node_claim("nc-1", state=ClaimState.TERMINATED).may_become(
        ClaimState.RUNNING
    )


def test_a_claim_with_an_instance_cannot_fail_silently() -> None:
    assert not node_claim("nc-1", state=ClaimState.LAUNCHED).may_become(ClaimState.FAILED)
