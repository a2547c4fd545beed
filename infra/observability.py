"""What tells an operator that something is wrong, and the page where to look."""

from collections.abc import Mapping, Sequence
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.config import FUNCTIONS
from shared.names import METRICS_NAMESPACE, Function, Queue, output_name

MINUTE = Duration.minutes(1)
OLDEST_MESSAGE_S = 600  # demand waits in the tables, not in the queues: ten minutes in a queue is a stuck function
DISCOVERY_MISSES_MIN = 5  # reservations are re-read every minute
# A function keeps failing when it did so in so many minutes of a window that holds as many of its runs: those of the
# collector are five minutes apart, a failed message's six, and the catalogue's run and its two retries ten at most.
ERRORS_MIN = 3
ERRORS_WINDOW_MIN = 20
RARE_ERRORS_WINDOW_MIN = 60

# Counters that functions write themselves, with the functions that write them; one is enough for somebody to look.
COUNTED: Final[Mapping[str, tuple[str, tuple[Function, ...]]]] = {
    "LaunchesBlocked": ("EC2 refuses everything that a class asks for: it launches nothing.", (Function.LAUNCH,)),
    "QuotasReached": ("EC2 refuses launches because a quota of the account is used up.", (Function.LAUNCH,)),
    "LaunchesRefused": ("EC2 refuses launches for a reason that somebody must look at.", (Function.LAUNCH,)),
    "NodesNeverStarted": ("Instances did not reach running in time and are replaced.", (Function.EXPIRE,)),
    "CapacitySuspected": ("Units of a Capacity Block seem to be broken.", (Function.EXPIRE, Function.REACT)),
    "OrphansSpared": ("Too many instances have no claim: none was terminated.", (Function.COLLECT,)),
    "ReplicasHeld": ("The scheduler would have broken a rule for these replicas: they wait.", (Function.PROVISION,)),
    "TerminationsRefused": ("EC2 refuses to terminate instances.", (Function.EXPIRE, Function.COLLECT)),
}


class Observability(Construct):
    """Alarms (which notify nobody by themselves: attach actions to taste) and a dashboard."""

    def __init__(
        self,
        scope: Construct,
        construct: str,
        *,
        functions: Mapping[Function, lambda_.IFunction],
        queues: Mapping[Queue, sqs.IQueue],
        dead_letters: Mapping[Queue, sqs.IQueue],
    ) -> None:
        super().__init__(scope, construct)
        for queue, letters in dead_letters.items():
            self._alarm(
                f"{output_name(queue.name)}DeadLetters",
                letters.metric_approximate_number_of_messages_visible(period=MINUTE, statistic="Maximum"),
                threshold=0,
                text="Messages were given up; see the runbook.",
            )
        for queue, work in queues.items():
            self._alarm(
                f"{output_name(queue.name)}Age",
                work.metric_approximate_age_of_oldest_message(period=MINUTE, statistic="Maximum"),
                threshold=OLDEST_MESSAGE_S,
                text="The queue is not being worked off.",
            )
        for name, function in functions.items():
            title = output_name(name)
            self._alarm(
                f"{title}Errors",
                function.metric_errors(period=MINUTE),
                threshold=0,
                minutes=ERRORS_MIN,
                of_minutes=_window_min(name),
                text="It keeps failing.",
            )
            self._alarm(
                f"{title}Throttles",
                function.metric_throttles(period=MINUTE),
                threshold=0,
                minutes=3,
                text="Lambda's concurrency is used up.",
            )
        for metric, (text, writers) in COUNTED.items():
            self._alarm(metric, _counted(metric, writers), threshold=0, text=text)
        self._stale_discovery(functions[Function.DISCOVER_RESERVATIONS])
        self._dashboard(functions, queues, dead_letters)

    def _alarm(
        self,
        name: str,
        metric: cloudwatch.IMetric,
        *,
        threshold: float,
        text: str,
        minutes: int = 1,
        of_minutes: int | None = None,
    ) -> None:
        """Alarm when ``metric`` lies above ``threshold`` in ``minutes`` of the last ``of_minutes`` (None: in a row)."""
        cloudwatch.Alarm(
            self,
            name,
            metric=metric,
            threshold=threshold,
            evaluation_periods=of_minutes or minutes,
            datapoints_to_alarm=minutes if of_minutes is not None else None,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            alarm_description=text,
        )

    def _stale_discovery(self, discover: lambda_.IFunction) -> None:
        """Alarm when reservations were not re-read: plans would then rest on old counts. No data is the bad sign."""
        succeeded = cloudwatch.MathExpression(
            expression="runs - failures",
            using_metrics={
                "runs": discover.metric_invocations(period=MINUTE),
                "failures": discover.metric_errors(period=MINUTE),
            },
            label="Discoveries of reservations",
            period=MINUTE,
        )
        cloudwatch.Alarm(
            self,
            "StaleDiscovery",
            metric=succeeded,
            threshold=1,
            evaluation_periods=DISCOVERY_MISSES_MIN,
            comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.BREACHING,
            alarm_description="Reservations have not been re-read for minutes.",
        )

    def _dashboard(
        self,
        functions: Mapping[Function, lambda_.IFunction],
        queues: Mapping[Queue, sqs.IQueue],
        dead_letters: Mapping[Queue, sqs.IQueue],
    ) -> None:
        board = cloudwatch.Dashboard(self, "Dashboard", default_interval=Duration.hours(3))
        waiting = [queue.metric_approximate_number_of_messages_visible(period=MINUTE) for queue in queues.values()]
        given_up = [
            queue.metric_approximate_number_of_messages_visible(period=MINUTE) for queue in dead_letters.values()
        ]
        board.add_widgets(
            cloudwatch.GraphWidget(title="Messages waiting", width=12, left=waiting),
            cloudwatch.GraphWidget(title="Messages given up", width=12, left=given_up),
        )
        board.add_widgets(
            cloudwatch.GraphWidget(
                title="Errors",
                width=12,
                left=[function.metric_errors(period=MINUTE) for function in functions.values()],
            ),
            cloudwatch.GraphWidget(
                title="Duration, 99th percentile",
                width=12,
                left=[function.metric_duration(period=MINUTE, statistic="p99") for function in functions.values()],
            ),
        )


def _window_min(function: Function) -> int:
    every_min = FUNCTIONS[function].every_min
    return RARE_ERRORS_WINDOW_MIN if every_min is not None and every_min > ERRORS_WINDOW_MIN else ERRORS_WINDOW_MIN


def _counted(name: str, writers: Sequence[Function]) -> cloudwatch.IMetric:
    """Return a counter, added up over the functions that write it; a function without one has counted nothing."""
    parts: dict[str, cloudwatch.IMetric] = {
        f"m{number}": cloudwatch.Metric(
            namespace=METRICS_NAMESPACE,
            metric_name=name,
            dimensions_map={"service": writer.value},
            statistic="Sum",
            period=MINUTE,
        )
        for number, writer in enumerate(writers)
    }
    if len(parts) == 1:
        return parts["m0"]
    total = " + ".join(f"FILL({part}, 0)" for part in parts)
    return cloudwatch.MathExpression(expression=total, using_metrics=parts, label=name, period=MINUTE)
