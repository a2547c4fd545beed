"""Limits of borrowing and lending, where there is enough for all and a plan may use more units than it needs."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.team import Team
from reservoir.core.model.workload import AffinityTerm, Demand, Gang, LabelSelector
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms.labels import HOSTNAME
from reservoir.core.scheduling_terms.resources import Resources
from tests.core.scheduler.world import (
    NOW,
    ON_DEMAND,
    POLICY,
    RESERVED,
    fx_type,
    markets,
    node_class,
    pool,
    reservation,
)
from tests.core.sharing.world import TYPE, planned, team, units_of, violations, wants, world

SMALL = fx_type("s", 2, 2, pods=10, price=300_000)
TAGS = {"purpose": "training"}
# one on a small unit, five on a large one
LITTLE: Any = {"requests": Resources.of({"cpu": 1_500})}
APART: Any = {
    "anti_affinity": (AffinityTerm(HOSTNAME, LabelSelector((("app", "apart"),))),),
    "labels": {"app": "apart"},
}
BUYING: Any = {"node_pools": (pool("default", markets(RESERVED, ON_DEMAND)),)}


def sizes(
    *teams: Team, demands: list[Demand], small: int, large: int, **changes: Any
) -> Snapshot:
    """One group with a reservation of small units and one of large ones."""
    units = (
        reservation("cr-1", "s", small, tags=TAGS),
        reservation("cr-2", "p5", large, tags=TAGS),
    )
    known: Any = {
        "instance_types": (TYPE, SMALL),
        "reservations": units,
        "node_classes": (node_class(reservations=units),),
    }
    return replace(world(teams, demands, **changes), **known)


def test_units_of_two_sizes_are_no_more_than_a_team_may_have() -> None:
    """One large unit would do for the five; left to itself, the solve takes three small ones beside it."""
    demands = [wants("vision", 5, **LITTLE)]
    plan = planned(
        sizes(team("vision", 3, borrowing_limit_units=0), demands=demands, small=3, large=3)
    )
    assert plan.unplaced == ()
    assert units_of(plan)["vision"] <= 3


def test_replicas_that_need_a_host_each_take_no_more_units_than_their_team_may_have() -> (
    None
):
    apart = wants("vision", 6, **LITTLE, **APART)
    plan = planned(world((team("vision", 2, borrowing_limit_units=1),), [apart]))
    assert units_of(plan) == {"vision": 3}


def test_what_is_wanted_goes_before_what_could_be_used_besides() -> None:
    """Apart, audio's work could use all eight units, and it owns six: vision still gets the two that it wants."""
    teams = (team("audio", 6, borrowing_limit_units=0), team("vision", 0))
    demands = [wants("audio", 8, **LITTLE, **APART), wants("vision", 2)]
    assert units_of(planned(world(teams, demands))) == {"audio": 6, "vision": 2}


def test_a_node_with_nothing_on_it_is_one_of_the_units_of_who_joins_it() -> None:
    snapshot = world(
        (team("vision", 3, borrowing_limit_units=0),), [wants("vision", 4)], {"vision": 1}
    )
    (left,) = snapshot.nodes
    snapshot = replace(
        snapshot, nodes=(replace(left, placements=(), used=Resources.of({})),), workloads={}
    )
    plan = planned(snapshot)
    assert [joined.claim_id for joined in plan.existing] == ["vision-0"]
    assert units_of(plan) == {"vision": 2}


def test_another_cohort_borrows_what_nobody_owns_while_an_owner_lends_within_its_own() -> (
    None
):
    """Of four units audio owns three and lends them to its cohort: there is one for whoever is outside of it."""
    teams = (team("audio", 3), team("speech", 0), team("vision", 0, cohort="elsewhere"))
    demands = [wants("speech", 1), wants("vision", 2)]
    assert units_of(planned(world(teams, demands, units=4))) == {"speech": 1, "vision": 1}


@pytest.mark.parametrize("buys", [False, True])
@settings(max_examples=60)
@given(data=st.data())
def test_no_plan_of_a_small_world_is_refused(buys: bool, data: st.DataObject) -> None:
    """Whatever is owned, lent and borrowed; a plan may be less good than it could be, and is applied then."""
    count, amount = st.integers(0, 4), st.sampled_from([1_500, 3_500, 7_000])
    teams = [
        team(
            name,
            data.draw(count),
            borrowing_limit_units=data.draw(st.sampled_from([None, 0, 1])),
            lending_limit_units=data.draw(st.sampled_from([None, 0, 1])),
            cohort=data.draw(st.sampled_from(["default", "other"])),
        )
        for name in ("audio", "vision")
    ]
    demands = [
        wants(
            data.draw(st.sampled_from(["audio", "vision", "of-no-team"])),
            data.draw(st.integers(1, 5)),
            job=f"job-{number}",
            requests=Resources.of({"cpu": data.draw(amount)}),
            gang=data.draw(st.sampled_from([None, Gang()])),
            waiting=timedelta(minutes=data.draw(st.sampled_from([0, 90]))),
            **data.draw(st.sampled_from([{}, APART])),
        )
        for number in range(data.draw(st.integers(1, 4)))
    ]
    changes = BUYING if buys else {}
    snapshot = sizes(
        *teams, demands=demands, small=data.draw(count), large=data.draw(count), **changes
    )
    plan = solve(snapshot, now=NOW, policy=POLICY)
    assert not [
        violation for violation in violations(snapshot, plan) if violation.forbids_commit
    ]
