"""Logs and metrics (Powertools). Logs are JSON, so untrusted text in a field cannot forge a line."""

import functools
from collections.abc import Callable
from typing import Any, Final

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from shared.names import METRICS_NAMESPACE

Handler = Callable[[dict[str, Any], Any], Any]

logger: Final = Logger(service=None, log_uncaught_exceptions=False)
_metrics: Final = Metrics(namespace=METRICS_NAMESPACE)


def count(name: str, value: int = 1) -> None:
    """Add to a counter (unit Count); nothing is written for 0.

    CloudWatch bills a metric for every hour in which it was written, and most counters of a quiet minute are 0.
    """
    if value:
        _metrics.add_metric(name, MetricUnit.Count, value)


def observed(handler: Handler) -> Handler:
    """Wrap a Lambda handler: the request id in every line, metrics written at the end whatever happens."""

    @functools.wraps(handler)
    def wrapped(event: dict[str, Any], context: Any) -> Any:
        logger.append_keys(request_id=getattr(context, "aws_request_id", None))
        try:
            return handler(event, context)
        finally:
            if _metrics.metric_set:
                _metrics.flush_metrics()

    return wrapped
