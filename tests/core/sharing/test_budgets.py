"""Budgets stop buying, never reserved use; who is left out hears why."""

import itertools
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reservoir.core.checking.violation import ViolationCode
from reservoir.core.model.plan import Plan, ReasonCode
from reservoir.core.model.snapshot import PlacedReplicas, Snapshot
from reservoir.core.model.team import Team
from reservoir.core.model.workload import Gang, Workload
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms.labels import CAPACITY_TYPE
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.sharing.budgets import hourly_bound
from tests.core.scheduler.world import NOW, ON_DEMAND, POLICY, RESERVED, markets, node, pool
from tests.core.sharing.world import TYPE, planned, team, violations, wants, world

USD = 1_000_000  # micro-USD; a node costs one USD an hour on demand
SMALL = Resources.of({"cpu": 100})
BUYING: Any = {"node_pools": (pool("default", markets(RESERVED, ON_DEMAND)),)}


def with_budget(name: str, usd: int, nominal: int | None = None) -> Team:
    return team(name, nominal, budget_micro_usd_per_hour=usd * USD)


def bought(plan: Plan) -> dict[str, int]:
    """Count bought nodes by workload."""
    found: dict[str, int] = {}
    for launch in plan.launches:
        if launch.offering.reservation_id is None:
            (placed,) = launch.placements
            found[placed.workload_key] = found.get(placed.workload_key, 0) + launch.count
    return found


def bought_before(snapshot: Snapshot) -> Snapshot:
    """Let all that runs run on bought nodes."""
    price = USD * 10**12
    nodes = [
        replace(
            node,
            capacity_type=ON_DEMAND,
            reservation_id=None,
            price_atto_usd_per_hour=price,
        )
        for node in snapshot.nodes
    ]
    return replace(snapshot, nodes=tuple(nodes), reservations=())


def test_no_more_is_paid_an_hour_than_is_left_of_the_month() -> None:
    spent = 7 * ATTO_USD_PER_MICRO_USD
    assert hourly_bound(5, None, spent) == 5
    assert hourly_bound(None, None, spent) is None
    assert hourly_bound(None, 10, spent) == 3
    assert hourly_bound(5, 10, spent) == 3
    assert hourly_bound(2, 10, spent) == 2
    assert hourly_bound(5, 10, spent + 1) == 2, "what is spent in part is spent"
    assert hourly_bound(5, 10, 11 * ATTO_USD_PER_MICRO_USD) == 0
    assert isinstance(hourly_bound(None, 10, spent), int)


def test_what_is_bought_stays_within_the_budget() -> None:
    plan = planned(
        world((with_budget("audio", 3),), [wants("audio", 10)], units=0, **BUYING)
    )
    assert bought(plan) == {"audio/job": 3}
    (refusal,) = plan.unplaced
    assert (refusal.code, refusal.count) == (ReasonCode.TEAM_BUDGET, 7)
    assert "and its team's budget leaves 0" in refusal.message


def test_reserved_use_is_never_held_back() -> None:
    plan = planned(
        world((with_budget("audio", 0),), [wants("audio", 10)], units=8, **BUYING)
    )
    assert bought(plan) == {}
    assert sum(launch.count for launch in plan.launches) == 8


def test_what_runs_counts() -> None:
    snapshot = world(
        (with_budget("audio", 3),), [wants("audio", 5)], {"audio": 2}, units=2, **BUYING
    )
    assert bought(planned(bought_before(snapshot))) == {"audio/job": 1}


def test_what_joins_running_nodes_counts_before_anything_is_bought() -> None:
    """Half a node of nobody's work has room for a replica, of which two fit on a node that is bought."""
    half = Resources.of({"cpu": 3_500})
    others = Workload("of-no-team", "runs", 1, 1, half)
    host = node(
        "shared", TYPE, capacity_type=ON_DEMAND, used=half + Resources.of({"pods": 1})
    )
    host = replace(
        host,
        placements=(PlacedReplicas(others.key, 1),),
        price_atto_usd_per_hour=USD * 10**12,
    )
    demand = wants("audio", 5, requests=half)
    snapshot = world((with_budget("audio", 2),), [demand], units=0, **BUYING, nodes=(host,))
    snapshot = replace(snapshot, workloads={**snapshot.workloads, others.key: others})
    plan = planned(snapshot)
    assert [joined.claim_id for joined in plan.existing] == ["shared"]
    assert bought(plan) == {"audio/job": 1}, (
        "half a node and a second one were more than two"
    )
    beyond = planned(replace(snapshot, teams=()))
    (violation,) = violations(snapshot, beyond)
    assert (violation.code, violation.workload_keys) == (
        ViolationCode.TEAM_BUDGET,
        ("audio/job",),
    )


