"""Logs and metrics (Powertools). Logs are JSON, so untrusted text in a field cannot forge a line."""

import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from reservoir.core.history.counters import AMOUNTS
from reservoir.core.history.measures import Unit
from reservoir.names import ANY_FUNCTION, METRICS_NAMESPACE, ROWS_LOGGER, ROWS_UNREADABLE
from reservoir.ports.messaging import NAMED_MAX

# the key of a line: the messages that its workloads began with
CORRELATION_IDS: Final = "correlation_ids"
UNITS: Final = {
    Unit.COUNT: MetricUnit.Count,
    Unit.SECONDS: MetricUnit.Seconds,
    Unit.PERCENT: MetricUnit.Percent,
    Unit.NONE: MetricUnit.NoUnit,
}
Handler = Callable[[dict[str, Any], Any], Any]

logger: Final = Logger(service=None, log_uncaught_exceptions=False)
_metrics: Final = Metrics(namespace=METRICS_NAMESPACE)
_of_any: Final = EphemeralMetrics(namespace=METRICS_NAMESPACE, service=ANY_FUNCTION)


def count(name: str, value: int = 1) -> None:
    """Add to a counter (unit Count); nothing is written for 0.

    CloudWatch bills a metric for every hour in which it was written, and most counters of a quiet minute are 0.
    """
    if value:
        _metrics.add_metric(name, MetricUnit.Count, value)


def amount(name: str, value: float | None) -> None:
    """Write how much of something there was, in the unit of ``AMOUNTS``; None: it did not happen, or is not known."""
    if value is not None:
        _metrics.add_metric(name, UNITS[AMOUNTS[name][0]], value)


def count_for_all(name: str, value: int = 1) -> None:
    """Add to a counter that all functions share, so that one alarm watches them all; nothing is written for 0."""
    if value:
        _of_any.add_metric(name, MetricUnit.Count, value)


def count_unreadable(value: int) -> None:
    """Count rows that cannot be read."""
    count_for_all(ROWS_UNREADABLE, value)


class _RowsHandler(logging.Handler):
    """Counts what stores say of rows that they cannot read; the line itself goes the way of all lines."""

    def emit(self, record: logging.LogRecord) -> None:
        """Count one."""
        del record
        count_unreadable(1)


logging.getLogger(ROWS_LOGGER).addHandler(_RowsHandler())


def about(ids: Iterable[str]) -> None:
    """Let every line from now on name these correlation ids too; no line names more than ``NAMED_MAX``."""
    known: Sequence[str] = logger.get_current_keys().get(CORRELATION_IDS) or ()
    named = list(dict.fromkeys([*known, *ids]))[:NAMED_MAX]
    if named:
        logger.append_keys(**{CORRELATION_IDS: named})


def forget() -> None:
    """Let lines name no correlation ids again: what comes now is about others."""
    logger.remove_keys([CORRELATION_IDS])


def observed(handler: Handler) -> Handler:
    """Wrap a Lambda handler: the request id in every line, metrics written at the end whatever happens."""

    @functools.wraps(handler)
    def wrapped(event: dict[str, Any], context: Any) -> Any:
        forget()
        logger.append_keys(request_id=getattr(context, "aws_request_id", None))
        try:
            return handler(event, context)
        finally:
            for metrics in (_metrics, _of_any):
                if metrics.metric_set:
                    metrics.flush_metrics()

    return wrapped
