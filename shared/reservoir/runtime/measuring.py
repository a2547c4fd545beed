"""Figures as lines of the log, as metrics where the deployment pays for them, and pushed where it has a receiver."""

from aws_lambda_powertools.metrics import EphemeralMetrics

from reservoir.core.history.measures import DIMENSIONS, MEASURES, Line
from reservoir.core.history.sample import Sample
from reservoir.names import METRICS_NAMESPACE
from reservoir.ports.errors import AwsError
from reservoir.ports.history import TelemetryRefusedError
from reservoir.runtime.observability import UNITS, count, logger
from reservoir.usecases.history.push_figures import PushFigures


def log_line(line: Line, *, publish: bool) -> None:
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


def push(there: Sample, figures: PushFigures | None) -> None:
    """Push the figures where somebody asked for it. Nothing else waits for a receiver: the history has them all."""
    if figures is None:
        return
    try:
        figures.push(there)
    except (AwsError, TelemetryRefusedError) as error:
        logger.warning("figures were not taken", extra={"error": str(error)})
        count("FiguresRefused")
