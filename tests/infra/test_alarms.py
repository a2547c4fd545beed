"""Every alarm goes off when what it is about happens, and no alarm does on a day on which nothing is wrong.

What is counted in a story is what AWS documents to count (Lambda, SQS, EventBridge, Scheduler), and what a function
really writes for a counter; the names and dimensions are those of the template's resources, not those of the alarms.
"""

import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from math import ceil
from typing import Any, Final

import pytest

from infra.app import ROOT
from infra.config import FUNCTIONS
from infra.function import RETRY_BY_SCHEDULE_MIN
from infra.iam.acknowledgements import as_reported
from infra.operations.observability import COUNTED, OLDEST_MESSAGE_S, SEEN_OTHERWISE
from reservoir.names import (
    DEFAULT_STACK,
    METRICS_NAMESPACE,
    ROWS_UNREADABLE,
    Function,
    Queue,
    output_name,
)
from reservoir.runtime.composition.parts import aws_outside
from tests.infra.cloudwatch import MINUTE_S, Metrics, is_alarm
from tests.infra.reading import Resources, of_type

DAY_S: Final = 24 * 60 * MINUTE_S
# Their schedules go through their queues.
THROUGH_A_QUEUE: Final = (Function.PROVISION, Function.RECORD)
SCHEDULED: Final = {
    function: s.every_min for function, s in FUNCTIONS.items() if s.every_min
} | {Function.PROVISION: 1}
WRITE = """
import sys
from reservoir.adapters.dynamodb.table import understood
from reservoir.runtime.observability import count, count_for_all, observed


def do(what, whose):
    if what == "a row":
        list(understood([{"id": {"S": "nc-1"}}], lambda row: row["of another form"]))
    elif whose == "all":
        count_for_all(what)
    else:
        count(what)


observed(lambda event, context: do(*event))(sys.argv[1:], None)
"""
A_ROW: Final = "a row"  # that cannot be read is met, where other stories count


class Stack:
    """The deployed stack as CloudWatch sees it, from second 0."""

    def __init__(self, resources: Resources, earlier: Metrics | None = None) -> None:
        self.resources = resources
        self.metrics = Metrics(earlier)
        self.alarms = {
            name.removeprefix("Observability")[:-8]: alarm
            for name, alarm in of_type(resources, "AWS::CloudWatch::Alarm").items()
        }

    def alarming(self, name: str, now_s: float) -> bool:
        alarm = self.alarms[name]
        dimensions = {
            each["Name"]: self.named(each["Value"]) for each in alarm["Dimensions"]
        }
        return is_alarm(alarm, self.metrics.datapoints(alarm, dimensions, now_s))

    def named(self, value: Any) -> str:
        """Return what a reference in the template becomes; a generated name is its logical id here."""
        match value:
            case {"Ref": str(name)}:
                return str(self.resources[name]["Properties"].get("FunctionName", name))
            case {"Fn::GetAtt": [str(name), "QueueName"]}:
                return name
            case _:
                return str(value)

    def of_function(self, function: Function) -> dict[str, Any]:
        """Return the properties of a function."""
        handler = f"functions.{function}.handler.handler"
        (found,) = (
            f
            for f in of_type(self.resources, "AWS::Lambda::Function").values()
            if f["Handler"] == handler
        )
        return dict(found)

    def queue(self, name: str) -> str:
        (found,) = (
            key
            for key in of_type(self.resources, "AWS::SQS::Queue")
            if key[:-8] == f"Queues{name}"
        )
        return found

    def rule(self, function: Function) -> str:
        name = f"Schedules{output_name(function)}"
        (found,) = (
            key for key in of_type(self.resources, "AWS::Events::Rule") if key[:-8] == name
        )
        return found

    def run(self, function: Function, at_s: float, *, fails: bool = False) -> None:
        """Lambda counts an invocation, and whether it was an error; one that was throttled it counts as neither."""
        dimensions = {"FunctionName": self.of_function(function)["FunctionName"]}
        self.metrics.put("AWS/Lambda", "Invocations", dimensions, at_s, 1)
        self.metrics.put("AWS/Lambda", "Errors", dimensions, at_s, int(fails))

    def fire(self, function: Function, at_s: float) -> None:
        """EventBridge counts that a schedule has called its target; of a schedule that is off nothing is counted."""
        self.metrics.put(
            "AWS/Events", "Invocations", {"RuleName": self.rule(function)}, at_s, 1
        )

    def holds(self, queue: str, at_s: float, *, visible: int = 0, age_s: float = 0) -> None:
        """SQS counts what a queue holds once a minute."""
        dimensions = {"QueueName": self.queue(queue)}
        self.metrics.put(
            "AWS/SQS", "ApproximateNumberOfMessagesVisible", dimensions, at_s, visible
        )
        self.metrics.put(
            "AWS/SQS", "ApproximateAgeOfOldestMessage", dimensions, at_s, age_s
        )

    def be_well(self, until_s: float) -> None:
        """Let every schedule run; EventBridge fires somewhere in the minute, so that a minute may see two or none."""
        for function, every_min in SCHEDULED.items():
            for number, at_s in enumerate(range(0, int(until_s), every_min * MINUTE_S)):
                late_s = (number * 37) % 60
                self.fire(function, at_s + late_s)
                self.run(function, at_s + late_s + 1)
        for at_s in range(0, int(until_s), MINUTE_S):
            for name in (*map(output_name, (q.name for q in Queue)), "Undelivered"):
                self.holds(name, at_s)