@settings(max_examples=60)
@given(st.data())
def test_plans_whose_replicas_join_running_nodes_keep_the_budgets(
    data: st.DataObject,
) -> None:
    """Small worlds with room on nodes: the checker adds up what their end costs each team.

    Replicas held to a budget may join other nodes than before, at last without a further solve. Who buys beyond the
    budget by that waits for the next pass, as after any plan that breaks a rule: 1 of some 2,000 worlds.
    """
    sizes, names = (
        st.sampled_from([1_500, 3_500, 7_000]),
        st.sampled_from(["audio", "vision", "of-no-team"]),
    )
    hosts, workloads = [], {}
    for number in range(data.draw(st.integers(1, 4))):
        others = Workload(
            data.draw(names),
            f"runs-{number}",
            1,
            1,
            Resources.of({"cpu": data.draw(sizes)}),
        )
        workloads[others.key] = others
        host = node(
            f"node-{number}",
            TYPE,
            capacity_type=ON_DEMAND,
            used=others.requests + Resources.of({"pods": 1}),
        )
        on_it = (PlacedReplicas(others.key, 1),)
        hosts.append(replace(host, placements=on_it, price_atto_usd_per_hour=USD * 10**12))
    demands = [
        wants(
            data.draw(names),
            data.draw(st.integers(1, 5)),
            job=f"job-{number}",
            requests=Resources.of({"cpu": data.draw(sizes)}),
            gang=data.draw(st.sampled_from([None, Gang()])),
        )
        for number in range(data.draw(st.integers(1, 4)))
    ]
    teams = [
        with_budget(name, data.draw(st.integers(0, 4))) for name in ("audio", "vision")
    ]
    snapshot = world(teams, demands, units=0, **BUYING, nodes=tuple(hosts))
    snapshot = replace(snapshot, workloads={**snapshot.workloads, **workloads})
    beyond = {
        key
        for it in violations(snapshot, solve(snapshot, now=NOW, policy=POLICY))
        for key in it.workload_keys
    }
    planned(
        replace(
            snapshot, demands=tuple(it for it in demands if it.workload.key not in beyond)
        )
    )


def test_priority_then_age_decides_who_of_a_team_buys() -> None:
    demands = [wants("audio", 2, job="late"), wants("audio", 2, job="urgent", priority=5)]
    plan = planned(world((with_budget("audio", 3),), demands, units=0, **BUYING))
    assert bought(plan) == {"audio/urgent": 2, "audio/late": 1}


@pytest.mark.parametrize("asks", [150, 200, 300])
def test_the_solve_that_finds_a_budget_exceeded_leaves_time_for_the_one_that_keeps_it(
    asks: int,
) -> None:
    """Work that finds no place lets the first solve try everything, which takes most looks when nobody stops it."""
    left_over = wants(
        "of-no-team", 2, node_selector=Requirements.from_labels({CAPACITY_TYPE: "reserved"})
    )
    snapshot = world(
        (with_budget("audio", 3),), [wants("audio", 10), left_over], units=1, **BUYING
    )
    looks = itertools.count(1)

    def used_percent() -> int:
        return 100 * next(looks) // asks

    policy = replace(
        POLICY, expired=lambda: used_percent() >= 100, used_percent=used_percent
    )
    assert bought(solve(snapshot, now=NOW, policy=policy)) == {"audio/job": 3}


def test_replicas_that_ask_for_nothing_are_charged_all_the_same() -> None:
    """Each takes a millionth of its node at the least, so that no team has nodes that it does not pay for."""
    asking = wants("audio", 10)
    idle = replace(asking, workload=replace(asking.workload, requests=Resources.of({})))
    plan = planned(world((with_budget("audio", 0),), [idle], units=0, **BUYING))
    assert plan.launches == ()


