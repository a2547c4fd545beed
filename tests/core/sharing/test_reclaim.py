"""What was lent comes back: the least loss first, never more than is owed, never back and forth."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.fakes.values import node_claim
from reservoir.core.disruption.command import DisruptionDecision
from reservoir.core.disruption.decide import DisruptionInput, decide_disruption
from reservoir.core.disruption.methods.reclaim import units_owed
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.node_pool import DisruptionReason
from reservoir.core.model.plan import OfferingKey
from reservoir.core.model.snapshot import Node, PlacedReplicas, Snapshot
from reservoir.core.model.team import ReclaimWithinCohort, Team
from reservoir.core.model.workload import AffinityTerm, Demand, Gang, LabelSelector
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms.labels import CAPACITY_RESERVATION_ID, ZONE
from reservoir.core.scheduling_terms.requirement import Operator
from reservoir.core.scheduling_terms.resources import Resources
from tests.core.scheduler.world import NOW, POLICY, require
from tests.core.sharing.world import planned, team, units_of, wants, world

ANY: Any = {"reclaim_within_cohort": ReclaimWithinCohort.ANY}
LOWER: Any = {"reclaim_within_cohort": ReclaimWithinCohort.LOWER_PRIORITY}
TWO = (team("audio", 4, **ANY), team("vision", 4, **ANY))


def claim_of(node: Node, age_min: int = 60) -> NodeClaim:
    return node_claim(
        node.claim_id,
        state=ClaimState.RUNNING,
        node_pool_name=node.node_pool_name,
        offering=OfferingKey(
            node.instance_type,
            node.zone,
            node.zone_id,
            node.capacity_type,
            node.reservation_id,
        ),
        price_atto_usd_per_hour=0,
        placements=node.placements,
        allocatable=node.allocatable,
        created_at=NOW - timedelta(minutes=age_min),
        running_at=NOW - timedelta(minutes=age_min),
        labels=node.labels,
    )


def decided(
    snapshot: Snapshot,
    *,
    budget: int = 100,
    ages_min: dict[str, int] | None = None,
    returning: Mapping[str, int] | None = None,
) -> DisruptionDecision:
    ages = ages_min or {}
    claims = {
        node.claim_id: claim_of(node, ages.get(node.claim_id, 60))
        for node in snapshot.nodes
        if not node.deleting
    }
    allowed = {
        (pool.name, reason): budget
        for pool in snapshot.node_pools
        for reason in DisruptionReason
    }
    ask = partial(solve, now=NOW, policy=POLICY)
    facts = DisruptionInput(snapshot, claims, allowed, returning=returning or {})
    return decide_disruption(facts, ask, now=NOW)


def taken(snapshot: Snapshot, **changes: Any) -> list[str]:
    commands = [
        it
        for it in decided(snapshot, **changes).commands
        if it.reason is DisruptionReason.RECLAIMED
    ]
    return sorted(claim_id for command in commands for claim_id in command.claim_ids)


def test_as_many_units_come_back_as_are_owned_and_wanted() -> None:
    assert len(taken(world(TWO, [wants("vision", 4)], {"audio": 8}))) == 4
    assert len(taken(world(TWO, [wants("vision", 9)], {"audio": 8}))) == 4
    assert len(taken(world(TWO, [wants("vision", 1)], {"audio": 8}))) == 1
    assert len(taken(world(TWO, [wants("vision", 4)], {"audio": 6, "vision": 2}))) == 2


def test_nothing_comes_back_without_need() -> None:
    assert taken(world(TWO, [wants("vision", 2)], {"audio": 6})) == [], "there is room"
    assert taken(world(TWO, [wants("audio", 2)], {"audio": 6, "vision": 2})) == [], (
        "a borrower has no claim"
    )
    assert taken(world(TWO, [wants("vision", 2)], {"audio": 4, "vision": 4})) == [], (
        "it has what it owns"
    )
    assert taken(world(TWO, (), {"audio": 8})) == []


def test_what_may_not_be_taken_back_is_not() -> None:
    never = (team("audio", 4), team("vision", 4))
    assert taken(world(never, [wants("vision", 4)], {"audio": 8})) == []
    apart = (team("audio", 4, cohort="one", **ANY), team("vision", 4, cohort="two", **ANY))
    assert taken(world(apart, [wants("vision", 4)], {"audio": 8})) == []
    lower = (team("audio", 4, **LOWER), team("vision", 4, **LOWER))
    assert taken(world(lower, [wants("vision", 4, priority=0)], {"audio": 8})) == []
    assert len(taken(world(lower, [wants("vision", 4, priority=1)], {"audio": 8}))) == 4


def test_whoever_belongs_to_no_team_gives_back_too() -> None:
    assert (
        len(
            taken(
                world((team("vision", 4, **ANY),), [wants("vision", 3)], {"of-no-team": 8})
            )
        )
        == 3
    )


def test_the_least_work_is_lost() -> None:
    snapshot = world(TWO, [wants("vision", 2)], {"audio": 8})
    ages = {f"audio-{number}": 60 - number for number in range(8)}
    assert taken(snapshot, ages_min=ages) == ["audio-6", "audio-7"], "the youngest"

    with_checkpoints = {
        key: replace(workload, checkpoint_period_s=600)
        if key.startswith("audio")
        else workload
        for key, workload in snapshot.workloads.items()
    }
    # checkpoints at 10 and 20 minutes
    ages = {f"audio-{number}": 15 + number for number in range(8)}
    assert taken(replace(snapshot, workloads=with_checkpoints), ages_min=ages) == [
        "audio-5",
        "audio-6",
    ]


def test_whoever_borrows_most_gives_back_first() -> None:
    teams = (team("audio", 1, **ANY), team("speech", 1, **ANY), team("vision", 6, **ANY))
    found = taken(world(teams, [wants("vision", 2)], {"audio": 5, "speech": 3}))
    assert found == ["audio-0", "audio-1"]


def test_a_budget_bounds_how_many_go_at_once() -> None:
    assert len(taken(world(TWO, [wants("vision", 4)], {"audio": 8}), budget=1)) == 1


def test_what_must_not_be_disturbed_is_passed_over() -> None:
    snapshot = world(TWO, [wants("vision", 4)], {"audio": 8})
    still = {
        key: replace(workload, do_not_disrupt=key.startswith("audio"))
        for key, workload in snapshot.workloads.items()
    }
    assert taken(replace(snapshot, workloads=still)) == []


def gangs(snapshot: Snapshot, name: str) -> Snapshot:
    """Make what runs for a namespace one gang."""
    workloads = {
        key: replace(workload, gang=Gang()) if key == f"{name}/runs" else workload
        for key, workload in snapshot.workloads.items()
    }
    return replace(snapshot, workloads=workloads)


def test_a_gang_goes_whole_or_not_at_all() -> None:
    """Eight replicas of one gang: taking them all would take what audio owns, so they stay."""
    assert taken(gangs(world(TWO, [wants("vision", 2)], {"audio": 8}), "audio")) == []
    owner = (team("audio", 0, **ANY), team("vision", 8, **ANY))
    assert (
        len(
            taken(gangs(world(owner, [wants("vision", 2)], {"audio": 4}, units=4), "audio"))
        )
        == 4
    )


def test_units_that_come_back_anyhow_are_not_asked_for_twice() -> None:
    snapshot = world(TWO, [wants("vision", 3)], {"audio": 8})
    draining = tuple(
        replace(node, deleting=node.claim_id in ("audio-0", "audio-1"))
        for node in snapshot.nodes
    )
    assert len(taken(replace(snapshot, nodes=draining))) == 1


def test_units_whose_nodes_have_ended_and_that_nobody_has_yet_are_not_asked_for_twice() -> (
    None
):
    """Two of three that are owed came back, and EC2's count does not show them yet."""
    snapshot = world(TWO, [wants("vision", 3)], {"audio": 6})
    (reservation,) = snapshot.reservations
    lagging = replace(snapshot, reservations=(replace(reservation, free_units=0),))
    assert len(taken(lagging)) == 2, "all that is lent"
    assert len(taken(lagging, returning={reservation.id: 2})) == 1


