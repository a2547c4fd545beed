"""The name of a queue that was deleted is free again after a minute, and not before."""

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.embedded.conftest import Resources, unique
from tests.embedded.limits.test_quotas import created

pytestmark = pytest.mark.embedded


def queue_of(name: str) -> dict[str, Any]:
    return {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": name}}


def test_a_name_is_free_a_minute_after_its_queue_was_deleted(resources: Resources) -> None:
    clock, name = resources.aws.clock, unique("queue")
    clock.pause()
    resources.sqs.delete_queue(
        QueueUrl=resources.sqs.create_queue(QueueName=name)["QueueUrl"]
    )
    clock.advance(timedelta(seconds=59))
    with pytest.raises(ClientError) as refused:
        resources.sqs.create_queue(QueueName=name)
    code = refused.value.response["Error"]["Code"]
    assert code == "AWS.SimpleQueueService.QueueDeletedRecently"
    stack = created(resources, Queue=queue_of(name))
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    assert "You must wait 60 seconds after deleting a queue" in stack["reasons"]
    clock.advance(timedelta(seconds=1))
    resources.sqs.create_queue(QueueName=name)
    clock.resume()


def test_so_it_is_of_the_queues_of_stacks(resources: Resources) -> None:
    clock, name = resources.aws.clock, unique("queue")
    clock.pause()
    first = created(resources, Queue=queue_of(name))
    assert first["StackStatus"] == "CREATE_COMPLETE", first["reasons"]
    cloudformation = resources.aws.client("cloudformation")
    cloudformation.delete_stack(StackName=first["StackName"])
    cloudformation.get_waiter("stack_delete_complete").wait(
        StackName=first["StackId"], WaiterConfig={"Delay": 1}
    )
    again = created(resources, Queue=queue_of(name))
    assert again["StackStatus"] == "ROLLBACK_COMPLETE"
    clock.advance(timedelta(seconds=60))
    later = created(resources, Queue=queue_of(name))
    assert later["StackStatus"] == "CREATE_COMPLETE", later["reasons"]
    clock.resume()


def test_a_name_that_cloudformation_chooses_is_a_new_one_each_time(
    resources: Resources,
) -> None:
    queue = {"Type": "AWS::SQS::Queue", "Properties": {}}
    name = unique("again")
    cloudformation = resources.aws.client("cloudformation")
    for _ in range(2):
        stack = created(resources, name, Queue=queue)
        assert stack["StackStatus"] == "CREATE_COMPLETE", stack["reasons"]
        cloudformation.delete_stack(StackName=name)
        cloudformation.get_waiter("stack_delete_complete").wait(
            StackName=stack["StackId"], WaiterConfig={"Delay": 1}
        )
