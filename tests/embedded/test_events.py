"""Events and schedules reach their targets as on AWS, schedules by the emulated clock."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.embedded.conftest import FROM_EVENTBRIDGE, Resources, allow, unique

pytestmark = pytest.mark.embedded


def _rule(
    resources: Resources, target_arn: str, *, bus: str = "default", **rule: str
) -> str:
    name = unique("rule")
    resources.events.put_rule(Name=name, EventBusName=bus, **rule)
    resources.events.put_targets(
        Rule=name, EventBusName=bus, Targets=[{"Id": "target", "Arn": target_arn}]
    )
    return name


def test_an_event_on_a_bus_reaches_the_queue_of_a_matching_rule(
    resources: Resources,
) -> None:
    bus = unique("bus")
    resources.events.create_event_bus(Name=bus)
    url, arn = resources.queue()
    _rule(
        resources,
        arn,
        bus=bus,
        EventPattern=json.dumps({"source": ["reservoir"], "detail": {"kind": ["wanted"]}}),
    )
    entry = {"EventBusName": bus, "Source": "reservoir", "DetailType": "Thing Happened"}
    for kind in ("other", "wanted"):
        answer = resources.events.put_events(
            Entries=[{**entry, "Detail": json.dumps({"kind": kind})}]
        )
        assert answer["FailedEntryCount"] == 0
    (body,) = resources.bodies(url, 1)
    assert json.loads(body)["detail"] == {"kind": "wanted"}


def test_ec2s_own_events_are_on_the_default_bus_with_id_time_and_resources(
    resources: Resources,
) -> None:
    url, arn = resources.queue()
    _rule(resources, arn, EventPattern=json.dumps({"source": ["aws.ec2"]}))
    ec2 = resources.aws.client("ec2")
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    before = resources.aws.clock.now().replace(microsecond=0)
    launched = ec2.run_instances(
        ImageId=image, InstanceType="m5.large", MinCount=1, MaxCount=1
    )
    instance_id = launched["Instances"][0]["InstanceId"]
    resources.aws.clock.advance(timedelta(minutes=1))
    events: list[dict[str, Any]] = []
    while {event["detail"]["state"] for event in events} != {"pending", "running"}:
        found = [json.loads(body) for body in resources.bodies(url, 1)]
        # instances of other tests may end meanwhile
        events += [
            event for event in found if event["detail"].get("instance-id") == instance_id
        ]
    for event in events:
        assert event["resources"] == [
            f"arn:aws:ec2:us-east-1:{resources.aws.account_id}:instance/{instance_id}"
        ]
        assert before <= datetime.fromisoformat(event["time"]) <= resources.aws.clock.now()
    assert len({event["id"] for event in events}) == len(events)
    ec2.terminate_instances(InstanceIds=[instance_id])


def test_every_status_of_a_stack_is_told(resources: Resources) -> None:
    url, arn = resources.queue()
    _rule(resources, arn, EventPattern=json.dumps({"source": ["aws.cloudformation"]}))
    cloudformation, name = resources.aws.client("cloudformation"), unique("stack")
    template = json.dumps({"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}})
    stack_id = cloudformation.create_stack(StackName=name, TemplateBody=template)["StackId"]
    events = [json.loads(body) for body in resources.bodies(url, 2)]
    cloudformation.delete_stack(StackName=name)
    events += [json.loads(body) for body in resources.bodies(url, 2)]
    assert {event["detail-type"] for event in events} == {
        "CloudFormation Stack Status Change"
    }
    assert {event["detail"]["stack-id"] for event in events} == {stack_id}
    assert {(event["source"], *event["resources"]) for event in events} == {
        ("aws.cloudformation", stack_id)
    }
    assert [event["detail"]["status-details"]["status"] for event in events] == [
        "CREATE_IN_PROGRESS",
        "CREATE_COMPLETE",
        "DELETE_IN_PROGRESS",
        "DELETE_COMPLETE",
    ]


def test_nobody_can_put_events_in_the_name_of_aws(resources: Resources) -> None:
    answer = resources.events.put_events(
        Entries=[{"Source": "aws.ec2", "DetailType": "x", "Detail": "{}"}]
    )
    assert answer["Entries"][0]["ErrorCode"] == "NotAuthorizedForSourceException"


def test_a_rate_rule_fires_when_the_clock_has_passed_its_period(
    resources: Resources,
) -> None:
    url, arn = resources.queue()
    rule = _rule(resources, arn, ScheduleExpression="rate(10 minutes)")
    for quiet_min in (9, 8):  # due after 10 and 20 minutes, wherever the steps end
        resources.aws.clock.advance(timedelta(minutes=quiet_min))
        assert "Messages" not in resources.sqs.receive_message(QueueUrl=url)
        resources.aws.clock.advance(timedelta(minutes=2))
        (body,) = resources.bodies(url, 1)
        assert json.loads(body)["resources"][0].endswith(f":rule/{rule}")


def test_a_cron_rule_fires_at_its_time_of_day(resources: Resources) -> None:
    url, arn = resources.queue()
    soon = resources.aws.clock.now() + timedelta(hours=3)
    _rule(resources, arn, ScheduleExpression=f"cron({soon.minute} {soon.hour} * * ? *)")
    for quiet_hours in (2, 22):
        resources.aws.clock.advance(timedelta(hours=quiet_hours))
        assert "Messages" not in resources.sqs.receive_message(QueueUrl=url)
        resources.aws.clock.advance(timedelta(hours=2))
        assert len(resources.bodies(url, 1)) == 1


def test_a_timer_fires_once_at_its_time_deletes_itself_and_can_be_set_again(
    resources: Resources,
) -> None:
    url, arn = resources.queue()
    name = unique("timer")

    def set_timer() -> None:
        at = resources.aws.clock.now() + timedelta(minutes=30)
        resources.scheduler.create_schedule(
            Name=name,
            ScheduleExpression=f"at({at:%Y-%m-%dT%H:%M:%S})",
            FlexibleTimeWindow={"Mode": "OFF"},
            ActionAfterCompletion="DELETE",
            Target={
                "Arn": arn,
                "RoleArn": resources.role(allow("sqs:SendMessage")),
                "Input": '{"timer": 1}',
            },
        )

    for _ in range(2):
        set_timer()
        resources.aws.clock.advance(timedelta(minutes=29))
        assert "Messages" not in resources.sqs.receive_message(QueueUrl=url)
        resources.aws.clock.advance(timedelta(minutes=2))
        assert resources.bodies(url, 1) == ['{"timer": 1}']
        assert resources.scheduler.list_schedules(NamePrefix=name)["Schedules"] == []


def test_a_timer_in_the_past_is_refused(resources: Resources) -> None:
    at = resources.aws.clock.now() - timedelta(seconds=2)
    with pytest.raises(ClientError, match="ValidationException"):
        resources.scheduler.create_schedule(
            Name=unique("timer"),
            ScheduleExpression=f"at({at:%Y-%m-%dT%H:%M:%S})",
            FlexibleTimeWindow={"Mode": "OFF"},
            Target={
                "Arn": resources.queue()[1],
                "RoleArn": resources.role(allow("sqs:SendMessage")),
                "Input": "{}",
            },
        )


def test_a_moved_timer_fires_at_its_new_time_only(resources: Resources) -> None:
    url, arn = resources.queue()
    name = unique("timer")
    target = {
        "Arn": arn,
        "RoleArn": resources.role(allow("sqs:SendMessage")),
        "Input": "{}",
    }
    start = resources.aws.clock.now()
    for minutes, operation in ((10, "create_schedule"), (20, "update_schedule")):
        getattr(resources.scheduler, operation)(
            Name=name,
            ScheduleExpression=f"at({start + timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%S})",
            FlexibleTimeWindow={"Mode": "OFF"},
            Target=target,
        )
    resources.aws.clock.advance(timedelta(minutes=15))
    assert "Messages" not in resources.sqs.receive_message(QueueUrl=url)
    resources.aws.clock.advance(timedelta(minutes=6))
    assert resources.bodies(url, 1) == ["{}"]


def test_an_event_whose_function_keeps_failing_ends_in_the_functions_dead_letter_queue(
    resources: Resources,
) -> None:
    dead_url, dead_arn = resources.queue()
    function = resources.function(
        "def handle(event, context): raise RuntimeError('always')", allow("sqs:SendMessage")
    )
    resources.lambda_.update_function_configuration(
        FunctionName=function, DeadLetterConfig={"TargetArn": dead_arn}
    )
    resources.lambda_.put_function_event_invoke_config(
        FunctionName=function, MaximumRetryAttempts=1
    )
    arn = resources.lambda_.get_function(FunctionName=function)["Configuration"][
        "FunctionArn"
    ]
    source = unique("source")
    resources.lambda_.add_permission(
        FunctionName=function,
        StatementId="rules",
        Action="lambda:InvokeFunction",
        Principal="events.amazonaws.com",
    )
    _rule(resources, arn, EventPattern=json.dumps({"source": [source]}))
    # a queue keeps messages for four days
    resources.aws.clock.advance(timedelta(days=15), coalesce=True)
    resources.events.put_events(
        Entries=[{"Source": source, "DetailType": "x", "Detail": '{"a": 1}'}]
    )
    # Lambda waits for a minute before it tries again
    resources.aws.clock.advance(timedelta(seconds=55))
    assert "Messages" not in resources.sqs.receive_message(QueueUrl=dead_url)
    resources.aws.clock.advance(timedelta(seconds=10))
    (body,) = resources.bodies(dead_url, 1)
    assert json.loads(body)["detail"] == {"a": 1}
    assert resources.aws.function_log(function).count("RuntimeError: always") == 2


def test_a_failure_destination_gets_the_event_and_what_came_of_it(
    resources: Resources,
) -> None:
    url, arn = resources.queue()
    function = resources.function(
        "def handle(event, context): raise KeyError(event['name'])",
        allow("sqs:SendMessage"),
    )
    resources.lambda_.put_function_event_invoke_config(
        FunctionName=function, DestinationConfig={"OnFailure": {"Destination": arn}}
    )
    resources.lambda_.invoke(
        FunctionName=function, InvocationType="Event", Payload=b'{"name": "it"}'
    )
    # three attempts, after one and after two more minutes
    resources.aws.clock.advance(timedelta(minutes=4))
    (body,) = resources.bodies(url, 1)
    record = json.loads(body)
    assert record["requestPayload"] == {"name": "it"}
    assert record["requestContext"]["condition"] == "RetriesExhausted"
    assert record["requestContext"]["approximateInvokeCount"] == 3
    assert record["responsePayload"]["errorType"] == "KeyError"


def test_a_rule_whose_target_does_not_let_it_in_delivers_to_its_dead_letter_queue(
    resources: Resources,
) -> None:
    dead_url, dead_arn = resources.queue()
    others = {**FROM_EVENTBRIDGE, "Principal": {"Service": "sns.amazonaws.com"}}
    closed_url, closed_arn = resources.queue(
        Policy={"Version": "2012-10-17", "Statement": [others]}
    )
    function = resources.function("def handle(event, context): pass")
    function_arn = resources.lambda_.get_function(FunctionName=function)["Configuration"][
        "FunctionArn"
    ]
    targets = {
        "queue": closed_arn,
        "function": function_arn,
        "nowhere": f"{dead_arn}-that-does-not-exist",
    }
    source, rule = unique("source"), unique("rule")
    resources.events.put_rule(Name=rule, EventPattern=json.dumps({"source": [source]}))
    resources.events.put_targets(
        Rule=rule,
        Targets=[
            {"Id": name, "Arn": arn, "DeadLetterConfig": {"Arn": dead_arn}}
            for name, arn in targets.items()
        ],
    )
    resources.events.put_events(
        Entries=[{"Source": source, "DetailType": "x", "Detail": '{"a": 1}'}]
    )
    bodies = resources.bodies(dead_url, 3)
    assert [json.loads(body)["detail"] for body in bodies] == [{"a": 1}] * 3
    assert resources.aws.function_log(function) == ""
    assert "Messages" not in resources.sqs.receive_message(QueueUrl=closed_url)


def test_a_schedule_acts_with_its_role(resources: Resources) -> None:
    (url, arn), (dead_url, dead_arn) = resources.queue(), resources.queue()
    at = resources.aws.clock.now() + timedelta(minutes=5)
    for allowed, role in (
        ("yes", resources.role(allow("sqs:SendMessage"))),
        ("no", resources.role()),
    ):
        resources.scheduler.create_schedule(
            Name=unique("timer"),
            ScheduleExpression=f"at({at:%Y-%m-%dT%H:%M:%S})",
            FlexibleTimeWindow={"Mode": "OFF"},
            Target={
                "Arn": arn,
                "RoleArn": role,
                "Input": allowed,
                "DeadLetterConfig": {"Arn": dead_arn},
            },
        )
    resources.aws.clock.advance(timedelta(minutes=6))
    assert resources.bodies(url, 1) == ["yes"]
    assert resources.bodies(dead_url, 1) == ["no"]
