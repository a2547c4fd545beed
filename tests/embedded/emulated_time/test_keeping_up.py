"""Emulated time never runs ahead of the work that it causes: one story at several speeds, and with no time left.

The story has a function that works for a while and writes down what it was told, in the order in which it was told.
What is due in the story is further apart than the governor's limit, so its order is certain; nothing here looks at how
much real time anything takes.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from lab.embedded.client import EmbeddedAws
from lab.embedded.emulated_time.governor import LATENESS_LIMIT
from tests.embedded.conftest import FROM_EVENTBRIDGE, Resources, allow, unique, until

pytestmark = pytest.mark.embedded

BUSY_LOOPS = 8
WORK_AND_WRITE_DOWN = """
    import boto3, json, os, time
    dynamodb, sqs = boto3.client("dynamodb"), boto3.client("sqs")
    def work():
        until = time.process_time() + 0.1
        while time.process_time() < until:
            pass
    def write_down(what):
        dynamodb.update_item(
            TableName=os.environ["TABLE"], Key={"id": {"S": "journal"}},
            UpdateExpression="SET entries = list_append(if_not_exists(entries, :none), :one)",
            ExpressionAttributeValues={":none": {"L": []}, ":one": {"L": [{"S": what}]}},
        )
    def handle(event, context):
        for record in event["Records"]:
            work()
            body = record["body"]
            if body.startswith("{"):
                body = json.loads(body)["detail"]["state"]
            write_down(body)
            if body == "timer 1":
                send = {"QueueUrl": os.environ["QUEUE_URL"]}
                sqs.send_message(**send, MessageBody="three seconds later", DelaySeconds=3)
                sqs.send_message(**send, MessageBody="at once")
"""
STORY = ["pending", "timer 1", "at once", "three seconds later", "running", "timer 2"]
EACH_MINUTE = """
    import boto3, os, time
    dynamodb = boto3.client("dynamodb")
    def write_down(what):
        dynamodb.update_item(
            TableName=os.environ["TABLE"], Key={"id": {"S": "journal"}},
            UpdateExpression="SET entries = list_append(if_not_exists(entries, :none), :one)",
            ExpressionAttributeValues={":none": {"L": []}, ":one": {"L": [{"S": what}]}},
        )
    def handle(event, context):
        write_down("begins " + event["time"])
        time.sleep(0.3)
        write_down("ends " + event["time"])
"""


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Let other processes compete for every core meanwhile."""
    with ExitStack() as ended:
        for _ in range(count):
            loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            ended.callback(loop.wait)
            ended.callback(loop.kill)
        yield


def journal(resources: Resources, table: str) -> list[str]:
    entries = resources.items(table).get("journal", {}).get("entries", {}).get("L", [])
    return [entry["S"] for entry in entries]


def timer(resources: Resources, arn: str, at: datetime, what: str) -> None:
    resources.scheduler.create_schedule(
        Name=unique("timer"),
        ScheduleExpression=f"at({at:%Y-%m-%dT%H:%M:%S})",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={
            "Arn": arn,
            "RoleArn": resources.role(allow("sqs:SendMessage")),
            "Input": what,
        },
    )


def prepare(resources: Resources) -> str:
    """Let everything of the story become due while the clock stands; return the table with the journal."""
    table = resources.table()
    policy = {"Version": "2012-10-17", "Statement": [FROM_EVENTBRIDGE]}
    url, arn = resources.queue(Policy=policy, VisibilityTimeout=600)
    allowed = allow("dynamodb:UpdateItem", "sqs:SendMessage")
    function = resources.function(
        WORK_AND_WRITE_DOWN, allowed, timeout_s=600, TABLE=table, QUEUE_URL=url
    )
    resources.feed(function, arn, BatchSize=1, ScalingConfig={"MaximumConcurrency": 2})
    rule = unique("rule")
    resources.events.put_rule(
        Name=rule,
        EventPattern=json.dumps(
            {"source": ["aws.ec2"], "detail": {"state": [{"exists": True}]}}
        ),
    )
    resources.events.put_targets(Rule=rule, Targets=[{"Id": "queue", "Arn": arn}])
    resources.aws.clock.settle()
    now = resources.aws.clock.pause().replace(microsecond=0)
    resources.aws.ec2("configure", pending_s=11.0)
    ec2 = resources.aws.client("ec2")
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    ec2.run_instances(ImageId=image, InstanceType="m5.large", MinCount=1, MaxCount=1)
    timer(resources, arn, now + timedelta(seconds=4), "timer 1")
    timer(resources, arn, now + timedelta(seconds=16), "timer 2")
    return table


SHORT = len(STORY) - 3  # what is over after some four seconds
SPEEDS = [
    pytest.param(1, 0, len(STORY), id="real-time"),
    pytest.param(25, 0, len(STORY), id="rate-25"),
    pytest.param(1_000, 0, len(STORY), id="rate-1000"),
    # At real speed the story takes as long as it says, with every core busy: its first half must do, and more may come.
    pytest.param(1, BUSY_LOOPS, SHORT, id="real-time-busy"),
    pytest.param(25, BUSY_LOOPS, len(STORY), id="rate-25-busy"),
    pytest.param(1_000, BUSY_LOOPS, len(STORY), id="rate-1000-busy"),
]


