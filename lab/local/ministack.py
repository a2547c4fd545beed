"""A MiniStack of some services in a process of its own, for the tests of single adapters."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import boto3
from botocore.config import Config

from reservoir.names import INDEX_INCLUDES, INDEX_KEYS

_READY_WITHIN_S = 600


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def running(services: str) -> Iterator[str]:
    """Start MiniStack, give its endpoint, end it."""
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "PATH": os.defpath,
            "TMPDIR": folder,
            "HOME": folder,
            "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(port),
            "SERVICES": services,
            "PRELOAD_EXTRAS_DISABLED": "1",
            "LOG_LEVEL": "ERROR",
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "ministack"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
        )
        try:
            wait_until(lambda: _is_healthy(endpoint), process)
            yield endpoint
        finally:
            end(process)


def wait_until(answers: Callable[[], bool], process: "subprocess.Popen[bytes]") -> None:
    """Wait until a process that was started answers; raises when it ends before."""
    deadline = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
        if answers():
            return
        # a process starts in its own time; no clock of ours can be moved here
        time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} did not get ready")


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a process, by force if need be."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _is_healthy(endpoint: str) -> bool:
    try:
        with urllib.request.urlopen(f"{endpoint}/_ministack/health", timeout=2):  # noqa: S310 # loopback http
            return True
    except (urllib.error.URLError, OSError):
        return False


def client(service: str, endpoint: str) -> Any:
    """Return a client that can reach nothing but this endpoint."""
    # the stubs have one overload a service, none for a variable
    make_client: Any = boto3.client
    return make_client(
        service,
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 # no secret
        config=Config(retries={"mode": "standard"}, max_pool_connections=40),
    )


def create_table(dynamodb: Any, name: str, *, indexes: dict[str, tuple[str, str]]) -> None:
    """Create a table as the stack does: key ``id``; indexes name -> (partition key, projection)."""
    attributes = {"id"} | {key for index in indexes for key in INDEX_KEYS[index]}
    dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[
            {"AttributeName": key, "AttributeType": "S"} for key in sorted(attributes)
        ],
        GlobalSecondaryIndexes=[
            _index(name, projection) for name, (_, projection) in sorted(indexes.items())
        ],
    )


def _index(name: str, projection_type: str) -> dict[str, Any]:
    partition_key, sort_key = INDEX_KEYS[name]
    projection: dict[str, Any] = {"ProjectionType": projection_type}
    if projection_type == "INCLUDE":
        projection["NonKeyAttributes"] = list(INDEX_INCLUDES[name])
    return {
        "IndexName": name,
        "KeySchema": [
            {"AttributeName": partition_key, "KeyType": "HASH"},
            {"AttributeName": sort_key, "KeyType": "RANGE"},
        ],
        "Projection": projection,
    }


def create_history_table(dynamodb: Any, name: str) -> None:
    """Create the table of the history as the stack does: two keys and no index."""
    dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[
            {"AttributeName": "id", "KeyType": "HASH"},
            {"AttributeName": "at", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": key, "AttributeType": "S"} for key in ("id", "at")
        ],
    )
