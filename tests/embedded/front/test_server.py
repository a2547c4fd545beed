"""The endpoint's HTTPS: connections that are kept, dropped, and served side by side."""

import http.client
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.embedded
REPOSITORY = Path(__file__).parents[3]
PATIENCE_S = 600.0  # before a test gives up
Connect = Callable[[], http.client.HTTPSConnection]


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "let-go"
    os.mkfifo(path)
    return path


@pytest.fixture
def connect(tmp_path: Path, fifo: Path) -> Iterator[Connect]:
    """Start the services; return what connects to them."""
    command = [
        sys.executable,
        "-m",
        "tests.embedded.front.held_services",
        str(tmp_path),
        str(fifo),
    ]
    connections: list[http.client.HTTPSConnection] = []
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE) as server:  # noqa: S603 - our own module
        assert server.stdout is not None
        port = int(server.stdout.readline())
        trust = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))

        def connection() -> http.client.HTTPSConnection:
            connections.append(
                http.client.HTTPSConnection(
                    "127.0.0.1", port, timeout=PATIENCE_S, context=trust
                )
            )
            return connections[-1]

        yield connection
        for opened in connections:
            opened.close()
        server.kill()


def ask(connection: http.client.HTTPSConnection, path: str) -> Any:
    connection.request("GET", path)
    return told(connection)


def told(connection: http.client.HTTPSConnection) -> Any:
    return json.load(connection.getresponse())


def test_a_held_call_holds_up_its_own_service_and_no_other(
    connect: Connect, fifo: Path
) -> None:
    held, behind, short, other = connect(), connect(), connect(), connect()
    held.request("GET", "/dynamodb/hold")
    # returns when the service has opened it: from here on it is held
    with fifo.open("w") as let_go:
        behind.request("GET", "/dynamodb/answer")
        short.request("GET", "/dynamodb/answer-shortly")
        for number in range(1, 20):
            assert ask(other, "/sqs/answer")["executed"] == 2 * number - 1
            assert ask(other, "/sqs/answer-shortly")["executed"] == 2 * number
        let_go.write("go on")
    assert told(held)["executed"] == 1
    assert {told(behind)["executed"], told(short)["executed"]} == {2, 3}


def test_eight_connections_are_served_side_by_side(connect: Connect) -> None:
    connections = [connect() for _ in range(8)]
    for _ in range(5):
        for number, connection in enumerate(connections):
            connection.request("GET", f"/service-{number % 3}/answer")
        for connection in connections:
            assert told(connection)["scheme"] == "https"


def test_a_connection_serves_many_requests(connect: Connect) -> None:
    connection = connect()
    connection.connect()
    first = connection.sock
    for number in range(1, 1_500):
        assert ask(connection, "/sqs/answer")["executed"] == number
    assert connection.sock is first


def test_a_dropped_request_is_executed_and_not_answered(connect: Connect) -> None:
    dropped, other = connect(), connect()
    assert ask(other, "/sqs/answer")["executed"] == 1
    dropped.request("GET", "/sqs/drop")
    with pytest.raises(
        (http.client.RemoteDisconnected, ConnectionResetError, ssl.SSLEOFError)
    ):
        dropped.getresponse()
    assert ask(other, "/sqs/answer")["executed"] == 3
