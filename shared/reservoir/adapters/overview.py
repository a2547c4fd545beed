"""SQS's and CloudWatch's view of a deployment: how full queues are, and which alarms have gone off."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.names import Function, Queue, function_name
from reservoir.ports.overview import QueueDepth
from reservoir.ports.system import Clock

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_COUNT: Final = "ApproximateNumberOfMessages"
_AGE: Final = "ApproximateAgeOfOldestMessage"
# SQS reports to CloudWatch once a minute, some minutes late
_LOOK_BACK: Final = timedelta(minutes=10)
_LOOK_BACK_FOR_PASSES: Final = timedelta(minutes=30)
_MINUTE_S: Final = 60


class AwsQueues:
    """Implements ``reservoir.ports.overview.QueueReader``."""

    def __init__(
        self, sqs: "SQSClient", cloudwatch: Any, urls: Mapping[Queue, str], clock: Clock
    ) -> None:
        self._sqs = sqs
        self._cloudwatch = cloudwatch
        self._urls = urls
        self._clock = clock

    def depths(self) -> Mapping[Queue, QueueDepth]:
        """Return how full each queue is; its age where CloudWatch has one."""
        ages = self._ages()
        return {
            queue: QueueDepth(self._count(url), ages.get(queue))
            for queue, url in self._urls.items()
        }

    def _count(self, url: str) -> int:
        with map_client_errors():
            answer = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[_COUNT])
        return int(answer["Attributes"][_COUNT])

    def _ages(self) -> Mapping[Queue, int]:
        ids = {f"q{number}": queue for number, queue in enumerate(self._urls)}
        now = self._clock.now()
        with map_client_errors():
            answer = self._cloudwatch.get_metric_data(
                MetricDataQueries=[
                    _age(name, self._urls[queue]) for name, queue in ids.items()
                ],
                StartTime=now - _LOOK_BACK,
                EndTime=now,
                ScanBy="TimestampDescending",
            )
        return {
            ids[it["Id"]]: int(it["Values"][0])
            for it in answer["MetricDataResults"]
            if it["Values"]
        }


class AwsPasses:
    """Implements ``reservoir.ports.overview.PassReader``."""

    def __init__(self, cloudwatch: Any, stack: str, clock: Clock) -> None:
        self._cloudwatch = cloudwatch
        self._stack = stack
        self._clock = clock

    def last(self, function: Function) -> datetime | None:
        """Return the end of the last minute with more invocations than errors."""
        now = self._clock.now()
        names = {"ran": "Invocations", "failed": "Errors"}
        whose = {"FunctionName": function_name(self._stack, function)}
        with map_client_errors():
            answer = self._cloudwatch.get_metric_data(
                MetricDataQueries=[
                    _of_minutes(name, "AWS/Lambda", metric, whose, "Sum")
                    for name, metric in names.items()
                ],
                StartTime=now - _LOOK_BACK_FOR_PASSES,
                EndTime=now,
                ScanBy="TimestampDescending",
            )
        found = {
            it["Id"]: dict(zip(it["Timestamps"], it["Values"], strict=True))
            for it in answer["MetricDataResults"]
        }
        failed = found.get("failed", {})
        well = [
            begins
            for begins, count in found.get("ran", {}).items()
            if count > failed.get(begins, 0)
        ]
        return max(well) + timedelta(seconds=_MINUTE_S) if well else None


class AwsAlarms:
    """Implements ``reservoir.ports.overview.AlarmReader``: the alarms whose names begin with the stack's."""

    def __init__(self, cloudwatch: Any, stack: str) -> None:
        self._cloudwatch = cloudwatch
        self._stack = stack

    def alarming(self) -> tuple[str, ...]:
        """Return the names of the alarms that are in alarm."""
        pages = self._cloudwatch.get_paginator("describe_alarms").paginate(
            AlarmNamePrefix=f"{self._stack}-", StateValue="ALARM"
        )
        with map_client_errors():
            return tuple(sorted(pages.search("MetricAlarms[].AlarmName")))


def _age(name: str, url: str) -> dict[str, Any]:
    return _of_minutes(
        name, "AWS/SQS", _AGE, {"QueueName": url.rpartition("/")[2]}, "Maximum"
    )


def _of_minutes(
    name: str, namespace: str, metric: str, dimensions: Mapping[str, str], statistic: str
) -> dict[str, Any]:
    return {
        "Id": name,
        "MetricStat": {
            "Metric": {
                "Namespace": namespace,
                "MetricName": metric,
                "Dimensions": [
                    {"Name": key, "Value": value} for key, value in dimensions.items()
                ],
            },
            "Period": _MINUTE_S,
            "Stat": statistic,
        },
    }
