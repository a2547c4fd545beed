"""Pools that ask for distinct values, in random worlds with every other constraint: the checker must agree."""

from dataclasses import replace

import pytest

from lab.oracle.instances import Features, instance
from lab.oracle.world import NOW
from reservoir.core.checker import check
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements

TWO_TYPES = Requirement.new(labels.INSTANCE_TYPE, Operator.EXISTS, (), 2)
# A zone that topology holds to, a limit, few alternatives, a reserved node with company: each once left one type only.
FOUND = (109, 119, 331, 469, 622, 670, 923, 1168, 1240)


def wanting_two_types(world: Snapshot) -> Snapshot:
    wanted = Requirements.of(TWO_TYPES)
    pools = (
        replace(pool, requirements=pool.requirements.merged(wanted))
        for pool in world.node_pools
    )
    return replace(world, node_pools=tuple(pools))


@pytest.mark.parametrize("seed", [*range(40), *FOUND])
def test_a_node_leaves_enough_types_to_choose_from(seed: int) -> None:
    features = (
        Features(True, True, True, True, True, True, True) if seed % 2 else Features()
    )
    snapshot = wanting_two_types(instance(seed, features))
    policy = SchedulingPolicy(alternatives_max=(0, 1, 60)[seed % 3])

    plan = solve(snapshot, now=NOW, policy=policy)

    assert check(snapshot, plan, now=NOW, policy=policy) == ()
