"""What reports of nodes make of their claims."""

from dataclasses import replace
from datetime import timedelta

import pytest

from lab.fakes.system import START
from lab.fakes.values import node_claim
from reservoir.core.model.node_claim import ClaimState, DrainReason
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.node_life import drain, replicas

NOW = START + timedelta(hours=1)
RUNNING = node_claim(
    "nc-1",
    state=ClaimState.RUNNING,
    placements=(PlacedReplicas("a/x", 3), PlacedReplicas("a/y", 1)),
)


def counts(placements: tuple[PlacedReplicas, ...]) -> dict[str, int]:
    return {placed.workload_key: placed.count for placed in placements}


def test_what_finishes_leaves_its_place() -> None:
    done = replicas.finished(RUNNING, "a/x", 2, NOW)
    assert done is not None
    assert (done.count, done.placed_count) == (2, 2)
    assert counts(done.claim.placements) == {"a/x": 1, "a/y": 1}
    assert counts(done.claim.finished) == {"a/x": 2}
    assert done.claim.placements_changed_at == NOW


@pytest.mark.parametrize("totals", [(1, 3), (3, 1), (1, 1, 3, 3), (2, 3, 2)])
def test_repeats_and_any_order_come_to_the_same(totals: tuple[int, ...]) -> None:
    claim = RUNNING
    for total in totals:
        done = replicas.finished(claim, "a/x", total, NOW)
        claim = claim if done is None else done.claim
    assert counts(claim.finished) == {"a/x": 3}
    assert counts(claim.placements) == {"a/y": 1}


@pytest.mark.parametrize(("key", "total"), [("a/z", 1), ("a/x", 0)])
def test_what_is_not_there_cannot_finish(key: str, total: int) -> None:
    assert replicas.finished(RUNNING, key, total, NOW) is None


def test_no_more_finish_than_there_are() -> None:
    done = replicas.finished(RUNNING, "a/y", 1_000, NOW)
    assert done is not None
    assert (done.count, counts(done.claim.placements)) == (1, {"a/x": 3})


def test_what_finishes_during_a_drain_is_awaited_no_more() -> None:
    begun = drain.begin(
        RUNNING, DrainReason.INTERRUPTION, NOW + timedelta(minutes=2), NOW, None
    )
    assert begun is not None
    draining = replace(begun, placements=())  # they went back to demand with it
    done = replicas.finished(draining, "a/y", 1, NOW)
    assert done is not None
    assert (done.count, done.placed_count) == (1, 0)
    assert drain.awaited_count(done.claim, "a/y") == 0
    assert drain.awaited_count(done.claim, "a/x") == 3


def test_a_node_hosts_what_is_placed_awaited_or_finished_there() -> None:
    done = replicas.finished(RUNNING, "a/y", 1, NOW)
    assert done is not None
    assert replicas.hosts(done.claim, "a/y")
    assert replicas.hosts(done.claim, "a/x")
    assert not replicas.hosts(done.claim, "a/z")
