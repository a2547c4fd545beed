"""Whom replicas follow that are placed while others of their workload still run on nodes that drain."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.fakes.system import START
from lab.fakes.values import node_claim
from reservoir.core.model.node_claim import (
    ClaimState,
    Drain,
    DrainReason,
    NodeClaim,
    Predecessor,
    Succession,
)
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.node_life import succession

KEY = "research/train"
SOON, LATER = START + timedelta(minutes=10), START + timedelta(minutes=20)


def draining(claim_id: str, count: int, deadline: datetime = SOON) -> NodeClaim:
    drain = Drain(
        f"drain-{claim_id}",
        DrainReason.REQUESTED,
        START,
        deadline,
        (PlacedReplicas(KEY, count),) if count else (),
    )
    return replace(
        node_claim(claim_id, state=ClaimState.DRAINING), drain=drain, placements=()
    )


def following(claim_id: str, count: int, *predecessors: str) -> NodeClaim:
    found = Succession(
        KEY, count, tuple(Predecessor(each, SOON) for each in predecessors), is_held=True
    )
    claim = node_claim(claim_id, state=ClaimState.LAUNCHED)
    return replace(claim, placements=(PlacedReplicas(KEY, count),), successions=(found,))


def arrivals(added: dict[str, int], *live: NodeClaim) -> dict[str, list[str]]:
    found = succession.arriving(KEY, added, live, START, is_held=True)
    return {key: [each.claim_id for each in it.predecessors] for key, it in found.items()}


def test_each_follows_as_many_as_it_replaces() -> None:
    one, two = draining("nc-1", 2), draining("nc-2", 2)
    assert arrivals({"nc-8": 2, "nc-9": 2}, one, two) == {
        "nc-8": ["nc-1"],
        "nc-9": ["nc-2"],
    }
    assert arrivals({"nc-9": 4}, one, two) == {"nc-9": ["nc-1", "nc-2"]}


def test_who_replaces_nobody_follows_nobody() -> None:
    assert arrivals({"nc-8": 2, "nc-9": 2}, draining("nc-1", 2)) == {"nc-8": ["nc-1"]}
    assert arrivals({"nc-8": 2}, draining("nc-1", 0)) == {}


def test_all_that_a_node_gets_waits_when_some_of_it_does() -> None:
    found = succession.arriving(
        KEY, {"nc-9": 8}, [draining("nc-1", 1)], START, is_held=True
    )
    assert found["nc-9"].count == 8


def test_those_that_are_followed_already_are_not_followed_twice() -> None:
    old, next_one = draining("nc-1", 2), following("nc-2", 2, "nc-1")
    assert arrivals({"nc-3": 2}, old, next_one) == {}


def test_who_comes_after_one_that_drains_before_it_could_start_follows_both() -> None:
    old = draining("nc-1", 2)
    next_one = replace(
        draining("nc-2", 2), successions=following("x", 2, "nc-1").successions
    )
    assert arrivals({"nc-3": 2}, old, next_one) == {"nc-3": ["nc-1", "nc-2"]}
    assert arrivals({"nc-3": 2}, old, draining("nc-2", 0)) == {"nc-3": ["nc-1"]}


def test_whose_deadline_has_passed_is_followed_by_nobody() -> None:
    late = draining("nc-1", 2, START)
    assert arrivals({"nc-3": 2}, late) == {}
    assert arrivals({"nc-3": 2}, late, draining("nc-2", 2)) == {"nc-3": ["nc-2"]}


@pytest.mark.parametrize("is_held", [True, False])
def test_held_are_those_whose_workload_is_handed_over(is_held: bool) -> None:
    found = succession.arriving(
        KEY, {"nc-9": 2}, [draining("nc-1", 2)], START, is_held=is_held
    )
    claim = replace(node_claim("nc-9"), placements=(PlacedReplicas(KEY, 2),))
    claim = succession.with_succession(claim, found["nc-9"])
    assert succession.held_count(claim, claim.placements[0]) == (2 if is_held else 0)
    assert succession.predecessor_ids(claim, KEY) == ["nc-1"]


def test_what_grows_onto_a_node_while_it_holds_is_held_with_the_rest() -> None:
    more = Succession(KEY, 1, (Predecessor("nc-2", LATER),), is_held=True)
    claim = succession.with_succession(following("nc-9", 2, "nc-1"), more)
    (found,) = claim.successions
    assert (found.count, [each.claim_id for each in found.predecessors]) == (
        3,
        ["nc-1", "nc-2"],
    )
    assert succession.held_until(found) == LATER


def test_it_ends_when_all_have_left_or_their_deadlines_have_passed() -> None:
    claim = following("nc-9", 4, "nc-1", "nc-2")
    known = {"nc-1": draining("nc-1", 2), "nc-2": draining("nc-2", 2)}
    assert succession.settled(claim, known, START) is None
    one_left = {**known, "nc-1": draining("nc-1", 0)}
    after = succession.settled(claim, one_left, START)
    assert after is not None
    assert succession.predecessor_ids(after, KEY) == ["nc-2"]
    assert succession.held_count(after, after.placements[0]) == 4
    for last in (
        succession.settled(after, {"nc-2": draining("nc-2", 0)}, START),
        succession.settled(after, {}, START),
        succession.settled(after, known, SOON),
    ):
        assert last is not None
        assert last.successions == ()


@given(
    st.lists(st.integers(0, 3), max_size=4),
    st.lists(st.integers(1, 3), max_size=4),
    st.integers(0, 4),
)
def test_never_do_more_run_than_are_wanted(
    awaited: list[int], added: list[int], running: int
) -> None:
    """However many are wanted: those that ran, and those that were placed, are no more than that when it is over."""
    drains = [draining(f"nc-a{n}", count) for n, count in enumerate(awaited)]
    counts = {f"nc-b{n}": count for n, count in enumerate(added)}
    found = succession.arriving(KEY, counts, drains, START, is_held=True)
    # what is placed now takes the place of those that drain, or of none
    wanted = running + max(sum(awaited), sum(added))
    startable = sum(count for key, count in counts.items() if key not in found)
    assert running + sum(awaited) + startable <= wanted
