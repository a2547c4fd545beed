"""Queues, bus and timers against the services' API."""

import itertools
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from lab.fakes.system import START, ManualClock, SequentialIds
from lab.local import ministack
from reservoir.adapters.eventbridge import EventBridgePublisher, SqsUnpublishedEvents
from reservoir.adapters.scheduler_timers import SchedulerDrainTimers
from reservoir.adapters.sqs import (
    SqsDeadLetters,
    SqsEndings,
    SqsRedelivery,
    SqsStartMessages,
    SqsWorkQueue,
)
from reservoir.core.node_life.notice import Notice, NoticeKind, parse_notice
from reservoir.core.serialisation.json_codec import loads
from reservoir.ports.errors import AccessDeniedError, AwsError, TransientError
from reservoir.ports.messaging import ClassToValidate, LaunchBatch

pytestmark = pytest.mark.embedded
_numbers = itertools.count()


@pytest.fixture
def sqs(aws_endpoint: str) -> Any:
    return ministack.client("sqs", aws_endpoint)


def make_queue(sqs: Any, *, fifo: bool = False) -> str:
    name = f"queue-{next(_numbers)}" + (".fifo" if fifo else "")
    url: str = sqs.create_queue(
        QueueName=name, Attributes={"FifoQueue": "true"} if fifo else {}
    )["QueueUrl"]
    return url


def received(sqs: Any, url: str) -> list[dict[str, Any]]:
    """Take everything off a queue."""
    found: list[dict[str, Any]] = []
    while True:
        answer = sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        )
        if not answer.get("Messages"):
            return found
        for message in answer["Messages"]:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            found.append(message)


def test_no_wake_up_is_dropped_for_another(sqs: Any) -> None:
    planning = make_queue(sqs, fifo=True)
    queue = SqsWorkQueue(
        sqs, planning_url=planning, launches_url=make_queue(sqs), ids=SequentialIds()
    )

    queue.wake_planner(reason="demand changed", workload_keys=["a/two", "a/one"])
    queue.wake_planner(reason="demand changed", workload_keys=["a/two", "a/one"])
    queue.wake_planner(reason="offerings changed")

    assert [json.loads(message["Body"]) for message in received(sqs, planning)] == [
        {"reason": "demand changed", "workloads": ["a/one", "a/two"]},
        {"reason": "demand changed", "workloads": ["a/one", "a/two"]},
        {"reason": "offerings changed", "workloads": []},
    ]


def test_a_pass_is_awaited_while_wake_ups_wait(sqs: Any) -> None:
    planning = make_queue(sqs, fifo=True)
    queue = SqsWorkQueue(
        sqs, planning_url=planning, launches_url=make_queue(sqs), ids=SequentialIds()
    )
    assert not queue.planner_is_awaited()

    queue.wake_planner(reason="demand changed", workload_keys=["a/one"])
    assert queue.planner_is_awaited()

    received(sqs, planning)
    assert not queue.planner_is_awaited()


def test_where_sqs_does_not_tell_no_pass_is_awaited(sqs: Any) -> None:
    gone = SqsWorkQueue(
        sqs,
        planning_url=f"{make_queue(sqs)}-gone",
        launches_url=make_queue(sqs),
        ids=SequentialIds(),
    )
    assert not gone.planner_is_awaited()


def test_wake_ups_of_one_group_are_a_message_group_of_their_own(sqs: Any) -> None:
    planning = make_queue(sqs, fifo=True)
    queue = SqsWorkQueue(
        sqs, planning_url=planning, launches_url=make_queue(sqs), ids=SequentialIds()
    )
    long_name = "p" * 253  # longer than SQS takes

    queue.wake_planner(reason="demand changed", workload_keys=["a/one"])
    for name in ("gpu", long_name, "gpu"):
        queue.wake_planner(reason="demand", workload_keys=["a/one"], group=[name, "more"])

    answer = sqs.receive_message(
        QueueUrl=planning,
        MaxNumberOfMessages=10,
        MessageSystemAttributeNames=["MessageGroupId"],
    )
    told = [json.loads(message["Body"]).get("group") for message in answer["Messages"]]
    assert told == [None, ["gpu", "more"], [long_name, "more"], ["gpu", "more"]]
    asked, gpu, other, again = [
        message["Attributes"]["MessageGroupId"] for message in answer["Messages"]
    ]
    assert (asked, again) == ("plan", gpu)
    assert len({asked, gpu, other}) == 3


