"""Seats of nodes that know each other: whole or none, and ranks that stay."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lab.fakes.system import START
from lab.fakes.values import node_claim
from reservoir.core.model.node_claim import ClaimState, Drain, DrainReason, NodeClaim
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.node_life.gang import seats, with_seat
from reservoir.core.scheduling_terms import labels

KEY = "research/train"


def member(name: str, replicas: int = 1) -> NodeClaim:
    claim = node_claim(
        name, placements=(PlacedReplicas(KEY, replicas),), state=ClaimState.RUNNING
    )
    return replace(claim, address=f"ip-{name}")


def seated(claims: list[NodeClaim], unfinished: int) -> list[NodeClaim]:
    dealt = seats(KEY, unfinished, claims)
    return [
        with_seat(dealt[claim.id], claim) or claim if claim.id in dealt else claim
        for claim in claims
    ]


def ranks(claims: list[NodeClaim]) -> dict[str, int]:
    return {claim.id: seat.node_rank for claim in claims for seat in claim.seats}


def test_ranks_and_addresses_are_dealt_when_all_are_there() -> None:
    first, second = member("a", 2), member("b", 3)
    dealt = seats(KEY, 5, [second, first])
    assert (dealt["a"].node_rank, dealt["a"].first_rank) == (0, 0)
    assert (dealt["b"].node_rank, dealt["b"].first_rank) == (1, 2)
    assert {seat.addresses for seat in dealt.values()} == {("ip-a", "ip-b")}
    assert {seat.world_size for seat in dealt.values()} == {5}


def test_nobody_is_seated_before_all_are_there() -> None:
    assert seats(KEY, 3, [member("a"), member("b")]) == {}
    assert seats(KEY, 2, [member("a"), replace(member("b"), address=None)]) == {}


def test_nobody_is_seated_anew_while_one_that_must_go_still_works() -> None:
    drain = Drain("d-1", DrainReason.REQUESTED, START, START, (PlacedReplicas(KEY, 1),))
    goes = replace(member("c"), state=ClaimState.DRAINING, placements=(), drain=drain)
    assert seats(KEY, 2, [member("a"), member("b"), goes]) == {}
    released = replace(goes, drain=replace(drain, awaiting=()))
    assert seats(KEY, 2, [member("a"), member("b"), released]).keys() == {"a", "b"}


def test_who_replaces_a_node_gets_its_rank_and_the_others_keep_theirs() -> None:
    before = seated([member("b"), member("c"), member("d")], 3)
    assert ranks(before) == {"b": 0, "c": 1, "d": 2}
    after = seated([before[0], before[2], member("a")], 3)
    assert ranks(after) == {"a": 1, "b": 0, "d": 2}
    assert {seat.addresses for claim in after for seat in claim.seats} == {
        ("ip-b", "ip-a", "ip-d")
    }


def at(name: str, *nodes: str) -> NodeClaim:
    own = dict(zip(labels.NETWORK_NODE_LAYERS, nodes, strict=False))
    return replace(member(name), labels={labels.ZONE_ID: "use1-az1", **own})


def test_ranks_follow_each_other_within_a_part_of_the_network() -> None:
    near = [at("a", "nn-1", "nn-11"), at("d", "nn-1", "nn-11"), at("c", "nn-1", "nn-12")]
    far = [at("b", "nn-2", "nn-21"), at("e", "nn-2", "nn-21")]
    assert ranks(seated([*far, *near], 5)) == {"a": 0, "d": 1, "c": 2, "b": 3, "e": 4}


def test_a_gap_is_filled_by_who_is_nearest_to_the_ranks_around_it() -> None:
    places = {"a": "nn-1", "b": "nn-1", "c": "nn-1", "d": "nn-2", "e": "nn-2"}
    before = seated([at(name, node) for name, node in places.items()], 5)
    stay = [claim for claim in before if claim.id in ("a", "c", "d")]
    after = seated([*stay, at("x", "nn-2"), at("y", "nn-1")], 5)
    assert ranks(after) == {"a": 0, "y": 1, "c": 2, "d": 3, "x": 4}


def test_nodes_of_which_nothing_is_known_are_dealt_by_name() -> None:
    claims = [replace(member(name), labels={}) for name in ("c", "a", "b")]
    assert ranks(seated(claims, 3)) == {"a": 0, "b": 1, "c": 2}


def test_a_seat_in_another_workload_stays() -> None:
    (claim,) = seated([member("a")], 1)
    other = replace(claim.seats[0], workload_key="research/other")
    both = with_seat(other, claim)
    assert both is not None
    assert [seat.workload_key for seat in both.seats] == ["research/other", KEY]
    assert with_seat(other, both) is None, "it has it"


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3)), max_size=6),
)
def test_ranks_are_whole_and_whoever_stays_keeps_its_own(
    counts: list[int], replaced: list[tuple[int, int]]
) -> None:
    claims = seated(
        [member(f"n{number}", count) for number, count in enumerate(counts)], sum(counts)
    )
    for step, (index, count) in enumerate(replaced):
        before = ranks(claims)
        claims[index % len(claims)] = member(f"m{step}", count)
        total = sum(claim.placements[0].count for claim in claims)
        claims = seated(claims, total)
        after = ranks(claims)
        assert sorted(after.values()) == list(range(len(claims)))
        assert all(after[name] == before[name] for name in after.keys() & before.keys())
        numbered = sorted(
            (claim.seats[0].first_rank, claim.placements[0].count) for claim in claims
        )
        assert [first for first, _ in numbered] == [
            sum(c for _, c in numbered[:at]) for at in range(len(numbered))
        ]
        assert {claim.seats[0].world_size for claim in claims} == {total}
