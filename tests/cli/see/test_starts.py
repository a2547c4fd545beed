"""When work that waits will start, on each screen that tells it."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.fakes.manifests import workload_manifest
from lab.fakes.stores.history import MemoryHistory
from lab.fakes.values import workload
from lab.worlds.disrupt_world import DisruptWorld
from reservoir.core.history.past_demand import DemandStep, DemandStepKind
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.ports.errors import AwsError
from reservoir.runtime.composition.parts.planning import check, solve_in_full
from reservoir.usecases.provisioning.gather_snapshot import SnapshotGatherer
from reservoir.usecases.provisioning.solver import Solver
from tests.cli.world_stack import WorldStack, invoke

RUNS = 12  # on the days before, of four hours each


class Stack(WorldStack[DisruptWorld]):
    """The part of ``reservoir.cli.stack.connection.Connection`` that estimates need."""

    def __init__(self, world: DisruptWorld, history: MemoryHistory) -> None:
        super().__init__(world)
        self.history = history

    @property
    def policy(self) -> Any:
        return self.world.store

    @property
    def snapshots(self) -> SnapshotGatherer:
        return self.world.gatherer()

    @property
    def solver(self) -> Solver:
        return Solver(SchedulingPolicy(), solve_in_full, check)


@pytest.fixture
def stack() -> Stack:
    """One unit, which is in use since three minutes ago; another job waits for it."""
    world = DisruptWorld("reserved")
    world.add_reservation("cr-1", total_count=1)
    world.submit("train-1", gpus=8)
    world.minutes(3)
    world.submit("train-2", gpus=8)
    world.minutes(1)
    return Stack(world, MemoryHistory())


def remember(stack: Stack, hours: int = 4) -> None:
    """Write down runs that are over."""
    now = stack.clock.now()
    steps = []
    for number in range(RUNS):
        wanted = workload(f"train-0{number}", replicas=1)
        begin = now - timedelta(days=RUNS - number)
        end = begin + timedelta(hours=hours)
        steps += [
            DemandStep(
                f"{number}-1", begin, DemandStepKind.WANTED, wanted.key, 1, workload=wanted
            ),
            DemandStep(f"{number}-2", begin, DemandStepKind.PLACED, wanted.key, 1, 1),
            DemandStep(f"{number}-3", end, DemandStepKind.WITHDRAWN, wanted.key, 1),
        ]
    stack.history.keep_demand(steps)


def explained(stack: Stack) -> Any:
    result = invoke(stack, "explain", "workload", "research/train-2", "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_explain_says_when_a_job_starts_that_waits_for_another(stack: Stack) -> None:
    remember(stack)
    starts = explained(stack)["starts"]
    assert starts["p10At"] <= starts["p50At"] <= starts["p90At"]
    away = datetime.fromisoformat(starts["p50At"]) - stack.clock.now()
    assert timedelta(hours=3, minutes=50) < away < timedelta(hours=4, minutes=10)
    text = invoke(stack, "explain", "workload", "research/train-2").stdout
    assert (
        f"  starts      about {starts['p50At']}, nine times in ten by {starts['p90At']}"
        in text
    )


def test_nothing_is_said_of_starts_where_nothing_is_known(stack: Stack) -> None:
    assert "starts" not in explained(stack)
    text = invoke(stack, "explain", "workload", "research/train-2").stdout
    assert "starts" not in text


def test_a_history_that_cannot_be_read_leaves_the_rest(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AwsError("AccessDeniedException", "Query")

    remember(stack)
    monkeypatch.setattr(stack.history, "demand", refuse)
    found = explained(stack)
    assert (found["pending"], "starts" in found) == (1, False)


def test_the_wide_list_has_a_column_for_it_and_the_short_one_reads_nothing(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(stack)
    wide = invoke(stack, "get", "workloads", "-n", "research", "-o", "wide").stdout
    assert "STARTS" in wide.splitlines()[0]
    (row,) = [line for line in wide.splitlines() if "train-2" in line]
    assert "in 3h5" in row or "in 4h" in row
    document = json.loads(
        invoke(stack, "get", "workloads", "-n", "research", "-o", "json").stdout
    )
    told = {each["metadata"]["name"]: each["status"] for each in document["items"]}
    assert "starts" in told["train-2"]
    assert "starts" not in told["train-1"]
    monkeypatch.setattr(Stack, "snapshots", None)
    short = invoke(stack, "get", "workloads", "-n", "research")
    assert short.exit_code == 0
    assert "STARTS" not in short.stdout


def test_plan_says_when_work_would_start_that_nobody_has_sent(
    stack: Stack, tmp_path: Path
) -> None:
    remember(stack)
    wanted = tmp_path / "train.yaml"
    manifest = workload_manifest("research/train-3", 1, {"nvidia.com/gpu": 8})
    wanted.write_text(yaml.safe_dump(manifest), encoding="utf-8")
    result = invoke(stack, "plan", "-f", str(wanted), "-o", "json")
    assert result.exit_code == 0, result.output
    (told,) = json.loads(result.stdout)["present"]["workloads"]
    # After the one that waits already, which runs for four hours, too.
    begins = stack.clock.now() + timedelta(hours=7, minutes=30)
    assert told["starts"]["p50At"] > begins.isoformat()
    text = invoke(stack, "plan", "-f", str(wanted)).stdout
    assert "research/train-3 starts about 2026-" in text
