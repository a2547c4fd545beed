"""What the instance asks of AWS, over loopback: whatever is answered, the agent is told that it can ask again."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import pytest

from reservoir.agent.aws import Instance, UnreachableError

pytestmark = pytest.mark.embedded

IDENTITY: Final = {"version": 1, "nodeClaim": "nc-1"}
METADATA: Final = {
    "/latest/meta-data/iam/security-credentials/": "node",
    "/latest/meta-data/iam/security-credentials/node": json.dumps(
        {
            "Code": "Success",
            "AccessKeyId": "ASIAEXAMPLE",
            "SecretAccessKey": "secret",
            "Token": "token",
            "Expiration": "2999-01-01T00:00:00Z",
        }
    ),
    "/latest/dynamic/instance-identity/document": json.dumps(
        {"region": "us-east-1", "accountId": "123456789012", "instanceId": "i-1"}
    ),
}
GOOD: Final = json.dumps({"Items": [{"identity": {"S": json.dumps(IDENTITY)}}]}).encode()
# What comes instead of an answer: status, how much more is announced than comes, and what comes; None: nothing does.
BAD: Final[dict[str, tuple[int, int, bytes] | None]] = {
    "closed": None,
    "broken off": (200, 10, GOOD),
    "an error": (500, 0, b"try again"),
    "an error that breaks off": (503, 10, b"try"),
    "of somebody in between": (200, 0, b"<html>"),
    "of another kind": (200, 0, b"[]"),
}


class Server(ThreadingHTTPServer):
    """The instance's metadata, and AWS."""

    answer: tuple[int, int, bytes] | None = (200, 0, GOOD)
    targets: list[str]

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.targets = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"


class Handler(BaseHTTPRequestHandler):
    """Reads requests."""

    server: Server

    def do_PUT(self) -> None:
        self._send(200, 0, b"token")

    def do_GET(self) -> None:
        found = METADATA.get(self.path)
        self._send(404 if found is None else 200, 0, (found or "").encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        assert self.headers["Authorization"].startswith(
            "AWS4-HMAC-SHA256 Credential=ASIAEXAMPLE/"
        )
        self.server.targets.append(self.headers["X-Amz-Target"])
        if self.server.answer is not None:
            self._send(*self.server.answer)

    def _send(self, status: int, missing: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) + missing))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as http.server calls it
        """Tell nobody."""


@pytest.fixture
def aws() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_one_call_says_what_the_node_is_for(aws: Server) -> None:
    assert Instance(aws.url, aws.url).identity("claims") == IDENTITY
    assert aws.targets == ["DynamoDB_20120810.Query"]


@pytest.mark.parametrize("answer", BAD)
def test_whatever_is_answered_can_be_asked_again(aws: Server, answer: str) -> None:
    instance = Instance(aws.url, aws.url)
    aws.answer = BAD[answer]
    with pytest.raises(UnreachableError, match="Query"):
        instance.identity("claims")
    with pytest.raises(UnreachableError, match="SendMessage"):
        instance.report("reports", {})
    aws.answer = (200, 0, GOOD)
    assert instance.identity("claims") == IDENTITY
