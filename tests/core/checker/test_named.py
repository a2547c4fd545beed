"""A violation names the workloads that it is about, so that the others of a plan need not wait for them."""

import pytest

from lab.oracle.world import (
    POLICY,
    Case,
    demand,
    launch,
    offering,
    plan,
    snapshot,
    violations,
    workload,
)
from reservoir.core.checker import ViolationCode as V
from tests.core.checker import test_nodes, test_plans, test_topology

BROKEN = [
    case
    for case in (
        *test_nodes.CASES,
        *test_nodes.ALTERNATIVES,
        *test_plans.TOTALS,
        *test_topology.CASES,
    )
    if case.breaks is not None and violations(case)[0].forbids_commit
]
# Of a plan that miscounts money nobody in particular is to blame, and strangers cannot be held back.
UNNAMED = {V.COST}
STRANGERS = {
    "a refusal of a stranger",
    "a refusal of no replicas",
    "nodes for nothing",
    "a workload that is not pending",
}


@pytest.mark.parametrize(
    "case",
    [case for case in BROKEN if case.title not in STRANGERS],
    ids=lambda case: case.title,
)
def test_a_violation_names_pending_workloads(case: Case) -> None:
    for violation in violations(case):
        pending = {item.workload.key for item in case.snapshot.demands}
        assert bool(pending & set(violation.workload_keys)) is (
            violation.code not in UNNAMED
        )


def test_a_workload_in_good_company_is_not_named() -> None:
    world = snapshot(demand(workload("good", cpus=2)), demand(workload("bad", cpus=2)))
    both = plan(launch(offering(), {"good": 1}), launch(offering(), {"bad": 2}))

    found = violations(Case("one launch too full", world, both, policy=POLICY))

    assert {key for violation in found for key in violation.workload_keys} == {"ns/bad"}
