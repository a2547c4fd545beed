"""The page where to look when something is wrong."""

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.queues import WorkQueues
from shared.names import Function

_MINUTE = Duration.minutes(1)


class Dashboard(Construct):
    """One dashboard a deployment: what waits, what was given up, what fails, how long it takes."""

    def __init__(
        self, scope: Construct, construct: str, *, functions: Mapping[Function, lambda_.IFunction], queues: WorkQueues
    ) -> None:
        super().__init__(scope, construct)
        board = cloudwatch.Dashboard(self, "Board", default_interval=Duration.hours(3))
        letters = [*queues.dead_letters.values(), queues.undelivered]
        waiting = [
            queue.metric_approximate_number_of_messages_visible(period=_MINUTE) for queue in queues.by_name.values()
        ]
        given_up = [queue.metric_approximate_number_of_messages_visible(period=_MINUTE) for queue in letters]
        board.add_widgets(
            cloudwatch.GraphWidget(title="Messages waiting", width=12, left=waiting),
            cloudwatch.GraphWidget(title="Messages given up", width=12, left=given_up),
        )
        board.add_widgets(
            cloudwatch.GraphWidget(
                title="Errors and throttles",
                width=12,
                left=[function.metric_errors(period=_MINUTE) for function in functions.values()],
                right=[function.metric_throttles(period=_MINUTE) for function in functions.values()],
            ),
            cloudwatch.GraphWidget(
                title="Duration, 99th percentile",
                width=12,
                left=[function.metric_duration(period=_MINUTE, statistic="p99") for function in functions.values()],
            ),
        )
