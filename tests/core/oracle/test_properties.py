"""What must hold of every plan for every snapshot."""

import hashlib
import subprocess
import sys
from dataclasses import replace
from functools import cache
from random import Random
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lab.oracle import world
from lab.oracle.instances import Features, instance
from reservoir.core.checker import check
from reservoir.core.checking.final_state.facts import Facts
from reservoir.core.checking.totals import placed_counts, used_units
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import NoDurationPolicy, PreferencePolicy, SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.serialisation.json_codec import dumps, loads
from tests.strategies import NOW, snapshots

POLICIES = st.builds(
    SchedulingPolicy,
    node_overhead_micro_usd_per_hour=st.sampled_from((0, 2_000)),
    preference_policy=st.sampled_from(PreferencePolicy),
    no_duration_policy=st.sampled_from(NoDurationPolicy),
)
T = TypeVar("T")
# Explaining a failure would take minutes; a shrunk example says enough.
slow = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
    report_multiple_bugs=False,
)


def placed(snapshot: Snapshot, plan: Plan) -> int:
    return placed_counts(Facts(snapshot, plan, NOW, SchedulingPolicy())).total()


@slow
@given(snapshot=snapshots(), policy=POLICIES)
def test_the_checker_finds_nothing(snapshot: Snapshot, policy: SchedulingPolicy) -> None:
    plan = solve(snapshot, now=NOW, policy=policy)
    assert [str(item) for item in check(snapshot, plan, now=NOW, policy=policy)] == []


@slow
@given(snapshot=snapshots())
def test_capacity_is_conserved(snapshot: Snapshot) -> None:
    """Counted apart from the checker: units, replicas, and each resource of each node."""
    plan = solve(snapshot, now=NOW, policy=SchedulingPolicy())
    free = {item.id: item.free_units for item in snapshot.reservations}
    used = used_units(Facts(snapshot, plan, NOW, SchedulingPolicy()))
    assert all(count <= free[name] for name, count in used.items())
    requests = {item.workload.key: item.workload.requests for item in snapshot.demands}
    types = {item.name: item for item in snapshot.instance_types}
    for launch in plan.launches:
        for name in ("cpu", "memory", "pods"):
            load = sum(
                requests[item.workload_key][name] * item.count for item in launch.placements
            )
            assert load <= types[launch.offering.instance_type].allocatable[name]
    wanted = sum(item.pending_count for item in snapshot.demands)
    assert placed(snapshot, plan) + sum(item.count for item in plan.unplaced) == wanted


@slow
@given(snapshot=snapshots(topology=False, limited=False), index=st.integers(0, 2))
def test_more_free_units_leave_no_more_unplaced(snapshot: Snapshot, index: int) -> None:
    if not snapshot.reservations:
        return
    chosen = index % len(snapshot.reservations)
    more = tuple(
        replace(item, free_units=item.free_units + 1, total_count=item.total_count + 1)
        if number == chosen
        else item
        for number, item in enumerate(snapshot.reservations)
    )
    before = solve(snapshot, now=NOW, policy=SchedulingPolicy())
    after = solve(replace(snapshot, reservations=more), now=NOW, policy=SchedulingPolicy())
    assert placed(snapshot, after) >= placed(snapshot, before)


def test_more_free_units_leave_no_more_unplaced_under_a_limit() -> None:
    types = (world.instance_type(world.SMALL, 2), world.instance_type(world.LARGE, 8))
    limited = (world.pool(limits=Resources.of({"cpu": 8000})),)
    wanted = world.demand(
        world.workload(requests=Resources.of({"cpu": 1500, "memory": 2**29, "pods": 1})), 5
    )
    none, one = (
        world.snapshot(
            wanted,
            instance_types=types,
            node_pools=limited,
            reservations=(world.reservation(free_units=units),),
        )
        for units in (0, 1)
    )
    plans = [solve(each, now=NOW, policy=SchedulingPolicy()) for each in (none, one)]
    assert placed(one, plans[1]) >= placed(none, plans[0])


@slow
@given(snapshot=snapshots(topology=False, limited=False))
def test_more_offerings_leave_no_more_unplaced(snapshot: Snapshot) -> None:
    """Every offering comes back into stock."""
    stocked = tuple(
        replace(
            item,
            offerings=tuple(replace(one, unavailable_until=None) for one in item.offerings),
        )
        for item in snapshot.instance_types
    )
    before = solve(snapshot, now=NOW, policy=SchedulingPolicy())
    after = solve(
        replace(snapshot, instance_types=stocked), now=NOW, policy=SchedulingPolicy()
    )
    assert placed(snapshot, after) >= placed(snapshot, before)


@slow
@given(snapshot=snapshots(), random=st.randoms(use_true_random=False))
def test_the_order_of_the_input_changes_nothing(snapshot: Snapshot, random: Random) -> None:
    def shuffled(items: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(random.sample(items, len(items)))

    other = replace(
        snapshot,
        instance_types=tuple(
            replace(item, offerings=shuffled(item.offerings))
            for item in shuffled(snapshot.instance_types)
        ),
        reservations=shuffled(snapshot.reservations),
        node_pools=shuffled(snapshot.node_pools),
        nodes=shuffled(snapshot.nodes),
        demands=shuffled(snapshot.demands),
    )
    plans = [solve(each, now=NOW, policy=SchedulingPolicy()) for each in (snapshot, other)]
    assert dumps(plans[0]) == dumps(plans[1])


@slow
@given(snapshot=snapshots())
def test_a_replay_from_json_is_the_same_plan_byte_for_byte(snapshot: Snapshot) -> None:
    again = loads(Snapshot, dumps(snapshot))
    assert dumps(solve(again, now=NOW, policy=SchedulingPolicy())) == dumps(
        solve(snapshot, now=NOW, policy=SchedulingPolicy())
    )


@cache
def digest() -> str:
    """Hash the plans of many small worlds; run in processes with different hash seeds."""
    features = Features(True, True, True, True, True, True, True)
    text = "".join(
        dumps(solve(instance(seed, features), now=NOW, policy=SchedulingPolicy()))
        for seed in range(60)
    )
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("seed", ["0", "1", "4294967295"])
def test_hash_seeds_change_nothing(seed: str) -> None:
    # "env" adds to the environment that the child inherits, whatever it is.
    code = "from tests.core.oracle.test_properties import digest; print(digest())"
    command = ["/usr/bin/env", f"PYTHONHASHSEED={seed}", sys.executable, "-c", code]
    found = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own code
    assert found.stdout.strip() == digest()