@pytest.mark.parametrize(("rate", "loops", "length"), SPEEDS)
def test_a_story_ends_with_the_same_events_in_the_same_order(
    resources: Resources, rate: float, loops: int, length: int
) -> None:
    resources.aws.reset()
    table = prepare(resources)
    with busy_loops(loops):
        resources.aws.clock.set_rate(rate)
        resources.aws.clock.resume()
        until(lambda: len(journal(resources, table)) >= length)
    resources.aws.clock.settle()
    told = journal(resources, table)
    assert told == STORY[: max(length, len(told))]
    assert resources.aws.clock.state()["worst_lateness_s"] <= LATENESS_LIMIT.total_seconds()


@pytest.mark.parametrize("steps", [[20.0], [0.5] * 40])
def test_it_does_in_jumps_too(resources: Resources, steps: list[float]) -> None:
    resources.aws.reset()
    table = prepare(resources)
    before = resources.aws.clock.now()
    for step_s in steps:
        resources.aws.clock.advance(timedelta(seconds=step_s))
    assert resources.aws.clock.now() - before == timedelta(seconds=20)
    assert journal(resources, table) == STORY
    assert resources.aws.clock.state()["worst_lateness_s"] <= LATENESS_LIMIT.total_seconds()


def each_minute(resources: Resources, source: str) -> tuple[str, str]:
    """Let a function run each minute; return its name and the table that it may write to."""
    table = resources.table()
    function = resources.function(
        source, allow("dynamodb:UpdateItem"), timeout_s=600, TABLE=table
    )
    arn = resources.lambda_.get_function(FunctionName=function)["Configuration"][
        "FunctionArn"
    ]
    resources.lambda_.add_permission(
        FunctionName=function,
        StatementId="rules",
        Action="lambda:InvokeFunction",
        Principal="events.amazonaws.com",
    )
    rule = unique("rule")
    resources.events.put_rule(Name=rule, ScheduleExpression="rate(1 minute)")
    resources.events.put_targets(Rule=rule, Targets=[{"Id": "function", "Arn": arn}])
    return function, table


def assert_no_run_met_another(entries: list[str], runs: int) -> None:
    times = [entry.removeprefix("begins ") for entry in entries[::2]]
    assert entries == [
        entry for time in times for entry in (f"begins {time}", f"ends {time}")
    ]
    minutes = [datetime.fromisoformat(time) for time in times]
    gaps = {(after - before).total_seconds() for before, after in pairwise(minutes)}
    # the events' times have whole seconds
    assert gaps <= {59.0, 60.0, 61.0}, "every period, none twice"
    assert len(minutes) >= runs


def test_a_schedule_never_meets_its_own_next_run(resources: Resources) -> None:
    resources.aws.reset()
    _, table = each_minute(resources, EACH_MINUTE)
    resources.aws.clock.set_rate(1_000)  # a period is a fifth of what a run takes
    until(lambda: len(journal(resources, table)) >= 20)
    resources.aws.clock.pause()
    resources.aws.clock.settle()
    assert_no_run_met_another(journal(resources, table), 10)


def test_a_jump_has_every_run_that_it_passes_unless_they_are_to_coalesce(
    resources: Resources,
) -> None:
    resources.aws.reset()
    _, table = each_minute(resources, EACH_MINUTE)
    resources.aws.clock.pause()
    resources.aws.clock.advance(timedelta(minutes=8))
    assert_no_run_met_another(journal(resources, table), 8)
    runs = len(journal(resources, table)) // 2
    resources.aws.clock.advance(timedelta(hours=8), coalesce=True)
    assert len(journal(resources, table)) // 2 == runs + 1


MEET_ANOTHER = """
    import os, pathlib, tempfile, time
    def handle(event, context):
        meeting = pathlib.Path(tempfile.gettempdir(), os.environ["TABLE"])
        meeting.mkdir(exist_ok=True)
        (meeting / event["time"]).touch()
        while len(list(meeting.iterdir())) < 2:
            time.sleep(0.05)
        print("met")
"""


def test_without_the_governor_runs_meet_as_on_a_machine_that_is_too_slow(
    resources: Resources,
) -> None:
    resources.aws.reset()
    resources.aws.clock.govern(governed=False)
    try:
        function, _ = each_minute(resources, MEET_ANOTHER)
        resources.aws.clock.set_rate(600)
        until(lambda: "met" in resources.aws.function_log(function))
        assert resources.aws.clock.state()["worst_lateness_s"] > 60
    finally:
        resources.aws.reset()  # governed again
    assert resources.aws.clock.state()["governed"]


def test_an_embedded_aws_can_be_started_without_the_governor() -> None:
    with EmbeddedAws(governed=False) as aws:
        assert not aws.clock.state()["governed"]
        before = aws.clock.now()
        aws.clock.pause()
        assert aws.clock.advance(timedelta(days=400)) - before > timedelta(days=399)
