"""Figures as lines of the log, and as metrics where the deployment pays for them."""

from aws_lambda_powertools.metrics import EphemeralMetrics

from reservoir.core.history.measures import DIMENSIONS, MEASURES, Line
from reservoir.names import METRICS_NAMESPACE
from reservoir.runtime.observability import UNITS, logger


def tell(line: Line, *, publish: bool) -> None:
    """Write one line, and its metrics in CloudWatch's embedded format if they are to be published."""
    dimension = DIMENSIONS[line.subject]
    logger.info(
        line.subject.value, extra={dimension: line.name, **line.values, **line.more}
    )
    if publish:
        metrics = EphemeralMetrics(namespace=METRICS_NAMESPACE)
        metrics.add_dimension(dimension, line.name)
        for measure in MEASURES[line.subject]:
            if measure.field in line.values:
                metrics.add_metric(
                    measure.name, UNITS[measure.unit], line.values[measure.field]
                )
        metrics.flush_metrics()
