"""A storm of interruptions on AWS, on paper: what one batch takes, and what as many as run side by side do in a second.

The mix is that of ``lab.bench.functions.interruption``; nodes and messages are those of ``interruption_deployed``. The
queue is full, so that every batch is. A function has its share of a core (AWS gives a whole one with 1,769 MB), so that
processor time takes longer there than here.
"""

import statistics
from collections.abc import Sequence
from typing import Final

import functions.react.handler
from infra.config import FUNCTIONS
from lab.bench.deployed.interruption_deployed import InterruptionStorm
from lab.bench.harness import tell
from lab.bench.on_paper import DELIVERY_MS, OnPaper
from lab.embedded.reservoir import DeployedReservoir
from reservoir.names import Function, Queue

WARM_UP: Final = 2
BATCHES: Final = 9
_SETTINGS: Final = FUNCTIONS[Function.REACT]
_WHOLE_CORE_MIB: Final = 1769


def cases() -> Sequence[str]:
    """Return the only case."""
    return ["interruption-on-paper"]


def run(case: str) -> dict[str, object]:
    """Fill the queue, put this process in the function's place, and follow its batches."""
    del case
    size, several = _SETTINGS.batch_size, _SETTINGS.max_concurrency
    with DeployedReservoir(report=tell) as reservoir:
        storm = InterruptionStorm(reservoir)
        storm.prepare((WARM_UP + BATCHES) * size)
        on_paper = OnPaper(reservoir, storm.clock)
        ways = []
        for _ in range(WARM_UP + BATCHES):
            event = on_paper.received(Queue.REACTIONS, size)
            assert len(event["Records"]) == size
            ways.append(
                on_paper.follow(
                    Function.REACT, functions.react.handler.handler, event, ends_with=""
                )
            )
    aws_ms = statistics.median(way.aws_ms for way in ways[WARM_UP:])
    processor_ms = statistics.median(way.processor_ms for way in ways[WARM_UP:])
    batch_ms = (
        DELIVERY_MS + aws_ms + processor_ms / min(1, _SETTINGS.memory_mib / _WHOLE_CORE_MIB)
    )
    return {
        "messages": BATCHES * size,
        "calls_in_turn": max(way.calls for way in ways[WARM_UP:]),
        "aws_ms_per_batch": aws_ms,
        "processor_ms_per_batch": round(processor_ms, 1),
        "delivery_ms": DELIVERY_MS,
        "batch_ms": round(batch_ms),
        "messages_per_s": round(1000 * several * size / batch_ms),
    }
