"""DynamoDB Local and ElasticMQ in processes of their own; they are skipped, with the reason, where they cannot run."""

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from lab.local import ministack

JARS: Final = Path(__file__).resolve().parents[2] / ".build" / "oracle" / "jars"
# Both live for seconds: the compiler that optimises, and collectors with threads, cost more than they bring.
_QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


@contextlib.contextmanager
def running(
    main: str, arguments: Sequence[str], *, options: Sequence[str] = ()
) -> Iterator[str]:
    """Start a Java program on a port of its own, ``{port}`` in its words; give its endpoint, end it."""
    java = shutil.which("java")
    if java is None:
        pytest.skip("there is no Java on this machine")
    if not JARS.is_dir():
        pytest.skip(
            "`make test-oracle` fetches what this is compared with, where there is Java with Maven"
        )
    port = ministack.free_port()
    words = [
        word.replace("{port}", str(port))
        for word in (*options, "-cp", f"{JARS}/*", main, *arguments)
    ]
    process = subprocess.Popen(  # noqa: S603 # programs of the ring's own list
        [java, *_QUICK, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        ministack.wait_until(lambda: _listens(port), process)
        yield f"http://127.0.0.1:{port}"
    finally:
        ministack.end(process)


def dynamodb_local() -> contextlib.AbstractContextManager[str]:
    """AWS's own DynamoDB for developers' machines."""
    return running(
        "com.amazonaws.services.dynamodbv2.local.main.ServerRunner",
        ["-inMemory", "-sharedDb", "-disableTelemetry", "-port", "{port}"],
    )


def elasticmq() -> contextlib.AbstractContextManager[str]:
    """An SQS by other hands."""
    settings = {
        "node-address.port": "{port}",
        "node-address.host": "127.0.0.1",
        "rest-sqs.bind-port": "{port}",
        "rest-sqs.bind-hostname": "127.0.0.1",
        "rest-stats.enabled": "false",
    }
    return running(
        "org.elasticmq.server.Main",
        [],
        options=[f"-D{name}={value}" for name, value in settings.items()],
    )


def _listens(port: int) -> bool:
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", port), timeout=2),
    ):
        return True
    return False