def test_a_node_counts_for_who_takes_most_of_it_however_many_share_it() -> None:
    """Forty small replicas of nobody's beside each of a team's large ones would let it run on four nodes for one."""
    large, small = (
        Workload("audio", "job", 1, 2, Resources.of({"cpu": 6_000})),
        Workload("x", "small", 1, 9, SMALL),
    )
    price = USD * 10**12
    host = replace(
        node("nc-1", TYPE, capacity_type=ON_DEMAND),
        placements=(PlacedReplicas(large.key, 1), PlacedReplicas(small.key, 9)),
        used=large.requests + small.requests * 9 + Resources.of({"pods": 10}),
        price_atto_usd_per_hour=price,
    )
    demands = [wants("audio", 1, requests=Resources.of({"cpu": 6_000}))]
    teams = (team("audio", None, budget_micro_usd_per_hour=3 * USD // 2),)
    held = world(
        teams,
        demands,
        units=0,
        **BUYING,
        nodes=(host,),
        workloads={large.key: large, small.key: small},
    )
    plan = planned(held)

    assert not plan.launches, "six of 6.9 parts of what runs are its own, not one of ten"
    assert {unplaced.code for unplaced in plan.unplaced} == {ReasonCode.TEAM_BUDGET}


def test_one_teams_budget_is_nobody_elses() -> None:
    teams = (with_budget("audio", 1), team("vision", None))
    plan = planned(
        world(
            teams,
            [wants("audio", 4), wants("vision", 4), wants("of-no-team", 2)],
            units=0,
            **BUYING,
        )
    )
    assert bought(plan) == {"audio/job": 1, "vision/job": 4, "of-no-team/job": 2}


def test_a_budget_that_suffices_changes_no_plan() -> None:
    snapshot = world((with_budget("audio", 100),), [wants("audio", 10)], **BUYING)
    assert planned(snapshot) == planned(replace(snapshot, teams=()))


def test_the_checker_forbids_buying_beyond_a_budget() -> None:
    snapshot = world((), [wants("audio", 4)], units=0, **BUYING)
    plan = planned(snapshot)
    codes = {
        usd: {
            violation.code
            for violation in violations(
                replace(snapshot, teams=(with_budget("audio", usd),)), plan
            )
        }
        for usd in (3, 4)
    }
    assert codes == {3: {ViolationCode.TEAM_BUDGET}, 4: set()}


def test_a_ceiling_holds_everybody_together() -> None:
    teams = (with_budget("audio", 3), team("vision", None))
    demands = [wants("audio", 4), wants("vision", 4), wants("of-no-team", 2, priority=1)]
    snapshot = world(teams, demands, units=0, **BUYING, ceiling_micro_usd_per_hour=5 * USD)
    plan = planned(snapshot)
    assert sum(bought(plan).values()) == 5
    assert bought(plan)["of-no-team/job"] == 2, "priorities order among all"
    assert bought(plan)["audio/job"] <= 3
    assert {refusal.code for refusal in plan.unplaced} == {ReasonCode.TEAM_BUDGET}
    assert all(
        "the deployment's ceiling leave 0" in refusal.message for refusal in plan.unplaced
    )


def test_a_ceiling_counts_what_runs_and_leaves_reserved_units_alone() -> None:
    runs = world(
        (),
        [wants("audio", 5)],
        {"vision": 2},
        units=2,
        ceiling_micro_usd_per_hour=3 * USD,
        **BUYING,
    )
    assert bought(planned(bought_before(runs))) == {"audio/job": 1}
    reserved = planned(
        world((), [wants("audio", 5)], units=4, ceiling_micro_usd_per_hour=0, **BUYING)
    )
    assert (bought(reserved), sum(launch.count for launch in reserved.launches)) == ({}, 4)


def test_near_the_ceiling_the_dearest_offerings_go_first() -> None:
    """A whole node for each, or two on one: the older work is the dearer."""
    dear = wants("audio", 2, job="dear", waiting=timedelta(hours=1))
    cheap = wants("audio", 4, job="cheap", requests=Resources.of({"cpu": 3_500}))
    snapshot = world((with_budget("audio", 2),), [dear, cheap], units=0, **BUYING)
    assert bought(planned(snapshot)) == {"audio/cheap": 2}


def test_what_is_too_little_for_shared_nodes_goes_to_who_can_use_it() -> None:
    """Unbounded, three gangs share four nodes. Shares of that would buy none of them the nodes of its own."""
    half = Resources.of({"cpu": 3_500})
    demands = [
        wants(
            "audio", 5, job="older", requests=half, gang=Gang(), waiting=timedelta(hours=2)
        ),
        wants(
            "audio", 1, job="old", requests=half, gang=Gang(), waiting=timedelta(hours=1)
        ),
        wants("audio", 2, job="young", requests=half, gang=Gang()),
    ]
    snapshot = world((with_budget("audio", 2),), demands, units=0, **BUYING)
    assert bought(planned(snapshot)) == {"audio/old": 1, "audio/young": 1}


@settings(max_examples=60)
@given(st.data())
def test_a_budget_that_is_enough_for_somebody_is_not_left_unused(
    data: st.DataObject,
) -> None:
    """Plans of small worlds that buy nothing: there is nobody for whom they would buy if nobody else asked."""
    demands = [
        wants(
            data.draw(st.sampled_from(["audio", "of-no-team"])),
            data.draw(st.integers(1, 5)),
            job=f"job-{number}",
            requests=Resources.of(
                {"cpu": data.draw(st.sampled_from([1_500, 3_500, 7_000]))}
            ),
            gang=data.draw(st.sampled_from([None, Gang()])),
            waiting=timedelta(hours=data.draw(st.integers(0, 2))),
        )
        for number in range(data.draw(st.integers(1, 4)))
    ]
    teams = (with_budget("audio", data.draw(st.integers(0, 3))),)
    ceiling = data.draw(st.sampled_from([None, USD, 3 * USD]))
    snapshot = world(teams, demands, units=0, **BUYING, ceiling_micro_usd_per_hour=ceiling)
    if not planned(snapshot).launches:
        assert not [
            it for it in demands if planned(replace(snapshot, demands=(it,))).launches
        ]


def test_the_checker_forbids_buying_beyond_the_ceiling() -> None:
    snapshot = world((), [wants("audio", 4)], units=0, **BUYING)
    plan = planned(snapshot)
    codes = {
        usd: {
            it.code
            for it in violations(
                replace(snapshot, ceiling_micro_usd_per_hour=usd * USD), plan
            )
        }
        for usd in (3, 4)
    }
    assert codes == {3: {ViolationCode.TEAM_BUDGET}, 4: set()}


def test_who_buys_beyond_the_ceiling_is_named_and_who_only_uses_what_is_there_is_not() -> (
    None
):
    """The planner leaves out whom a violation names, and plans the others."""
    demands = [wants("audio", 2, priority=1), wants("vision", 2), wants("of-no-team", 1)]
    snapshot = world((), demands, units=2, **BUYING)
    plan = planned(snapshot)
    assert (
        sum(
            launch.count
            for launch in plan.launches
            if launch.offering.reservation_id is not None
        )
        == 2
    )
    (violation,) = violations(replace(snapshot, ceiling_micro_usd_per_hour=2 * USD), plan)
    assert (
        violation.workload_keys
        == tuple(sorted(bought(plan)))
        == ("of-no-team/job", "vision/job")
    )


@given(st.data())
def test_no_choice_of_whole_nodes_within_the_budgets_buys_more(data: st.DataObject) -> None:
    """All choices of small worlds, by how many replicas of each run: none within all budgets has more."""
    names = ["audio", "vision", "of-no-team"]
    asked = {name: data.draw(st.integers(0, 3)) for name in names}
    budgets = {
        name: data.draw(st.one_of(st.none(), st.integers(0, 4))) for name in names[:2]
    }
    ceiling = data.draw(st.one_of(st.none(), st.integers(0, 6)))
    teams = [
        team(name, None) if usd is None else with_budget(name, usd)
        for name, usd in budgets.items()
    ]
    demands = [wants(name, count) for name, count in asked.items() if count]
    limit = None if ceiling is None else ceiling * USD
    plan = planned(
        world(teams, demands, units=0, **BUYING, ceiling_micro_usd_per_hour=limit)
    )
    choices = product(*(range(count + 1) for count in asked.values()))
    allowed = [
        sum(choice)
        for choice in choices
        if (ceiling is None or sum(choice) <= ceiling)
        and all(
            budgets[name] is None or count <= (budgets[name] or 0)
            for name, count in zip(names[:2], choice, strict=False)
        )
    ]
    assert sum(bought(plan).values()) == max(allowed)
