"""What a Lambda pays before its first plan. Imports nothing of the product until the clock runs."""

import sys
import time
from pathlib import Path

from lab.bench.harness import peak_rss_mib

_HEAVY = ("highspy", "numpy", "boto3", "pydantic")


def import_and_solve(path: str) -> dict[str, object]:
    """Import the core, then parse, solve and check one small snapshot."""
    from datetime import UTC, datetime

    before = len(sys.modules)
    started, started_cpu = time.perf_counter(), time.process_time()
    from reservoir.core.checker import check
    from reservoir.core.model.policy import SchedulingPolicy
    from reservoir.core.model.snapshot import Snapshot
    from reservoir.core.scheduler import solve
    from reservoir.core.serialisation.json_codec import dumps, loads

    imported, imported_cpu = time.perf_counter(), time.process_time()
    now, policy = datetime(2026, 1, 1, tzinfo=UTC), SchedulingPolicy()
    snapshot = loads(Snapshot, Path(path).read_text())
    plan = solve(snapshot, now=now, policy=policy)
    violations = check(snapshot, plan, now=now, policy=policy)
    dumps(plan)
    finished, finished_cpu = time.perf_counter(), time.process_time()
    return {
        "import_s": imported - started,
        "import_cpu_s": imported_cpu - started_cpu,
        "first_small_plan_s": finished - imported,
        "first_small_plan_cpu_s": finished_cpu - imported_cpu,
        "modules": len(sys.modules) - before,
        "heavy_modules": ",".join(name for name in _HEAVY if name in sys.modules),
        "violations": len(violations),
        "peak_rss_mib": peak_rss_mib(),
    }
