"""The bound on the ladder: whole nodes, and one of those that are anti-affine to each other on each."""

import pytest

from lab.bench.scheduling.ladder_bound import bound_usd_per_hour
from lab.bench.worlds import ladder
from lab.bench.worlds.common import NAMESPACE, NOW, counted
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import AffinityTerm, LabelSelector, Workload
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms.labels import HOSTNAME
from reservoir.core.scheduling_terms.resources import Resources

RUNG = ladder.price_micro_usd(1, 2**31) / 1e6
OVERHEAD = SchedulingPolicy().node_overhead_micro_usd_per_hour / 1e6
APART = AffinityTerm(HOSTNAME, LabelSelector((("app", "alone"),)))


def world(cpu: int, count: int, *, is_apart: bool = False) -> Snapshot:
    """Return replicas of so many milli-vCPU on the ladder."""
    pod = Workload(
        NAMESPACE,
        "",
        1,
        1,
        Resources.of({"cpu": cpu, "memory": 2**27, "pods": 1}),
        labels={"app": "alone"},
        anti_affinity=(APART,) if is_apart else (),
    )
    return ladder.snapshot(counted([pod] * count, "pod"))


def test_a_node_has_whole_vcpus() -> None:
    """Two replicas of 1.5 vCPU, and what a node keeps for itself, are 3.1 vCPU: four, or two nodes of two."""
    assert bound_usd_per_hour(world(1500, 2)) == pytest.approx(
        4 * RUNG + OVERHEAD, rel=0.001
    )


def test_who_is_apart_takes_a_node_each() -> None:
    """Two replicas of 0.4 vCPU share a node of one, unless they must not."""
    together, apart = (
        bound_usd_per_hour(world(400, 2)),
        bound_usd_per_hour(world(400, 2, is_apart=True)),
    )

    assert together == pytest.approx(RUNG + OVERHEAD, rel=0.001)
    assert apart == pytest.approx(2 * (RUNG + OVERHEAD), rel=0.001)


def test_no_plan_of_the_diverse_mix_undercuts_it() -> None:
    mix = ladder.diverse_snapshot(50)

    plan = solve(mix, now=NOW, policy=SchedulingPolicy())

    assert bound_usd_per_hour(mix) <= plan.cost_atto_usd_per_hour / 1e18


def test_a_node_of_more_than_16_vcpus_has_whole_ones() -> None:
    """Two replicas of 17.5 vCPU, and what a node keeps for itself, are 35.1 vCPU."""
    assert bound_usd_per_hour(world(17_500, 2)) == pytest.approx(
        36 * RUNG + OVERHEAD, rel=0.001
    )