def test_what_the_owner_cannot_use_is_not_taken_back() -> None:
    """A gang of five cannot be whole within four units that are owned, whatever is taken back."""
    assert taken(world(TWO, [wants("vision", 5, gang=Gang())], {"audio": 8})) == []
    assert len(taken(world(TWO, [wants("vision", 4, gang=Gang())], {"audio": 8}))) == 4


def test_what_came_back_is_not_taken_again() -> None:
    """Minute after minute: both want everything; after one exchange nothing moves any more."""
    used, moved = Counter({"audio": 8}), 0
    for _ in range(10):
        demands = [wants("audio", 8), wants("vision", 8)]
        going = taken(world(TWO, demands, dict(used)))
        moved += len(going)
        for claim_id in going:
            used[claim_id.partition("-")[0]] -= 1
        used.update(units_of(planned(world(TWO, demands, dict(used)))))
    assert (used, moved) == ({"audio": 4, "vision": 4}, 4)


def teams_of(*owned: int) -> tuple[Team, ...]:
    return tuple(team(f"team-{index}", own, **ANY) for index, own in enumerate(owned))


def test_any_start_ends_with_everybody_having_their_own() -> None:
    for start in ([8, 0, 0], [0, 8, 0], [3, 3, 2], [0, 1, 7], [2, 2, 0]):
        used = Counter({f"team-{index}": count for index, count in enumerate(start)})
        demands: list[Demand] = [wants(f"team-{index}", 8) for index in range(3)]
        for _ in range(4):
            for claim_id in taken(world(teams_of(4, 2, 2), demands, dict(used))):
                used[claim_id.rpartition("-")[0]] -= 1
            used.update(units_of(planned(world(teams_of(4, 2, 2), demands, dict(used)))))
        assert +used == {"team-0": 4, "team-1": 2, "team-2": 2}


