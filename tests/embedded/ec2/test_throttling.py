"""EC2 refuses calls, and instances, beyond the account's buckets, as AWS documents their sizes.

https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html
"""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.worlds.cloud import Cloud, config, override, refused

THROTTLED = "RequestLimitExceeded"


def answered(call: Callable[[], Any], most: int = 200) -> int:
    """Return how often EC2 answers a call, whatever it says, before it throttles."""
    for count in range(most):
        try:
            call()
        except ClientError as error:
            if error.response["Error"]["Code"] == THROTTLED:
                return count
    return most


@pytest.mark.parametrize(
    ("operation", "parameters", "at_once", "per_s"),
    [
        ("describe_capacity_reservations", {}, 100, 20),
        ("describe_instances", {}, 50, 10),
        ("describe_instances", {"InstanceIds": ["i-0123456789abcdef0"]}, 50, 10),
        ("describe_instances", {"MaxResults": 5}, 100, 20),
        (
            "describe_instances",
            {"Filters": [{"Name": "instance-state-name", "Values": ["running"]}]},
            100,
            20,
        ),
        ("describe_instance_status", {}, 50, 10),
        ("delete_launch_template", {"LaunchTemplateName": "none"}, 50, 5),
        (
            "create_tags",
            {"Resources": ["i-0123456789abcdef0"], "Tags": [{"Key": "a", "Value": "b"}]},
            100,
            10,
        ),
        ("terminate_instances", {"InstanceIds": ["i-0123456789abcdef0"]}, 100, 5),
        ("start_instances", {"InstanceIds": ["i-0123456789abcdef0"]}, 5, 2),
    ],
)
def test_each_action_has_a_bucket_of_calls(
    cloud: Cloud, operation: str, parameters: dict[str, Any], at_once: int, per_s: int
) -> None:
    def call() -> object:
        return getattr(cloud.ec2, operation)(**parameters)

    assert answered(call) == at_once
    assert answered(cloud.ec2.describe_subnets) == 100  # each action has its own
    cloud.advance(seconds=1)
    assert answered(call) == per_s
    cloud.advance(hours=1)
    assert answered(call) == at_once


def test_a_launch_takes_a_call_and_its_instances(cloud: Cloud) -> None:
    cloud.run(999)
    with refused(THROTTLED):
        cloud.run(2)
    cloud.run(1)
    cloud.advance(seconds=5)
    cloud.run(10)
    with refused(THROTTLED):
        cloud.run(1)


def test_a_fleet_launches_what_the_tokens_of_instances_allow(cloud: Cloud) -> None:
    configs = [config(cloud.template(), override())]
    cloud.run(990)
    fleet = cloud.fleet(configs, total=12)
    assert sum(len(group["InstanceIds"]) for group in fleet["Instances"]) == 10
    (error,) = fleet["Errors"]
    assert error["ErrorCode"] == THROTTLED


def test_a_fleet_launches_nothing_below_its_minimum(cloud: Cloud) -> None:
    configs = [config(cloud.template(), override())]
    cloud.run(990)
    least = {"MinTargetCapacity": 12, "SingleAvailabilityZone": True}
    fleet = cloud.fleet(configs, total=12, OnDemandOptions=least)
    assert fleet["Instances"] == []
    assert {error["ErrorCode"] for error in fleet["Errors"]} == {THROTTLED}
    assert len(cloud.run(10)) == 10  # what is refused takes no tokens


def test_terminations_take_their_instances(cloud: Cloud) -> None:
    ids = cloud.run(1000)
    cloud.ec2.terminate_instances(InstanceIds=ids[:600])
    with refused(THROTTLED):
        cloud.ec2.terminate_instances(InstanceIds=ids[600:] + ids[:1])
    cloud.advance(seconds=1)
    cloud.ec2.terminate_instances(InstanceIds=ids[600:] + ids[:20])


def test_the_answer_names_the_account_and_the_action(cloud: Cloud) -> None:
    cloud.control("limit_calls", operation="DescribeSubnets", at_once=0, per_s=0)
    with pytest.raises(cloud.ec2.exceptions.ClientError) as refusal:
        cloud.ec2.describe_subnets()
    answer = refusal.value.response
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 503
    assert "Account 123456789012 has been throttled on ec2:DescribeSubnets" in str(
        refusal.value
    )


def test_an_account_can_have_other_buckets(cloud: Cloud) -> None:
    cloud.control(
        "limit_calls", operation="RunInstances", what="instances", at_once=3, per_s=1
    )
    with refused(THROTTLED):
        cloud.run(4)
    cloud.run(3)
    cloud.control("clear_faults")
    cloud.run(4)
