"""The dashboard's first row answers what an operator asks each day, of lines that are really written."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any, Final

import pytest

from functions.record.handler import handler
from infra.iam.acknowledgements import as_reported
from lab.fakes.stores.history import MemoryHistory
from lab.fakes.stores.state import MemoryState
from lab.fakes.system import ManualClock
from reservoir.core.history.sample import (
    BoughtSample,
    ReservationSample,
    Sample,
    WaitingSample,
)
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.runtime.observability import logger
from reservoir.usecases.history.keep_events import KeepEvents
from reservoir.usecases.history.see_status import REFUSALS
from tests.infra.dashboard.insights import Row, answer
from tests.infra.reading import Resources, of_type

NOW: Final = datetime(2026, 1, 15, 12, tzinfo=UTC)
# What AWS counts of a function and a queue, and of which the other rows are made.
COUNTED_BY_AWS: Final = {
    "AWS/Lambda": {"Errors", "Throttles", "Duration"},
    "AWS/SQS": {"ApproximateNumberOfMessagesVisible"},
}
MINUTE: Final = json.dumps(
    {"id": "e-0", "source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}
)


def reservation(
    name: str, *, free: int, usd: int, ends_in_h: int | None = None
) -> ReservationSample:
    return ReservationSample(
        id=name,
        instance_type="p5.48xlarge",
        zone="us-east-1a",
        kind=ReservationKind.DEFAULT,
        state="active",
        total_count=4,
        ours_count=4 - free,
        others_count=0,
        free_count=free,
        micro_usd_per_hour=usd * 1_000_000,
        end_at=None if ends_in_h is None else NOW + timedelta(hours=ends_in_h),
    )


def sample() -> Sample:
    return Sample(
        NOW,
        reservations=(
            reservation("cr-used", free=0, usd=50, ends_in_h=72),
            reservation("cr-ending", free=1, usd=50, ends_in_h=47),
            reservation("cr-idle", free=3, usd=40),
        ),
        waiting=(
            WaitingSample("NoCapacity", 2, 1, NOW - timedelta(minutes=1)),
            WaitingSample("ReservationFull", 5, 2, NOW - timedelta(hours=1)),
        ),
        bought=(
            BoughtSample("research/a", 2, 9_000_000),
            BoughtSample("research/b", 1, 12_000_000),
        ),
    )


def refused(number: int, kind: str) -> str:
    detail = {"workload": {"namespace": "research", "name": f"w{number}"}, "message": "no"}
    event = {
        "id": f"e-{number}",
        "source": "reservoir",
        "time": "2026-01-15T12:00:00Z",
        "detail-type": kind,
    }
    return json.dumps({**event, "detail": detail})


class Fixed:
    """Stands for what takes samples, keeps accounts and tells of teams."""

    def take(self) -> Sample:
        return sample()

    def sweep(self) -> None: ...

    def publish(self) -> None: ...

    def note(self, claim_ids: Sequence[str]) -> None: ...


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    """The log of ``record`` after two samples, and after an event of each kind of refusal and one of another."""
    stream = StringIO()
    monkeypatch.setattr(logger.registered_handler, "stream", stream)
    monkeypatch.setattr(
        "functions.record.handler.keep_events",
        lambda: KeepEvents(MemoryHistory(), MemoryState(ManualClock()).workloads),
    )
    monkeypatch.setattr("functions.record.handler.publishes_metrics", lambda: False)
    monkeypatch.setattr("functions.record.handler.push_figures", lambda: None)
    for name in ("take_sample", "keep_accounts", "publish_team_shares"):
        monkeypatch.setattr(f"functions.record.handler.{name}", Fixed)
    told = [
        refused(number, kind)
        for number, kind in enumerate([*sorted(REFUSALS), "Node Launched"], start=1)
    ]
    bodies = [MINUTE, MINUTE, *told]
    records = [
        {"messageId": f"m-{number}", "body": body} for number, body in enumerate(bodies)
    ]
    assert handler({"Records": records}, None) == {"batchItemFailures": []}
    return [
        {**json.loads(line), "@timestamp": NOW} for line in stream.getvalue().splitlines()
    ]


@pytest.fixture(scope="module")
def widgets(resources: Resources) -> list[Mapping[str, Any]]:
    (board,) = of_type(resources, "AWS::CloudWatch::Dashboard").values()
    found: list[Mapping[str, Any]] = json.loads(as_reported(board["DashboardBody"]))[
        "widgets"
    ]
    return found


@pytest.fixture(scope="module")
def queries(widgets: list[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The first row, from left to right: title and query."""
    row = sorted(
        (widget for widget in widgets if widget["y"] == 0), key=lambda widget: widget["x"]
    )
    assert sum(widget["width"] for widget in row) == 24
    found = {}
    for widget in row:
        source, *query = widget["properties"]["query"].split("| ")
        assert "RecordLog" in source
        found[widget["properties"]["title"]] = [command.strip() for command in query]
    return found


