"""Queues and alarms as SQS and CloudWatch show them."""

from datetime import timedelta
from typing import Any

import pytest

from lab.fakes.pages import Pages
from lab.fakes.system import START, ManualClock
from lab.local import ministack
from reservoir.adapters.overview import AwsAlarms, AwsPasses, AwsQueues
from reservoir.names import Function, Queue
from reservoir.ports.overview import QueueDepth


class CloudWatch:
    """Knows the age of messages of one queue, and two alarms on two pages."""

    def __init__(self, queue_name: str) -> None:
        self._queue_name = queue_name

    def get_metric_data(self, **request: Any) -> dict[str, Any]:
        assert request["StartTime"] < request["EndTime"] == START
        results = []
        for query in request["MetricDataQueries"]:
            metric = query["MetricStat"]["Metric"]
            assert (metric["Namespace"], metric["MetricName"]) == (
                "AWS/SQS",
                "ApproximateAgeOfOldestMessage",
            )
            is_known = metric["Dimensions"] == [
                {"Name": "QueueName", "Value": self._queue_name}
            ]
            results.append({"Id": query["Id"], "Values": [42.0, 7.0] if is_known else []})
        return {"MetricDataResults": results}

    def get_paginator(self, operation: str) -> "CloudWatch":
        assert operation == "describe_alarms"
        return self

    def paginate(self, **request: Any) -> Pages:
        assert request == {"AlarmNamePrefix": "Reservoir-", "StateValue": "ALARM"}
        return Pages(
            [{"MetricAlarms": [{"AlarmName": f"Reservoir-{name}"}]} for name in "BA"]
        )


@pytest.mark.embedded
def test_each_queue_has_its_count_and_the_age_that_cloudwatch_knows(
    aws_endpoint: str,
) -> None:
    sqs = ministack.client("sqs", aws_endpoint)
    urls = {
        queue: sqs.create_queue(QueueName=f"overview-{queue.name}")["QueueUrl"]
        for queue in Queue
    }
    for body in "ab":
        sqs.send_message(QueueUrl=urls[Queue.DEMAND], MessageBody=body)
    depths = AwsQueues(sqs, CloudWatch("overview-DEMAND"), urls, ManualClock()).depths()
    assert depths == {queue: QueueDepth(0) for queue in Queue} | {
        Queue.DEMAND: QueueDepth(2, 42)
    }


def test_alarms_that_have_gone_off_are_named_in_order() -> None:
    assert AwsAlarms(CloudWatch(""), "Reservoir").alarming() == (
        "Reservoir-A",
        "Reservoir-B",
    )


def test_the_last_pass_is_the_last_minute_in_which_not_all_failed() -> None:
    minutes = [START - timedelta(minutes=number) for number in (2, 3, 4)]

    class Passes:
        """Ran in three minutes; failed in the last of them."""

        def get_metric_data(self, **request: Any) -> dict[str, Any]:
            asked = [
                it["MetricStat"]["Metric"]["Dimensions"]
                for it in request["MetricDataQueries"]
            ]
            assert (
                asked
                == [[{"Name": "FunctionName", "Value": "Reservoir-discover-reservations"}]]
                * 2
            )
            ran = {"Id": "ran", "Timestamps": minutes, "Values": [1.0, 2.0, 1.0]}
            failed = {"Id": "failed", "Timestamps": minutes[:2], "Values": [1.0, 1.0]}
            return {"MetricDataResults": [ran, failed]}

    last = AwsPasses(Passes(), "Reservoir", ManualClock()).last(
        Function.DISCOVER_RESERVATIONS
    )
    assert last == START - timedelta(minutes=2)


def test_without_a_pass_there_is_no_last_one() -> None:
    class Silent:
        """CloudWatch of a stack that it knows nothing of."""

        def get_metric_data(self, **_: Any) -> dict[str, Any]:
            return {"MetricDataResults": [{"Id": "ran", "Timestamps": [], "Values": []}]}

    assert (
        AwsPasses(Silent(), "Reservoir", ManualClock()).last(Function.DISCOVER_RESERVATIONS)
        is None
    )
