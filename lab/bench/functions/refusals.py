"""What it costs to refuse a message: processor time of reading each of those that are made to cost much."""

import time
from collections.abc import Sequence

from lab.bench.harness import repeated
from lab.calibration import Figures
from lab.worlds.hostile_messages import hostile_messages
from reservoir.manifests.messages import parse_demand
from reservoir.manifests.parsing.problems import ManifestError

_TIMES = 5


def cases() -> Sequence[str]:
    """Return the one case."""
    return ["refusals"]


def run(case: str) -> dict[str, object]:
    """Refuse each of the messages in fresh processes."""
    del case
    return dict(repeated("lab.bench.functions.refusals:measured"))


def measured() -> Figures:
    """Return the time of each message, the least of several, and the longest of all."""
    times = {
        name.replace(" ", "_") + "_s": _refusal_s(body)
        for name, body in hostile_messages().items()
    }
    return {**times, "longest_s": max(times.values())}


def _refusal_s(body: str) -> float:
    least = float("inf")
    for _ in range(_TIMES):
        began = time.process_time()
        try:
            parse_demand(body)
        except ManifestError:
            least = min(least, time.process_time() - began)
    return round(least, 4)
