"""From a message to CreateFleet on AWS, on paper, one message at a time while it is calm, each warm."""

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

import functions.intake.handler
import functions.launch.handler
import functions.provision.handler
from lab.bench.harness import tell
from lab.bench.on_paper import DELIVERY_MS, OnPaper, OnTheWay
from lab.embedded.reservoir import DeployedReservoir
from lab.story.policies import one_type_pool, story_workload, write_manifests
from lab.story.world import World
from reservoir.names import Function, Queue

WARM_UP: Final = 2
MESSAGES: Final = 9
# Function, its handler, the queue that wakes it, and the call with which its part of the way ends.
STAGES: Final = (
    (Function.INTAKE, functions.intake.handler.handler, Queue.DEMAND, "sqs.SendMessage"),
    (
        Function.PROVISION,
        functions.provision.handler.handler,
        Queue.PLANNING,
        "sqs.SendMessageBatch",
    ),
    (Function.LAUNCH, functions.launch.handler.handler, Queue.LAUNCHES, "ec2.CreateFleet"),
)


def cases() -> Sequence[str]:
    """Return one case a market."""
    return ["latency-on-paper-reserved", "latency-on-paper-bought"]


def run(case: str) -> dict[str, object]:
    """Deploy, put this process in the functions' place, and follow messages."""
    market = case.rpartition("-")[2].replace("bought", "on-demand")
    with DeployedReservoir(report=tell) as reservoir:
        world = World(reservoir)
        world.reserve("odcr", "m7i.2xlarge", "us-east-1a", WARM_UP + MESSAGES, "plain")
        with tempfile.TemporaryDirectory() as folder:
            world.apply(
                write_manifests(
                    Path(folder), one_type_pool("plain", "m7i.2xlarge", [market])
                )
            )
        world.discover()
        on_paper = OnPaper(reservoir, world)
        # a catalogue that was written moments ago is read whole
        world.aws.clock.advance(timedelta(minutes=1))
        ways = [_follow(world, on_paper, number) for number in range(WARM_UP + MESSAGES)]
        return {"messages": MESSAGES, **_figures(ways[WARM_UP:])}


def _follow(world: World, on_paper: OnPaper, number: int) -> Mapping[Function, OnTheWay]:
    workload = story_workload("plain", 1, "6")
    workload["metadata"]["name"] = f"single-{number:02}"
    world.send({"action": "submit", "workload": workload})
    return {
        function: on_paper.follow(
            function, handler, on_paper.received(queue, 10), ends_with
        )
        for function, handler, queue, ends_with in STAGES
    }


def _figures(followed: Sequence[Mapping[Function, OnTheWay]]) -> dict[str, object]:
    figures: dict[str, object] = {}
    total_ms = 0.0
    for function, _, _, _ in STAGES:
        stages = [each[function] for each in followed]
        aws_ms = statistics.median(stage.aws_ms for stage in stages)
        processor_ms = statistics.median(stage.processor_ms for stage in stages)
        figures |= {
            f"{function.value}_calls_in_turn": max(stage.calls for stage in stages),
            f"{function.value}_aws_ms": aws_ms,
            f"{function.value}_processor_ms": round(processor_ms, 1),
        }
        total_ms += DELIVERY_MS + aws_ms + processor_ms
    return {
        **figures,
        "deliveries_ms": DELIVERY_MS * len(STAGES),
        "sent_to_call_ms": round(total_ms),
    }
