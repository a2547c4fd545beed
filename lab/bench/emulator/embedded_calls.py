"""What a call costs the embedded AWS in processor time, and how many it answers.

``server_cpu_ms`` is the server's processor time a call under a caller that replays signed requests, ``..._under_boto3``
under boto3, which leaves the processor's caches cold in between. It is split by two other measurements:
``tls_http_cpu_ms`` is what the same bytes cost before an application that does nothing, ``routing_iam_cpu_ms`` what a
call costs more that IAM refuses, ``service_cpu_ms`` the rest. Each is the lower quartile of batches of ten calls, and
the three take turns: what others do to the caches of a busy machine is in the upper ones. ``calls_per_s`` is of one
caller, and of eight at once; it is real time, so of an idle machine only.
"""

import contextlib
import itertools
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from lab.bench.calls.operations import (
    OPERATIONS,
    Account,
    Operation,
    prepare,
    session_of_a_role,
)
from lab.bench.calls.processor import processor_s
from lab.bench.calls.replay import Connection, signed_request
from lab.embedded.client import EmbeddedAws

BATCHES: Final = 100
BATCH_SIZE: Final = 10
BOTO3_BATCHES: Final = 20
CALLERS: Final = 8
_CALLS: Final = 2 + BATCHES * BATCH_SIZE
_DIFFERENT: Final = 20
_OK, _REFUSED = range(200, 300), range(400, 500)


def cases() -> Sequence[str]:
    """Return one case an operation."""
    return [f"embedded-calls-{name}" for name in OPERATIONS]


def run(case: str) -> dict[str, object]:
    """Measure one operation on an account of its own."""
    operation = OPERATIONS[case.removeprefix("embedded-calls-")]
    with EmbeddedAws() as aws:
        return _Measurement(aws, operation, prepare(aws)).figures()


class _Measurement:
    def __init__(self, aws: EmbeddedAws, operation: Operation, account: Account) -> None:
        self._aws = aws
        self._operation = operation
        self._account = account
        # no two calls are alike, where the operation can tell
        self._numbers = iter(range(10**9))
        self._caller = aws.client(operation.service, **session_of_a_role(aws, allowed=True))
        self._stranger = aws.client(
            operation.service, **session_of_a_role(aws, allowed=False)
        )

    def figures(self) -> dict[str, object]:
        requests = self._requests(self._caller, _CALLS)
        status, body = self._connection().call(requests.pop())
        assert status in _OK, body
        refused = self._requests(self._stranger, _CALLS)
        with _nothing(len(body)) as (pid, connection):
            server_ms, tls_http_ms, refused_ms = _replayed_ms(
                _Replay(self._aws.pid, self._connection(), requests, _OK),
                _Replay(pid, connection, requests, _OK),
                _Replay(self._aws.pid, self._connection(), refused, _REFUSED),
            )
        boto3_ms, under_boto3_ms = self._boto3_ms()
        return {
            "server_cpu_ms": round(server_ms, 3),
            "tls_http_cpu_ms": round(tls_http_ms, 3),
            "routing_iam_cpu_ms": round(refused_ms - tls_http_ms, 3),
            "service_cpu_ms": round(server_ms - refused_ms, 3),
            "server_cpu_ms_under_boto3": round(under_boto3_ms, 3),
            "boto3_cpu_ms": round(boto3_ms, 3),
            "answer_bytes": len(body),
            "calls_per_s": round(self._calls_per_s(1)),
            f"calls_per_s_{CALLERS}_callers": round(self._calls_per_s(CALLERS)),
        }

    def _connection(self) -> Connection:
        return Connection(self._aws.endpoint_url, self._aws.ca_bundle)

    def _requests(self, client: Any, count: int) -> list[bytes]:
        """Return ``count`` requests; few different ones unless each can be sent only once."""
        method, parameters = self._operation.method, self._operation.parameters
        different = count if self._operation.idempotent else min(count, _DIFFERENT)
        signed = [
            signed_request(client, method, parameters(self._account, next(self._numbers)))
            for _ in range(different)
        ]
        return [signed[number % different] for number in range(count)]

    def _boto3_ms(self) -> tuple[float, float]:
        """Return the processor time of a call in boto3, and in the server meanwhile."""
        send = getattr(self._caller, self._operation.method)
        own: list[float] = []

        def call() -> None:
            before_s = time.process_time()
            send(**self._operation.parameters(self._account, next(self._numbers)))
            own.append((time.process_time() - before_s) * 1000)

        under_boto3_ms = [_batch_ms(self._aws.pid, call) for _ in range(BOTO3_BATCHES)]
        return _lower_quartile(own), _lower_quartile(under_boto3_ms)

    def _calls_per_s(self, callers: int) -> float:
        """Return how many calls are answered in a second of real time, by ``callers`` connections together."""
        batches = [
            self._requests(self._caller, BATCHES * BATCH_SIZE // CALLERS)
            for _ in range(callers)
        ]
        connections = [self._connection() for _ in batches]
        ready = threading.Barrier(callers + 1)

        def work(connection: Connection, requests: list[bytes]) -> None:
            ready.wait()
            for request in requests:
                connection.call(request)

        threads = [
            threading.Thread(target=work, args=pair)
            for pair in zip(connections, batches, strict=True)
        ]
        for thread in threads:
            thread.start()
        ready.wait()
        started_s = time.perf_counter()
        for thread in threads:
            thread.join()
        return sum(map(len, batches)) / (time.perf_counter() - started_s)


class _Replay:
    """Sends requests one after the other to a server."""

    def __init__(
        self, pid: int, connection: Connection, requests: Sequence[bytes], expected: range
    ) -> None:
        self._pid = pid
        self._connection = connection
        self._requests = itertools.cycle(requests)
        self._expected = expected

    def batch_ms(self) -> float:
        """Send the next batch; return the server's processor milliseconds a call."""
        return _batch_ms(self._pid, self._call)

    def _call(self) -> None:
        status, body = self._connection.call(next(self._requests))
        assert status in self._expected, body


def _replayed_ms(*replays: _Replay) -> list[float]:
    """Return what a call costs each; they take turns, so that all are disturbed alike."""
    for replay in replays:
        replay.batch_ms()  # warms up
    batches: list[list[float]] = [[] for _ in replays]
    for _ in range(BATCHES - 1):
        for replay, measured in zip(replays, batches, strict=True):
            measured.append(replay.batch_ms())
    return [_lower_quartile(measured) for measured in batches]


def _batch_ms(pid: int, call: Callable[[], None]) -> float:
    """Return the processor milliseconds that a process takes for each call of a batch."""
    before_s = processor_s(pid)
    for _ in range(BATCH_SIZE):
        call()
    return (processor_s(pid) - before_s) / BATCH_SIZE * 1000


def _lower_quartile(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 4]


@contextlib.contextmanager
def _nothing(answer_bytes: int) -> Iterator[tuple[int, Connection]]:
    """Start a server that answers so many bytes and does nothing else; yield its process id and a connection."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        command = [
            sys.executable,
            "-m",
            "lab.bench.calls.constant",
            folder,
            str(answer_bytes),
        ]
        with subprocess.Popen(  # noqa: S603 - our own module
            command,
            cwd=Path(__file__).parents[3],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as server:
            assert server.stdout is not None
            assert server.stdin is not None
            url = server.stdout.readline().decode().strip()
            yield server.pid, Connection(url, Path(folder) / "ca.pem")
            server.stdin.close()
