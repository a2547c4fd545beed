"""Planning through the deployed stack with one, two, four and eight groups of pools that share nothing.

The same eight pools and the same demand each time: 240 workloads of four replicas, thirty for each pool, whose requests
differ. Classes of the pools of one group select one reservation, which is what joins them. ``placed_s`` counts from the
moment before the first message is sent until every replica has a place; launches go on beside it. ``passes`` are those
that planned something, ``solve_s`` is what they solved for in all. All of AWS and all functions share this
machine, so that more than two planners at once cannot be faster than two here: ``aws_cpu_s``, ``provision_cpu_s`` and
the others are processor seconds of that time, starts of environments (``provision_started``) included.
"""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from lab.bench.deployed.spending import Spending
from lab.bench.harness import tell
from lab.embedded.reservoir import DeployedReservoir
from lab.story.policies import one_type_pool, story_workload, write_manifests
from lab.story.world import World
from reservoir.names import Function

ZONE: Final = "us-east-1a"
TYPE: Final = "m7i.4xlarge"
POOLS: Final = 8
WORKLOADS: Final = 30  # of each pool
REPLICAS: Final = 4
GROUPS: Final = (1, 2, 4, 8)


def cases() -> Sequence[str]:
    """Return one case a number of groups."""
    return [f"planners-deployed-{count}" for count in GROUPS]


def run(case: str) -> dict[str, object]:
    """Deploy, send, wait for every place and return figures."""
    count = int(case.rpartition("-")[2])
    with DeployedReservoir(report=tell) as reservoir:
        world = World(reservoir)
        manifests = []
        for number in range(count):
            world.reserve(f"group-{number}", TYPE, ZONE, 4, f"group-{number}")
        for number in range(POOLS):
            terms = [{"tags": {"purpose": f"group-{number % count}"}}]
            manifests += one_type_pool(
                f"pool-{number}",
                TYPE,
                ["reserved", "on-demand"],
                capacityReservationSelectorTerms=terms,
            )
        with tempfile.TemporaryDirectory() as folder:
            world.apply(write_manifests(Path(folder), manifests))
        world.discover()
        # how long the work takes is what is measured
        world.aws.clock.govern(governed=False)
        spending = Spending(world)
        sent_at = world.now()
        for number in range(WORKLOADS):
            for pool in range(POOLS):
                world.send({"action": "submit", "workload": _workload(pool, number)})
        wanted = POOLS * WORKLOADS * REPLICAS
        world.until(
            "every replica has a place", lambda _: _placed(world) >= wanted, real_time=True
        )
        placed_s = (world.now() - sent_at).total_seconds()
        spent = spending.figures(Function.PROVISION, Function.LAUNCH, Function.INTAKE)
        # A pass says what it did after its launches are on their way, so later than the last replica has its place.
        said = "every pass has said what it placed"
        world.until(
            said,
            lambda _: sum(line["placed_count"] for line in _planned(world)) >= wanted,
            real_time=True,
        )
        passes = [line for line in _planned(world) if line["placed_count"]]
        return {
            "groups": count,
            "replicas": wanted,
            "placed_s": round(placed_s, 1),
            "replicas_per_s": round(wanted / placed_s),
            "passes": len(passes),
            # reservations that were ever beyond their count
            "over_commits": len(world.seen.over_count),
            "lost_races": sum(line["conflict_count"] for line in passes),
            "solve_s": round(sum(line["solve_s"] or 0 for line in passes), 1),
            **spent,
        }


def _placed(world: World) -> int:
    return sum(fact["replicas"] for fact in world.events("Workload Placed"))


def _planned(world: World) -> Sequence[dict[str, Any]]:
    """Return what each pass said of itself."""
    lines = [
        line[line.index("{") :]
        for line in world.log(Function.PROVISION).splitlines()
        if '"planned"' in line
    ]
    return [json.loads(line) for line in lines]


def _workload(pool: int, number: int) -> dict[str, Any]:
    made = story_workload(f"pool-{pool}", REPLICAS, f"{900 + 70 * number}m")
    made["metadata"]["name"] = f"job-{pool}-{number}"
    return made
