"""Demand is kept as it arrived, found a place and left, whatever becomes of the events that told it."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from lab.fakes.stores.history import MemoryHistory
from lab.fakes.stores.state import MemoryState
from lab.fakes.system import START, ManualClock
from lab.fakes.values import workload, workload_record
from reservoir.core.history.past_demand import DemandStep, DemandStepKind
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.plan import OfferingKey
from reservoir.usecases.history.keep_events import KeepEvents

REF = {"namespace": "research", "name": "train", "generation": 1}


class World:
    def __init__(self) -> None:
        self.history, self.state = MemoryHistory(), MemoryState(ManualClock())
        self.keep_events = KeepEvents(self.history, self.state.workloads)

    def tell(
        self, kind: str, event_id: str = "e-1", at: datetime = START, **detail: Any
    ) -> None:
        time = at.isoformat()
        self.keep_events.keep(
            {"id": event_id, "time": time, "detail-type": kind, "detail": detail}
        )

    def steps(self) -> list[DemandStep]:
        return list(self.history.demand(START, START + timedelta(days=1)))


@pytest.fixture
def world() -> World:
    return World()


def test_what_was_wanted_is_kept_as_it_is_stored(world: World) -> None:
    wanted = workload("train")
    world.state.workloads.put(workload_record("train"), expected_revision=None)
    world.tell("Workload Accepted", messageId="m-1", action="submit", workload=REF)
    assert world.steps() == [
        DemandStep("e-1", START, DemandStepKind.WANTED, wanted.key, 1, workload=wanted)
    ]


def test_a_later_generation_is_said_to_be_one(world: World) -> None:
    wanted = workload("train", generation=7)
    world.state.workloads.put(
        workload_record("train", generation=7), expected_revision=None
    )
    world.tell("Workload Accepted", messageId="m-1", action="submit", workload=REF)
    assert [(step.generation, step.workload) for step in world.steps()] == [(7, wanted)]


def test_that_something_was_wanted_is_kept_though_it_has_gone(world: World) -> None:
    world.tell("Workload Accepted", messageId="m-1", action="submit", workload=REF)
    assert world.steps() == [
        DemandStep("e-1", START, DemandStepKind.WANTED, "research/train", 1)
    ]


def test_places_ends_and_withdrawals_are_kept(world: World) -> None:
    world.tell("Workload Placed", "e-1", workload=REF, replicas=3, nodes=[])
    world.tell("Replica Finished", "e-2", workload=REF, replicas=2, finished=2, wanted=3)
    world.tell("Workload Accepted", "e-3", messageId="m-1", action="withdraw", workload=REF)
    # from a node: no end
    world.tell("Workload Accepted", "e-4", messageId="m-2", action="release", workload=REF)
    assert [(step.kind.value, step.replicas) for step in world.steps()] == [
        ("placed", 3),
        ("finished", 2),
        ("withdrawn", 0),
    ]


def test_a_refusal_is_kept_with_how_long_the_offering_rests(world: World) -> None:
    offering = {
        "instanceType": "m5.large",
        "zone": "us-east-1a",
        "zoneId": "use1-az1",
        "capacityType": "on-demand",
    }
    until = START + timedelta(minutes=3)
    told: dict[str, Any] = {
        "nodeClaims": ["nc-1"],
        "offering": offering,
        "code": "InsufficientInstanceCapacity",
        "message": "",
    }
    world.tell(
        "Launch Failed",
        **told,
        workloads=[{**REF, "replicas": 1}],
        unavailableUntil=until.isoformat(),
    )
    (step,) = world.steps()
    assert step.offering == OfferingKey(
        "m5.large", "us-east-1a", "use1-az1", CapacityType.ON_DEMAND
    )
    assert (step.until, step.workload_key) == (until, "research/train")


@pytest.mark.parametrize(
    ("kind", "detail"),
    [
        (
            "Launch Failed",
            {"offering": {"capacityType": "barter"}, "unavailableUntil": START.isoformat()},
        ),
        ("Launch Failed", {"offering": {"capacityType": "spot"}}),
        ("Node Launched", {"node": {"nodeClaim": "nc-1"}}),
        ("Workload Placed", {"workload": "none"}),
    ],
)
def test_what_tells_nothing_of_demand_is_kept_as_an_event_alone(
    world: World, kind: str, detail: dict[str, Any]
) -> None:
    world.tell(kind, **detail)
    assert world.steps() == []
    assert len(list(world.history.timeline(START, START + timedelta(days=1)))) == 1


def test_a_repeated_event_is_one_step(world: World) -> None:
    for _ in range(2):
        world.tell("Workload Placed", workload=REF, replicas=3, nodes=[])
    assert len(world.steps()) == 1
