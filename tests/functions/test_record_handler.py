"""The handler of record: from what EventBridge puts into the queue to the history."""

import json
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from functions.record.handler import handler
from lab.fakes.stores.history import MemoryHistory
from lab.fakes.stores.state import MemoryState
from lab.fakes.system import START, ManualClock
from reservoir.core.history.gauges import Gauge
from reservoir.core.history.sample import Sample, WaitingSample
from reservoir.ports.errors import ThrottledError
from reservoir.ports.history import TelemetryRefusedError
from reservoir.usecases.history.keep_events import KeepEvents
from reservoir.usecases.history.push_figures import PushFigures


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> MemoryHistory:
    history = MemoryHistory()
    monkeypatch.setattr(
        "functions.record.handler.keep_events",
        lambda: KeepEvents(history, MemoryState(ManualClock()).workloads),
    )
    return history


@pytest.fixture(autouse=True)
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names the nodes whose meters are read; "all" is the sweep."""
    found: list[str] = []

    class Accounts:
        def note(self, claim_ids: Collection[str]) -> None:
            found.extend(claim_ids)

        def sweep(self) -> None:
            found.append("all")

        def publish(self) -> None:
            found.append("teams")

    monkeypatch.setattr("functions.record.handler.publish_team_shares", Accounts)
    monkeypatch.setattr("functions.record.handler.keep_accounts", Accounts)
    return found


@pytest.fixture(autouse=True)
def pushed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functions.record.handler.push_figures", lambda: None)


class Five:
    """Counts five waiting replicas."""

    def take(self) -> Sample:
        return Sample(
            START,
            waiting=(WaitingSample("ReservationFull", 5, 1, START - timedelta(minutes=1)),),
        )


@pytest.fixture(params=[False, True], ids=["log", "log and metrics"])
def publishes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr("functions.record.handler.take_sample", Five)
    monkeypatch.setattr("functions.record.handler.publishes_metrics", lambda: request.param)
    return bool(request.param)


def told(number: int, **changes: Any) -> str:
    event = {
        "id": f"e-{number}",
        "time": "2026-01-15T12:00:00Z",
        "source": "reservoir",
        "detail-type": "Node Launched",
        "detail": {"node": {"nodeClaim": f"nc-{number}"}},
    }
    return json.dumps(event | changes)


def sqs(*bodies: str) -> dict[str, Any]:
    return {
        "Records": [
            {"messageId": f"m-{number}", "body": body} for number, body in enumerate(bodies)
        ]
    }


def kept(history: MemoryHistory) -> list[str]:
    return [event.id for event in history.timeline(START, START + timedelta(days=1))]


def test_meters_of_nodes_that_are_told_of_are_read(
    history: MemoryHistory, looked_at: list[str]
) -> None:
    handler(
        sqs(told(1), told(2, detail={"workload": {"namespace": "a", "name": "b"}})), None
    )
    assert (kept(history), looked_at) == (["e-1", "e-2"], ["nc-1"])


def test_nodes_of_all_messages_are_looked_at_together(
    history: MemoryHistory, looked_at: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = told(3, detail={"workload": {"namespace": "a", "name": "b"}})
    handler(sqs(told(2), told(1), body, told(2)), None)
    assert looked_at == ["nc-1", "nc-2"]

    class Busy:
        def note(self, claim_ids: Collection[str]) -> None:
            raise ThrottledError("UnprocessedKeys", f"BatchGetItem of {len(claim_ids)}")

    monkeypatch.setattr("functions.record.handler.keep_accounts", Busy)
    failures = [{"itemIdentifier": "m-0"}, {"itemIdentifier": "m-1"}]
    assert handler(sqs(told(2), told(1), body), None) == {"batchItemFailures": failures}
    assert kept(history) == ["e-1", "e-2", "e-3"]


def test_what_was_told_is_kept(history: MemoryHistory) -> None:
    assert handler(sqs(told(1), told(2), told(1)), None) == {"batchItemFailures": []}
    assert kept(history) == ["e-1", "e-2"]


@pytest.mark.parametrize("body", ["{", "[]", told(1, time="noon"), told(1, detail=None)])
def test_what_is_no_event_is_dropped_alone(history: MemoryHistory, body: str) -> None:
    assert handler(sqs(body, told(2)), None) == {"batchItemFailures": []}
    assert kept(history) == ["e-2"]


def test_what_meets_a_busy_table_comes_again_alone(
    history: MemoryHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = history.keep

    def busy_at_first(events: Any) -> None:
        if events[0].id == "e-1":
            raise ThrottledError("UnprocessedItems", "BatchWriteItem")
        keep(events)

    monkeypatch.setattr(history, "keep", busy_at_first)
    assert handler(sqs(told(1), told(2)), None) == {
        "batchItemFailures": [{"itemIdentifier": "m-0"}]
    }
    assert kept(history) == ["e-2"]


def logged(caplog: pytest.LogCaptureFixture, message: str) -> list[dict[str, Any]]:
    return [vars(record) for record in caplog.records if record.message == message]


def test_the_schedules_message_takes_a_sample_beside_its_neighbours(
    history: MemoryHistory,
    publishes: bool,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    minute = json.dumps(
        {
            "id": "e-0",
            "source": "aws.events",
            "detail-type": "Scheduled Event",
            "detail": {},
        }
    )
    assert handler(sqs(minute, told(1)), None) == {"batchItemFailures": []}
    assert kept(history) == ["e-1"]
    (line,) = logged(caplog, "waiting measured")
    assert (line["reason"], line["replica_count"], line["longest_wait_s"]) == (
        "ReservationFull",
        5,
        60,
    )
    written = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    metrics = [
        (it["reason"], it["ReplicasWaiting"], it["LongestWait"])
        for it in written
        if "ReplicasWaiting" in it
    ]
    assert metrics == ([("ReservationFull", [5.0], [60.0])] if publishes else [])


@pytest.mark.usefixtures("history")
def test_what_was_told_is_in_the_log_too(caplog: pytest.LogCaptureFixture) -> None:
    handler(sqs(told(1)), None)
    (line,) = logged(caplog, "told")
    assert (line["type"], line["object"], line["event_id"]) == (
        "Node Launched",
        "node/nc-1",
        "e-1",
    )


@pytest.mark.usefixtures("publishes")
def test_a_receiver_that_refuses_stops_nothing_else(
    history: MemoryHistory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Refuses:
        def push(self, gauges: Sequence[Gauge], at: datetime) -> None:
            raise TelemetryRefusedError(f"{len(gauges)} figures of {at}")

    figures = PushFigures(Refuses())
    monkeypatch.setattr("functions.record.handler.push_figures", lambda: figures)
    minute = json.dumps({"id": "e-0", "source": "aws.events", "detail": {}})
    assert handler(sqs(minute, told(1)), None) == {"batchItemFailures": []}
    assert kept(history) == ["e-1"]
    assert len(logged(caplog, "waiting measured")) == 1
    assert "FiguresRefused" in capsys.readouterr().out


def test_what_waits_is_pushed_under_the_names_of_reservoir_metrics() -> None:
    taken: dict[str, Gauge] = {}

    class Receiver:
        def push(self, gauges: Sequence[Gauge], at: datetime) -> None:
            assert at == START
            taken.update({gauge.name: gauge for gauge in gauges})

    PushFigures(Receiver()).push(Five().take())
    assert taken["reservoir_waiting_replicas"].values == {("ReservationFull",): 5.0}
    assert taken["reservoir_waiting_oldest_seconds"].values == {("ReservationFull",): 60.0}
