"""``reservoir advise`` on a world whose history a test has written."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lab.fakes.stores.history import MemoryHistory
from lab.fakes.system import START
from lab.fakes.values import reservation, workload
from lab.worlds.planning_world import PlanningWorld, node_pool_manifest
from reservoir.core.history.past_demand import DemandStep, DemandStepKind
from reservoir.core.history.sample import ReservationSample, Sample
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.workload import FallbackStep
from reservoir.runtime.composition.parts.planning import check, snapshot_gatherer_from
from reservoir.usecases.provisioning.gather_snapshot import SnapshotGatherer
from reservoir.usecases.provisioning.solver import Solver
from tests.cli.world_stack import WorldStack, invoke

DAYS = 28
PRICE = 55_040_000


class Stack(WorldStack[PlanningWorld]):
    """The part of ``reservoir.cli.stack.connection.Connection`` that advice needs."""

    def __init__(self, world: PlanningWorld) -> None:
        super().__init__(world)
        self.history = MemoryHistory()

    @property
    def snapshots(self) -> SnapshotGatherer:
        return snapshot_gatherer_from(self.world.outside())

    @property
    def solver(self) -> Solver:
        return Solver(SchedulingPolicy(with_certificate=True), self.world.solve, check)

    def remember(
        self, name: str, begin: datetime, hours: float, replicas: int = 1, **changes: Any
    ) -> None:
        """Write down work that ran from its arrival on."""
        wanted = workload(name, replicas=replicas, **changes)
        end = begin + timedelta(hours=hours)
        self.history.keep_demand(
            [
                DemandStep(
                    f"{name}-1",
                    begin,
                    DemandStepKind.WANTED,
                    wanted.key,
                    1,
                    workload=wanted,
                ),
                DemandStep(
                    f"{name}-2", begin, DemandStepKind.PLACED, wanted.key, 1, replicas
                ),
                DemandStep(f"{name}-3", end, DemandStepKind.WITHDRAWN, wanted.key, 1),
            ]
        )


def stack_with(units: int, *markets: str) -> Stack:
    held = reservation("cr-1", units, tags={"team": "research"})
    world = PlanningWorld().ready(
        held, pool=node_pool_manifest(capacity_types=markets or ("reserved",))
    )
    return Stack(world)


def advise(stack: Stack, *arguments: str) -> Any:
    result = invoke(stack, "advise", *arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def idle() -> Iterator[Stack]:
    """Four units, of which one is used by day."""
    stack = stack_with(4)
    stack.world.clock.advance(days=DAYS)
    for day in range(DAYS):
        stack.remember(f"job-{day}", START + timedelta(days=day), 20)
    yield stack
    assert stack.world.queue.launches == []
    assert stack.world.state.node_claims.list_live() == ()


def test_for_people(idle: Stack) -> None:
    result = invoke(idle, "advise", columns=120)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith(
        f"{DAYS} workloads of 2026-01-15 12:00 to 2026-02-12 12:00 UTC"
    )
    assert lines[1].split() == [
        "#",
        "CHANGE",
        "PAID",
        "LESS",
        "WAITING",
        "LESS",
        "SAVES",
        "SURE",
    ]
    assert lines[2].split("  ")[1].strip() == "cr-1: 4 to 1 p5.48xlarge in us-east-1a"
    assert lines[2].endswith("4 of 4 weeks")
    assert (
        lines[3]
        == "1: aws ec2 modify-capacity-reservation --capacity-reservation-id cr-1 --instance-count 1"
    )
    assert lines[4] == "   but units that are given back may not be available again"
    assert any(line.startswith("note: on-demand capacity is assumed") for line in lines)


def test_the_page_shows_what_is_printed(idle: Stack) -> None:
    printed = invoke(idle, "advise", columns=120).stdout
    page = (Path(__file__).resolve().parents[3] / "docs/advice.md").read_text(
        encoding="utf-8"
    )
    shown = page.partition("$ reservoir advise\n")[2].partition("```")[0]
    assert shown == printed


def test_for_programs(idle: Stack) -> None:
    found = advise(idle)
    assert found["kind"] == "Advice"
    (change,) = found["changes"]
    month = 720 * PRICE
    assert (change["units"], change["unitsAdvised"], change["paidLessMicroUsd"]) == (
        4,
        1,
        3 * month,
    )
    assert found["before"]["heldMicroUsd"] == 4 * month
    assert found["after"]["heldMicroUsd"] == month


def test_change_nothing_is_an_answer() -> None:
    stack = stack_with(1)
    stack.world.clock.advance(days=DAYS)
    for day in range(DAYS):
        stack.remember(f"job-{day}", START + timedelta(days=day), 24)
    result = invoke(stack, "advise")
    assert "change nothing" in result.stdout
    assert advise(stack)["changes"] == []


def test_what_is_bought_at_the_same_price_and_waits_for_nothing_is_left_so() -> None:
    stack = stack_with(0, "reserved", "on-demand")
    stack.world.clock.advance(days=DAYS)
    for day in range(DAYS):
        stack.remember(f"job-{day}", START + timedelta(days=day), 24)
    assert advise(stack)["changes"] == []


def test_units_for_what_waits_are_made_with_the_tags_that_are_selected() -> None:
    other = reservation("cr-1", 1, tags={"team": "research"}, instance_type="m5.4xlarge")
    pool = node_pool_manifest(capacity_types=("reserved", "on-demand"))
    stack = Stack(PlanningWorld().ready(other, pool=pool))
    stack.world.clock.advance(days=DAYS)
    ladder = (
        FallbackStep(CapacityType.RESERVED, 7200),
        FallbackStep(CapacityType.ON_DEMAND),
    )
    for day in range(DAYS):
        stack.remember(f"job-{day}", START + timedelta(days=day), 24, fallback=ladder)
    made = next(it for it in advise(stack)["changes"] if "capacityReservationId" not in it)
    assert (made["units"], made["unitsAdvised"]) == (0, 1)
    assert made["command"] == (
        "aws ec2 create-capacity-reservation --instance-type p5.48xlarge --instance-platform Linux/UNIX"
        f" --availability-zone {made['zone']} --instance-count 1 --instance-match-criteria targeted"
        " --tag-specifications 'ResourceType=capacity-reservation,Tags=[{Key=team,Value=research}]'"
    )


def test_a_budget_and_the_worth_of_waiting_are_asked_for() -> None:
    stack = stack_with(1)
    stack.world.clock.advance(days=DAYS)
    for day in range(DAYS):
        for number in (1, 2):
            stack.remember(f"job-{day}-{number}", START + timedelta(days=day), 20)
    assert [it["unitsAdvised"] for it in advise(stack)["changes"]] == [2]
    assert advise(stack, "--budget", "1000")["changes"] == []
    assert invoke(stack, "advise", "--budget", "much").exit_code == 2


def test_a_deployment_that_is_younger_than_the_question_says_so(idle: Stack) -> None:
    found = advise(idle, "--since", "60d")
    assert found["since"] == "2026-01-15T12:00:00Z"
    assert (
        "demand is known since 2026-01-15 12:00 UTC only, which is less than was asked for"
        in found["notes"]
    )
    assert not any("only" in note for note in advise(idle, "--since", "7d")["notes"])


def test_without_a_day_of_demand_there_is_no_advice() -> None:
    stack = stack_with(2)
    result = invoke(stack, "advise")
    assert result.exit_code == 2
    assert (
        "demand is known since 2026-01-15 12:00 UTC: ask again when that is a day ago"
        in result.stderr
    )


def test_what_ran_in_blocks_is_said_to_be_played_without_them(idle: Stack) -> None:
    block = ReservationSample(
        "cr-9",
        "p5.48xlarge",
        "us-east-1a",
        ReservationKind.CAPACITY_BLOCK,
        "active",
        8,
        8,
        0,
        0,
    )
    for minutes in (0, 60):
        idle.history.keep_sample(
            Sample(START + timedelta(days=1, minutes=minutes), (block,))
        )
    assert any("8 unit-hours in Capacity Blocks" in note for note in advise(idle)["notes"])


def test_what_others_use_is_not_ours_to_give_back() -> None:
    shared = reservation("cr-1", 6, 4, tags={"team": "research"})
    stack = Stack(
        PlanningWorld().ready(shared, pool=node_pool_manifest(capacity_types=("reserved",)))
    )
    stack.world.clock.advance(days=DAYS)
    for day in range(DAYS):
        stack.remember(f"job-{day}", START + timedelta(days=day), 24)
    (change,) = advise(stack)["changes"]
    assert (change["units"], change["unitsAdvised"]) == (4, 1)
    assert change["command"].endswith("--instance-count 3")
    assert "others use units of it too" in change["against"]
