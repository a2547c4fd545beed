"""What happened: the same contract in memory and on DynamoDB, and what only DynamoDB does."""

import itertools
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import pytest

from lab.fakes.stores.history import MemoryHistory
from lab.fakes.system import START, ManualClock
from lab.fakes.values import workload
from lab.local import ministack
from reservoir.adapters.dynamodb.history import DynamoDbHistory
from reservoir.core.history.past_demand import DEMAND_KEPT, DemandStep, DemandStepKind
from reservoir.core.history.past_event import PastEvent
from reservoir.core.history.sample import Sample
from reservoir.ports.errors import ThrottledError
from reservoir.ports.history import HistoryStore

_names = itertools.count()
FOREVER = START + timedelta(days=1)
KEPT = timedelta(days=14)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def on_dynamodb(dynamodb: Any, clock: ManualClock) -> DynamoDbHistory:
    table = f"history-{next(_names)}"
    ministack.create_history_table(dynamodb, table)
    return DynamoDbHistory(dynamodb, table, clock, kept=KEPT, sleep=lambda _: None)


@pytest.fixture(params=["memory", pytest.param("dynamodb", marks=pytest.mark.embedded)])
def history(request: pytest.FixtureRequest, clock: ManualClock) -> HistoryStore:
    if request.param == "memory":
        return MemoryHistory()
    return on_dynamodb(request.getfixturevalue("dynamodb"), clock)


def event(
    number: int, at: datetime, *nodes: str, detail_type: str = "Workload Placed"
) -> PastEvent:
    workload = {"namespace": "a", "name": f"w-{number}"}
    return PastEvent(
        f"e-{number}",
        at,
        detail_type,
        {"workload": workload, "nodes": [{"nodeClaim": it} for it in nodes]},
    )


def ids(events: Iterable[PastEvent]) -> list[str]:
    return [each.id for each in events]


def test_what_happened_to_an_object_comes_in_order_of_time(history: HistoryStore) -> None:
    later = event(1, START + timedelta(hours=3), "nc-1")
    sooner = event(2, START, "nc-1", "nc-2")
    history.keep([later, sooner])
    assert list(history.of_object("node/nc-1", START, FOREVER)) == [
        sooner.about("node/nc-1"),
        later,
    ]
    assert ids(history.of_object("workload/a/w-2", START, FOREVER)) == ["e-2"]
    assert ids(history.of_object("node/nc-3", START, FOREVER)) == []


def test_the_timeline_has_each_event_once_and_whole(history: HistoryStore) -> None:
    told = [
        event(number, START + timedelta(minutes=7 * number), "nc-1", f"nc-{number}")
        for number in range(20)
    ]
    history.keep(told)
    assert list(history.timeline(START, FOREVER)) == told


def test_a_look_back_takes_in_its_beginning_and_leaves_out_its_end(
    history: HistoryStore,
) -> None:
    history.keep(
        [event(number, START + timedelta(minutes=number), "nc-1") for number in range(4)]
    )
    since, until = START + timedelta(minutes=1), START + timedelta(minutes=3)
    assert (
        ids(history.timeline(since, until))
        == ids(history.of_object("node/nc-1", since, until))
        == ["e-1", "e-2"]
    )


def test_an_event_that_comes_twice_is_there_once(history: HistoryStore) -> None:
    told = event(1, START, "nc-1")
    history.keep([told])
    history.keep([told, told])
    assert list(history.timeline(START, FOREVER)) == [told]
    assert list(history.of_object("node/nc-1", START, FOREVER)) == [told]


@pytest.mark.embedded
def test_an_event_about_hundreds_of_nodes_is_found_by_each(
    dynamodb: Any, clock: ManualClock
) -> None:
    history = on_dynamodb(dynamodb, clock)
    history.keep([event(1, START, *(f"nc-{number}" for number in range(200)))])
    (found,) = history.of_object("node/nc-150", START, FOREVER)
    assert found.detail["nodes"] == [{"nodeClaim": "nc-150"}]


@pytest.mark.embedded
def test_what_is_too_old_is_not_told_though_it_may_still_be_there(
    dynamodb: Any, clock: ManualClock
) -> None:
    history = on_dynamodb(dynamodb, clock)
    history.keep([event(1, START, "nc-1"), event(2, START + timedelta(hours=1), "nc-1")])
    clock.advance(days=14)
    assert ids(history.of_object("node/nc-1", START, FOREVER)) == ["e-2"]
    assert ids(history.timeline(START, FOREVER)) == ["e-2"]


