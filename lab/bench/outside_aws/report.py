"""The page of ``reservoir report``: how long it takes to make for a week, how large it is, and how soon it is there."""

import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from lab.calibration import Figures
from reservoir.cli.report.figures import make_report
from reservoir.cli.report.page import page
from reservoir.core.history.past_event import PastEvent
from reservoir.core.history.sample import MarketSample, ReservationSample, Sample
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance_type import CapacityType

RUNS: Final = 5
RESERVATIONS: Final = 20
EVENTS: Final = 2_000
_UNTIL: Final = datetime(2026, 1, 16, 12, tzinfo=UTC)
_WEEK: Final = timedelta(days=7)
_EVERY: Final = timedelta(minutes=10)
_TELL: Final = """<script>addEventListener("load", () => setTimeout(() => { document.title = "loaded "
 + performance.getEntriesByType("navigation")[0].loadEventEnd; }, 0));</script></body>"""


def cases() -> Sequence[str]:
    """Return the only case."""
    return ["report-week"]


def run(case: str) -> Figures:
    """Make the page, and open it in Chromium, if there is one."""
    del case
    started = time.process_time()
    text = page(make_report("bench", _UNTIL - _WEEK, _UNTIL, list(_samples()), _events()))
    made: Figures = {
        "make_cpu_s": round(time.process_time() - started, 2),
        "page_bytes": len(text.encode()),
    }
    chromium = shutil.which("chromium")
    if chromium is None:
        return made
    loads_s = sorted(_load_s(chromium, text) for _ in range(RUNS))
    return {**made, "load_least_s": loads_s[0], "load_median_s": statistics.median(loads_s)}


def _load_s(chromium: str, text: str) -> float:
    """Open the page in a fresh browser; the policy that keeps scripts out would keep the one that measures out, too."""
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text).replace(
        "</body>", _TELL
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.html"
        file.write_text(text, encoding="utf-8")
        options = (
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={folder}/profile",
        )
        command = [
            chromium,
            *options,
            "--virtual-time-budget=10000",
            "--dump-dom",
            file.as_uri(),
        ]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - a browser
    loaded = re.search(r"<title>loaded ([\d.]+)</title>", shown)
    assert loaded is not None, shown[:200]
    return round(float(loaded[1]) / 1000, 3)


def _samples() -> Iterator[Sample]:
    """Yield a week of samples in which something changes every hour."""
    at = _UNTIL - _WEEK
    while at < _UNTIL:
        hour = int((at - _UNTIL + _WEEK) / timedelta(hours=1))
        reservations = []
        for number in range(RESERVATIONS):
            ours = (hour + number) % 8
            facts = (
                "p5.48xlarge",
                "us-east-1a",
                ReservationKind.DEFAULT,
                "active",
                8,
                ours,
                0,
                8 - ours,
            )
            reservations.append(ReservationSample(f"cr-{number:017}", *facts, 55_040_000))
        markets = (MarketSample(CapacityType.SPOT, hour % 12, 3_000_000, 6_000_000),)
        yield Sample(at, tuple(reservations), markets)
        at += _EVERY


def _events() -> list[PastEvent]:
    """Return drains and waits, spread over the week."""
    step = _WEEK / EVENTS
    found: list[PastEvent] = []
    for number in range(EVENTS):
        node = {
            "nodeClaim": f"nc-{number}",
            "instanceType": "m5.large",
            "capacityType": "spot",
            "zone": "us-east-1a",
        }
        workload = {"namespace": "bench", "name": f"job-{number}"}
        kinds: tuple[tuple[str, dict[str, Any]], ...] = (
            (
                "Node Draining",
                {
                    "node": node,
                    "reason": "Interruption",
                    "deadline": "2026-01-16T12:00:00Z",
                },
            ),
            (
                "Workload Pending",
                {
                    "workload": workload,
                    "replicas": 1,
                    "reason": "ReservationFull",
                    "message": "",
                },
            ),
        )
        kind, detail = kinds[number % 2]
        found.append(PastEvent(f"e-{number}", _UNTIL - _WEEK + number * step, kind, detail))
    return found
