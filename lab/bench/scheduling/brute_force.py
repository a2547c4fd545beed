"""How near plans for small random worlds are to the best of all plans, which brute force finds.

``cost_over_least`` is what the plans of all worlds cost together over the least cost of placing the same replicas: in
worlds so small a node more or less is a large part of one plan. In ``worlds_that_leave_more`` another plan would have
placed more of one workload and no less of any other of its priority or a higher one.

Of two readings of a spread brute force takes the one that allows more, so with topology rules the least may be less
than that of any plan that keeps ours.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lab.bench.harness import fresh
from lab.calibration import Figures
from lab.oracle.brute_force import BruteForce
from lab.oracle.comparison import POLICY, could_have_been, placed_vector
from lab.oracle.instances import Features, instance
from lab.oracle.world import NOW
from reservoir.core.scheduler import solve

_WORLDS: Final = 300
_FIRST_SEED: Final = 20_000  # no test uses these
_FAMILIES: Final = {"plain": Features(), "topology": Features(topology=True)}


def cases() -> Sequence[str]:
    """Return worlds without and with topology rules."""
    return [f"brute-force-{family}" for family in _FAMILIES]


def run(case: str) -> Figures:
    """Compare a family's worlds in a process of their own."""
    return fresh(
        "lab.bench.scheduling.brute_force:measure",
        case.removeprefix("brute-force-"),
        str(_WORLDS),
    )


def measure(family: str, worlds: str) -> Figures:
    """Plan so many worlds of a family, and compare each plan with every other one."""
    costs, leasts, leave_more = list[int](), list[int](), 0
    for seed in range(_FIRST_SEED, _FIRST_SEED + int(worlds)):
        world = instance(seed, _FAMILIES[family])
        # A pool of more weight goes before a cheaper one by rule; brute force only knows money.
        snapshot = replace(
            world, node_pools=tuple(replace(pool, weight=0) for pool in world.node_pools)
        )
        plan = solve(snapshot, now=NOW, policy=POLICY)
        vector = placed_vector(snapshot, plan)
        costs.append(plan.cost_atto_usd_per_hour)
        leasts.append(BruteForce(snapshot, POLICY).outcomes[vector])
        leave_more += bool(could_have_been(snapshot, vector))
    return {
        "worlds": len(costs),
        "cost_over_least": round(sum(costs) / sum(leasts), 4),
        "dearer_worlds": sum(
            cost > least for cost, least in zip(costs, leasts, strict=True)
        ),
        "worlds_that_leave_more": leave_more,
    }
