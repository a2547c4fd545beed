"""Who gets the units of one block: what is owned first, then what is lent, and nothing idles that anybody may use."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.team import ReclaimWithinCohort, Team
from reservoir.core.model.workload import Gang
from reservoir.core.node_life.drain import VOLUNTARY_GRACE
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.serialisation.json_codec import dumps, loads
from tests.core.scheduler.world import NOW, ON_DEMAND, RESERVED, markets, pool
from tests.core.sharing.world import planned, team, units_of, wants, world

TWO = (team("audio", 4), team("vision", 4))


@pytest.mark.parametrize(
    ("teams", "wanted", "used", "expected"),
    [
        pytest.param(
            TWO, {"audio": 8, "vision": 8}, {}, {"audio": 4, "vision": 4}, id="each its own"
        ),
        pytest.param(
            TWO, {"audio": 8}, {}, {"audio": 8}, id="the other's while it wants nothing"
        ),
        pytest.param(
            TWO,
            {"audio": 8, "vision": 1},
            {},
            {"audio": 7, "vision": 1},
            id="what the other leaves",
        ),
        pytest.param(
            TWO,
            {"audio": 8, "vision": 8},
            {"audio": 4},
            {"vision": 4},
            id="what is owned goes before loans",
        ),
        pytest.param(
            (team("audio", 4, borrowing_limit_units=2), team("vision", 4)),
            {"audio": 8},
            {},
            {"audio": 6},
            id="a borrowing limit",
        ),
        pytest.param(
            (team("audio", 4), team("vision", 4, lending_limit_units=1)),
            {"audio": 8},
            {},
            {"audio": 5},
            id="a lending limit",
        ),
        pytest.param(
            (team("audio", 4, cohort="one"), team("vision", 4, cohort="two")),
            {"audio": 8},
            {},
            {"audio": 4},
            id="no loans beyond the cohort",
        ),
        pytest.param(
            (team("audio", 2), team("speech", 2), team("vision", 2)),
            {"audio": 8, "speech": 8, "vision": 8},
            {},
            {"audio": 3, "speech": 3, "vision": 2},
            id="what nobody owns is lent evenly",
        ),
        pytest.param(
            (team("audio", 2, weight=1), team("vision", 0, weight=2)),
            {"audio": 8, "vision": 8},
            {},
            {"audio": 4, "vision": 4},
            id="by weight: two of six against four",
        ),
        pytest.param(
            (team("audio", 6), team("vision", 6)),
            {"audio": 8, "vision": 8},
            {},
            {"audio": 4, "vision": 4},
            id="too much owned",
        ),
        pytest.param(
            (team("audio", 4),),
            {"audio": 2, "of-no-team": 8},
            {},
            {"audio": 2, "of-no-team": 6},
            id="a namespace of no team",
        ),
        pytest.param(
            (team("audio", 4), team("vision", None)),
            {"vision": 8},
            {"audio": 1},
            {"vision": 7},
            id="a team without a quota",
        ),
    ],
)
def test_units_go(
    teams: tuple[Team, ...],
    wanted: dict[str, int],
    used: dict[str, int],
    expected: dict[str, int],
) -> None:
    demands = [wants(name, count) for name, count in wanted.items()]
    assert units_of(planned(world(teams, demands, used))) == expected


def test_without_teams_units_go_as_before() -> None:
    demands = [wants("audio", 8), wants("vision", 8, priority=1)]
    assert units_of(planned(world((), demands))) == {"vision": 8}


def test_teams_without_quotas_change_no_plan() -> None:
    demands = [wants("audio", 8), wants("vision", 8, priority=1)]
    plain = planned(world((), demands))
    assert planned(world((team("audio", None), team("vision", None)), demands)) == plain


def test_a_snapshot_without_teams_is_written_as_before() -> None:
    assert '"teams"' not in dumps(world(()))
    snapshot = world(TWO, [wants("audio", 1)])
    assert loads(Snapshot, dumps(snapshot)) == snapshot


def test_priorities_order_within_a_team_and_not_across() -> None:
    demands = [
        wants("audio", 3, job="urgent", priority=100),
        wants("audio", 3, job="late", priority=-100),
        wants("vision", 4, priority=0),
    ]
    plan = planned(world(TWO, demands, units=6))
    placed = {
        placed.workload_key: launch.count
        for launch in plan.launches
        for placed in launch.placements
    }
    assert units_of(plan) == {"audio": 3, "vision": 3}
    assert placed["audio/urgent"] == 3


def test_what_a_share_cannot_use_goes_to_whoever_can() -> None:
    """Vision's first estimate is four units; all but one of its replicas need a host each that is not there."""
    large = wants("vision", 4, job="large", gang=Gang())
    demands = [wants("audio", 8), large]
    plan = planned(world((team("audio", 5), team("vision", 3)), demands))
    # Not four for the gang, and it owns but three: nothing is held for what can never be whole.
    assert units_of(plan) == {"audio": 8}


def test_units_are_held_for_a_gang_in_its_turn_and_then_lent() -> None:
    teams = (team("audio", 4), team("vision", 4))
    gang: Any = {"gang": Gang(), "job": "gang"}
    used = {"audio": 6}
    first = world(teams, [wants("audio", 4), wants("vision", 4, **gang)], used)
    assert units_of(planned(first)) == {}
    waited = wants("vision", 4, waiting=timedelta(minutes=61), **gang)
    assert units_of(planned(world(teams, [wants("audio", 4), waited], used))) == {
        "audio": 2
    }