@pytest.fixture(scope="module")
def a_good_day(resources: Resources) -> Metrics:
    """Return what a day on which nothing is wrong counts; a test adds to a copy."""
    stack = Stack(resources)
    stack.be_well(DAY_S)
    return stack.metrics


@pytest.fixture
def stack(resources: Resources, a_good_day: Metrics) -> Stack:
    return Stack(resources, a_good_day)


def fail_always(function: Function) -> Callable[[Stack], float]:
    """Return a story: each run fails, as often as the schedule, Lambda's retries or the queue bring it back."""
    settings = FUNCTIONS[function]
    if settings.every_min is None:
        at_min = [
            number * ceil(settings.timeout_s * settings.hidden_timeouts / 60)
            for number in range(5)
        ]
    elif settings.every_min <= RETRY_BY_SCHEDULE_MIN:
        at_min = [number * settings.every_min for number in range(5)]
    else:  # Lambda's two retries of an asynchronous invocation, a minute and two later
        took_min = ceil(settings.timeout_s / 60)
        at_min = [0, took_min + 1, 2 * took_min + 3]

    def story(stack: Stack) -> float:
        for minute in at_min:
            stack.run(function, DAY_S + minute * MINUTE_S, fails=True)
        return DAY_S + (at_min[-1] + 1) * MINUTE_S

    return story


def switch_off(function: Function) -> Callable[[Stack], float]:
    """Return a story: the schedule is off from now on; messages, events and timers go on waking who else is woken."""

    def story(stack: Stack) -> float:
        missed_s = max(5 * MINUTE_S, 3 * SCHEDULED[function] * MINUTE_S)
        if function in (Function.EXPIRE, Function.DISCOVER_RESERVATIONS, *THROUGH_A_QUEUE):
            for at_s in range(DAY_S, DAY_S + missed_s, MINUTE_S):
                stack.run(function, at_s)
        return DAY_S + missed_s

    return story


def starve(function: Function) -> Callable[[Stack], float]:
    """Return a story: the schedule fires, but Lambda has no concurrency left for the function."""

    def story(stack: Stack) -> float:
        missed_s = max(6 * MINUTE_S, 3 * SCHEDULED[function] * MINUTE_S)
        for at_s in range(DAY_S, DAY_S + missed_s, SCHEDULED[function] * MINUTE_S):
            stack.fire(function, at_s)
        return DAY_S + missed_s

    return story


def throttle(function: Function) -> Callable[[Stack], float]:
    """Return a story: Lambda refuses every invocation, and the poller of the queue tries again."""

    def story(stack: Stack) -> float:
        for minute in range(2):
            dimensions = {"FunctionName": stack.of_function(function)["FunctionName"]}
            stack.metrics.put(
                "AWS/Lambda", "Throttles", dimensions, DAY_S + minute * MINUTE_S, 1
            )
        return DAY_S + 2 * MINUTE_S

    return story


def give_up(queue: str) -> Callable[[Stack], float]:
    def story(stack: Stack) -> float:
        stack.holds(queue, DAY_S, visible=1)
        return DAY_S + MINUTE_S

    return story


def leave_lying(queue: Queue) -> Callable[[Stack], float]:
    def story(stack: Stack) -> float:
        minutes = OLDEST_MESSAGE_S[queue] // MINUTE_S + 2
        for minute in range(minutes):
            stack.holds(
                output_name(queue.name),
                DAY_S + minute * MINUTE_S,
                visible=1,
                age_s=minute * MINUTE_S,
            )
        return DAY_S + minutes * MINUTE_S

    return story


