"""boto3 clients whose requests end in the emulation instead of a socket."""

import threading
from functools import cache
from io import BytesIO
from typing import Any, Protocol
from urllib.parse import urlsplit

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.exceptions import ConnectionClosedError

from lab.embedded.ec2.api.errors import ResponseLostError
from lab.embedded.ec2.api.protocol import Reply


class Answering(Protocol):
    """What a bound client needs of the emulation."""

    def dispatch(self, method: str, headers: dict[str, str], body: bytes) -> Reply:
        """Answer an EC2 request."""
        ...

    def pricing(self, body: bytes, target: str) -> Reply:
        """Answer a Pricing request."""
        ...

    def resource_groups(self, path: str, body: bytes) -> Reply:
        """Answer a request to Resource Groups."""
        ...


class _RawBody(BytesIO):
    """A response body as botocore reads it from urllib3."""

    def stream(self) -> list[bytes]:
        return [self.read()]


_MAKING_CLIENTS = threading.Lock()  # boto3 sessions are not thread-safe


@cache
def _session() -> boto3.Session:
    # Loading EC2's service model takes a tenth of a second; one session keeps it.
    return boto3.Session(aws_access_key_id="testing", aws_secret_access_key="testing")  # noqa: S106 - never leaves the process


def bound_client(emulation: Answering, service: str, region: str, attempts: int) -> Any:
    """Return a boto3 client for ``ec2``, ``pricing`` or ``resource-groups`` bound to ``emulation``.

    An answer that the emulation loses is ``ConnectionClosedError`` to whoever calls the client.
    """
    config = Config(retries={"total_max_attempts": attempts, "mode": "standard"})
    make_client: Any = _session().client  # its overloads name every service literally
    with _MAKING_CLIENTS:
        client = make_client(service, region_name=region, config=config)

    def send(request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        headers = {
            name: value.decode() if isinstance(value, bytes) else str(value)
            for name, value in request.headers.items()
        }
        body = _as_bytes(request.body)
        try:
            if service == "pricing":
                status, answer_headers, answer = emulation.pricing(
                    body, headers.get("X-Amz-Target", "")
                )
            elif service == "resource-groups":
                path = urlsplit(request.url).path
                status, answer_headers, answer = emulation.resource_groups(path, body)
            else:
                status, answer_headers, answer = emulation.dispatch(
                    request.method, headers, body
                )
        except ResponseLostError as error:
            raise ConnectionClosedError(endpoint_url=request.url) from error
        return AWSResponse(
            request.url, status, HTTPHeaders.from_dict(answer_headers), _RawBody(answer)
        )

    client.meta.events.register("before-send", send)
    return client


def _as_bytes(body: object) -> bytes:
    if isinstance(body, str):
        return body.encode()
    return bytes(body) if isinstance(body, bytes | bytearray) else b""