def test_what_the_plan_gives_an_owner_is_not_owed_again() -> None:
    """Two of its four units are free: they are its own at once, and two are owed, however much it wants."""
    snapshot = world(TWO, [wants("vision", 9)], {"audio": 6})
    (owed,) = units_owed(snapshot, planned(snapshot))
    assert (owed.team.name, owed.units) == ("vision", 2)
    assert len(taken(snapshot)) == 2


def test_what_comes_back_is_counted_for_the_owner_that_gets_it() -> None:
    """A unit drains. It is one owner's only: the other is owed its unit as before."""
    teams = (team("audio", 6, **ANY), team("speech", 1, **ANY), team("vision", 1, **ANY))
    snapshot = world(teams, [wants("speech", 1), wants("vision", 1)], {"audio": 8})
    first, *others = snapshot.nodes
    assert (
        len(taken(replace(snapshot, nodes=(replace(first, deleting=True), *others)))) == 1
    )


def test_what_an_owner_that_never_reclaims_gets_of_what_comes_back_is_owed_to_others() -> (
    None
):
    teams = (team("audio", 6), team("speech", 1), team("vision", 1, **ANY))
    snapshot = world(teams, [wants("speech", 1), wants("vision", 1)], {"audio": 8})
    first, *others = snapshot.nodes
    drained = replace(snapshot, nodes=(replace(first, deleting=True), *others))
    assert len(taken(drained)) == 1, (
        "speech is first by its name, and does not wait for long"
    )


def test_an_owner_that_never_reclaims_and_comes_first_keeps_no_other_from_its_own() -> None:
    teams = (team("audio", 6), team("speech", 1), team("vision", 1, **ANY))
    demands, used = [wants("speech", 1), wants("vision", 1)], Counter({"audio": 8})
    for _ in range(2):
        for claim_id in taken(world(teams, demands, used)):
            used[claim_id.partition("-")[0]] -= 1
        used.update(units_of(planned(world(teams, demands, used))))
        demands = [wants(name, 1) for name in ("speech", "vision") if not used[name]]
    assert used == {"audio": 6, "speech": 1, "vision": 1}


def test_units_that_the_waiting_work_cannot_use_stay_where_they_are() -> None:
    """The youngest nodes, whose work would lose least, stand in a reservation that vision's work does not accept."""
    only_first = require(CAPACITY_RESERVATION_ID, Operator.IN, "cr-0")
    snapshot = world(
        TWO,
        [wants("vision", 2, node_selector=only_first)],
        {"audio": 8},
        units=4,
        reservations=2,
    )
    ages = {f"audio-{number}": 100 - number for number in range(8)}
    assert taken(snapshot, ages_min=ages) == ["audio-2", "audio-3"]


def by_zone(name: str) -> tuple[AffinityTerm, ...]:
    """About the work with this label, by zones."""
    return (AffinityTerm(ZONE, LabelSelector((("app", name),))),)


