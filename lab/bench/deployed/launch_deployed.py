"""Many claims through the deployed stack: from a demand message to CreateFleet, everything on one machine.

Four workloads are sent at once: onto on-demand reservations, onto Capacity Blocks, onto spot, and on demand; a replica
fills a node. ``sent_to_call`` counts from the moment before the demand messages are sent until the claim's CreateFleet
is about to be called (its attempt is recorded), so queues, the planner, its commits and cold starts are in it. The
queues have no batching window, which would add nothing but itself. ``sent_to_planned`` ends where the claim's planning
pass begins, ``planned_to_call`` begins there. All of AWS and all functions share this machine: the figures are upper
bounds; ``aws_cpu_s`` and the others say in processor seconds who had the machine until the last instance.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from infra.naming import function_name
from lab.bench.deployed.spending import Spending
from lab.bench.harness import tell
from lab.embedded.reservoir import DeployedReservoir
from lab.story.policies import one_type_pool, story_workload, write_manifests
from lab.story.world import World
from reservoir.core.launching.launch_outcome import LaunchAttempt
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.serialisation.json_codec import loads
from reservoir.names import DEPLOYMENT, Function, Table

ZONE: Final = "us-east-1a"
SIZES: Final = (100, 1_000)
RESERVATIONS: Final = {"odcr": 10, "block": 5}  # of a pool, all of one size
# Pool, its instance type, its market, its share of all claims in percent, and the cores that fill a node of it.
WORK: Final = (
    ("odcr", "m7i.2xlarge", "reserved", 40, "6"),
    ("block", "p5.48xlarge", "reserved", 10, "120"),
    ("cheap", "c7i.2xlarge", "spot", 30, "6"),
    ("plain", "r7i.2xlarge", "on-demand", 20, "6"),
)


def cases() -> Sequence[str]:
    """Return one case a number of claims."""
    return [f"launch-deployed-{size}" for size in SIZES]


def run(case: str) -> dict[str, object]:
    """Deploy, send, wait for every instance and return figures."""
    size = int(case.rpartition("-")[2])
    with DeployedReservoir(report=tell) as reservoir:
        world = World(reservoir)
        _prepare(world, size)
        world.aws.clear_requests()
        # how long the work takes is what is measured
        world.aws.clock.govern(governed=False)
        spending = Spending(world)
        sent_at = world.now()
        for name, _, _, percent, cpu in WORK:
            world.send(
                {
                    "action": "submit",
                    "workload": story_workload(name, size * percent // 100, cpu),
                }
            )
        world.until(
            "every claim has its instance",
            lambda seen: len(seen.launched) == size,
            real_time=True,
        )
        spent = spending.figures(Function.PROVISION, Function.LAUNCH, Function.INTAKE)
        return {**_figures(world, size, sent_at), **spent}


def _prepare(world: World, size: int) -> None:
    """Make reservations and blocks, apply the pools, discover all of it."""
    for name, kind, _, percent, _ in WORK:
        make = world.buy_block if name == "block" else world.reserve
        parts = RESERVATIONS.get(name, 0)
        for number in range(parts):
            make(f"{name}-{number}", kind, ZONE, size * percent // 100 // parts, name)
    manifests = [
        part
        for name, kind, market, _, _ in WORK
        for part in one_type_pool(name, kind, [market])
    ]
    with tempfile.TemporaryDirectory() as folder:
        world.apply(write_manifests(Path(folder), manifests))
    world.discover()


def _figures(world: World, size: int, sent_at: datetime) -> dict[str, object]:
    claims, attempts = rows(world)
    assert len(claims) == size
    assert world.seen.over_count == []
    recorded = {
        claim_id: attempt.recorded_at
        for attempt in attempts
        for claim_id in attempt.claim_ids
    }
    function = function_name(world.output(DEPLOYMENT), Function.LAUNCH)
    calls = sum(
        request["operation"] == "CreateFleet" for request in world.aws.requests(function)
    )
    last = max(claim.launched_at for claim in claims if claim.launched_at is not None)
    return {
        "claims": size,
        "create_fleet_calls": calls,
        "fewest_possible_calls": sum(RESERVATIONS.values()) + 2,
        "total_s": round((last - sent_at).total_seconds(), 1),
        **percentiles(
            "sent_to_call",
            [(recorded[claim.id] - sent_at).total_seconds() for claim in claims],
        ),
        **percentiles(
            "sent_to_planned",
            [(claim.created_at - sent_at).total_seconds() for claim in claims],
        ),
        **percentiles(
            "planned_to_call",
            [(recorded[claim.id] - claim.created_at).total_seconds() for claim in claims],
        ),
    }


def rows(world: World) -> tuple[list[NodeClaim], list[LaunchAttempt]]:
    """Read claims and launch attempts, which share a table."""
    pages = (
        world.aws.client("dynamodb")
        .get_paginator("scan")
        .paginate(TableName=world.output(Table.NODE_CLAIMS.value))
    )
    rows: list[Mapping[str, Any]] = [
        row for page in pages for row in page["Items"] if "data" in row
    ]
    attempts = [
        row["data"]["S"] for row in rows if "client_token" in json.loads(row["data"]["S"])
    ]
    claims = [
        row["data"]["S"] for row in rows if "node_pool_name" in json.loads(row["data"]["S"])
    ]
    return [loads(NodeClaim, text) for text in claims], [
        loads(LaunchAttempt, text) for text in attempts
    ]


def percentiles(name: str, seconds: list[float]) -> dict[str, float]:
    """Return figures by name."""
    ordered = sorted(seconds)
    return {
        f"{name}_p50_s": round(ordered[len(ordered) // 2], 2),
        f"{name}_p99_s": round(ordered[int(len(ordered) * 0.99)], 2),
    }
