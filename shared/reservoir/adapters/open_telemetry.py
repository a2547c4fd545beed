"""Figures pushed by OTLP over HTTP, by OpenTelemetry's own exporter."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import export
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.util.re import parse_env_headers

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.core.history.gauges import Gauge
from reservoir.names import VERSION, otlp_headers_parameter
from reservoir.ports.history import TelemetryRefusedError

if TYPE_CHECKING:
    from mypy_boto3_ssm import SSMClient

# https://opentelemetry.io/docs/specs/otlp/#otlphttp-request
_METRICS_PATH: Final = "/v1/metrics"
_SCOPE: Final = "reservoir"
# The exporter repeats what may be repeated until then; the next push comes ten minutes later in any case.
_TIMEOUT: Final = timedelta(seconds=10)
_SECURE: Final = "https://"


class OtlpTelemetry:
    """Implements ``reservoir.ports.history.Telemetry``.

    ``endpoint`` is what OpenTelemetry calls the base URL: the path of metrics is added. Headers come from a parameter
    of the deployment's name, read at each push, so that a key may be changed at any time.
    """

    def __init__(
        self, endpoint: str, ssm: "SSMClient", *, deployment: str, region: str
    ) -> None:
        self._endpoint = endpoint
        self._ssm = ssm
        self._deployment = deployment
        self._resource = Resource(
            {
                "service.name": _SCOPE,
                "service.version": VERSION,
                "service.instance.id": deployment,
                "cloud.provider": "aws",
                "cloud.region": region,
            }
        )

    def push(self, gauges: Sequence[Gauge], at: datetime) -> None:
        """Send the levels of a moment; gauges without a value are left out. Raises TelemetryRefusedError."""
        exporter = OTLPMetricExporter(
            endpoint=f"{self._endpoint.rstrip('/')}{_METRICS_PATH}",
            headers=self._headers(),
            timeout=_TIMEOUT.total_seconds(),
            compression=Compression.Gzip,
        )
        try:
            result = exporter.export(self._data(gauges, at))
        finally:
            exporter.shutdown()
        if result is not export.MetricExportResult.SUCCESS:
            raise TelemetryRefusedError(f"{self._endpoint} did not take the figures")

    def _headers(self) -> Mapping[str, str]:
        """Return the headers of the deployment's parameter; none over a connection that others could read."""
        if not self._endpoint.startswith(_SECURE):
            return {}
        name = otlp_headers_parameter(self._deployment)
        with map_client_errors():
            answer = self._ssm.get_parameters(Names=[name], WithDecryption=True)
        headers = [each["Value"] for each in answer["Parameters"]]
        return parse_env_headers(",".join(headers), liberal=True)

    def _data(self, gauges: Sequence[Gauge], at: datetime) -> export.MetricsData:
        metrics = [_metric(gauge, at) for gauge in gauges if gauge.values]
        scope = export.ScopeMetrics(InstrumentationScope(_SCOPE, VERSION), metrics, "")
        return export.MetricsData([export.ResourceMetrics(self._resource, [scope], "")])


def _metric(gauge: Gauge, at: datetime) -> export.Metric:
    # A unit would become part of the name in Prometheus, beside the one that is in it already.
    return export.Metric(
        name=gauge.name,
        description=gauge.help,
        unit="",
        data=export.Gauge(list(_points(gauge, at))),
    )


def _points(gauge: Gauge, at: datetime) -> Iterator[export.NumberDataPoint]:
    at_ns = int(at.timestamp() * 1_000_000) * 1_000
    for values, number in sorted(gauge.values.items()):
        yield export.NumberDataPoint(
            attributes=dict(zip(gauge.labels, values, strict=True)),
            start_time_unix_nano=0,
            time_unix_nano=at_ns,
            value=number,
        )
