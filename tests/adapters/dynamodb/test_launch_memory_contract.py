"""Attempts and the history of shortages: the same contract in memory and on DynamoDB."""

import itertools
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from lab.fakes.stores.launches import MemoryLaunchAttempts, MemoryShortageHistory
from lab.fakes.system import START, ManualClock
from lab.local import ministack
from lab.worlds.launch_world import World, on_demand, reserved
from reservoir.adapters.dynamodb.launches import (
    DynamoDbLaunchAttempts,
    DynamoDbShortageHistory,
)
from reservoir.core.capacity.shortage import PROBE_TIME, Shortage
from reservoir.core.capacity.unavailable_offerings import (
    BootKey,
    ClassMarketKey,
    NodeClassKey,
    SpotLossKey,
    SubnetKey,
)
from reservoir.core.launching.launch_outcome import (
    LaunchAttempt,
    LaunchedInstance,
    LaunchError,
    LaunchErrorKind,
    LaunchOutcome,
)
from reservoir.core.launching.launch_request import (
    FLEET_COUNT_MAX,
    build_launch_request,
    client_token,
)
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.plan import OfferingKey
from reservoir.core.serialisation.json_codec import dumps
from reservoir.names import LISTING_INDEX, LISTING_KEY
from reservoir.ports.launches import LaunchAttemptStore, ShortageHistory

_names = itertools.count()


@dataclass
class Memory:
    attempts: LaunchAttemptStore
    shortages: ShortageHistory
    clock: ManualClock


@pytest.fixture(params=["memory", pytest.param("dynamodb", marks=pytest.mark.embedded)])
def memory(request: pytest.FixtureRequest) -> Memory:
    clock = ManualClock()
    if request.param == "memory":
        return Memory(MemoryLaunchAttempts(), MemoryShortageHistory(), clock)
    dynamodb: Any = request.getfixturevalue("dynamodb")
    table = f"launches-{next(_names)}"
    ministack.create_table(dynamodb, table, indexes={LISTING_INDEX: (LISTING_KEY, "ALL")})
    return Memory(
        DynamoDbLaunchAttempts(dynamodb, table, clock),
        DynamoDbShortageHistory(dynamodb, table, clock),
        clock,
    )


def attempt(number: int = 1, batch_id: str = "b-1") -> LaunchAttempt:
    world = World()
    world.add_reservation("cr-1")
    world.add_workload()
    batch = world.plan(2, reserved(), batch_id=batch_id)
    reading = world.launch().reader.read(world.claims()[0])
    facts = reading.facts(
        world.policy.classes["default"],
        "test",
        START,
        frozenset(),
        (),
        CapacityType.RESERVED,
    )
    request = build_launch_request(world.claims(), facts)
    return LaunchAttempt(
        batch_id,
        number,
        batch.claim_ids,
        request,
        client_token(batch_id, number, request),
        START,
    )


OUTCOME = LaunchOutcome(
    instances=(
        LaunchedInstance(
            "i-1", "p5.48xlarge", "us-east-1a", "use1-az1", "subnet-a", "ami-1"
        ),
    ),
    errors=(
        LaunchError(
            LaunchErrorKind.RESERVATION_EXHAUSTED,
            "ReservationCapacityExceeded",
            "p5.48xlarge",
        ),
    ),
    launched_at=START + timedelta(seconds=3),
)


def test_an_attempt_is_read_back_as_it_was_written(memory: Memory) -> None:
    assert memory.attempts.latest("b-1") is None
    first = attempt()
    assert memory.attempts.begin(first) == first
    assert memory.attempts.latest("b-1") == first
    resolved = memory.attempts.resolve(first, OUTCOME)
    assert resolved == replace(first, outcome=OUTCOME)
    assert memory.attempts.latest("b-1") == resolved


def test_the_first_intent_wins(memory: Memory) -> None:
    first = attempt()
    other = replace(first, claim_ids=first.claim_ids[:1])
    memory.attempts.begin(first)
    assert memory.attempts.begin(other) == first
    assert memory.attempts.begin(first) == first  # its own answer was lost


def test_the_first_outcome_wins(memory: Memory) -> None:
    first = memory.attempts.begin(attempt())
    memory.attempts.resolve(first, OUTCOME)
    assert memory.attempts.resolve(first, LaunchOutcome(adopted=True)).outcome == OUTCOME


def test_the_next_attempt_waits_for_the_end_of_the_one_before(memory: Memory) -> None:
    first = memory.attempts.begin(attempt())
    second = attempt(2)
    assert memory.attempts.begin(second) == first
    resolved = memory.attempts.resolve(first, OUTCOME)
    assert memory.attempts.begin(second) == resolved
    memory.attempts.complete(resolved)
    assert memory.attempts.begin(second) == second
    memory.attempts.complete(resolved)  # a late repeat closes nothing of the second
    assert memory.attempts.latest("b-1") == second


def test_an_attempt_without_outcome_cannot_be_closed(memory: Memory) -> None:
    first = memory.attempts.begin(attempt())
    memory.attempts.complete(first)
    assert memory.attempts.latest("b-1") == first


