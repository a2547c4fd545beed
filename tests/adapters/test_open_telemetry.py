"""Figures by OTLP, sent to a receiver that reads the requests as OpenTelemetry defines them."""

import gzip
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from lab.fakes.system import START
from reservoir.adapters.open_telemetry import OtlpTelemetry
from reservoir.core.history.gauges import Gauge
from reservoir.ports.history import TelemetryRefusedError

pytestmark = pytest.mark.embedded  # receivers of its own

UNITS = Gauge(
    "reservoir_reservation_units",
    "Units of reservations by who uses them.",
    ("reservation", "use"),
    {("cr-1", "ours"): 3.0, ("cr-1", "free"): 5.0},
)
EMPTY = Gauge("reservoir_team_units", "Units of teams.", ("team",))


@dataclass
class Receiver:
    """What a collector was sent, and what it answers."""

    port: int = 0
    status: int = 200
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    requests: list[ExportMetricsServiceRequest] = field(default_factory=list)

    def take(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"]))
        self.paths.append(request.path)
        self.headers.append(
            {name.lower(): value for name, value in request.headers.items()}
        )
        self.requests.append(ExportMetricsServiceRequest.FromString(gzip.decompress(body)))
        request.send_response(self.status)
        request.send_header("Content-Length", "0")
        request.end_headers()

    def metrics(self) -> list[Metric]:
        (request,) = self.requests
        (resource,) = request.resource_metrics
        (scope,) = resource.scope_metrics
        return list(scope.metrics)


def serve(receiver: Receiver, tls: ssl.SSLContext | None = None) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.take(self)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    receiver.port = server.server_address[1]
    Thread(target=server.serve_forever, daemon=True).start()
    return server


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    server = serve(found)
    yield found
    server.shutdown()
    server.server_close()


def certificate(folder: Path) -> Path:
    """Write a key and the certificate of this machine that it signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "receiver")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2100, 1, 1, tzinfo=UTC))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "receiver.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(private + signed.public_bytes(Encoding.PEM))
    return path


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A receiver that speaks TLS, whose certificate the exporter trusts."""
    path = certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(path)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(path))
    found = Receiver()
    server = serve(found, tls)
    yield found
    server.shutdown()
    server.server_close()


class Parameters:
    """Systems Manager with one parameter, or none."""

    def __init__(self, **values: str) -> None:
        self.values = values
        self.asked: list[str] = []

    def get_parameters(self, Names: list[str], WithDecryption: bool) -> dict[str, Any]:  # noqa: N803 (botocore's)
        assert WithDecryption
        self.asked += Names
        found = [self.values["headers"]] if self.values else []
        return {"Parameters": [{"Value": value} for value in found]}


def telemetry(url: str, parameters: Parameters | None = None) -> OtlpTelemetry:
    ssm: Any = parameters or Parameters()
    return OtlpTelemetry(url, ssm, deployment="Fleet", region="us-east-1")


def test_a_gauge_arrives_with_its_labels_and_the_time_of_the_sample(
    receiver: Receiver,
) -> None:
    telemetry(f"http://127.0.0.1:{receiver.port}").push([UNITS, EMPTY], START)
    (metric,) = receiver.metrics()
    assert receiver.paths == ["/v1/metrics"]
    assert (metric.name, metric.unit) == ("reservoir_reservation_units", "")
    points = {
        tuple((each.key, each.value.string_value) for each in point.attributes): (
            point.as_double,
            point.time_unix_nano,
        )
        for point in metric.gauge.data_points
    }
    at_ns = int(START.timestamp()) * 10**9
    assert points == {
        (("reservation", "cr-1"), ("use", "ours")): (3.0, at_ns),
        (("reservation", "cr-1"), ("use", "free")): (5.0, at_ns),
    }


def test_the_resource_names_the_deployment(receiver: Receiver) -> None:
    telemetry(f"http://127.0.0.1:{receiver.port}/").push([UNITS], START)
    (resource,) = receiver.requests[0].resource_metrics
    attributes = {it.key: it.value.string_value for it in resource.resource.attributes}
    assert attributes["service.name"] == "reservoir"
    assert attributes["service.instance.id"] == "Fleet"
    assert receiver.paths == ["/v1/metrics"]


def test_headers_are_read_from_the_deployments_parameter(secure: Receiver) -> None:
    parameters = Parameters(headers="api-key=s3cret,x-team=ml%20infra")
    telemetry(f"https://127.0.0.1:{secure.port}", parameters).push([UNITS], START)
    (headers,) = secure.headers
    assert (headers["api-key"], headers["x-team"]) == ("s3cret", "ml infra")
    assert parameters.asked == ["/reservoir/Fleet/otlp-headers"]


def test_a_key_is_never_sent_where_others_could_read_it(receiver: Receiver) -> None:
    parameters = Parameters(headers="api-key=s3cret")
    telemetry(f"http://127.0.0.1:{receiver.port}", parameters).push([UNITS], START)
    (headers,) = receiver.headers
    assert "api-key" not in headers
    assert parameters.asked == [], "it is not even read"


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_refusal_is_said(receiver: Receiver, status: int) -> None:
    receiver.status = status
    with pytest.raises(TelemetryRefusedError, match=r"127\.0\.0\.1"):
        telemetry(f"http://127.0.0.1:{receiver.port}").push([UNITS], START)
    assert len(receiver.requests) == 1, "a refusal is not repeated"
