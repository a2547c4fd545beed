"""The program of the bench `reserved-mixed` says of plans that waste units how few would do."""

from dataclasses import replace

import pytest

from lab.bench.exact.exact_small import used_units
from lab.bench.exact.reserved_mixed import (
    least_units,
    measure,
    misused_launches,
    weigh_one,
    would_fit_elsewhere,
)
from lab.bench.worlds.catalogue import GPU
from lab.bench.worlds.common import NOW
from lab.bench.worlds.reserved_mixed import reserved_mixed_snapshot
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduler import solve

# A world in which nothing need be bought.
SEED = 0
CERTIFIED = SchedulingPolicy(with_certificate=True)


def planned(snapshot: Snapshot) -> Plan:
    """Return the certified plan, which leaves nobody over."""
    plan = solve(snapshot, now=NOW, policy=CERTIFIED)
    assert not plan.unplaced
    return plan


def test_no_plan_uses_fewer_units_than_the_program_says() -> None:
    snapshot = reserved_mixed_snapshot(SEED)
    plan = planned(snapshot)
    least = least_units(snapshot, plan, weigh_one)
    assert 0 < least.at_least <= least.found + 1e-6
    assert least.at_least <= used_units(plan)


def test_a_plan_with_a_unit_too_many_is_seen_through() -> None:
    """The program finds the better plan, though it starts from the worse one."""
    snapshot = reserved_mixed_snapshot(SEED)
    good = planned(snapshot)
    launch = next(item for item in good.launches if len(item.placements) > 1)
    first, *rest = launch.placements
    apart = [
        replace(launch, placements=(first,)),
        replace(launch, placements=tuple(rest)),
    ]
    others = [item for item in good.launches if item is not launch]
    wasteful = replace(good, launches=(*others, *apart))
    assert used_units(wasteful) == used_units(good) + launch.count
    assert least_units(snapshot, wasteful, weigh_one).found <= used_units(good)


def test_a_node_with_gpus_under_other_work_is_misused_avoidably_beside_free_units() -> None:
    snapshot = reserved_mixed_snapshot(SEED)
    plan = planned(snapshot)
    assert not list(misused_launches(snapshot, plan))
    types = {item.name: item for item in snapshot.instance_types}
    with_gpus = next(
        it for it in snapshot.reservations if types[it.instance_type].capacity[GPU]
    )
    launch = next(
        it for it in plan.launches if not types[it.offering.instance_type].capacity[GPU]
    )
    offering = replace(
        launch.offering,
        instance_type=with_gpus.instance_type,
        reservation_id=with_gpus.id,
    )
    moved = replace(launch, offering=offering)
    others = tuple(it for it in plan.launches if it is not launch)
    misusing = replace(plan, launches=(*others, moved))
    assert list(misused_launches(snapshot, misusing)) == [moved]
    assert would_fit_elsewhere(snapshot, misusing, moved)


@pytest.mark.parametrize("form", ["first", "certified"])
def test_figures_are_of_all_worlds(form: str) -> None:
    figures = measure(form, str(SEED), "1")
    assert figures["worlds"] == 1
    assert figures["left_over"] == 0