@cache
def written(service: str, name: str, whose: str) -> list[dict[str, Any]]:
    """Return the lines in CloudWatch's embedded format that a function writes when it counts one."""
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", WRITE, name, whose],
        cwd=ROOT,
        env={
            "POWERTOOLS_SERVICE_NAME": service,
            "POWERTOOLS_METRICS_NAMESPACE": METRICS_NAMESPACE,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines() if '"_aws"' in line]


def write(
    metric: str, function: Function, *, shared: bool = False
) -> Callable[[Stack], float]:
    """Return a story: the function counts one, and CloudWatch reads what it wrote."""

    def story(stack: Stack) -> float:
        variables = stack.of_function(function)["Environment"]["Variables"]
        for line in written(
            variables["POWERTOOLS_SERVICE_NAME"], metric, "all" if shared else "its own"
        ):
            for directive in line["_aws"]["CloudWatchMetrics"]:
                for names in directive["Dimensions"]:
                    for each in directive["Metrics"]:
                        value = line[each["Name"]]
                        stack.metrics.put(
                            directive["Namespace"],
                            each["Name"],
                            {name: line[name] for name in names},
                            DAY_S,
                            value[0] if isinstance(value, list) else value,
                        )
        return DAY_S + MINUTE_S

    return story


def stories() -> Iterator[tuple[str, str, Callable[[Stack], float]]]:
    """Yield (alarm, what happens, story); a story returns when the alarm must have gone off."""
    for queue in Queue:
        name = output_name(queue.name)
        yield f"{name}DeadLetters", "a message was given up", give_up(f"{name}DeadLetters")
        yield f"{name}Age", "nobody receives", leave_lying(queue)
    yield "Undelivered", "an event could not be delivered", give_up("Undelivered")
    yield "ReactThrottles", "no concurrency", throttle(Function.REACT)
    for function in Function:
        name = output_name(function)
        if function not in SEEN_OTHERWISE:
            yield f"{name}Errors", "each run fails", fail_always(function)
        if function in (Function.EXPIRE, Function.DISCOVER_RESERVATIONS):
            yield f"{name}Stopped", "no concurrency", starve(function)
        elif function in SCHEDULED and function not in THROUGH_A_QUEUE:
            yield f"{name}Stopped", "no concurrency", starve(function)
            yield f"{name}Stopped", "the schedule is off", switch_off(function)
        if function in (Function.EXPIRE, Function.DISCOVER_RESERVATIONS, *THROUGH_A_QUEUE):
            yield f"{name}Unscheduled", "the schedule is off", switch_off(function)
    yield (
        ROWS_UNREADABLE,
        "a function meets a row that it cannot read",
        write(A_ROW, Function.PROVISION),
    )
    for metric, (_, writers) in COUNTED.items():
        for writer in writers:
            yield (
                metric,
                f"{writer} counts one",
                write(metric, writer, shared=len(writers) > 1),
            )


STORIES: Final = list(stories())


@pytest.mark.parametrize(
    ("alarm", "story"),
    [pytest.param(alarm, story, id=f"{alarm}: {what}") for alarm, what, story in STORIES],
)
def test_an_alarm_goes_off_when_what_it_is_about_happens_and_not_before(
    stack: Stack, alarm: str, story: Callable[[Stack], float]
) -> None:
    assert not stack.alarming(alarm, DAY_S)
    assert stack.alarming(alarm, story(stack))


def test_every_alarm_has_its_story(stack: Stack) -> None:
    assert set(stack.alarms) == {alarm for alarm, _, _ in STORIES}


def test_every_schedule_is_watched_by_an_alarm_that_no_other_waker_can_keep_quiet(
    resources: Resources,
) -> None:
    off = {alarm for alarm, what, _ in STORIES if what == "the schedule is off"}
    rules = [
        rule
        for rule in of_type(resources, "AWS::Events::Rule").values()
        if "ScheduleExpression" in rule
    ]
    assert len(rules) == len(SCHEDULED) == len(off)


