"""What every line of a log names, so that a message is followed to its instance."""

import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from functions.launch.handler import handler as launch
from functions.react.handler import handler as react
from lab.fakes.messaging import MemoryBus, MemoryQueue, MemoryRedelivery
from lab.worlds.launch_world import World, reserved
from reservoir.core.model.plan import ReasonCode
from reservoir.core.node_life.notice import Notice
from reservoir.core.serialisation.json_codec import dumps
from reservoir.manifests.events import WorkloadPending
from reservoir.ports.errors import TransientError
from reservoir.ports.messaging import NAMED_MAX, LaunchBatch, OutboundEvent
from reservoir.runtime.batch import QueueMessage, each_message
from reservoir.runtime.correlation import LoggedBus, LoggedQueue
from reservoir.runtime.observability import forget, logger
from reservoir.usecases.claims.announce import workload_ref
from reservoir.usecases.launching.launch import LaunchReport
from reservoir.usecases.node_life.react import ReactReport

EVENTS = Path(__file__).parents[1] / "events"
INSTANCE = "i-0123456789abcdef0"


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """What the log is written to."""
    stream = StringIO()
    monkeypatch.setattr(logger.registered_handler, "stream", stream)
    return stream


def lines(written: StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


def batch(*bodies: str) -> dict[str, Any]:
    return {
        "Records": [
            {"messageId": f"m-{number}", "body": body} for number, body in enumerate(bodies)
        ]
    }


def test_every_line_of_a_message_has_its_id_and_no_other_line_has(
    written: StringIO,
) -> None:
    def handle(message: QueueMessage) -> None:
        logger.info("handled", extra={"body": message.body})

    each_message(batch("a", "b"), handle)
    logger.info("afterwards")
    assert [(it.get("body"), it.get("message_id")) for it in lines(written)] == [
        ("a", "m-0"),
        ("b", "m-1"),
        (None, None),
    ]


def test_a_launch_names_its_message_its_batch_and_its_claims(
    written: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    world.add_reservation("cr-1")
    world.add_workload(replicas=2)
    monkeypatch.setattr("functions.launch.handler.launch", world.launch)
    planned = world.plan(2, reserved())
    launch(batch(dumps(planned)), None)
    (line,) = (it for it in lines(written) if it["message"] == "batch handled")
    assert (line["message_id"], line["batch_id"], tuple(line["claim_ids"])) == (
        "m-0",
        planned.batch_id,
        planned.claim_ids,
    )


def test_a_launch_names_from_its_first_line_on_for_whom_it_is(
    written: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Logging:
        """Writes a line while it launches."""

        def run(self, _: LaunchBatch) -> LaunchReport:
            logger.info("in between")
            return LaunchReport()

    monkeypatch.setattr("functions.launch.handler.launch", Logging)
    followed = dumps(LaunchBatch("b-1", ("nc-1",), correlation_ids=("m-7",)))
    launch(batch(followed, dumps(LaunchBatch("b-2", ("nc-2",)))), None)
    assert [(it["message"], it.get("correlation_ids")) for it in lines(written)] == [
        ("in between", ["m-7"]),
        ("batch handled", ["m-7"]),
        ("in between", None),
        ("batch handled", None),
    ]


def pending(name: str, message_id: str | None) -> WorkloadPending:
    return WorkloadPending(
        workload=workload_ref(f"research/{name}", 1, message_id),
        replicas=1,
        reason=ReasonCode.RESERVATION_FULL,
        message="full",
    )


def test_facts_that_are_told_are_in_the_log_and_so_is_for_whom_in_later_lines(
    written: StringIO,
) -> None:
    bus = MemoryBus()
    facts = [pending("a", "m-1"), pending("b", "m-2"), pending("old", None)]
    LoggedBus(bus).publish(facts)
    logger.info("later")
    forget()
    logger.info("about others")
    assert bus.events == [(each.detail_type, each.detail()) for each in facts]
    assert [
        (it["message"], it.get("facts"), it.get("correlation_ids")) for it in lines(written)
    ] == [
        ("facts told", {"Workload Pending": 3}, ["m-1", "m-2"]),
        ("later", None, ["m-1", "m-2"]),
        ("about others", None, None),
    ]


def test_facts_about_many_take_several_lines_so_that_each_id_is_in_one(
    written: StringIO,
) -> None:
    LoggedBus(MemoryBus()).publish(
        [pending(f"w{number}", f"m-{number}") for number in range(NAMED_MAX + 1)]
    )
    forget()
    named = [it["correlation_ids"] for it in lines(written)]
    assert [len(each) for each in named] == [NAMED_MAX, 1]
    assert len({each for part in named for each in part}) == NAMED_MAX + 1


def test_a_bus_that_fails_is_not_said_to_have_told(written: StringIO) -> None:
    class Down:
        """A bus that takes nothing."""

        def publish(self, _: Sequence[OutboundEvent]) -> None:
            raise TransientError("FailedEntries", "PutEvents")

        announce = publish

    for tell in (LoggedBus(Down()).publish, LoggedBus(Down()).announce):
        with pytest.raises(TransientError):
            tell([pending("a", "m-1")])
    assert lines(written) == []


def test_launches_that_are_sent_are_in_the_log_and_so_is_for_whom_in_later_lines(
    written: StringIO,
) -> None:
    queue = MemoryQueue()
    batches = [
        LaunchBatch("b-1", ("nc-1",), correlation_ids=("m-1",)),
        LaunchBatch("b-2", ("nc-2", "nc-3")),
    ]
    LoggedQueue(queue).send_launches(batches, delay_s=5)
    logger.info("later")
    forget()
    assert (queue.launches, queue.delays_s) == (batches, [5, 5])
    assert [
        (it["message"], it.get("batch_id"), it.get("claim_ids"), it.get("correlation_ids"))
        for it in lines(written)
    ] == [
        ("launch sent", "b-1", ["nc-1"], ["m-1"]),
        ("launch sent", "b-2", ["nc-2", "nc-3"], []),
        ("later", None, None, ["m-1"]),
    ]


def test_the_planner_is_woken_as_it_was_asked(written: StringIO) -> None:
    queue = MemoryQueue()
    LoggedQueue(queue).wake_planner(reason="demand", workload_keys=["research/train"])
    assert (queue.wake_ups, queue.named, lines(written)) == (
        ["demand"],
        {"research/train"},
        [],
    )


def test_a_reaction_that_is_to_come_again_says_for_whom(
    written: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its warning names an instance, and nothing was told yet."""

    class Refused:
        """Reacts to nothing."""

        def run(self, _: Sequence[Notice]) -> ReactReport:
            return ReactReport(failed_instance_ids={INSTANCE}, correlation_ids=["m-7"])

    monkeypatch.setattr("functions.react.handler.react", Refused)
    monkeypatch.setattr("functions.react.handler.redelivery", MemoryRedelivery)
    monkeypatch.setattr("functions.react.handler.marking_functions", frozenset)
    golden = json.loads((EVENTS / "spot_interruption.json").read_text())
    body = json.dumps(
        golden
        | {
            "detail": golden["detail"] | {"instance-id": INSTANCE},
            "time": "2026-01-15T12:00:00Z",
        }
    )
    react(batch(body), None)
    (line,) = lines(written)
    assert (line["message"], line["instances"], line["correlation_ids"]) == (
        "events will be delivered again",
        [INSTANCE],
        ["m-7"],
    )