def test_batches_do_not_know_each_other(memory: Memory) -> None:
    memory.attempts.begin(attempt())
    assert memory.attempts.latest("b-2") is None


def test_shortages_are_remembered_by_offering(memory: Memory) -> None:
    spot = OfferingKey("m5.large", "us-east-1a", "use1-az1", CapacityType.SPOT)
    elsewhere = replace(spot, zone="us-east-1b", zone_id="use1-az2")
    memory.shortages.put({spot: Shortage(START + timedelta(minutes=3), 2)})
    found = memory.shortages.get_many(
        [spot, elsewhere, replace(spot, capacity_type=CapacityType.ON_DEMAND)]
    )
    assert found == {spot: Shortage(START + timedelta(minutes=3), 2)}
    memory.shortages.put({spot: Shortage(START + timedelta(minutes=9), 3)})
    assert memory.shortages.get_many([spot]) == {
        spot: Shortage(START + timedelta(minutes=9), 3)
    }
    unit = replace(spot, capacity_type=CapacityType.RESERVED, reservation_id="cr-1")
    subnet = SubnetKey("subnet-1")
    memory.shortages.put(
        {
            unit: Shortage(START + timedelta(minutes=1)),
            subnet: Shortage(START + timedelta(minutes=2)),
        }
    )
    others = memory.shortages.get_many(
        [subnet, unit, replace(unit, reservation_id="cr-2"), SubnetKey("subnet-2")]
    )
    assert {key: found.until.minute for key, found in others.items()} == {
        unit: 1,
        subnet: 2,
    }


def test_one_batch_probes_an_offering_at_a_time(memory: Memory) -> None:
    spot = OfferingKey("m5.large", "us-east-1a", "use1-az1", CapacityType.SPOT)
    never_short = replace(spot, instance_type="m5.xlarge")
    until = START + timedelta(minutes=3)
    memory.shortages.put({spot: Shortage(until)})

    def denied(batch_id: str, now: datetime) -> frozenset[OfferingKey]:
        memory.clock.set(now)
        return memory.shortages.begin_probes([spot, never_short], batch_id, now)

    # it rests: nobody probes yet
    assert denied("b-0", until - timedelta(seconds=1)) == frozenset()
    assert denied("b-1", until) == frozenset()
    assert denied("b-2", until) == {spot}
    assert denied("b-1", until) == frozenset()  # its message came twice
    assert memory.shortages.get_many([spot]) == {spot: Shortage(until, 1, "b-1", until)}
    assert denied("b-2", until + PROBE_TIME) == frozenset()  # the first one died
    assert denied("b-1", until + PROBE_TIME) == {spot}
    memory.shortages.forget([spot, never_short])
    assert denied("b-3", until + PROBE_TIME) == frozenset()
    assert memory.shortages.get_many([spot]) == {}


def test_a_loss_on_spot_is_remembered_by_workload(memory: Memory) -> None:
    lost = SpotLossKey("research/train")
    memory.shortages.put({lost: Shortage(START + timedelta(hours=1), 2)})
    memory.clock.set(START + timedelta(hours=24))  # a day after a rest it still counts
    assert memory.shortages.get_many([lost, SpotLossKey("research/other")]) == {
        lost: Shortage(START + timedelta(hours=1), 2)
    }


def test_an_interruption_is_remembered_for_hours(memory: Memory) -> None:
    interrupted = BootKey(on_demand("m5.large"))
    memory.shortages.put({interrupted: Shortage(START)})
    memory.clock.set(START + timedelta(hours=5))
    assert memory.shortages.get_many([interrupted]) == {interrupted: Shortage(START)}


def test_one_claim_probes_a_class_at_a_time(memory: Memory) -> None:
    on_spot = ClassMarketKey("default", "h1", CapacityType.SPOT)
    memory.shortages.put({on_spot: Shortage(START)})
    assert memory.shortages.get_many([on_spot, replace(on_spot, static_hash="h2")]) == {
        on_spot: Shortage(START)
    }
    resting = NodeClassKey("default", "h1")
    memory.shortages.put({resting: Shortage(START)})
    memory.clock.set(START)
    assert memory.shortages.begin_probes([resting], "nc-1", START) == frozenset()
    assert memory.shortages.begin_probes([resting], "nc-2", START) == {resting}
    memory.shortages.put({resting: Shortage(START, tolerated=True)})
    assert memory.shortages.begin_probes([resting], "nc-2", START) == frozenset()


def test_the_largest_batch_fits_into_a_row() -> None:
    world = World()
    world.add_workload(replicas=FLEET_COUNT_MAX)
    world.policy.classes["default"] = replace(
        world.policy.classes["default"], user_data="x" * 16_384
    )
    batch = world.plan(FLEET_COUNT_MAX, on_demand("m5.large"), on_demand("m6g.large"))
    world.launch().run(batch)
    stored = world.attempts.latest("b-1")
    assert stored is not None
    assert stored.outcome is not None
    assert len(stored.outcome.instances) == FLEET_COUNT_MAX
    # DynamoDB allows 400 KB; names in an account are longer than here
    assert len(dumps(stored)) < 350_000
