"""The checker knows what is owned and lent without knowing how it was shared out."""

from dataclasses import replace

from reservoir.core.checking.violation import ViolationCode
from reservoir.core.model.plan import Plan
from reservoir.core.model.snapshot import PlacedReplicas, Snapshot
from reservoir.core.model.team import Team
from reservoir.core.scheduling_terms.resources import Resources
from tests.core.sharing.world import planned, team, units_of, violations, wants, world


def given_to(snapshot: Snapshot, plan: Plan, name: str, count: int) -> Plan:
    """Return the plan with so many units for one team and none for the others."""
    launch = replace(
        plan.launches[0], count=count, placements=(PlacedReplicas(f"{name}/job", 1),)
    )
    counts = {demand.workload.key: demand.pending_count for demand in snapshot.demands}
    counts[f"{name}/job"] -= count
    refusal = plan.unplaced[0] if plan.unplaced else None
    assert refusal is not None
    unplaced = [
        replace(refusal, workload_key=key, count=left)
        for key, left in sorted(counts.items())
        if left
    ]
    return replace(
        plan,
        launches=(launch,),
        unplaced=tuple(unplaced),
        cost_atto_usd_per_hour=cost(plan, count),
    )


def cost(plan: Plan, count: int) -> int:
    nodes = sum(launch.count for launch in plan.launches)
    return plan.cost_atto_usd_per_hour // nodes * count


def codes(
    teams: tuple[Team, ...], name: str, count: int, **used: int
) -> set[ViolationCode]:
    snapshot = world(teams, [wants("audio", 9), wants("vision", 9)], used)
    plan = replace(planned(snapshot), lower_bound_atto_usd_per_hour=None)
    return {
        violation.code
        for violation in violations(snapshot, given_to(snapshot, plan, name, count))
    }


def test_a_loan_beyond_the_borrowing_limit_is_forbidden() -> None:
    teams = (team("audio", 4, borrowing_limit_units=1), team("vision", 4))
    assert ViolationCode.TEAM_QUOTA in codes(teams, "audio", 6)
    assert ViolationCode.TEAM_QUOTA not in codes(teams, "audio", 5)


def test_a_loan_of_what_is_not_lent_is_forbidden() -> None:
    teams = (team("audio", 4), team("vision", 4, lending_limit_units=1))
    assert ViolationCode.TEAM_QUOTA in codes(teams, "audio", 6)
    assert ViolationCode.TEAM_QUOTA not in codes(teams, "audio", 5)
    apart = (team("audio", 4), team("vision", 4, cohort="elsewhere"))
    assert ViolationCode.TEAM_QUOTA in codes(apart, "audio", 5)
    assert ViolationCode.TEAM_QUOTA not in codes(apart, "audio", 4)


def test_a_loan_that_is_forbidden_names_its_workloads() -> None:
    """The planner leaves them out and plans the others: one team's mistake does not stop everybody."""
    snapshot = world(
        (team("audio", 4, borrowing_limit_units=1), team("vision", 4)), [wants("audio", 9)]
    )
    plan = planned(snapshot)
    broken = given_to(snapshot, plan, "audio", 6)
    assert [
        it.workload_keys
        for it in violations(snapshot, broken)
        if it.code is ViolationCode.TEAM_QUOTA
    ] == [("audio/job",)]


def test_who_joins_a_node_of_another_team_borrows_nothing() -> None:
    """Half of vision's node is free: audio uses it, and the node stays vision's though they share it evenly."""
    teams = (
        team("audio", 0),
        team("vision", 2, borrowing_limit_units=1, lending_limit_units=0),
    )
    half = Resources.of({"cpu": 3_500})
    snapshot = world(teams, [wants("audio", 2, requests=half)], {"vision": 1}, units=3)
    (node,) = snapshot.nodes
    running = replace(snapshot.workloads["vision/runs"], requests=half)
    shared = replace(
        snapshot,
        nodes=(replace(node, used=half + Resources.of({"pods": 1})),),
        workloads={**snapshot.workloads, running.key: running},
    )
    plan = planned(shared)
    assert [it.claim_id for it in plan.existing] == ["vision-0"]
    assert units_of(plan) == {"audio": 1}, "the unit beyond those that vision owns"


def test_a_loan_while_its_owner_waits_is_a_shortcoming() -> None:
    teams = (team("audio", 4), team("vision", 4))
    assert codes(teams, "audio", 8) == {ViolationCode.TEAM_OWED}
    assert ViolationCode.TEAM_OWED not in codes(teams, "audio", 4)
    # What nobody owns may be lent to anybody.
    assert ViolationCode.TEAM_OWED not in codes(
        (team("audio", 4), team("vision", 0)), "audio", 8
    )


def test_units_that_idle_while_a_team_may_have_them_are_a_shortcoming() -> None:
    teams = (team("audio", 4), team("vision", 4))
    assert ViolationCode.UNPLACED_WITHOUT_CAUSE in codes(teams, "audio", 4)
