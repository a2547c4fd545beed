"""The same snapshot gives the same bytes: in any process, under any hash seed, with and without HiGHS."""

import subprocess
import sys
from pathlib import Path

import pytest

from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms import labels
from reservoir.core.serialisation.json_codec import dumps, loads
from tests.core.scheduler.world import (
    NOW,
    POLICY,
    demand,
    fx_ladder,
    near,
    plain,
    reservation,
    spread,
    with_demand,
    workload,
)

_SOLVE = """
import sys
from tests.core.scheduler.test_replay import busy_world
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.scheduler import solve
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.serialisation.json_codec import dumps
from tests.core.scheduler.world import NOW
policy = SchedulingPolicy(with_certificate=sys.argv[1] == "certified")
sys.stdout.write(dumps(solve(busy_world(), now=NOW, policy=policy)))
"""


def busy_world() -> Snapshot:  # the child processes import it too
    reservations = (
        reservation("r-1", "rung-4", 3),
        reservation("r-2", "rung-8", 2, zone="zone-2"),
    )
    demands = [
        demand(workload(f"w-{index}", cpu=90 * (index + 1), memory=10**8 * (index % 7)), 11)
        for index in range(12)
    ]
    demands.append(
        demand(
            workload("zonal", cpu=300, topology_spread=(spread(labels.ZONE, app="zonal"),)),
            20,
        )
    )
    demands.append(
        demand(
            workload("apart", cpu=300, anti_affinity=(near(labels.HOSTNAME, app="apart"),)),
            9,
        )
    )
    return with_demand(plain(*fx_ladder(12), reservations=reservations), *demands)


@pytest.mark.parametrize("mode", ["plain", "certified"])
def test_three_hash_seeds_give_the_same_bytes(mode: str) -> None:
    told = {
        subprocess.run(  # noqa: S603 - our own interpreter with our own code
            [sys.executable, "-c", _SOLVE, mode],
            check=True,
            capture_output=True,
            cwd=Path(__file__).parents[3],
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(told) == 1
    assert len(told.pop()) > 1000


def test_a_plan_can_be_replayed_from_json() -> None:
    snapshot = busy_world()
    plan = solve(snapshot, now=NOW, policy=POLICY)
    again = solve(loads(Snapshot, dumps(snapshot)), now=NOW, policy=POLICY)
    assert dumps(again) == dumps(plan)
    assert loads(Plan, dumps(plan)) == plan


def test_the_certificate_is_below_the_cost() -> None:
    plan = solve(busy_world(), now=NOW, policy=SchedulingPolicy(with_certificate=True))
    bound = plan.lower_bound_atto_usd_per_hour
    assert bound is not None
    assert 0 < bound <= plan.cost_atto_usd_per_hour


def test_out_of_time_the_plan_is_complete_and_says_that_it_has_no_certificate() -> None:
    policy = SchedulingPolicy(with_certificate=True, expired=lambda: True)
    plan = solve(busy_world(), now=NOW, policy=policy)
    placed = sum(
        item.count * launch.count for launch in plan.launches for item in launch.placements
    )
    assert placed + sum(item.count for item in plan.unplaced) == sum(
        item.pending_count for item in busy_world().demands
    )
    assert plan.lower_bound_atto_usd_per_hour is None
    assert any("no certificate" in note for note in plan.notes)
