"""What tells an operator that something is wrong.

Each alarm is one metric, a tenth of a USD a month, and is there because nothing else would tell: a function that cannot
get concurrency, for example, is seen by its dead-man's switch or its queue's age, and needs no alarm on throttles. No
alarm adds metrics up: an expression has no value while one of its metrics has none, so it might never go off.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_events as events
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.config import FUNCTIONS
from infra.operations.dashboard import Dashboard
from infra.queues import WorkQueues
from reservoir.names import (
    ANY_FUNCTION,
    METRICS_NAMESPACE,
    ROWS_UNREADABLE,
    Function,
    Queue,
    output_name,
)

MINUTE: Final = Duration.minutes(1)
# How long a message may wait until its queue is said not to be worked off; demand waits in the tables, not in queues.
# SQS counts a message that was received three times no more, so these are below the third receipt of one that nobody
# could take; reactions, which come back within seconds, have an alarm on throttles instead.
OLDEST_MESSAGE_S: Final[Mapping[Queue, int]] = {
    Queue.DEMAND: 300,
    Queue.PLANNING: 300,
    Queue.LAUNCHES: 600,
    Queue.REACTIONS: 60,
    Queue.HISTORY: 1800,
    Queue.REPORTS: 300,
}
# A function keeps failing when it did so in so many minutes of a window that holds as many of its runs: those of the
# collector are five minutes apart, a failed message's six, and the catalogue's run and its two retries ten at most.
ERRORS_MIN: Final = 3
ERRORS_WINDOW_MIN: Final = 20
RARE_ERRORS_WINDOW_MIN: Final = 60
THROTTLES_MIN: Final = 2  # in a row: a single one is tried again after half a minute
# What a schedule may miss. EventBridge keeps to the minute, not to the second, so that a minute may see two or none.
MISSED_MINUTES: Final = 5
MISSED_PASSES: Final = 3
MINUTES_AN_HOUR: Final = 60
MISSED_HOURS_MORE: Final = 2  # than there are between two passes
# Woken by their schedules, and by a deployment: when they do not run, the schedule is off, or Lambda has no concurrency
# for them. The others are woken by messages, events and timers too, so that their schedules are watched beside them.
WOKEN_BY_SCHEDULE_ALONE: Final = (
    Function.DISRUPT,
    Function.COLLECT,
    Function.DISCOVER_OFFERINGS,
)

# a deployment, the command line
TELLING_THEIR_CALLER: Final = (Function.APPLY, Function.CHANGE_POLICY, Function.OPERATE)
# What these give up is in their dead letters, which have an alarm of their own: nobody waits for them, so that half an
# hour earlier is worth nothing.
SEEN_OTHERWISE: Final = (*TELLING_THEIR_CALLER, Function.RECORD, Function.FOLLOW)

# Counters that functions write themselves, with the functions that write them; one is enough for somebody to look.
COUNTED: Final[Mapping[str, tuple[str, tuple[Function, ...]]]] = {
    "LaunchesBlocked": (
        "An EC2NodeClass launches nothing, or nothing could be launched into a reservation that begins within a day.",
        (
            Function.LAUNCH,
            Function.EXPIRE,
            Function.REACT,
            Function.DISCOVER_RESERVATIONS,
        ),
    ),
    "LaunchesRefused": (
        "EC2 refuses launches: a quota is used up, or the reason needs your attention.",
        (Function.LAUNCH,),
    ),
    "NodesNeverStarted": (
        "Instances did not start in time; Reservoir replaces them.",
        (Function.EXPIRE,),
    ),
    "CapacitySuspected": (
        "Units of a reservation seem to be broken; Reservoir does not use them for a while.",
        (Function.EXPIRE, Function.REACT),
    ),
    "OrphansSpared": (
        "Instances with this deployment's tag have no NodeClaim; Reservoir does not end them.",
        (Function.COLLECT,),
    ),
    "EndingsHeld": (
        "More nodes would end than the safety envelope allows, so none of them ends.",
        (Function.COLLECT,),
    ),
    "TablesUnknown": (
        "The tables may not be complete, so Reservoir terminates nothing.",
        (Function.COLLECT,),
    ),
    "ReplicasHeld": (
        "The plan for some replicas would break a rule, so they wait.",
        (Function.PROVISION,),
    ),
    "TimersRefused": (
        "EventBridge Scheduler refuses timers; drains and starts may be up to a minute late.",
        (Function.DISCOVER_RESERVATIONS, Function.EXPIRE, Function.LAUNCH),
    ),
    "TerminationsRefused": (
        "EC2 refuses to terminate instances.",
        (Function.EXPIRE, Function.COLLECT),
    ),
}


class Observability(Construct):
    """Alarms, which tell ``topic`` (an SNS topic's ARN) when they go off and when they are over, and a dashboard."""

    def __init__(
        self,
        scope: Construct,
        construct: str,
        *,
        functions: Mapping[Function, lambda_.Function],
        queues: WorkQueues,
        schedules: Mapping[Function, events.Rule],
        topic: str | None,
    ) -> None:
        super().__init__(scope, construct)
        self._tell = (
            None
            if topic is None
            else actions.SnsAction(sns.Topic.from_topic_arn(self, "Topic", topic))
        )
        self._queue_alarms(queues)
        self._delivery_alarms(queues)
        for function, work in functions.items():
            self._function_alarms(function, work, schedules.get(function))
        for metric, (text, writers) in COUNTED.items():
            self._alarm(
                metric, _count_of(metric, counted_as(writers)), threshold=0, text=text
            )
        self._alarm(
            ROWS_UNREADABLE,
            _count_of(ROWS_UNREADABLE, ANY_FUNCTION),
            threshold=0,
            text="Reservoir cannot read rows of its tables, and does not change them.",
        )
        Dashboard(self, "Dashboard", functions=functions, queues=queues)

    def _queue_alarms(self, queues: WorkQueues) -> None:
        for queue, letters in queues.dead_letters.items():
            self._alarm(
                f"{output_name(queue.name)}DeadLetters",
                letters.metric_approximate_number_of_messages_visible(
                    period=MINUTE, statistic="Maximum"
                ),
                threshold=0,
                text="Messages failed too often and are in a dead-letter queue; see the runbook.",
            )
        for queue, work in queues.by_name.items():
            self._alarm(
                f"{output_name(queue.name)}Age",
                work.metric_approximate_age_of_oldest_message(
                    period=MINUTE, statistic="Maximum"
                ),
                threshold=OLDEST_MESSAGE_S[queue],
                text="Messages of a queue wait too long.",
            )

    def _delivery_alarms(self, queues: WorkQueues) -> None:
        self._alarm(
            "Undelivered",
            queues.undelivered.metric_approximate_number_of_messages_visible(
                period=MINUTE, statistic="Maximum"
            ),
            threshold=0,
            text="EventBridge or Scheduler could not deliver to a queue or function of this stack.",
        )

    def _function_alarms(
        self, function: Function, work: lambda_.IFunction, schedule: events.Rule | None
    ) -> None:
        title = output_name(function)
        if function not in SEEN_OTHERWISE:
            self._alarm(
                f"{title}Errors",
                work.metric_errors(period=MINUTE),
                threshold=0,
                minutes=ERRORS_MIN,
                of_minutes=_window_min(function),
                text="The function keeps failing.",
            )
        if function is Function.REACT:
            self._alarm(
                f"{title}Throttles",
                work.metric_throttles(period=MINUTE),
                threshold=0,
                minutes=THROTTLES_MIN,
                text="Lambda throttles the function, and an interruption gives only two minutes of notice.",
            )
        if schedule is None:
            return
        if FUNCTIONS[function].queue is None:  # else the age of its queue tells
            self._dead_man(
                f"{title}Stopped",
                function,
                work.metric_invocations,
                "The function does not run.",
            )
        if function not in WOKEN_BY_SCHEDULE_ALONE:
            self._dead_man(
                f"{title}Unscheduled",
                function,
                _triggered(schedule),
                "The schedule of the function no longer wakes it.",
            )

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
        alarm = cloudwatch.Alarm(
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
        self._connect(alarm)

    def _dead_man(
        self, name: str, function: Function, metric: "_Metric", text: str
    ) -> None:
        """Alarm when nothing is counted for longer than a schedule that works would leave. No data is the bad sign."""
        period, periods = _patience(function)
        alarm = cloudwatch.Alarm(
            self,
            name,
            metric=metric(period=period, statistic="Sum"),
            threshold=1,
            evaluation_periods=periods,
            comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.BREACHING,
            alarm_description=text,
        )
        self._connect(alarm)

    def _connect(self, alarm: cloudwatch.Alarm) -> None:
        if self._tell is not None:
            alarm.add_alarm_action(self._tell)
            alarm.add_ok_action(self._tell)


class _Metric(Protocol):
    def __call__(self, *, period: Duration, statistic: str) -> cloudwatch.Metric:
        """Return the metric over periods of this length."""
        ...


def counted_as(writers: Sequence[Function]) -> str:
    """Return whose a counter is: the function's that writes it, or nobody's in particular if several do."""
    return writers[0].value if len(writers) == 1 else ANY_FUNCTION


def _count_of(name: str, writer: str) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=METRICS_NAMESPACE,
        metric_name=name,
        dimensions_map={"service": writer},
        statistic="Sum",
        period=MINUTE,
    )


def _triggered(schedule: events.Rule) -> _Metric:
    """Return the metric that counts how often EventBridge calls the schedule's target."""

    def metric(*, period: Duration, statistic: str) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace="AWS/Events",
            metric_name="Invocations",
            dimensions_map={"RuleName": schedule.rule_name},
            statistic=statistic,
            period=period,
        )

    return metric


def _every_min(function: Function) -> int:
    # provision's schedule, each minute, goes through its queue
    return FUNCTIONS[function].every_min or 1


def _patience(function: Function) -> tuple[Duration, int]:
    """Return (period, number of them without a run) after which a schedule is known not to work."""
    every_min = _every_min(function)
    if every_min == 1:
        return MINUTE, MISSED_MINUTES
    if every_min < MINUTES_AN_HOUR:
        return Duration.minutes(every_min), MISSED_PASSES
    return Duration.hours(1), every_min // MINUTES_AN_HOUR + MISSED_HOURS_MORE


def _window_min(function: Function) -> int:
    return (
        RARE_ERRORS_WINDOW_MIN
        if _every_min(function) > ERRORS_WINDOW_MIN
        else ERRORS_WINDOW_MIN
    )