def test_more_workloads_than_one_wake_up_can_name_take_several(sqs: Any) -> None:
    planning = make_queue(sqs, fifo=True)
    queue = SqsWorkQueue(
        sqs, planning_url=planning, launches_url=make_queue(sqs), ids=SequentialIds()
    )

    queue.wake_planner(
        reason="demand changed", workload_keys=[f"a/{number:04}" for number in range(1_001)]
    )

    named = [
        json.loads(message["Body"])["workloads"] for message in received(sqs, planning)
    ]
    assert [len(keys) for keys in named] == [1_000, 1]


def test_launch_batches_arrive_whole(sqs: Any) -> None:
    launches = make_queue(sqs)
    queue = SqsWorkQueue(
        sqs,
        planning_url=make_queue(sqs, fifo=True),
        launches_url=launches,
        ids=SequentialIds(),
    )
    batches = [
        LaunchBatch(f"b-{n}", tuple(f"nc-{n}-{claim:020}" for claim in range(1000)))
        for n in range(12)
    ]

    queue.send_launches(batches)
    queue.send_launches([])

    arrived = {loads(LaunchBatch, message["Body"]) for message in received(sqs, launches)}
    assert arrived == set(batches)


def test_a_class_to_be_tried_is_no_batch(sqs: Any) -> None:
    launches = make_queue(sqs)
    queue = SqsWorkQueue(
        sqs,
        planning_url=make_queue(sqs, fifo=True),
        launches_url=launches,
        ids=SequentialIds(),
    )
    queue.send_validations(["default"])
    queue.send_validations([])
    assert [loads(ClassToValidate, each["Body"]) for each in received(sqs, launches)] == [
        ClassToValidate("default")
    ]


def test_a_dead_letter_says_why(sqs: Any) -> None:
    url = make_queue(sqs)

    SqsDeadLetters(sqs, url).put("{nonsense", {"Reason": "is not JSON", "MessageId": "m-1"})

    (letter,) = received(sqs, url)
    assert letter["Body"] == "{nonsense"
    assert letter["MessageAttributes"]["Reason"]["StringValue"] == "is not JSON"


def test_the_largest_message_still_fits_with_its_reason(sqs: Any) -> None:
    url = make_queue(sqs)

    SqsDeadLetters(sqs, url).put(
        "ä" * (1 << 19), {"Reason": "r" * 5000, "MessageId": "m-1"}
    )

    (letter,) = received(sqs, url)
    attributes = letter["MessageAttributes"]
    assert attributes["Truncated"]["StringValue"] == "true"
    assert len(attributes["Reason"]["StringValue"]) == 2000
    names = sum(
        len(name) + len("String") + len(value["StringValue"])
        for name, value in attributes.items()
    )
    assert len(letter["Body"].encode()) + names <= 1 << 20


@dataclass(frozen=True)
class Fact:
    """A small outbound event."""

    number: int
    padding: str = ""
    detail_type: str = "Fact"

    def detail(self) -> dict[str, Any]:
        return {"number": self.number, "padding": self.padding}


@pytest.fixture
def bus(aws_endpoint: str, sqs: Any) -> tuple[str, str]:
    """A bus and a queue that gets everything from it."""
    events = ministack.client("events", aws_endpoint)
    name, url = f"bus-{next(_numbers)}", make_queue(sqs)
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"][
        "QueueArn"
    ]
    events.create_event_bus(Name=name)
    events.put_rule(
        Name=name, EventBusName=name, EventPattern=json.dumps({"source": ["reservoir"]})
    )
    events.put_targets(Rule=name, EventBusName=name, Targets=[{"Id": "1", "Arn": arn}])
    return name, url


def test_events_of_any_number_and_size_are_published(
    aws_endpoint: str, sqs: Any, bus: tuple[str, str]
) -> None:
    name, url = bus
    publisher = EventBridgePublisher(ministack.client("events", aws_endpoint), name)

    publisher.publish(
        [Fact(number, "x" * (60_000 if number % 3 == 0 else 10)) for number in range(25)]
    )
    publisher.publish([])

    bodies = [json.loads(message["Body"]) for message in received(sqs, url)]
    assert sorted(body["detail"]["number"] for body in bodies) == list(range(25))
    assert {(body["source"], body["detail-type"]) for body in bodies} == {
        ("reservoir", "Fact")
    }


