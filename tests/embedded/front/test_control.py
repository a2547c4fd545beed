"""The control API answers programs of this machine, and no web page."""

import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest

from lab.embedded.control import ControlServer

pytestmark = pytest.mark.embedded


@pytest.fixture
def reset() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Where a control API answers, and what it was asked to reset."""
    asked: list[dict[str, Any]] = []

    def note(payload: dict[str, Any]) -> dict[str, Any]:
        asked.append(payload)
        return {}

    server = ControlServer(0, {"POST /reset": note}, {})
    serving = Thread(target=server.serve, daemon=True)
    serving.start()
    yield server.url, asked
    server.stop()
    serving.join()


def status(url: str, headers: dict[str, str]) -> int:
    at = urlsplit(url)
    connection = HTTPConnection(at.hostname or "", at.port or 0)
    with closing(connection):
        connection.request("POST", "/reset", body=json.dumps({}), headers=headers)
        return connection.getresponse().status


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:3000", "Content-Type": "text/plain"},
        {"Host": "rebound.example"},
        {"Host": "rebound.example:80"},
        {"Host": ""},
    ],
)
def test_a_web_page_cannot_reset_the_account(
    reset: tuple[str, list[dict[str, Any]]], headers: dict[str, str]
) -> None:
    url, asked = reset
    assert status(url, headers) == 403
    assert asked == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:4566", "[::1]:1"])
def test_a_program_of_this_machine_can(
    reset: tuple[str, list[dict[str, Any]]], host: str
) -> None:
    url, asked = reset
    assert status(url, {"Host": host}) == 200
    assert asked == [{}]
