"""Signed requests as bytes, and connections that send them: a caller that costs a tenth of boto3.

The embedded AWS accepts any request time, so a request that boto3 signed once can be sent for ever.
"""

import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class _Prepared(Exception):  # noqa: N818 - carries a request out of boto3
    def __init__(self, request: Any) -> None:
        super().__init__()
        self.request = request


def signed_request(client: Any, operation: str, parameters: Mapping[str, Any]) -> bytes:
    """Return what ``client`` would send for a call, without sending it."""
    client.meta.events.register_first("before-send", _take)
    try:
        getattr(client, operation)(**parameters)
    except _Prepared as prepared:
        return _as_bytes(prepared.request)
    finally:
        client.meta.events.unregister("before-send", _take)
    raise AssertionError(f"{operation} sent nothing")


def _take(request: Any, **_: Any) -> None:
    raise _Prepared(request)


def _as_bytes(request: Any) -> bytes:
    url = urlsplit(request.url)
    body = request.body or b""
    body = body.encode() if isinstance(body, str) else body
    headers = {
        name: value.decode() if isinstance(value, bytes) else value
        for name, value in request.headers.items()
    }
    lines = [f"{request.method} {url.path} HTTP/1.1", f"Host: {url.netloc}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if "Content-Length" not in headers:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


class Connection:
    """A connection that is kept."""

    def __init__(self, endpoint_url: str, ca_bundle: Path) -> None:
        url = urlsplit(endpoint_url)
        trust = ssl.create_default_context(cafile=str(ca_bundle))
        plain = socket.create_connection((url.hostname, url.port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = trust.wrap_socket(plain, server_hostname=url.hostname)

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def call(self, request: bytes) -> tuple[int, bytes]:
        """Send a request; return the answer's status and body."""
        self._socket.sendall(request)
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._receive()
        head, _, body = received.partition(b"\r\n\r\n")
        status, *headers = head.lower().split(b"\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in headers
            if line.startswith(b"content-length")
        )
        while len(body) < length:
            body += self._receive()
        return int(status.split()[1]), body

    def _receive(self) -> bytes:
        part = self._socket.recv(65_536)
        assert part, "the connection was closed"
        return part
