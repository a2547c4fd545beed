"""A pool of workers on a deployment in memory that gives every replica a machine."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import integrations.worker_pool.worker_pool
from integrations.worker_pool import Scale, WorkerPool
from lab.fakes.values import node_claim
from reservoir.core.model.node_claim import ClaimState
from reservoir.core.model.snapshot import PlacedReplicas
from tests.client.world import Deployment

OLD: dict[str, Any] = {"resources": {"requests": {"cpu": "4"}}}
NEW: dict[str, Any] = {"resources": {"requests": {"cpu": "8"}}}


class Machines(Deployment):
    """Gives every replica that is wanted a machine at once; ``sizes`` is how many there were over time, by key."""

    def __init__(self) -> None:
        super().__init__()
        self.totals: list[int] = []

    def send(self, message: Any) -> str:
        sent = super().send(message)
        for key, record in self.state.workload_rows.items():
            wanted = (
                0
                if record.withdrawn or record.workload is None
                else record.workload.replicas
            )
            self.state.workload_rows[key] = replace(record, placed_count=wanted)
            for number in range(20):
                claim = node_claim(
                    f"{key}-{number}",
                    placements=(PlacedReplicas(key, 1),),
                    state=ClaimState.RUNNING,
                )
                self.state.claim_rows.pop(claim.id, None)
                if number < wanted:
                    self.state.claim_rows[claim.id] = claim
        if message["action"] == "submit":
            self.totals.append(len(self.state.claim_rows))
        return sent


def pool(world: Deployment) -> WorkerPool:
    return WorkerPool(world.client(), "workers", "jobs")


def test_the_pool_has_under_a_hundred_lines() -> None:
    assert (
        len(Path(integrations.worker_pool.worker_pool.__file__).read_text().splitlines())
        <= 100
    )


def test_a_number_is_kept_and_asking_again_changes_nothing() -> None:
    world = Machines()
    pool(world).keep(OLD, 5)
    pool(world).keep(OLD, 5)
    assert pool(world).size(OLD) == 5
    (record,) = world.state.workload_rows.values()
    assert record.generation == 1


def test_a_roll_never_has_fewer_workers_than_wanted_and_never_more_than_a_step_beyond() -> (
    None
):
    world = Machines()
    pool(world).keep(OLD, 5)
    pool(world).roll(OLD, NEW, 5, step=2)
    assert (pool(world).size(OLD), pool(world).size(NEW)) == (0, 5)
    assert set(world.totals[1:]) <= {5, 6, 7}


def test_a_roll_goes_on_where_it_died() -> None:
    world = Machines()
    pool(world).keep(OLD, 4)
    pool(world).keep(NEW, 2)  # died before two old ones went
    pool(world).roll(OLD, NEW, 4, step=2)
    assert (pool(world).size(OLD), pool(world).size(NEW)) == (0, 4)
    assert set(world.totals[1:]) <= {4, 5, 6}


def test_a_roll_to_the_same_template_is_a_number_to_keep() -> None:
    world = Machines()
    pool(world).roll(OLD, dict(OLD), 3)
    assert pool(world).size(OLD) == 3


def test_depth_scales_up_at_once_and_down_when_it_is_calm() -> None:
    world = Machines()
    clock = iter(range(0, 10_000, 100))
    now = {"s": 0}
    seen: list[int] = []

    def readings() -> Iterator[int | None]:
        for depth in (0, 95, 95, 10, 10, 10, 10, 10, 500, None):
            seen.append(pool(world).size(OLD))
            now["s"] = next(clock)
            yield depth

    depths = readings()
    scale = Scale(messages_per_worker=10, least_count=1, most_count=12, calm_s=300)
    pool(world).follow(OLD, scale, lambda: next(depths), lambda: float(now["s"]))
    assert seen == [0, 1, 10, 10, 10, 10, 1, 1, 1, 12]
