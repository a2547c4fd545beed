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
    first_answers: list[tuple[int, int, bytes]]

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.targets = []
        self.first_answers = []

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
        if self.server.first_answers:
            self._send(*self.server.first_answers.pop(0))
        elif self.server.answer is not None:
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


def test_a_stream_is_made_when_it_is_first_written_to(aws: Server) -> None:
    missing = b'{"__type": "com.amazonaws#ResourceNotFoundException", "message": "none"}'
    aws.first_answers = [(400, 0, missing), (200, 0, b""), (200, 0, b"{}")]
    aws.answer = (200, 0, b"{}")
    instance = Instance(aws.url, aws.url)
    instance.write_log("group", "stream", 1, ["one"])
    instance.write_log("group", "stream", 2, ["two"])
    put, create = "Logs_20140328.PutLogEvents", "Logs_20140328.CreateLogStream"
    assert aws.targets == [put, create, put, put]


def test_another_refusal_makes_no_stream(aws: Server) -> None:
    aws.answer = (400, 0, b'{"__type": "AccessDeniedException"}')
    with pytest.raises(UnreachableError) as refused:
        Instance(aws.url, aws.url).write_log("group", "stream", 1, ["one"])
    assert refused.value.code == "AccessDeniedException"
    assert aws.targets == ["Logs_20140328.PutLogEvents"]