def test_what_became_of_reservations_is_kept_for_a_month(
    dynamodb: Any, clock: ManualClock
) -> None:
    history = on_dynamodb(dynamodb, clock)
    changed = PastEvent(
        "e-1", START, "Reservation Changed", {"capacityReservationId": "cr-1"}
    )
    history.keep([changed])
    clock.advance(days=29)
    assert ids(history.of_object("reservation/cr-1", START, FOREVER)) == ["e-1"]
    assert ids(history.timeline(START, FOREVER)) == ["e-1"]
    clock.advance(days=1)
    assert ids(history.of_object("reservation/cr-1", START, FOREVER)) == []


class Busy:
    """A client of a table that takes one row of a batch at a time, ``times`` times, and then all."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.rows: list[Any] = []

    def batch_write_item(self, RequestItems: dict[str, list[Any]]) -> dict[str, Any]:  # noqa: N803 - boto3's name
        ((table, requests),) = RequestItems.items()
        taken = requests if self.times == 0 else requests[:1]
        self.times -= 1
        self.rows += [each["PutRequest"]["Item"] for each in taken]
        left = requests[len(taken) :]
        return {"UnprocessedItems": {table: left} if left else {}}


def test_rows_that_a_busy_table_left_are_written_again(clock: ManualClock) -> None:
    busy: Any = Busy(times=2)
    DynamoDbHistory(busy, "history", clock, kept=KEPT, sleep=lambda _: None).keep(
        [event(1, START, "nc-1", "nc-2")]
    )
    # two nodes, the workload, the timeline
    assert len({row["id"]["S"] for row in busy.rows}) == len(busy.rows) == 4


def test_a_table_that_stays_busy_is_told_so_that_the_message_comes_again(
    clock: ManualClock,
) -> None:
    busy: Any = Busy(times=100)
    history = DynamoDbHistory(busy, "history", clock, kept=KEPT, sleep=lambda _: None)
    with pytest.raises(ThrottledError):
        history.keep([event(1, START, *(f"nc-{number}" for number in range(20)))])


def test_what_there_was_comes_in_order_of_time_and_once(history: HistoryStore) -> None:
    taken = [Sample(START + timedelta(hours=8 * number)) for number in range(5)]
    for sample in (*reversed(taken), taken[1]):
        history.keep_sample(sample)
    assert list(history.samples(START, START + timedelta(days=2))) == taken
    assert list(history.samples(taken[1].taken_at, taken[3].taken_at)) == taken[1:3]


def step(number: int, at: datetime) -> DemandStep:
    wanted = workload("w-1", replicas=3)
    return DemandStep(
        f"e-{number}", at, DemandStepKind.WANTED, wanted.key, 1, workload=wanted
    )


def test_demand_comes_in_order_of_time_and_once_with_what_was_wanted(
    history: HistoryStore,
) -> None:
    steps = [step(number, START + timedelta(hours=8 * number)) for number in range(5)]
    history.keep_demand([*reversed(steps), steps[1]])
    history.keep_demand([steps[1]])
    assert list(history.demand(START, START + timedelta(days=2))) == steps
    assert list(history.demand(steps[1].at, steps[3].at)) == steps[1:3]


@pytest.mark.embedded
def test_demand_and_what_there_was_are_kept_longer_than_events(
    dynamodb: Any, clock: ManualClock
) -> None:
    history = on_dynamodb(dynamodb, clock)
    history.keep_demand([step(1, START), step(2, START + timedelta(hours=1))])
    taken = [Sample(START), Sample(START + timedelta(hours=1))]
    for sample in taken:
        history.keep_sample(sample)
    clock.advance(days=14)
    assert (
        len(list(history.demand(START, FOREVER)))
        == len(list(history.samples(START, FOREVER)))
        == 2
    )
    clock.advance(days=DEMAND_KEPT.days - 14)
    assert [each.id for each in history.demand(START, FOREVER)] == ["e-2"]
    assert list(history.samples(START, FOREVER)) == taken[1:]
