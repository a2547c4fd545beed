"""Whole passes over a large fleet: the planner's and disruption's, cold and warm, with the functions' own stores.

The fleet lies in a stand-in for DynamoDB that answers at once with the bytes of its wire, so that botocore's parser is
in the figures and a network is not; ``calls`` counts what was asked. *Cold* is the first pass of a process, *warm* the
next one, a minute later, after a hundred claims have changed. Times are processor seconds of one core, ``peak_mib`` is
of the process, which holds the stand-in's tables too.
"""

import gc
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from lab.bench.harness import fresh, peak_rss_mib
from lab.bench.worlds.large_fleet import LargeFleet
from lab.calibration import Figures
from reservoir.runtime.composition.disrupt import disrupt_from
from reservoir.runtime.composition.parts.planning import solve_within
from reservoir.runtime.composition.provision import provision_from
from reservoir.usecases.disruption.disrupt import DisruptReport
from reservoir.usecases.provisioning.provision import ProvisionReport

SIZES: Final = (5_000, 10_000, 20_000, 50_000)
CHANGED: Final = 100
_BUDGET: Final = timedelta(seconds=20)  # the deployment's


def cases() -> Sequence[str]:
    """Return one case a function and size of fleet."""
    return [f"fleet-{verb}-{size}" for verb in ("planning", "disruption") for size in SIZES]


def run(case: str) -> Figures:
    """Measure two passes in a process of their own."""
    return fresh("lab.bench.functions.fleet_pass:passes", case)


def passes(case: str) -> Figures:
    """Run a cold and a warm pass."""
    _, verb, size = case.split("-")
    fleet = LargeFleet(int(size))
    outside = fleet.outside()
    solve = solve_within(_BUDGET, time.process_time)
    made = (
        provision_from(outside, solve)
        if verb == "planning"
        else disrupt_from(outside, solve)
    )
    one: Callable[[], DisruptReport | ProvisionReport] = made.run
    gc.collect()
    figures: Figures = {"nodes": int(size), "before_mib": _forget_peak()}
    for name in ("cold", "warm"):
        fleet.tables.calls.clear()
        fleet.tables.read_units, fleet.bucket.written = 0, []
        gc.disable()  # as in the functions
        started = time.process_time()
        report = one()
        figures[f"{name}_cpu_s"] = round(time.process_time() - started, 2)
        gc.enable()
        gc.collect()
        figures[f"{name}_calls"] = dict(sorted(fleet.tables.calls.items()))
        figures[f"{name}_read_units"] = round(fleet.tables.read_units)
        figures[f"{name}_written_kib"] = sum(fleet.bucket.written) >> 10
        figures[f"{name}_did"] = _told(report)
        fleet.clock.advance(minutes=1)
        fleet.change(CHANGED)
    figures["peak_mib"] = peak_rss_mib()
    return figures


def _told(report: DisruptReport | ProvisionReport) -> dict[str, int]:
    if isinstance(report, DisruptReport):
        return {name: count for name, count in report.counts().items() if count}
    return {
        "replicas_placed": report.placed_count,
        "claims": report.claim_count,
        "rejected": len(report.rejected),
    }


def _forget_peak() -> float:
    """Let the largest size of the process be what it is now, where Linux can do that; return it."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_rss_mib()
