"""``reservoir plan`` and ``reservoir replay`` on a world in which things have happened."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import Result

from lab.fakes.manifests import workload_manifest
from lab.fakes.stores.history import MemoryHistory
from lab.fakes.values import reservation
from lab.worlds.planning_world import PlanningWorld, node_pool_manifest
from reservoir.cli.commands.ask.what_if_text import answer_lines
from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.manifests.answers.explanations import WaitingReplicas
from reservoir.manifests.answers.what_if import (
    DisplacedWorkload,
    WhatIfAnswer,
    WhatIfOutcome,
)
from reservoir.manifests.event_parts import WorkloadRef
from reservoir.runtime.composition.parts.planning import check, snapshot_gatherer_from
from reservoir.usecases.provisioning.gather_snapshot import SnapshotGatherer
from reservoir.usecases.provisioning.solver import Solver
from tests.cli.world_stack import WorldStack, invoke
from tests.core.scheduler.world import NOW

DEMAND = workload_manifest("research/train", 3, {"cpu": "90", "nvidia.com/gpu": 8})


class Stack(WorldStack[PlanningWorld]):
    """The part of ``reservoir.cli.stack.connection.Connection`` that asking needs."""

    history = MemoryHistory()  # nothing is known of the past

    @property
    def snapshots(self) -> SnapshotGatherer:
        return snapshot_gatherer_from(self.world.outside())

    @property
    def solver(self) -> Solver:
        return Solver(SchedulingPolicy(), self.world.solve, check)


@pytest.fixture
def world() -> Iterator[PlanningWorld]:
    units = reservation("cr-1", 1, tags={"team": "research"})
    world = PlanningWorld().ready(units)
    before = (
        world.state.node_claims.list_live(),
        world.state.workloads.list_needing_planning(),
    )
    yield world
    assert before == (
        world.state.node_claims.list_live(),
        world.state.workloads.list_needing_planning(),
    )
    assert world.queue.launches == []
    assert world.queue.wake_ups == []


def plan(
    world: PlanningWorld, folder: Path, *arguments: str, given: Any = DEMAND
) -> Result:
    path = folder / "demand.yaml"
    path.write_text(yaml.dump(given))
    return invoke(Stack(world), "plan", "-f", str(path), *arguments, columns=80)


def test_for_people(world: PlanningWorld, tmp_path: Path) -> None:
    result = plan(world, tmp_path)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "WORKLOAD        REPLICAS  USD/H EACH  WHERE",
        "research/train         1    paid for  p5.48xlarge reserved in us-east-1a of cr-1, pool gpu",
        "research/train         2       55.04  p5.48xlarge on-demand in us-east-1a, pool gpu",
        "adds 110.08 USD an hour to what is bought",
    ]


def test_beside_the_present(world: PlanningWorld, tmp_path: Path) -> None:
    result = plan(
        world,
        tmp_path,
        "--with",
        "2 p5.48xlarge in us-east-1a",
        "--price",
        "p5.48xlarge=10",
    )
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["WORKLOAD", "NOW", "EDITED", "USD/H", "EACH", "WHERE"]
    assert [line.split()[1:3] for line in lines[1:4]] == [
        ["1", "1"],
        ["2", "0"],
        ["0", "2"],
    ]
    assert lines[4:] == [
        "adds 110.08 USD an hour to what is bought",
        "edited: adds 0.00 USD an hour to what is bought",
    ]


def test_a_changed_pool_lets_the_rest_wait(world: PlanningWorld, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(yaml.dump(node_pool_manifest(capacity_types=("reserved",))))
    result = plan(world, tmp_path, "--policy", str(path), "-o", "json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert (answer["apiVersion"], answer["kind"]) == ("reservoir/v1", "WhatIf")
    (train,) = answer["edited"]["workloads"]
    assert [(each["replicas"], each["reason"]) for each in train["waiting"]] == [
        (2, "ReservationFull")
    ]
    assert answer["present"]["workloads"][0]["waiting"] == []
    assert answer["present"]["addedMicroUsdPerHour"] == 110_080_000


def test_yaml_says_the_same(world: PlanningWorld, tmp_path: Path) -> None:
    result = plan(world, tmp_path, "-o", "yaml")
    assert yaml.safe_load(result.stdout) == json.loads(
        plan(world, tmp_path, "-o", "json").stdout
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("--with", "2 p5.48xlagre in us-east-1a"),
            "there is no instance type 'p5.48xlagre'; did you mean p5.48xlarge?",
        ),
        (
            ("--with", "2 p5.48xlarge near us-east-1a"),
            "is not of the form COUNT TYPE in ZONE",
        ),
        (("--without", "cr-2"), "there is no reservation 'cr-2'"),
        (("--price", "p5.48xlarge"), "'p5.48xlarge' is not of the form TYPE=USD"),
        (
            ("--price", "p5.48xlarge=cheap"),
            "is not of the form TYPE=USD, such as p5.48xlarge=55.04",
        ),
        (("--policy", "nowhere.yaml"), "cannot read nowhere.yaml"),
    ],
)
def test_what_is_not_understood_is_refused(
    world: PlanningWorld, tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    result = plan(world, tmp_path, *arguments)
    assert result.exit_code == 2
    assert told in result.stderr
    assert result.stdout == ""


def test_policy_is_no_demand(world: PlanningWorld, tmp_path: Path) -> None:
    result = plan(world, tmp_path, given=node_pool_manifest())
    assert result.exit_code == 2
    assert "the demand holds policy: pass it with --policy" in result.stderr


def replay(world: PlanningWorld, *arguments: str) -> Result:
    return invoke(Stack(world), "replay", *arguments, columns=80)


def test_a_replay_is_the_same_to_the_byte(decided: PlanningWorld) -> None:
    result = replay(decided, "plan-000001")
    assert result.exit_code == 0, result.output
    assert (
        result.stdout
        == "plan-000001 of 2026-01-15T12:00:00Z: the same to the byte (3 replicas asked, 0 wait)\n"
    )
    answer = json.loads(replay(decided, "plan-000001", "-o", "json").stdout)
    assert (answer["kind"], answer["same"], "replayed" in answer) == ("Replay", True, False)


def test_a_replay_in_another_world_shows_what_differs(decided: PlanningWorld) -> None:
    result = replay(decided, "plan-000001", "--without", "cr-1")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "WORKLOAD        STORED  REPLAYED  USD/H EACH  WHERE",
        "research/train       1         0    paid for  p5.48xlarge reserved in us-east-1a of cr-1, pool gpu",
        "research/train       2         3       55.04  p5.48xlarge on-demand in us-east-1a, pool gpu",
        "stored buys for 110.08 USD an hour, replayed for 165.12 USD an hour",
    ]


def test_a_replay_with_another_policy_shows_what_would_have_waited(
    decided: PlanningWorld, tmp_path: Path
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(yaml.dump(node_pool_manifest(capacity_types=("reserved",))))
    result = replay(decided, "plan-000001", "--policy", str(path))
    assert result.exit_code == 0, result.output
    bought, waits, paid = result.stdout.splitlines()[1:]
    assert bought.split()[1:3] == ["2", "0"]
    assert (waits.split()[1:3], "not by itself  waits: ReservationFull" in waits) == (
        ["0", "2"],
        True,
    )
    assert paid == "stored buys for 110.08 USD an hour, replayed for 0.00 USD an hour"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("plan-9",), "plan plan-9 is not known (plans are kept for two weeks)"),
        (("plan-000001", "--without", "cr-9"), "there is no reservation 'cr-9'"),
        (("plan-000001", "--with", "much"), "is not of the form COUNT TYPE in ZONE"),
    ],
)
def test_a_replay_that_cannot_be(
    decided: PlanningWorld, arguments: tuple[str, ...], told: str
) -> None:
    result = replay(decided, *arguments)
    assert result.exit_code == 2
    assert told in result.stderr


def test_alternatives_of_a_workload_that_was_placed(decided: PlanningWorld) -> None:
    result = explain(decided, "research/train", "--alternatives")
    assert result.exit_code == 0, result.output
    lines = [line.strip() for line in result.stdout.splitlines()]
    start = lines.index("instead     as plan-000001 at 2026-01-15T12:00:00Z saw it:")
    assert lines[start + 1 : start + 4] == [
        "p5.48xlarge reserved in us-east-1a (cr-1), pool gpu: chosen, 1 x",
        "p5.48xlarge on-demand in us-east-1a, pool gpu: chosen, 2 x",
        "p5.48xlarge on-demand in us-east-1b, pool gpu: 3 x, 165.12 USD an hour; dearer by 55.04 USD an hour",
    ]
    answer = json.loads(
        explain(decided, "research/train", "--alternatives", "-o", "json").stdout
    )
    assert answer["alternatives"][0]["places"][2]["reason"] == "dearer by 55.04 USD an hour"
    assert "alternatives" not in json.loads(
        explain(decided, "research/train", "-o", "json").stdout
    )


def test_alternatives_of_a_workload_that_waits(world: PlanningWorld) -> None:
    wanted = world.submit("large", replicas=1, requests=Resources.of({"cpu": 10**9}))
    result = explain(world, wanted.key, "--alternatives")
    assert (
        "no stored plan launched a node for it; reservoir plan shows what it would get now"
        in result.stdout
    )
    world.state.workload_rows.clear()


def explain(world: PlanningWorld, *arguments: str) -> Result:
    return invoke(Stack(world), "explain", "workload", *arguments, columns=80)


@pytest.fixture
def decided() -> PlanningWorld:
    units = reservation("cr-1", 1, tags={"team": "research"})
    world = PlanningWorld().ready(units)
    world.submit("train", replicas=3)
    world.plan()
    return world


def test_who_would_lose_is_told_with_why_and_until_when() -> None:
    waiting = WaitingReplicas(
        replicas=2,
        reason=ReasonCode.RESERVATION_NOT_STARTED,
        message="cr-2 has not begun",
        earliest_at=NOW + timedelta(hours=5),
    )
    displaced = DisplacedWorkload(
        workload=WorkloadRef(namespace="research", name="batch"),
        replicas=2,
        reserved_replicas=3,
        waiting=waiting,
    )
    outcome = WhatIfOutcome(
        workloads=[], displaced=[displaced], added_micro_usd_per_hour=0, notes=[]
    )
    lines = list(answer_lines(WhatIfAnswer(asked_at=NOW, present=outcome)))
    assert lines[-1] == (
        "displaces research/batch: 2 replicas would wait"
        " (ReservationNotStarted: cr-2 has not begun; not before 2026-01-01T05:00:00Z);"
        " 1 replica would be bought instead of using reserved units"
    )


def test_a_plan_that_was_not_improved_for_lack_of_a_package_says_what_brings_it() -> None:
    notes = ["no certificate: numpy is not installed", "no certificate: out of time"]
    outcome = WhatIfOutcome(
        workloads=[], displaced=[], added_micro_usd_per_hour=0, notes=notes
    )
    lacking, late = list(answer_lines(WhatIfAnswer(asked_at=NOW, present=outcome)))[-2:]
    assert "pip install 'reservoir-ec2[plan]'" in str(lacking)
    assert "pip install" not in str(late)
