"""How long a small workload waits beside teams at their bounds: the constraints of each are as many as one may have.

``neighbours-KIND-N``: N workloads of 100 teams, each with the 100 constraints and up to 2,000 values that a workload
may have, and one small workload of another team, over EC2's catalogue, in passes of ten seconds of processor time, one
a minute. Nothing is committed, so that all of it waits in each pass. Kinds: ``terms``, 25 node terms of four
requirements; ``preferences``, 50 terms and 50 preferences, each of which may be given up; ``affinity``, 50 terms of
anti-affinity over zones.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from typing import Final

from lab.bench.harness import fresh, peak_rss_mib
from lab.bench.worlds.common import NOW
from lab.bench.worlds.mix import Mix, mix_snapshot
from lab.calibration import Figures
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.team import Team
from reservoir.core.model.workload import (
    AffinityTerm,
    Demand,
    LabelSelector,
    PreferredNodeTerm,
    Workload,
)
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.runtime.composition.parts.planning import solve_within
from reservoir.runtime.garbage import collection_paused

_TEAMS: Final = 100
_PASSES: Final = 20
_BUDGET: Final = timedelta(seconds=10)
_POLICY: Final = SchedulingPolicy(with_certificate=True)
_SMALL: Final = Workload("small", "job", 1, 1, Resources.of({"cpu": 500, "memory": 2**29}))


def cases() -> Sequence[str]:
    """Return one case a kind and size."""
    return [f"neighbours-{kind}-{size}" for kind in _KINDS for size in (200, 1_000)]


def run(case: str) -> Figures:
    """Measure one case in a process of its own."""
    return fresh("lab.bench.scheduling.neighbours:measure", case)


def measure(case: str, passes: str = str(_PASSES)) -> Figures:
    """Return how long passes took, in how many the small workload had its place, and how many others had one."""
    _, kind, size = case.split("-")
    snapshot = world(kind, int(size))
    # a process imports it once, not in each pass
    import_module("reservoir.core.solver.column_generation.improve")
    took_s: list[float] = []
    with_place: set[str] = set()
    served = 0
    for minute in range(int(passes)):
        solve = solve_within(_BUDGET, time.process_time)
        with collection_paused():
            started_s = time.process_time()
            plan = solve(snapshot, NOW + timedelta(minutes=minute), _POLICY)
            took_s.append(time.process_time() - started_s)
        placed = placed_keys(plan)
        served += _SMALL.key in placed
        with_place |= placed
    took_s.sort()
    return {
        "passes": len(took_s),
        "pass_median_cpu_s": round(took_s[len(took_s) // 2], 2),
        "pass_longest_cpu_s": round(took_s[-1], 2),
        "passes_that_serve_the_small_one": served,
        "served_at_their_bounds": len(with_place - {_SMALL.key}),
        "peak_mib": peak_rss_mib(),
    }


def placed_keys(plan: Plan) -> set[str]:
    """Return the keys of those who have a place."""
    found: set[str] = set()
    for launch in plan.launches:
        found.update(item.workload_key for item in launch.placements)
    for existing in plan.existing:
        found.update(item.workload_key for item in existing.placements)
    return found


def world(kind: str, size: int) -> Snapshot:
    """Return a small workload beside so many of a kind, evenly of all teams."""
    snapshot = mix_snapshot(Mix(10))
    types = sorted(item.name for item in snapshot.instance_types)
    rng = random.Random(size)
    demands = [Demand(_SMALL, 1, NOW)]
    for number in range(size):
        requests = Resources.of({"cpu": rng.randrange(500, 6_000), "memory": 2**30})
        bare = Workload(_name(number), f"w-{number}", 1, 1, requests)
        demands.append(Demand(_KINDS[kind](bare, types, rng), 1, NOW))
    names = [_name(number) for number in range(_TEAMS)]
    teams = tuple(Team(name, namespaces=(name,)) for name in names)
    return replace(snapshot, demands=tuple(demands), teams=teams)


def _name(number: int) -> str:
    return f"team-{number % _TEAMS:02d}"


def _terms(bare: Workload, types: Sequence[str], rng: random.Random) -> Workload:
    terms = []
    for _ in range(25):
        zones = [f"zone-{rng.random()}" for _ in range(19)]
        cpus = [str(rng.randrange(10**6, 10**9)) for _ in range(20)]
        families = [f"family-{rng.random()}" for _ in range(20)]
        term = Requirements.of(
            _some(types, 20, rng),
            Requirement.new(labels.ZONE, Operator.NOT_IN, zones),
            Requirement.new(labels.INSTANCE_CPU, Operator.NOT_IN, cpus),
            Requirement.new(labels.INSTANCE_FAMILY, Operator.NOT_IN, families),
        )
        terms.append(term)
    return replace(bare, required_node_terms=tuple(terms))


def _preferences(bare: Workload, types: Sequence[str], rng: random.Random) -> Workload:
    terms = [Requirements.of(_some(types, 20, rng)) for _ in range(50)]
    preferred = [
        PreferredNodeTerm(weight, Requirements.of(_some(types, 20, rng)))
        for weight in range(1, 51)
    ]
    return replace(
        bare, required_node_terms=tuple(terms), preferred_node_terms=tuple(preferred)
    )


def _affinity(bare: Workload, _types: Sequence[str], rng: random.Random) -> Workload:
    terms = []
    for _ in range(50):
        chosen = LabelSelector((("app", f"{rng.random()}"),))
        terms.append(AffinityTerm(labels.ZONE, chosen))
    return replace(bare, labels={"app": bare.name}, anti_affinity=tuple(terms))


def _some(types: Sequence[str], count: int, rng: random.Random) -> Requirement:
    return Requirement.new(labels.INSTANCE_TYPE, Operator.IN, rng.sample(types, count))


_KINDS: Final[
    Mapping[str, Callable[[Workload, Sequence[str], random.Random], Workload]]
] = {"terms": _terms, "preferences": _preferences, "affinity": _affinity}
