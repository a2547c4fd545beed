"""How long a small workload waits beside a team at its bounds that uses the same NodePool, and so the same planner.

``shared-pool-KIND-N``: a team has N workloads waiting whenever a pass begins, which all differ, and keeps asking for
passes, so that each gives way. A small workload of another team comes at any moment of a pass: it waits for the rest of
it, and for all of the next one, which places it. Kinds: ``plain``, Karpenter's mix over EC2's catalogue; ``terms``,
``preferences`` and ``affinity``, each with all the constraints that one may have. ``alone``: the small one's pass when
nothing else waits. Whole passes of the use case on stores in memory, in processor time; reading rows is
``neighbours-waiting-*``.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from itertools import pairwise
from typing import Any, Final

from lab.bench.harness import fresh
from lab.bench.scheduling import neighbours
from lab.bench.worlds.catalogue import ec2_catalogue
from lab.bench.worlds.mix import Mix, mix_snapshot
from lab.calibration import Figures
from lab.worlds.planning_world import PlanningWorld, node_pool_manifest
from reservoir.core.model.node_class import Subnet
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.ports.state import WorkloadRecord
from reservoir.runtime.composition.parts.planning import solve_within
from reservoir.runtime.garbage import collection_paused
from reservoir.usecases.provisioning.provision import Provision
from reservoir.usecases.provisioning.share_demand import EVERYONE

_SIZES: Final = {
    "plain": (1_000, 3_000),
    "terms": (200,),
    "preferences": (200,),
    "affinity": (1_000,),
}
_BUDGET: Final = timedelta(seconds=10)  # as deployed
_POLICY: Final = SchedulingPolicy(with_certificate=True)
_PASSES: Final = 12
_MOMENTS: Final = 1_000  # of a pass at which the small one comes
_HEAVY: Final = "heavy"
_SMALL: Final = "small"


def cases() -> Sequence[str]:
    """Return one case a kind and size."""
    return [f"shared-pool-{kind}-{size}" for kind in _SIZES for size in _SIZES[kind]]


def run(case: str) -> Figures:
    """Measure one case in a process of its own."""
    return fresh("lab.bench.scheduling.shared_pool:measure", case)


def measure(case: str, passes: str = str(_PASSES)) -> Figures:
    """Return what the small workload waits, over all moments at which it may come."""
    kind, size = case.split("-")[2:]
    alone = _World(kind, 0)
    alone_s = alone.pass_s()
    world = _World(kind, int(size))
    world.pass_s()  # of which one in twenty minutes does not give way
    took_s = [world.pass_s() for _ in range(int(passes))]
    waits_s = sorted(
        now_s * moment / _MOMENTS + next_s
        for now_s, next_s in pairwise(took_s)
        for moment in range(_MOMENTS)
    )
    return {
        "passes": len(took_s),
        "pass_longest_cpu_s": round(max(took_s), 2),
        "alone_cpu_s": round(alone_s, 2),
        "waits_p50_cpu_s": round(waits_s[len(waits_s) // 2], 2),
        "waits_p99_cpu_s": round(waits_s[len(waits_s) * 99 // 100], 2),
    }


class _World:
    """One pool, two teams, and the demand of both."""

    def __init__(self, kind: str, size: int) -> None:
        # a process imports it once, not in each pass
        import_module("reservoir.core.solver.column_generation.improve")
        catalogue = ec2_catalogue()
        self._world = PlanningWorld()
        self._world.environment.found_subnets = tuple(
            Subnet(f"subnet-{zone}", zone, zone_id, 60_000)
            for zone, zone_id in catalogue.zones
        )
        self._world.ready(
            pool=node_pool_manifest("shared", capacity_types=("spot", "on-demand"))
        )
        for name in (_HEAVY, _SMALL):
            self._world.apply(_team(name))
        self._world.state.offerings.save_catalogue(catalogue.instance_types)
        self._demands = _heavy(kind, size)
        self._planner = self._new_planner()
        self._count = 0

    def pass_s(self) -> float:
        """Return the processor time of a pass in which the small workload gets its place."""
        for demand in self._demands:
            if self._world.state.workloads.get(demand.workload.key) is None:
                self._put(demand.workload)
        self._count += 1
        requests = Resources.of({"cpu": 500, "memory": 2**29})
        small = Workload(_SMALL, f"job-{self._count}", 1, 1, requests)
        self._put(small)
        with collection_paused():
            began_s = time.process_time()
            self._planner.run(EVERYONE)
            took_s = time.process_time() - began_s
        assert self._has_place(small.key)
        self._take_away_what_was_placed()
        self._world.clock.advance(seconds=10)
        return took_s

    def _new_planner(self) -> Provision:
        solve = solve_within(_BUDGET, time.process_time, is_awaited=lambda: True)
        return self._world.provisioner(solve=solve, policy=_POLICY)

    def _put(self, workload: Workload) -> None:
        now = self._world.clock.now()
        record = WorkloadRecord(
            workload.key, 1, 0, workload, submitted_at=now, pending_since=now
        )
        self._world.state.workloads.put(record, expected_revision=None)

    def _has_place(self, key: str) -> bool:
        return any(
            placed.workload_key == key
            for claim in self._world.state.claim_rows.values()
            for placed in claim.placements
        )

    def _take_away_what_was_placed(self) -> None:
        """Begin the next pass as this one began: the demand that waits is at its bounds again."""
        state: Any = self._world.state
        for claim in state.claim_rows.values():
            for placed in claim.placements:
                state.workload_rows.pop(placed.workload_key, None)
        state.claim_rows.clear()


def _team(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "reservoir/v1",
        "kind": "Team",
        "metadata": {"name": name},
        "spec": {"namespaces": [name]},
    }


def _heavy(kind: str, size: int) -> tuple[Demand, ...]:
    if not size:
        return ()
    if kind != "plain":
        found = [
            demand
            for demand in neighbours.world(kind, size).demands
            if demand.workload.namespace != _SMALL
        ]
        return tuple(_renamed(demand, number) for number, demand in enumerate(found))
    draw = random.Random(size)
    mix = mix_snapshot(Mix(size, size, reserved_percent=0))
    return tuple(
        _renamed(_of_its_own_size(demand, draw), number)
        for number, demand in enumerate(mix.demands)
    )


def _of_its_own_size(demand: Demand, draw: random.Random) -> Demand:
    requests = dict(demand.workload.requests.items())
    requests["cpu"] += draw.randrange(100)
    workload = replace(demand.workload, requests=Resources.of(requests))
    return replace(demand, workload=workload)


def _renamed(demand: Demand, number: int) -> Demand:
    workload = replace(demand.workload, namespace=_HEAVY, name=f"heavy-{number:05}")
    return replace(demand, workload=workload)
