"""CloudWatch, as far as this stack's alarms go: what AWS counts of a stack, and the state that an alarm is then in.

From the CloudWatch user guide, "Evaluating an alarm" and "Configuring how alarms treat missing data". A metric is its
namespace, its name and exactly its dimensions; an alarm that misspells one never sees a datapoint.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

MINUTE_S = 60
Series = tuple[str, str, frozenset[tuple[str, str]]]


class Metrics:
    """Datapoints by metric."""

    def __init__(self, earlier: "Metrics | None" = None) -> None:
        self._values: dict[Series, list[tuple[float, float]]] = defaultdict(list)
        if earlier is not None:
            self._values |= {
                series: list(values) for series, values in earlier._values.items()
            }

    def put(
        self,
        namespace: str,
        name: str,
        dimensions: Mapping[str, str],
        at_s: float,
        value: float,
    ) -> None:
        """Record one value."""
        self._values[namespace, name, frozenset(dimensions.items())].append((at_s, value))

    def datapoints(
        self, alarm: Mapping[str, Any], dimensions: Mapping[str, str], now_s: float
    ) -> list[float | None]:
        """Return the alarm's last periods before ``now_s``, oldest first; None where nothing was recorded."""
        period, count = alarm["Period"], alarm["EvaluationPeriods"]
        values = self._values.get(
            (alarm["Namespace"], alarm["MetricName"], frozenset(dimensions.items())), []
        )
        end = math.floor(now_s / period)
        buckets: dict[int, list[float]] = defaultdict(list)
        for at_s, value in values:
            if (end - count) * period <= at_s < end * period:
                buckets[math.floor(at_s / period)].append(value)
        return [
            _statistic(alarm, buckets[n]) if n in buckets else None
            for n in range(end - count, end)
        ]


def is_alarm(alarm: Mapping[str, Any], datapoints: Iterable[float | None]) -> bool:
    """Say whether the alarm is in ALARM after these datapoints."""
    missing = {"breaching": True, "notBreaching": False}[alarm["TreatMissingData"]]
    breaching = sum(
        missing if value is None else _breaches(alarm, value) for value in datapoints
    )
    enough: int = alarm.get("DatapointsToAlarm", alarm["EvaluationPeriods"])
    return breaching >= enough


def _statistic(alarm: Mapping[str, Any], values: list[float]) -> float:
    if alarm["Statistic"] == "Maximum":
        return max(values)
    assert alarm["Statistic"] == "Sum"
    return sum(values)


def _breaches(alarm: Mapping[str, Any], value: float) -> bool:
    threshold: float = alarm["Threshold"]
    if alarm["ComparisonOperator"] == "GreaterThanThreshold":
        return value > threshold
    assert alarm["ComparisonOperator"] == "LessThanThreshold"
    return value < threshold
