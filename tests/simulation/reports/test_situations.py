"""The report of situations says what mishaps met, and what they never did."""

from collections import Counter

import pytest

from lab.fakes.values import node_claim
from lab.simulation.play import play
from lab.simulation.reports.situations import MISHAPS, STATES, Standing, standings, summary
from reservoir.core.model.node_claim import ClaimState, Lease, NodeClaim
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.model.team import Quota, Team

OWNS_ONE = Team("audio", namespaces=("audio",), quotas=(Quota((), 1),))


def running(claim_id: str, *on_it: str, is_reserved: bool = True) -> NodeClaim:
    lease = Lease("cr-1") if is_reserved else None
    placed = tuple(PlacedReplicas(key, 1) for key in on_it)
    return node_claim(claim_id, state=ClaimState.RUNNING, placements=placed, lease=lease)


@pytest.mark.parametrize(
    ("nodes", "standing"),
    [
        ([running("a")], Standing.NOBODYS),
        ([running("a", "other/job")], Standing.NOBODYS),
        ([running("a", "audio/job")], Standing.OWN),
        ([running("a", "audio/job", is_reserved=False)], Standing.BOUGHT),
        ([running("a", "audio/job"), running("b", "audio/job")], Standing.BORROWED),
    ],
)
def test_a_node_stands_as_the_team_of_its_work_does(
    nodes: list[NodeClaim], standing: Standing
) -> None:
    assert standings(nodes, [OWNS_ONE]) == {(ClaimState.RUNNING, standing)}
    assert standings(nodes, []) == {(ClaimState.RUNNING, Standing.NO_TEAMS)}


def test_nodes_that_ended_are_in_no_situation() -> None:
    assert standings([node_claim("a", state=ClaimState.TERMINATED)], []) == set()


def test_a_seed_tells_what_its_mishaps_met() -> None:
    met = play(1, 300).met
    assert {state for state, _, _ in met} <= set(STATES)
    assert any(kind in MISHAPS for _, kind, _ in met)


def test_what_was_never_met_is_named() -> None:
    met = Counter(
        {
            (state, kind, Standing.OWN): 1
            for state in STATES
            for kind in MISHAPS
            if (state, kind) != (ClaimState.DRAINING, "restored")
        }
    )
    of_all = len(STATES) * len(MISHAPS)
    assert summary(met).startswith(
        f"met {of_all - 1} of {of_all * len(Standing)} situations"
    )
    assert summary(met).endswith("never, with any team: restored (draining)")
