"""The worlds of the bench `budget` are what it says they are, and small ones are planned."""

import pytest

from lab.bench.harness import fresh
from lab.bench.scheduling.budget import world
from lab.bench.worlds.catalogue import GPU


@pytest.mark.parametrize(
    "kind", ["plain", "accelerated", "spread", "gangs", "flexible", "pools", "region10"]
)
def test_every_workload_differs_and_is_planned(kind: str) -> None:
    snapshot = world(kind, 60)
    shapes = {
        (demand.workload.requests, demand.workload.node_selector)
        for demand in snapshot.demands
    }

    figures = fresh("lab.bench.scheduling.budget:measure", f"budget-{kind}-60-10s")

    assert len(snapshot.demands) == len(shapes) == 60
    assert figures["left_over"] == 0


def test_a_third_of_the_accelerated_world_asks_for_gpus() -> None:
    assert (
        sum(
            bool(demand.workload.requests[GPU])
            for demand in world("accelerated", 60).demands
        )
        == 20
    )