def test_what_its_share_denies_is_bought_where_the_pool_may() -> None:
    pools = (pool("default", markets(RESERVED, ON_DEMAND)),)
    plan = planned(world(TWO, [wants("audio", 8), wants("vision", 8)], node_pools=pools))
    reserved = {
        name: sum(
            launch.count
            for launch in plan.launches
            if launch.offering.reservation_id
            and launch.placements[0].workload_key.startswith(name)
        )
        for name in ("audio", "vision")
    }
    assert reserved == {"audio": 4, "vision": 4}
    assert plan.unplaced == ()


def test_a_team_uses_its_share_of_several_reservations() -> None:
    demands = [wants("audio", 16), wants("vision", 16)]
    teams = (team("audio", 4), team("vision", 12))
    assert units_of(planned(world(teams, demands, reservations=2))) == {
        "audio": 4,
        "vision": 12,
    }


def test_whoever_waits_hears_which_quota_it_waits_for_and_who_borrows() -> None:
    plan = planned(world(TWO, [wants("vision", 4)], {"audio": 8}))
    (refusal,) = plan.unplaced
    assert refusal.code is ReasonCode.TEAM_QUOTA
    assert refusal.message == (
        "no unit of p5 reserved in zone-1 of cr-0 is for its team now: Team vision uses 0 units of tag purpose training"
        " and owns 4; borrowed by others: audio 4; it gets its own as their work ends"
    )


def with_ends(snapshot: Snapshot, *after: timedelta | None) -> Snapshot:
    """Let the work on the nodes, in order, say how long it takes yet."""
    nodes = [
        replace(node, leaves_at=None if wait is None else NOW + wait)
        for node, wait in zip(snapshot.nodes, after, strict=True)
    ]
    return replace(snapshot, nodes=tuple(nodes))


def test_whoever_waits_hears_when_the_first_of_its_units_comes_back() -> None:
    snapshot = world(TWO, [wants("vision", 4)], {"audio": 8})
    ends = (None, timedelta(hours=3), timedelta(hours=2), timedelta(0), *[None] * 4)
    (refusal,) = planned(with_ends(snapshot, *ends)).unplaced
    assert refusal.earliest_at == NOW + timedelta(hours=2)
    (unknown,) = planned(snapshot).unplaced
    assert unknown.earliest_at is None


def test_what_is_taken_back_comes_back_after_the_notice_at_the_latest() -> None:
    teams = (TWO[0], replace(TWO[1], reclaim_within_cohort=ReclaimWithinCohort.ANY))
    snapshot = world(teams, [wants("vision", 4)], {"audio": 8})
    assert (
        planned(snapshot).unplaced[0].earliest_at
        == NOW + timedelta(minutes=1) + VOLUNTARY_GRACE
    )
    since = world(teams, [wants("vision", 4, waiting=timedelta(minutes=7))], {"audio": 8})
    assert planned(since).unplaced[0].earliest_at == NOW + timedelta(minutes=9), (
        "it does not move on as time does"
    )
    ends = [timedelta(minutes=5), *[None] * 7]
    assert planned(with_ends(snapshot, *ends)).unplaced[0].earliest_at == NOW + timedelta(
        minutes=5
    )


def test_what_a_team_uses_of_its_own_is_nothing_that_comes_back() -> None:
    snapshot = world(TWO, [wants("vision", 8)], {"vision": 4, "audio": 4})
    (refusal,) = planned(with_ends(snapshot, *[timedelta(hours=1)] * 8)).unplaced
    assert refusal.earliest_at is None


def test_whoever_has_all_that_it_may_have_hears_that_too() -> None:
    plan = planned(
        world(
            (team("audio", 4, borrowing_limit_units=0), team("vision", 4)),
            [wants("audio", 5)],
        )
    )
    (refusal,) = plan.unplaced
    assert (refusal.code, refusal.count) == (ReasonCode.TEAM_QUOTA, 1)


def test_the_worked_example() -> None:
    """The table of docs/teams.md, pass by pass: who runs before it, who wants what, and what each gets."""
    steps = [
        ({}, {"audio": 8}, {"audio": 8}),
        ({"audio": 8}, {"vision": 4}, {}),
        ({"audio": 6}, {"audio": 2, "vision": 4}, {"vision": 2}),
        ({"audio": 4, "vision": 2}, {"audio": 4, "vision": 2}, {"vision": 2}),
        ({"audio": 4, "vision": 3}, {"audio": 4}, {"audio": 1}),
    ]
    for used, wanted, expected in steps:
        demands = [wants(name, count) for name, count in wanted.items()]
        assert units_of(planned(world(TWO, demands, used))) == expected


@pytest.mark.parametrize(
    ("free", "expected"), [(4, {"audio": 1, "speech": 3}), (6, {"audio": 2, "speech": 4})]
)
def test_loans_by_weight_as_the_page_tells_them(
    free: int, expected: dict[str, int]
) -> None:
    teams = (team("audio", 0), team("speech", 0, weight=2))
    used = {"of-no-team": 8 - free}
    assert (
        units_of(planned(world(teams, [wants("audio", 8), wants("speech", 8)], used)))
        == expected
    )


def test_a_unit_is_its_teams_until_withdrawn_work_has_left_it() -> None:
    teams = [team("a", 2, borrowing_limit_units=0), team("b", 6)]
    snapshot = world(teams, [wants("a", 2, job="again")], {"a": 2})
    running = snapshot.nodes
    gone = tuple(
        replace(node, placements=(), used=Resources.of({}), deleting=True)
        for node in running
    )
    draining = tuple(
        replace(after, leaving=before.placements)
        for before, after in zip(running, gone, strict=True)
    )
    assert units_of(planned(replace(snapshot, nodes=draining))) == {}
    assert units_of(planned(replace(snapshot, nodes=gone))) == {"a": 2}