def test_no_more_is_taken_than_a_plan_can_use() -> None:
    """Its replicas keep away from each other by zones, of which there is one."""
    spread_out = wants("vision", 4, labels={"app": "job"}, anti_affinity=by_zone("job"))
    assert len(taken(world(TWO, [spread_out], {"audio": 8}))) == 1


def test_no_more_is_taken_than_owners_gain_whoever_they_are() -> None:
    """What two owners wait for seeks company that is nowhere; the third, which never reclaims, gets the one unit."""
    teams = (team("audio", 1), team("a", 1), team("b", 1, **ANY), team("c", 1, **ANY))
    demands = [wants(name, 1, affinity=by_zone("nowhere")) for name in "bc"]
    assert len(taken(world(teams, [wants("a", 1), *demands], {"audio": 4}, units=4))) == 1
    assert taken(world(teams, demands, {"audio": 4}, units=4)) == []


def many_owners(count: int) -> tuple[Team, ...]:
    return team("audio", 0, **ANY), *(
        team(f"owner-{number:02}", 2, **ANY) for number in range(count)
    )


@pytest.mark.parametrize("count", range(1, 21))
def test_however_many_owners_reclaim_at_once_each_has_its_own_after_one_pass(
    count: int,
) -> None:
    teams, units = many_owners(count), 2 * count
    owners = [each.name for each in teams[1:]]
    used = Counter({"audio": units})
    snapshot = world(teams, [wants(name, 2) for name in owners], used, units=units)

    going = taken(snapshot)

    assert len(going) == units, "all that is owed, at once"
    after = planned(
        world(
            teams,
            [wants("audio", units), *(wants(name, 2) for name in owners)],
            units=units,
        )
    )
    assert units_of(after) == dict.fromkeys(owners, 2)


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4)),
        min_size=2,
        max_size=6,
    ),
    st.integers(0, 3),
)
def test_what_is_taken_covers_what_is_owed_to_all_and_nothing_else(
    owners: list[tuple[int, int, int]], free: int
) -> None:
    """Each owns, uses and wants so much; together they are owed what neither is free nor draining."""
    names = [f"team-{number}" for number in range(len(owners))]
    teams = [
        team(name, own, **ANY) for name, (own, _, _) in zip(names, owners, strict=True)
    ]
    used = {name: runs for name, (_, runs, _) in zip(names, owners, strict=True) if runs}
    demands = [
        wants(name, count)
        for name, (_, _, count) in zip(names, owners, strict=True)
        if count
    ]
    snapshot = world(teams, demands, used, units=sum(used.values()) + free)

    going = taken(snapshot)

    owed = sum(max(0, min(count, own - runs)) for own, runs, count in owners)
    lent = sum(max(0, runs - own) for own, runs, _ in owners)
    assert len(going) == min(lent, max(0, owed - free))
    for name, (own, runs, _) in zip(names, owners, strict=True):
        lost = sum(claim_id.startswith(f"{name}-") for claim_id in going)
        assert runs - lost >= min(runs, own), "never what a team owns"


def test_a_loan_is_not_kept_by_saying_that_it_must_not_be_disturbed() -> None:
    teams = (team("audio", 4, **ANY), team("vision", 4, **ANY, loan_grace_s=50 * 60))
    snapshot = world(teams, [wants("vision", 2)], {"audio": 8})
    still = {
        key: replace(workload, do_not_disrupt=key.startswith("audio"))
        for key, workload in snapshot.workloads.items()
    }
    snapshot = replace(snapshot, workloads=still)
    assert len(taken(snapshot)) == 2, "nodes are an hour old"
    young = {f"audio-{number}": 40 for number in range(8)}
    assert taken(snapshot, ages_min=young) == []
    assert len(taken(snapshot, ages_min={**young, "audio-3": 50})) == 1


def test_what_the_owner_runs_beside_what_it_lent_is_respected() -> None:
    teams = (team("audio", 4, **ANY), team("vision", 4, **ANY, loan_grace_s=0))
    snapshot = world(teams, [wants("vision", 2)], {"audio": 8})
    own = wants("vision", 1, job="guard").workload
    guard = replace(own, requests=Resources.of({"cpu": 10}), do_not_disrupt=True)
    nodes = tuple(
        replace(node, placements=(*node.placements, PlacedReplicas(guard.key, 1)))
        for node in snapshot.nodes
    )
    guarded = replace(
        snapshot, nodes=nodes, workloads={**snapshot.workloads, guard.key: guard}
    )
    assert taken(guarded) == []
