"""What replicas were placed with stays true of them."""

from dataclasses import replace
from typing import Any

import pytest

from lab.fakes.system import START
from lab.fakes.values import node_claim
from reservoir.core.launching.claim_nodes import grown_claim, node_of
from reservoir.core.launching.placed_terms import PlacedTerms, current_key, generations_of, terms_at, terms_of
from reservoir.core.model.node_claim import ClaimState, Drain, DrainReason, NodeClaim, PlacedGeneration
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.resources import Resources

KEY = "audio/web"


def spec(generation: int, cpu: int, **changes: Any) -> Workload:
    return replace(Workload("audio", "web", generation, 9, Resources.of({"cpu": cpu})), **changes)


SMALL, LARGE, NOW = spec(1, 1_000), spec(2, 4_000), spec(3, 10)


def running(count: int, *placed_with: tuple[int, int]) -> NodeClaim:
    notes = tuple(PlacedGeneration(KEY, *each) for each in placed_with)
    return node_claim("nc-1", state=ClaimState.RUNNING, placements=(PlacedReplicas(KEY, count),), placed_with=notes)


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


def test_withdrawn_replicas_count_with_what_they_were_placed_with() -> None:
    terms = PlacedTerms({KEY: NOW}, {KEY: (terms_of(LARGE),)})
    drain = Drain("d", DrainReason.WITHDRAWN, START, START, awaiting=(PlacedReplicas(KEY, 1),))
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
    claim = grown_claim(running(2, (1, 3)), (PlacedReplicas(KEY, 2),), START, {KEY: 3})
    assert claim.placed_with == (PlacedGeneration(KEY, 1, 2), PlacedGeneration(KEY, 3, 2))
    assert generations_of(claim.placed_with, claim.placements) == claim.placed_with[::-1]


def test_do_not_disrupt_may_be_said_and_taken_back_while_it_runs() -> None:
    terms = PlacedTerms({KEY: replace(NOW, do_not_disrupt=True)}, {KEY: (terms_of(LARGE),)})
    (placed,) = terms.claim(running(1, (2, 1))).placements
    assert terms.workloads[placed.workload_key].do_not_disrupt


def test_replicas_with_earlier_terms_are_counted() -> None:
    terms = PlacedTerms({KEY: NOW}, {KEY: (terms_of(SMALL), terms_of(LARGE))})
    assert terms.outdated([running(3, (1, 1), (2, 1), (3, 1)), running(2, (3, 2))]) == {KEY: 2}
