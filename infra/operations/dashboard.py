"""The page where to look each day, and when something is wrong.

Its first row answers what operators ask each day, with queries of the log of ``record``: a query costs 0.005 USD for
each GB that it reads, when somebody looks, where a metric would cost 0.30 USD a month for each reservation.
"""

from collections.abc import Mapping
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.queues import WorkQueues
from reservoir.names import Function

_MINUTE = Duration.minutes(1)
_MOST: Final = 20
_LOOK_AHEAD_S: Final = 48 * 3600
# Title, width of 24, query. Samples come every ten minutes: the last of each is what there is.
_DAILY: Final = (
    (
        "Paid and idle, USD an hour",
        5,
        (
            "filter message = 'reservation measured'",
            "stats latest(idle_usd_per_hour) as idle_usd, latest(free_count) as free, latest(total_count) as total"
            " by reservation",
            "sort idle_usd desc",
        ),
    ),
    (
        "Waiting, and why",
        4,
        (
            "filter message = 'waiting measured'",
            "stats latest(replica_count) as replicas, latest(longest_wait_s) as longest_s, max(@timestamp) as seen"
            " by reason",
            "sort replicas desc",
        ),
    ),
    (
        "Ends within 48 hours",
        5,
        (
            "filter message = 'reservation measured' and ispresent(ends_at_s)",
            "stats latest(ends_at) as ends, latest(ours_count) as ours, latest(ends_at_s) as ends_s,"
            " latest(toMillis(@timestamp)) / 1000 as seen_s by reservation",
            f"filter ends_s > seen_s and ends_s < seen_s + {_LOOK_AHEAD_S}",
            "sort ends_s asc",
        ),
    ),
    (
        "Bought beside reservations, and for whom",
        5,
        (
            "filter message = 'bought measured'",
            "stats latest(usd_per_hour) as usd_an_hour, latest(node_count) as nodes, max(@timestamp) as seen"
            " by workload",
            "sort usd_an_hour desc",
        ),
    ),
    (
        "Refused",
        5,
        (
            "filter message = 'told'",
            "filter type in ['Launch Failed', 'Launches Blocked', 'Workload Rejected', 'Endings Held']",
            "display @timestamp, type, object, what",
            "sort @timestamp desc",
        ),
    ),
)


class Dashboard(Construct):
    """One dashboard a deployment: what waits, what was given up, what fails, how long it takes."""

    def __init__(
        self,
        scope: Construct,
        construct: str,
        *,
        functions: Mapping[Function, lambda_.Function],
        queues: WorkQueues,
    ) -> None:
        super().__init__(scope, construct)
        board = cloudwatch.Dashboard(self, "Board", default_interval=Duration.hours(3))
        log = functions[Function.RECORD].log_group.log_group_name
        board.add_widgets(
            *(
                cloudwatch.LogQueryWidget(
                    title=title,
                    width=width,
                    log_group_names=[log],
                    query_lines=[*query, f"limit {_MOST}"],
                    view=cloudwatch.LogQueryVisualizationType.TABLE,
                )
                for title, width, query in _DAILY
            )
        )
        letters = [*queues.dead_letters.values(), queues.undelivered]
        waiting = [
            queue.metric_approximate_number_of_messages_visible(period=_MINUTE)
            for queue in queues.by_name.values()
        ]
        given_up = [
            queue.metric_approximate_number_of_messages_visible(period=_MINUTE)
            for queue in letters
        ]
        board.add_widgets(
            cloudwatch.GraphWidget(title="Messages waiting", width=12, left=waiting),
            cloudwatch.GraphWidget(title="Messages given up", width=12, left=given_up),
        )
        board.add_widgets(
            cloudwatch.GraphWidget(
                title="Errors and throttles",
                width=12,
                left=[
                    function.metric_errors(period=_MINUTE)
                    for function in functions.values()
                ],
                right=[
                    function.metric_throttles(period=_MINUTE)
                    for function in functions.values()
                ],
            ),
            cloudwatch.GraphWidget(
                title="Duration, 99th percentile",
                width=12,
                left=[
                    function.metric_duration(period=_MINUTE, statistic="p99")
                    for function in functions.values()
                ],
            ),
        )
