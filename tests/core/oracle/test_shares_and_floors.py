"""Shares of spot pools and floors of reserved slots on small worlds: no plan breaks them, nobody waits for nothing."""

from itertools import product

import pytest

from lab.oracle.instances import instance
from lab.oracle.world import NOW
from reservoir.core.checker import check
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.scheduler import solve
from tests.core.oracle.test_optimum import FAMILIES

SEEDS = range(15)
POLICIES = {
    "share-30": SchedulingPolicy(spot_pool_share_percent=30, spot_share_from_nodes=1),
    "share-50": SchedulingPolicy(spot_pool_share_percent=50, spot_share_from_nodes=3),
    "floor-25": SchedulingPolicy(reserved_floor_percent=25),
    "floor-40": SchedulingPolicy(reserved_floor_percent=40),
    "both": SchedulingPolicy(
        spot_pool_share_percent=50, spot_share_from_nodes=1, reserved_floor_percent=40
    ),
}
# Worlds beyond the first ones in which a plan was wrong.
FOUND = (
    ("floor-40", "gangs", 114),
    ("both", "topology", 545),
    ("both", "everything", 458),
    *(("share-30", "priorities", seed) for seed in (71, 76)),
)


@pytest.mark.parametrize(
    ("policy", "family", "seed"), [*product(POLICIES, FAMILIES, SEEDS), *FOUND]
)
def test_the_checker_agrees(policy: str, family: str, seed: int) -> None:
    world = instance(seed, FAMILIES[family])
    plan = solve(world, now=NOW, policy=POLICIES[policy])
    assert check(world, plan, now=NOW, policy=POLICIES[policy]) == ()