class RefusingBus:
    """PutEvents that refuses some entries, as EventBridge does: the call itself succeeds."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.accepted: list[int] = []

    def put_events(self, *, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803 # AWS's name
        results: list[dict[str, Any]] = []
        for entry in Entries:
            if self.refusals:
                self.refusals -= 1
                results.append({"ErrorCode": "ThrottlingException"})
            else:
                self.accepted.append(json.loads(entry["Detail"])["number"])
                results.append({"EventId": "e"})
        return {
            "FailedEntryCount": sum("ErrorCode" in result for result in results),
            "Entries": results,
        }


def test_only_refused_events_are_put_again() -> None:
    client = RefusingBus(refusals=3)
    publisher = EventBridgePublisher(client, "bus")  # type: ignore[arg-type] # a fake of the one call

    publisher.publish([Fact(number) for number in range(5)])

    assert sorted(client.accepted) == list(range(5))


def test_events_that_are_refused_for_good_raise() -> None:
    publisher = EventBridgePublisher(RefusingBus(refusals=10_000), "bus")  # type: ignore[arg-type] # as above

    with pytest.raises(TransientError):
        publisher.publish([Fact(1)])


class Bus:
    """PutEvents that answers, or is denied as a whole while ``is_denied``."""

    def __init__(self) -> None:
        self.is_denied = True
        self.put: list[int] = []

    def put_events(self, *, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803 # AWS's name
        if self.is_denied:
            raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "PutEvents")
        self.put += [json.loads(entry["Detail"])["number"] for entry in Entries]
        return {"FailedEntryCount": 0}


def test_what_the_bus_refuses_is_kept_until_it_takes_it(sqs: Any) -> None:
    bus, refusals = Bus(), list[str]()
    kept = SqsUnpublishedEvents(
        sqs,
        make_queue(sqs),
        bus,  # type: ignore[arg-type] # a fake of the one call
        lambda error: refusals.append(error.code),
    )
    publisher = EventBridgePublisher(bus, "bus", unpublished=kept)  # type: ignore[arg-type] # as above

    publisher.publish([Fact(number) for number in range(25)])  # more than one request
    assert refusals == ["AccessDeniedException"] * 3

    bus.is_denied = False
    assert kept.publish() == 3
    assert sorted(bus.put) == list(range(25))
    assert kept.publish() == 0


def test_what_the_bus_still_refuses_is_offered_again(sqs: Any) -> None:
    bus = Bus()
    url = make_queue(sqs)
    kept = SqsUnpublishedEvents(sqs, url, bus, lambda _: None)  # type: ignore[arg-type] # as above
    publisher = EventBridgePublisher(bus, "bus", unpublished=kept)  # type: ignore[arg-type] # as above
    publisher.publish([Fact(1)])

    with pytest.raises(AccessDeniedError):
        kept.publish()

    names = ["ApproximateNumberOfMessagesNotVisible"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    assert found == {names[0]: "1"}, "hidden for a while, and then there again"


def test_what_must_be_known_before_it_is_done_is_not_kept_for_later(sqs: Any) -> None:
    bus = Bus()
    kept = SqsUnpublishedEvents(sqs, make_queue(sqs), bus, lambda _: None)  # type: ignore[arg-type] # as above
    publisher = EventBridgePublisher(bus, "bus", unpublished=kept)  # type: ignore[arg-type] # as above

    with pytest.raises(AccessDeniedError):
        publisher.announce([Fact(1)])

    bus.is_denied = False
    assert kept.publish() == 0


def test_the_requests_of_one_publication_are_made_side_by_side() -> None:
    everybody = threading.Barrier(3, timeout=10)
    put: list[int] = []

    class Bus:
        def put_events(self, *, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803 # AWS's name
            everybody.wait()
            put.extend(json.loads(entry["Detail"])["number"] for entry in Entries)
            return {"FailedEntryCount": 0}

    with ThreadPoolExecutor(3) as parts:
        publisher = EventBridgePublisher(Bus(), "bus", parts)  # type: ignore[arg-type] # a fake of the one call
        publisher.publish([Fact(number) for number in range(25)])

    assert sorted(put) == list(range(25))


LETTERS_ARN = "arn:aws:sqs:us-east-1:000000000000:undelivered"


def never_refused(name: str, error: AwsError) -> None:
    raise AssertionError((name, error))


class RefusingScheduler:
    """Answers each request with the same failure, or not at all."""

    def __init__(self, failure: Exception) -> None:
        self.failure = failure
        self.asked: list[str] = []

    def create_schedule(self, **request: Any) -> None:
        self.asked.append(request["Name"])
        raise self.failure

    update_schedule = create_schedule


class RefusedTimers:
    """Timers of a Scheduler that takes none, and what was reported of them."""

    def __init__(self, failure: Exception) -> None:
        self.clock = ManualClock(START)
        self.scheduler = RefusingScheduler(failure)
        self.refused: list[tuple[str, str]] = []
        self.timers = SchedulerDrainTimers(
            self.scheduler,  # type: ignore[arg-type] # a fake of the two calls
            group="group",
            role_arn="role",
            target_arn="target",
            dead_letters_arn=LETTERS_ARN,
            clock=self.clock,
            on_refusal=lambda name, error: self.refused.append((name, error.code)),
        )

    def set_all(self) -> None:
        soon = self.clock.now() + timedelta(minutes=1)
        self.timers.set_timer("cr-1", soon)
        self.timers.set_start_timer("cr-2", soon)
        self.timers.set_deadline_timer(soon)


ANSWERS = [
    "AccessDeniedException",
    "ValidationException",
    "ServiceQuotaExceededException",
    "ResourceNotFoundException",
]


@pytest.mark.parametrize("code", ANSWERS)
def test_no_refusal_of_a_timer_reaches_whoever_sets_it(code: str) -> None:
    refused = RefusedTimers(
        ClientError({"Error": {"Code": code, "Message": ""}}, "CreateSchedule")
    )
    refused.set_all()
    assert refused.refused == [
        ("drain-cr-1", code),
        ("start-cr-2", code),
        ("deadline", code),
    ]


@pytest.mark.parametrize(
    "failure",
    [
        ClientError(
            {"Error": {"Code": "ThrottlingException", "Message": ""}}, "CreateSchedule"
        ),
        ClientError(
            {"Error": {"Code": "InternalServerError", "Message": ""}}, "CreateSchedule"
        ),
        EndpointConnectionError(endpoint_url="https://scheduler.nowhere"),
        ReadTimeoutError(endpoint_url="https://scheduler.nowhere"),
    ],
    ids=["throttled", "in trouble", "not there", "silent"],
)
def test_a_scheduler_that_does_not_answer_costs_one_call_a_minute(
    failure: Exception,
) -> None:
    refused = RefusedTimers(failure)
    refused.set_all()
    assert len(refused.scheduler.asked) == len(refused.refused) == 1
    refused.clock.advance(minutes=1)
    refused.set_all()
    assert len(refused.scheduler.asked) == 2


def test_what_is_past_is_not_asked_of_scheduler() -> None:
    refused = RefusedTimers(AssertionError("asked for the past"))
    for seconds in (0, -1, -3600):
        refused.timers.set_timer("cr-1", START + timedelta(seconds=seconds))
        refused.timers.set_start_timer("cr-1", START + timedelta(seconds=seconds))
        refused.timers.set_deadline_timer(START + timedelta(seconds=seconds))
    assert refused.scheduler.asked == []


def test_a_timer_is_set_once_and_moves(aws_endpoint: str) -> None:
    scheduler = ministack.client("scheduler", aws_endpoint)
    group = f"group-{next(_numbers)}"
    scheduler.create_schedule_group(Name=group)
    role, target = (
        "arn:aws:iam::000000000000:role/r",
        "arn:aws:lambda:us-east-1:000000000000:function:expire",
    )
    timers = SchedulerDrainTimers(
        scheduler,
        group=group,
        role_arn=role,
        target_arn=target,
        dead_letters_arn=LETTERS_ARN,
        clock=ManualClock(START - timedelta(hours=1)),
        on_refusal=never_refused,
    )

    timers.set_timer("cr-1", START)
    timers.set_timer("cr-1", START)
    timers.set_timer("cr-1", START + timedelta(days=1))

    (found,) = scheduler.list_schedules(GroupName=group)["Schedules"]
    schedule = scheduler.get_schedule(GroupName=group, Name=found["Name"])
    assert schedule["ScheduleExpression"] == "at(2026-01-16T12:00:00)"
    assert schedule["ActionAfterCompletion"] == "DELETE"
    assert schedule["Target"]["DeadLetterConfig"] == {"Arn": LETTERS_ARN}
    # Scheduler would go on for a day
    assert schedule["Target"]["RetryPolicy"]["MaximumEventAgeInSeconds"] == 120
    assert json.loads(schedule["Target"]["Input"]) == {
        "capacityReservationId": "cr-1",
        "due": "2026-01-16T12:00:00+00:00",
    }

    timers.set_start_timer("cr-1", START + timedelta(milliseconds=1))
    assert {
        each["Name"] for each in scheduler.list_schedules(GroupName=group)["Schedules"]
    } == {
        "drain-cr-1",
        "start-cr-1",
    }
    starts = scheduler.get_schedule(GroupName=group, Name="start-cr-1")
    # never before the time
    assert starts["ScheduleExpression"] == "at(2026-01-15T12:00:01)"

    timers.set_deadline_timer(START)
    timers.set_deadline_timer(START + timedelta(minutes=8))
    deadline = scheduler.get_schedule(GroupName=group, Name="deadline")
    assert deadline["ScheduleExpression"] == "at(2026-01-15T12:08:00)"
    assert json.loads(deadline["Target"]["Input"]) == {
        "drainDeadline": "2026-01-15T12:08:00+00:00"
    }


def test_a_message_about_a_start_comes_then_and_not_before(sqs: Any) -> None:
    url, clock = make_queue(sqs), ManualClock()
    messages = SqsStartMessages(sqs, url, clock, never_refused)
    messages.set_start_timer("cr-0123456789abcdef0", clock.now() - timedelta(seconds=5))
    messages.set_start_timer(
        "cr-0fedcba9876543210", clock.now() + timedelta(seconds=29, milliseconds=1)
    )
    (message,) = received(sqs, url)  # the other one is on its way
    asked = ["ApproximateNumberOfMessagesDelayed"]
    assert sqs.get_queue_attributes(QueueUrl=url, AttributeNames=asked)["Attributes"] == {
        asked[0]: "1"
    }
    notice = parse_notice(json.loads(message["Body"]))
    assert notice == Notice(
        NoticeKind.RESERVATION_DUE, clock.now(), reservation_ids=("cr-0123456789abcdef0",)
    )


def test_instances_that_are_to_end_are_named_to_who_may_end_them(sqs: Any) -> None:
    url, clock = make_queue(sqs), ManualClock()
    ids = [f"i-{number:017x}" for number in range(101)]
    receipt = SqsEndings(sqs, url, clock).terminate(ids)
    assert receipt.accepted == frozenset(), "nobody has asked EC2 yet"
    notices = [parse_notice(json.loads(it["Body"])) for it in received(sqs, url)]
    named = [notice.instance_ids for notice in notices if notice is not None]
    assert sorted(itertools.chain.from_iterable(named)) == ids
    assert sorted(map(len, named)) == [1, 100]
    SqsEndings(sqs, url, clock).terminate(())
    assert received(sqs, url) == []


def test_a_message_about_a_start_that_sqs_refuses_stops_nobody(sqs: Any) -> None:
    refused: list[tuple[str, str]] = []
    messages = SqsStartMessages(
        sqs,
        make_queue(sqs) + "-gone",
        ManualClock(),
        lambda reservation_id, error: refused.append((reservation_id, error.code)),
    )

    messages.set_start_timer("cr-0123456789abcdef0", START)

    assert [reservation_id for reservation_id, _ in refused] == ["cr-0123456789abcdef0"]


def test_failed_messages_come_back_when_they_are_hastened(aws_endpoint: str) -> None:
    sqs = ministack.client("sqs", aws_endpoint)
    url = sqs.create_queue(
        QueueName=f"hidden-{next(_numbers)}", Attributes={"VisibilityTimeout": "300"}
    )["QueueUrl"]
    for number in range(12):  # more than one request changes
        sqs.send_message(QueueUrl=url, MessageBody=str(number))
    received: dict[str, str] = {}
    while len(received) < 12:
        for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get(
            "Messages", []
        ):
            received[message["Body"]] = message["ReceiptHandle"]
    assert "Messages" not in sqs.receive_message(QueueUrl=url)

    SqsRedelivery(sqs, url).hasten(dict.fromkeys(received.values(), 0))

    again: set[str] = set()
    while len(again) < 12:
        messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get(
            "Messages", []
        )
        assert messages, f"only {sorted(again)} came back"
        again |= {message["Body"] for message in messages}
