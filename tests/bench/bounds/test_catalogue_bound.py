"""The bound on the catalogue: whole nodes with whole replicas, units of reservations beside what is bought."""

from dataclasses import replace

import pytest

from lab.bench.scheduling.catalogue_bound import bound_usd_per_hour
from lab.bench.worlds import ladder
from lab.bench.worlds.cases import reserved_ladder
from lab.bench.worlds.common import NAMESPACE, NOW, counted
from lab.bench.worlds.mix import Mix, mix_snapshot
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import Workload
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms.resources import Resources

RUNG = ladder.price_micro_usd(1, 2**31) / 1e6
OVERHEAD = SchedulingPolicy().node_overhead_micro_usd_per_hour / 1e6


def world(cpu: int, count: int, types: int) -> Snapshot:
    """Return replicas of so many milli-vCPU and a ladder of so many types."""
    pod = Workload(
        NAMESPACE, "", 1, 1, Resources.of({"cpu": cpu, "memory": 2**27, "pods": 1})
    )
    return ladder.snapshot(counted([pod] * count, "pod"), types=types)


def test_nodes_hold_whole_replicas() -> None:
    """A node of four vCPUs, less its own, holds two of 1.5 vCPU, and not two and a half."""
    four = world(1500, 4, types=4)

    assert bound_usd_per_hour(four) == pytest.approx(2 * (4 * RUNG + OVERHEAD), rel=0.002)


def test_replicas_do_not_span_nodes() -> None:
    """Of 0.6 vCPU one fits on a node of one: three take three such nodes, or one of two."""
    assert bound_usd_per_hour(world(600, 3, types=1)) == pytest.approx(
        3 * (RUNG + OVERHEAD), rel=0.002
    )
    assert bound_usd_per_hour(world(600, 3, types=2)) == pytest.approx(
        2 * RUNG + OVERHEAD, rel=0.002
    )


def test_units_cost_the_overhead_and_are_used_once() -> None:
    """Every unit of the one reservation saves the price of a node."""
    bought = world(600, 30, types=1)
    reserved = reserved_ladder(100, 1, 0)
    one = next(
        item
        for item in reserved.reservations
        if item.instance_type == bought.instance_types[0].name
    )
    units = replace(one, total_count=10, available_count=10, free_units=10)
    mixed = replace(bought, reservations=(units,), node_classes=reserved.node_classes)

    assert bound_usd_per_hour(mixed) == pytest.approx(
        20 * (RUNG + OVERHEAD) + 10 * OVERHEAD, rel=0.002
    )


@pytest.mark.parametrize("seed", range(700, 704))
def test_it_lies_between_the_certificate_and_the_plan(seed: int) -> None:
    """Of demand that is too much to prove in whole nodes: such a proof may lie above a bound on parts of nodes."""
    mix = mix_snapshot(Mix(60, shapes=30, seed=seed, reserved_percent=10 * (seed % 2)))
    plan = solve(mix, now=NOW, policy=SchedulingPolicy(with_certificate=True))
    certificate = plan.lower_bound_atto_usd_per_hour
    assert certificate is not None
    assert not plan.unplaced

    least = bound_usd_per_hour(mix)

    assert certificate / 1e18 * (1 - 0.01) <= least <= plan.cost_atto_usd_per_hour / 1e18
