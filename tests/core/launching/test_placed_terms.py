"""What replicas were placed with stays true of them."""

from dataclasses import replace
from typing import Any

import pytest

from lab.fakes.system import START
from lab.fakes.values import node_claim
from reservoir.core.launching.claim_nodes import grown_claim, node_of
from reservoir.core.launching.placed_terms import (
    PlacedTerms,
    current_key,
    terms_at,
    terms_of,
)
from reservoir.core.model.node_claim import (
    ClaimState,
    Drain,
    DrainReason,
    NodeClaim,
    PlacedGeneration,
    generations_of,
    parts_of,
)
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.resources import Resources

KEY = "audio/web"


def spec(generation: int, cpu: int, **changes: Any) -> Workload:
    return replace(
        Workload("audio", "web", generation, 9, Resources.of({"cpu": cpu})), **changes
    )


SMALL, LARGE, NOW = spec(1, 1_000), spec(2, 4_000), spec(3, 10)


def running(count: int, *placed_with: tuple[int, int]) -> NodeClaim:
    notes = tuple(PlacedGeneration(KEY, *each) for each in placed_with)
    return node_claim(
        "nc-1",
        state=ClaimState.RUNNING,
        placements=(PlacedReplicas(KEY, count),),
        placed_with=notes,
    )


@pytest.mark.parametrize(
    ("count", "placed_with", "used"),
    [
        pytest.param(2, [(1, 2)], 2_000, id="as they were placed"),
        pytest.param(3, [(1, 1), (2, 1), (3, 1)], 5_010, id="each with its own"),
        pytest.param(2, [(1, 2), (2, 1)], 5_000, id="the oldest left first"),
        pytest.param(2, [], 2_000, id="what an earlier release placed is as old as any"),
        pytest.param(2, [(3, 2)], 20, id="what is wanted now"),
    ],
)
def test_a_node_is_as_full_as_what_runs_was_when_it_was_placed(
    count: int, placed_with: list[tuple[int, int]], used: int
) -> None:
    terms = PlacedTerms({KEY: NOW}, {KEY: (terms_of(SMALL), terms_of(LARGE))})
    shown = terms.claim(running(count, *placed_with))
    assert node_of(shown, terms.workloads).used["cpu"] == used
    assert {current_key(placed.workload_key) for placed in shown.placements} == {KEY}


def test_who_runs_with_earlier_terms_is_counted_by_generation() -> None:
    terms = PlacedTerms({KEY: NOW}, {KEY: (terms_of(SMALL), terms_of(LARGE))})
    claims = [running(3, (1, 1), (2, 1), (3, 1)), running(2, (2, 2)), running(1, (3, 1))]
    assert terms.outdated(claims) == {KEY: {1: 1, 2: 3}}
    assert PlacedTerms({KEY: NOW}, {}).outdated(claims) == {}


def test_withdrawn_replicas_count_with_what_they_were_placed_with() -> None:
    terms = PlacedTerms({KEY: NOW}, {KEY: (terms_of(LARGE),)})
    drain = Drain(
        "d", DrainReason.WITHDRAWN, START, START, awaiting=(PlacedReplicas(KEY, 1),)
    )
    claim = node_claim("nc-1", state=ClaimState.DRAINING, placements=(), drain=drain)
    (left,) = node_of(terms.claim(claim), terms.workloads).leaving
    assert terms.workloads[left.workload_key].requests["cpu"] == 4_000


def test_terms_that_are_wanted_again_are_todays() -> None:
    again = spec(3, 1_000)
    terms = PlacedTerms({KEY: again}, {KEY: (terms_of(SMALL), terms_of(LARGE))})
    claim = running(1, (1, 1))
    assert terms.claim(claim).placements == (PlacedReplicas(KEY, 1),)
    assert terms_at(2, again, (SMALL, LARGE)) == LARGE


def test_what_is_added_is_noted_beside_what_was_there() -> None:
    node = replace(running(2, (1, 3)), allocatable=Resources.of({"cpu": 1_000}))
    claim = grown_claim(node, (PlacedReplicas(KEY, 2),), START, {KEY: NOW})
    assert claim.placed_with == (
        PlacedGeneration(KEY, 1, 2),
        PlacedGeneration(KEY, 3, 2, share=10_000),
    )
    assert generations_of(claim.placed_with, claim.placements) == claim.placed_with[::-1]


def test_a_node_is_charged_by_what_replicas_take_of_it() -> None:
    room = Resources.of({"cpu": 16_000, "memory": 64})
    work = {
        "rich/big": replace(LARGE, requests=Resources.of({"cpu": 15_000})),
        "nobody/small": NOW,
    }
    small = replace(NOW, requests=Resources.of({"cpu": 10, "memory": 1}))
    claim = node_claim("nc-1", placements=(), allocatable=room)
    crowd = (PlacedReplicas("nobody/small", 40), PlacedReplicas("rich/big", 1))
    shared = grown_claim(claim, crowd, START, {**work, "nobody/small": small})

    assert dict(parts_of(shared, shared.placements)) == {
        "nobody/small": 40 * 15_625,
        "rich/big": 937_500,
    }
    assert sum(part for _, part in parts_of(shared, shared.placements[:1])) == 40 * 15_625


def test_what_an_earlier_release_placed_is_charged_by_number() -> None:
    claim = grown_claim(
        running(2, (1, 2)), (PlacedReplicas("other/web", 3),), START, {"other/web": NOW}
    )
    assert parts_of(claim, claim.placements) == [(KEY, 2), ("other/web", 3)]


def test_what_asks_for_nothing_takes_a_millionth() -> None:
    assert Resources.of({}).dominant_share_of(Resources.of({"cpu": 1})) == 1
    assert (
        Resources.of({"nvidia.com/gpu": 1}).dominant_share_of(Resources.of({"cpu": 1})) == 1
    )