def test_the_first_row_asks_the_questions_of_each_day_in_their_order(
    queries: Mapping[str, Sequence[str]],
) -> None:
    assert list(queries) == [
        "Paid and idle, USD an hour",
        "Waiting, and why",
        "Ends within 48 hours",
        "Bought beside reservations, and for whom",
        "Refused",
    ]


def test_what_is_paid_and_idle(
    queries: Mapping[str, Sequence[str]], log: list[Row]
) -> None:
    rows = answer(queries["Paid and idle, USD an hour"], log)
    assert [
        (it["reservation"], it["idle_usd"], it["free"], it["total"]) for it in rows
    ] == [
        ("cr-idle", 120, 3, 4),
        ("cr-ending", 50, 1, 4),
        ("cr-used", 0, 0, 4),
    ]


def test_what_waits_and_why(queries: Mapping[str, Sequence[str]], log: list[Row]) -> None:
    rows = answer(queries["Waiting, and why"], log)
    assert [(it["reason"], it["replicas"], it["longest_s"], it["seen"]) for it in rows] == [
        ("ReservationFull", 5, 3600, NOW),
        ("NoCapacity", 2, 60, NOW),
    ]


def test_what_ends_within_48_hours(
    queries: Mapping[str, Sequence[str]], log: list[Row]
) -> None:
    (row,) = answer(queries["Ends within 48 hours"], log)
    assert (row["reservation"], row["ends"], row["ours"]) == (
        "cr-ending",
        "2026-01-17T11:00:00+00:00",
        3,
    )


def test_what_was_bought_and_for_whom(
    queries: Mapping[str, Sequence[str]], log: list[Row]
) -> None:
    rows = answer(queries["Bought beside reservations, and for whom"], log)
    assert [
        (it["workload"], it["usd_an_hour"], it["nodes"], it["seen"]) for it in rows
    ] == [
        ("research/b", 12, 1, NOW),
        ("research/a", 9, 2, NOW),
    ]


def test_what_was_refused(queries: Mapping[str, Sequence[str]], log: list[Row]) -> None:
    rows = answer(queries["Refused"], log)
    assert {it["type"] for it in rows} == REFUSALS
    assert {it["object"] for it in rows} == {
        f"workload/research/w{number}" for number in range(1, len(rows) + 1)
    }
    assert all(it["what"] for it in rows)


def test_the_other_rows_are_made_of_what_aws_counts_of_the_stacks_own(
    widgets: list[Mapping[str, Any]], resources: Resources
) -> None:
    """A metric is [namespace, name, dimension, value ...], and each value is a resource of the template."""
    graphs = [
        widget["properties"]["metrics"] for widget in widgets if widget["type"] == "metric"
    ]
    named = [metric[:4] for metrics in graphs for metric in metrics]
    assert {
        namespace: {it[1] for it in named if it[0] == namespace} for namespace, *_ in named
    } == COUNTED_BY_AWS
    for namespace, _, dimension, value in named:
        kind = {"AWS/Lambda": "AWS::Lambda::Function", "AWS/SQS": "AWS::SQS::Queue"}[
            namespace
        ]
        assert (
            dimension == {"AWS/Lambda": "FunctionName", "AWS/SQS": "QueueName"}[namespace]
        )
        assert any(name in value for name in of_type(resources, kind)), value
