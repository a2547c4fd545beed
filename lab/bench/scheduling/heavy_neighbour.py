"""How long a small workload waits beside another team's heavy demand: a planner for each group, or one for all.

``heavy-neighbour-N``: a team submits N workloads that all differ, over EC2's catalogue. While the planner plans them,
another team, whose NodePool shares nothing with the first one's, submits one small workload. Where each group of pools
has a planner, the small workload is planned at once; where one planner has everything, after the pass that has begun.
The use case runs on stores in memory. Times are of the processor: Lambda gives the planner a whole core, and it uses
one. What the stores of AWS take comes to both ways alike.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from typing import Any, Final

from lab.bench.harness import fresh
from lab.bench.worlds.catalogue import ec2_catalogue
from lab.bench.worlds.mix import Mix, mix_snapshot
from lab.calibration import Figures
from lab.worlds.planning_world import PlanningWorld, node_pool_manifest
from reservoir.core.model.node_class import Subnet
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.ports.state import WorkloadRecord
from reservoir.runtime.composition.parts.planning import solve_within
from reservoir.runtime.garbage import collection_paused
from reservoir.usecases.provisioning.provision import Provision
from reservoir.usecases.provisioning.share_demand import Woken

_SIZES: Final = (100, 300, 1_000, 3_000)
_BUDGET: Final = timedelta(seconds=10)  # as deployed
_POLICY: Final = SchedulingPolicy(with_certificate=True)
_HEAVY: Final = "heavy"
_SMALL: Final = "small"
_EVERYTHING: Final = 10**9  # workloads for which one pass plans all groups


def cases() -> Sequence[str]:
    """Return one case a size of the heavy demand."""
    return [f"heavy-neighbour-{size}" for size in _SIZES]


def run(case: str) -> Figures:
    """Measure both ways, each in a process of its own."""
    size = case.rpartition("-")[2]
    module = "lab.bench.scheduling.heavy_neighbour"
    apart = fresh(f"{module}:with_a_planner_for_each_group", size)
    together = fresh(f"{module}:with_one_planner", size)
    return {**apart, **together}


def with_a_planner_for_each_group(size: str) -> Figures:
    """Time the small workload's pass while the heavy demand waits, and the pass of the heavy demand itself."""
    world = _world(int(size))
    planner = _planner(world)
    small = _submit_small(world)
    waits_s = _timed(planner, Woken(frozenset({small}), names_all=True))
    assert world.workload_has_place(small)
    group = frozenset({_HEAVY})
    heavy_s = _timed(planner, Woken(world.heavy_keys, True, group, group))
    return {"apart_small_waits_cpu_s": waits_s, "apart_heavy_pass_cpu_s": heavy_s}


def with_one_planner(size: str) -> Figures:
    """Time the pass that the small workload waits for, and then the one that plans it with what was left over."""
    world = _world(int(size))
    planner = _planner(world, at_once_max=_EVERYTHING)
    heavy_s = _timed(planner, Woken(world.heavy_keys))
    small = _submit_small(world)
    next_s = _timed(planner, Woken(frozenset({small})))
    assert world.workload_has_place(small)
    return {
        "together_heavy_pass_cpu_s": heavy_s,
        "together_next_pass_cpu_s": next_s,
        "together_small_waits_mean_cpu_s": round(heavy_s / 2 + next_s, 2),
        "together_small_waits_longest_cpu_s": round(heavy_s + next_s, 2),
    }


class _World(PlanningWorld):
    """Two pools that share nothing, and the heavy demand of one of them."""

    heavy_keys: frozenset[str] = frozenset()

    def workload_has_place(self, key: str) -> bool:
        """Whether a claim has a replica of the workload."""
        return any(
            placed.workload_key == key
            for claim in self.state.claim_rows.values()
            for placed in claim.placements
        )


def _world(size: int) -> _World:
    # a process imports it once, not in each pass
    import_module("reservoir.core.solver.column_generation.improve")
    catalogue = ec2_catalogue()
    world = _World()
    world.environment.found_subnets = tuple(
        Subnet(f"subnet-{zone}", zone, zone_id, 60_000) for zone, zone_id in catalogue.zones
    )
    world.ready(pool=_pool(_HEAVY))
    world.apply(_pool(_SMALL))
    world.state.offerings.save_catalogue(catalogue.instance_types)
    mix = mix_snapshot(Mix(size, size, reserved_percent=0))
    draw = random.Random(size)
    keys = set()
    for number, demand in enumerate(mix.demands):
        cpu = demand.workload.requests["cpu"] + draw.randrange(100)
        workload = replace(
            demand.workload,
            name=f"heavy-{number:04}",
            requests=Resources.of({**dict(demand.workload.requests.items()), "cpu": cpu}),
            required_node_terms=_terms(_HEAVY, demand.workload.required_node_terms),
        )
        now = world.clock.now()
        record = WorkloadRecord(
            workload.key, 1, 0, workload, submitted_at=now, pending_since=now
        )
        world.state.workloads.put(record, expected_revision=None)
        keys.add(workload.key)
    world.heavy_keys = frozenset(keys)
    return world


def _pool(name: str) -> dict[str, Any]:
    manifest = node_pool_manifest(name, capacity_types=("spot", "on-demand"))
    manifest["spec"]["template"]["metadata"] = {"labels": {"team": name}}
    return manifest


def _terms(team: str, terms: Sequence[Requirements]) -> tuple[Requirements, ...]:
    own = Requirements.from_labels({"team": team})
    return tuple(term.merged(own) for term in terms) or (own,)


def _submit_small(world: _World) -> str:
    requests = Resources.of({"cpu": 1_000, "memory": 2**30})
    return world.submit(
        "small", replicas=1, requests=requests, required_node_terms=_terms(_SMALL, ())
    ).key


def _planner(world: _World, **changes: Any) -> Provision:
    solve = solve_within(_BUDGET, time.process_time)
    return world.provisioner(solve=solve, policy=_POLICY, **changes)


def _timed(planner: Provision, woken: Woken) -> float:
    with collection_paused():
        began_s = time.process_time()
        planner.run(woken)
        return round(time.process_time() - began_s, 2)
