"""A team that may use some pools is placed in these alone; its neighbours anywhere."""

from dataclasses import replace

from shared.core.checking.violation import ViolationCode
from shared.core.model.plan import Plan
from shared.core.model.snapshot import Snapshot
from tests.core.scheduler.world import ON_DEMAND, markets, pool
from tests.core.sharing.world import planned, team, violations, wants, world

POOLS = (pool("first", markets(ON_DEMAND), weight=10), pool("second", markets(ON_DEMAND)))


def pools_of(plan: Plan) -> dict[str, str]:
    return {launch.placements[0].workload_key: launch.node_pool_name for launch in plan.launches}


def held(*names: str) -> Snapshot:
    teams = (team("audio", None, node_pools=names), team("vision", None))
    return world(teams, [wants("audio", 2), wants("vision", 2)], units=0, node_pools=POOLS)


def test_a_team_is_placed_in_the_pools_that_it_may_use() -> None:
    assert pools_of(planned(held())) == {"audio/job": "first", "vision/job": "first"}
    assert pools_of(planned(held("second"))) == {"audio/job": "second", "vision/job": "first"}


def test_without_any_of_its_pools_a_team_waits_and_its_neighbours_do_not() -> None:
    plan = planned(held("gone"))
    assert pools_of(plan) == {"vision/job": "first"}
    (refusal,) = plan.unplaced
    assert refusal.workload_key == "audio/job"


def test_a_team_joins_no_node_of_another_pool() -> None:
    snapshot = held("second")
    (running,) = world((), [], {"vision": 1}).nodes
    roomy = replace(running, used=running.used * 0, node_pool_name="first", reservation_id=None)
    joined = {
        placed.workload_key
        for each in planned(replace(snapshot, nodes=(roomy,))).existing
        for placed in each.placements
    }
    assert joined == {"vision/job"}


def test_the_checker_forbids_a_pool_that_a_team_may_not_use() -> None:
    snapshot = held()
    plan = planned(snapshot)
    found = violations(held("second"), plan)
    assert {(violation.code, violation.workload_keys) for violation in found} == {
        (ViolationCode.TEAM_POOL, ("audio/job",))
    }
