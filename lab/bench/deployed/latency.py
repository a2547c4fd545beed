"""From a message to CreateFleet while it is calm: single workloads one after the other, everything on one machine.

Stages by the rows that they leave: a message is stored (the workload's row says when), planned (its claim is created)
and called (the launch attempt is recorded, just before CreateFleet). Each workload fills a node that is bought. The
clock runs at real speed without its governor, and the functions are warm.
"""

import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from lab.bench.deployed.launch_deployed import percentiles, rows
from lab.bench.harness import tell
from lab.embedded.reservoir import DeployedReservoir
from lab.story.policies import one_type_pool, story_workload, write_manifests
from lab.story.world import World
from reservoir.adapters.dynamodb.workloads import DynamoDbWorkloadStore
from reservoir.adapters.system import SystemClock
from reservoir.names import Table

WARM_UP: Final = 3
MESSAGES: Final = 20
EVERY_S: Final = 4


def cases() -> Sequence[str]:
    """Return the only case."""
    return ["latency"]


def run(_case: str) -> dict[str, object]:
    """Deploy, warm up, send, and return the stages."""
    with DeployedReservoir(report=tell) as reservoir:
        world = World(reservoir)
        with tempfile.TemporaryDirectory() as folder:
            world.apply(
                write_manifests(
                    Path(folder), one_type_pool("plain", "r7i.2xlarge", ["on-demand"])
                )
            )
        world.discover()
        world.aws.clock.govern(governed=False)
        sent = [_send(world, number) for number in range(WARM_UP + MESSAGES)][WARM_UP:]
        world.until(
            "all run", lambda seen: len(seen.launched) == WARM_UP + MESSAGES, real_time=True
        )
        return {"messages": MESSAGES, **_figures(world, sent)}


def _send(world: World, number: int) -> tuple[str, datetime]:
    workload = story_workload("plain", 1, "6")
    name = f"single-{number:02}"
    workload["metadata"]["name"] = name
    at = world.now()
    world.send({"action": "submit", "workload": workload})
    time.sleep(EVERY_S)
    return f"{workload['metadata']['namespace']}/{name}", at


def _figures(world: World, sent: Sequence[tuple[str, datetime]]) -> dict[str, float]:
    claims, attempts = rows(world)
    called = {
        claim_id: attempt.recorded_at
        for attempt in attempts
        for claim_id in attempt.claim_ids
    }
    found = {placed.workload_key: claim for claim in claims for placed in claim.placements}
    stored = DynamoDbWorkloadStore(
        world.aws.client("dynamodb"), world.output(Table.WORKLOADS.value), SystemClock()
    ).get_many([key for key, _ in sent])
    in_order = [
        (at, stored[key].submitted_at or at, found[key].created_at, called[found[key].id])
        for key, at in sent
    ]
    return {
        **percentiles(
            "sent_to_stored", [(b - a).total_seconds() for a, b, _, _ in in_order]
        ),
        **percentiles(
            "stored_to_planned", [(c - b).total_seconds() for _, b, c, _ in in_order]
        ),
        **percentiles(
            "planned_to_call", [(d - c).total_seconds() for _, _, c, d in in_order]
        ),
        **percentiles("sent_to_call", [(d - a).total_seconds() for a, _, _, d in in_order]),
    }
