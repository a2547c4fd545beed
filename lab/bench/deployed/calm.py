"""What an hour costs in which nothing happens: ten nodes, two reservations, every schedule as deployed.

Counts requests to AWS, as the emulated account records them, by what they cost: rows and objects written, queries and
single reads, and all of them by function.
"""

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from infra.naming import function_name
from lab.bench.harness import tell
from lab.embedded.reservoir import DeployedReservoir
from lab.story.policies import one_type_pool, story_workload, write_manifests
from lab.story.world import World
from reservoir.names import DEPLOYMENT, Function

RESERVATIONS: Final = 2
NODES_IN_EACH: Final = 4
NODES: Final = 10  # so two are bought
ROW_WRITES: Final = frozenset(
    {"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"}
)
READS: Final = frozenset({"GetItem", "BatchGetItem", "Query", "Scan", "TransactGetItems"})


def cases() -> Sequence[str]:
    """Return the only case."""
    return ["calm"]


def run(_case: str) -> dict[str, object]:
    """Deploy, launch, wait until it is quiet, and count an hour's requests."""
    with DeployedReservoir(report=tell) as reservoir:
        world = World(reservoir)
        for number in range(RESERVATIONS):
            world.reserve(
                f"odcr-{number}", "m7i.2xlarge", "us-east-1a", NODES_IN_EACH, "plain"
            )
        with tempfile.TemporaryDirectory() as folder:
            pool = one_type_pool("plain", "m7i.2xlarge", ["reserved", "on-demand"])
            world.apply(write_manifests(Path(folder), pool))
        world.discover()
        world.send({"action": "submit", "workload": story_workload("plain", NODES, "6")})
        world.until("all run", lambda seen: len(seen.launched) == NODES)
        # consolidation has had its time, samples are taken
        world.aws.clock.advance(timedelta(hours=1))
        world.aws.clear_requests()
        world.aws.clock.advance(timedelta(hours=1))
        return {"nodes": NODES, "reservations": RESERVATIONS, **dict(_figures(world))}


def _figures(world: World) -> Iterator[tuple[str, int]]:
    for function in Function:
        calls = Counter(
            str(each["operation"])
            for each in world.aws.requests(
                function_name(world.output(DEPLOYMENT), function)
            )
        )
        if not calls:
            continue
        tell(f"{function}: {dict(sorted(calls.items()))}")
        name = function.value.replace("-", "_")
        yield (
            f"{name}_rows_written_per_hour",
            sum(count for call, count in calls.items() if call in ROW_WRITES),
        )
        yield f"{name}_objects_written_per_hour", calls["PutObject"]
        yield (
            f"{name}_reads_per_hour",
            sum(count for call, count in calls.items() if call in READS),
        )
        yield f"{name}_calls_per_hour", calls.total()
