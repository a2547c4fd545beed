"""Pushes what there is to a receiver of the operator's, where the deployment names one."""

from dataclasses import dataclass

from reservoir.core.history.gauges import gauges
from reservoir.core.history.sample import Sample
from reservoir.ports.history import Telemetry


@dataclass(frozen=True, slots=True)
class PushFigures:
    """Sends the gauges that ``reservoir metrics`` prints, but for those that only a reader of CloudWatch knows."""

    telemetry: Telemetry

    def push(self, there: Sample) -> None:
        """Send what there was when the sample was taken. Raises TelemetryRefusedError."""
        bounded = [gauge.bounded() for gauge in gauges(there, there.taken_at)]
        self.telemetry.push(bounded, there.taken_at)