def test_no_alarm_goes_off_on_a_good_day(stack: Stack) -> None:
    every_3_min = range(DAY_S // 2 + 2 * 60 * MINUTE_S, DAY_S, 3 * MINUTE_S)
    assert {
        name
        for name in stack.alarms
        for now_s in every_3_min
        if stack.alarming(name, now_s)
    } == set()


def test_a_first_deployment_raises_the_dead_mans_switches_until_their_first_runs(
    resources: Resources,
) -> None:
    """The runbook says so; a topic hears of it once."""
    stack = Stack(resources)
    assert {name for name in stack.alarms if stack.alarming(name, 0)} == {
        name
        for name, alarm in stack.alarms.items()
        if alarm["TreatMissingData"] == "breaching"
    }


@pytest.mark.parametrize("queue", [Queue.DEMAND, Queue.LAUNCHES])
def test_a_message_that_nobody_takes_is_old_before_sqs_stops_counting_it(
    resources: Resources, queue: Queue
) -> None:
    """Third receipts take a message out of the metric (SQS developer guide, "Available CloudWatch metrics").

    A FIFO queue keeps its order, and reactions have an alarm on throttles.
    """
    name = f"Queues{output_name(queue.name)}"
    (properties,) = (
        p for key, p in of_type(resources, "AWS::SQS::Queue").items() if key[:-8] == name
    )
    assert OLDEST_MESSAGE_S[queue] + MINUTE_S <= 2 * properties["VisibilityTimeout"]


def test_no_alarm_adds_metrics_up(stack: Stack) -> None:
    """An expression has no value while one of its metrics has none: such an alarm may never go off."""
    assert [name for name, alarm in stack.alarms.items() if "Metrics" in alarm] == []


def test_alarms_look_back_no_further_than_cloudwatch_can(stack: Stack) -> None:
    for alarm in stack.alarms.values():
        assert alarm["Period"] * alarm["EvaluationPeriods"] <= DAY_S


def test_every_counter_that_is_watched_is_counted_by_its_function() -> None:
    for name, (_, writers) in COUNTED.items():
        for function in writers:
            handler = (ROOT / "functions" / function / "handler.py").read_text()
            # what functions count wherever they use an adapter
            anywhere = inspect.getsource(aws_outside)
            call = "count" if len(writers) == 1 else "count_for_all"
            assert f'{call}("{name}"' in handler + anywhere, (
                f"{function} does not write {name}"
            )


def test_what_cannot_be_delivered_goes_where_an_alarm_looks(resources: Resources) -> None:
    (undelivered,) = (
        name
        for name in of_type(resources, "AWS::SQS::Queue")
        if name.startswith("QueuesUndelivered")
    )
    rules = of_type(resources, "AWS::Events::Rule")
    for rule in rules.values():
        for target in rule["Targets"]:
            assert target["DeadLetterConfig"]["Arn"] == {"Fn::GetAtt": [undelivered, "Arn"]}
    (policy,) = (
        each["PolicyDocument"]["Statement"]
        for each in of_type(resources, "AWS::SQS::QueuePolicy").values()
        if each["Queues"] == [{"Ref": undelivered}]
    )
    (let_in,) = (
        statement["Condition"] for statement in policy if statement["Effect"] == "Allow"
    )
    rule = "arn:<AWS::Partition>:events:<AWS::Region>:<AWS::AccountId>:rule"
    # CloudFormation makes the names of rules of the stack's; on a bus of its own a rule's ARN has the bus's before.
    assert [as_reported(arn) for arn in let_in["ArnLike"]["aws:SourceArn"]] == [
        f"{rule}/{DEFAULT_STACK}-*",
        f"{rule}/reservoir/{DEFAULT_STACK}-*",
    ]
    assert let_in["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
    for properties in rules.values():
        name = properties.get("Name", f"{DEFAULT_STACK}-named-by-cloudformation")
        assert name.startswith(f"{DEFAULT_STACK}-")


def test_a_schedule_that_could_not_be_delivered_is_not_delivered_late_beside_the_next(
    resources: Resources,
) -> None:
    ages = {
        rule["ScheduleExpression"]: rule["Targets"][0]
        .get("RetryPolicy", {})
        .get("MaximumEventAgeInSeconds")
        for rule in of_type(resources, "AWS::Events::Rule").values()
        if "ScheduleExpression" in rule
    }
    assert ages == {
        "rate(1 minute)": 60,
        "rate(5 minutes)": 300,
        "rate(10 minutes)": 600,
        "rate(12 hours)": None,
    }


def alarm_actions(template: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    alarms = of_type(template["Resources"], "AWS::CloudWatch::Alarm").values()
    return [(alarm.get("AlarmActions"), alarm.get("OKActions")) for alarm in alarms]


def test_alarms_tell_nobody_unless_a_topic_is_named(template: Mapping[str, Any]) -> None:
    assert {str(both) for both in alarm_actions(template)} == {"(None, None)"}
