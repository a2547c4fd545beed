"""Solver and checker are written apart, so they must agree on what the rules leave to be read."""

from lab.oracle.world import (
    NOW,
    POLICY,
    SMALL,
    Case,
    demand,
    found,
    instance_type,
    launch,
    offering,
    plan,
    snapshot,
    workload,
)
from reservoir.core.checker import ViolationCode, check
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms.resources import Resources

NO_PODS = snapshot(
    demand(workload()),
    instance_types=(
        instance_type(SMALL, 2, capacity=Resources.of({"cpu": 2000, "memory": 2**33})),
    ),
)


def test_a_type_that_names_no_pods_holds_none() -> None:
    """Every replica takes a pod, and what a type does not name it does not have (R-54)."""
    decided = solve(NO_PODS, now=NOW, policy=POLICY)

    assert [(item.workload_key, item.count) for item in decided.unplaced] == [("ns/job", 1)]
    assert check(NO_PODS, decided, now=NOW, policy=POLICY) == ()
    assert found(
        Case("on it all the same", NO_PODS, plan(launch(offering(), {"job": 1})))
    ) == {ViolationCode.RESOURCES}
