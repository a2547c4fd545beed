"""Execution environments: one process of AWS's Lambda runtime client each, served by a Runtime API of its own.

``Environment`` has the process started (``zygote``), hands it events over the Runtime API (next, response, error,
init error) and kills it when an invocation outlives the function's timeout. What the process writes goes to a file,
from which each invocation's lines are cut.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any, Final

from lab.embedded.functions.zygote import Process

# AWS allows 10 s; a machine of two busy cores needs more, and a test of the limit itself would prove nothing.
INIT_LIMIT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """What an execution environment is made of; ``variables`` is the whole environment of its process."""

    function_name: str
    function_arn: str
    handler: str
    timeout_s: int
    task_root: Path
    variables: Mapping[str, str]
    log_file: Path


@dataclass(frozen=True, slots=True)
class Invocation:
    """An event on its way to a handler."""

    request_id: str
    payload: bytes
    trace_id: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an invocation ended: the response or the error document, and what the environment wrote meanwhile."""

    body: Any
    failed: bool
    log: str


def processor_s(pid: int) -> float | None:
    """Return the processor time that a process has used, user and system; None where the system does not tell."""
    if not hasattr(os, "pidfd_open"):
        return None  # not Linux
    # the kernel's number for the clock of another process
    return time.clock_gettime((~pid << 3) | 2)


def _error(kind: str, message: str) -> dict[str, str]:
    return {"errorType": kind, "errorMessage": message}


# Starts a process: (handler, all its variables, where it runs, the end of a pipe for its stdin, where it writes to).
Start = Callable[[str, Mapping[str, str], Path, int, IO[bytes]], Process]


class Environment:
    """One process that serves one invocation at a time; after a failure of the process it is not ``alive``."""

    def __init__(self, spec: EnvironmentSpec, start: Start) -> None:
        self.spec = spec
        # None: the environment is closed
        self._events: SimpleQueue[tuple[Invocation, int] | None] = SimpleQueue()
        self._results: SimpleQueue[tuple[str, str, bytes]] = SimpleQueue()
        self._ready = threading.Event()
        self._log_offset = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._request_handler())
        self._server.daemon_threads = True
        address = f"127.0.0.1:{self._server.server_port}"
        # until it asked for its first event; None: not yet, or not known
        self.init_processor_s: float | None = None
        # Never written to: its end tells the process that the host is gone.
        stdin, self._held_open = os.pipe()
        variables = {**spec.variables, "AWS_LAMBDA_RUNTIME_API": address}
        with spec.log_file.open("wb") as log:
            self._process = start(spec.handler, variables, spec.task_root, stdin, log)
        os.close(stdin)
        # A forked process may ask for its first event before ``start`` has returned; the port lets it wait until now.
        threading.Thread(
            target=self._server.serve_forever,
            args=(0.1,),
            name="lambda-runtime-api",
            daemon=True,
        ).start()
        threading.Thread(target=self._watch, name="lambda-exit", daemon=True).start()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def invoke(self, invocation: Invocation) -> Outcome:
        """Hand the event to the handler and wait for its answer, at most for the function's timeout."""
        if not self._ready.wait(INIT_LIMIT_S) and self.alive:
            self.kill()
        timeout_s = self.spec.timeout_s
        deadline_ms = int((time.time() + timeout_s) * 1000)
        # else the process has already failed to start, or has ended since its last event
        if self._results.empty():
            self._events.put((invocation, deadline_ms))
        try:
            kind, request_id, body = self._results.get(timeout=timeout_s)
        except Empty:
            self.kill()
            message = f"RequestId: {invocation.request_id} Error: Task timed out after {timeout_s}.00 seconds"
            return Outcome(
                _error("Sandbox.Timedout", message), failed=True, log=self._new_log(message)
            )
        if kind == "exit":
            message = f"RequestId: {invocation.request_id} Error: Runtime exited with error: {body.decode()}"
            return Outcome(
                _error("Runtime.ExitError", message),
                failed=True,
                log=self._new_log(message),
            )
        if kind == "response" and request_id == invocation.request_id:
            return Outcome(json.loads(body or b"null"), failed=False, log=self._new_log())
        return Outcome(json.loads(body or b"null"), failed=True, log=self._new_log())

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        if self.alive:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End the process and its Runtime API."""
        self.kill()
        os.close(self._held_open)
        self._events.put(None)
        self._server.shutdown()
        self._server.server_close()

    def _watch(self) -> None:
        code = self._process.wait()
        reason = (
            f"signal: {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        )
        self._results.put(("exit", "", reason.encode()))
        self._ready.set()

    def _new_log(self, *platform_lines: str) -> str:
        if platform_lines:  # the process has ended, and writes no more
            with self.spec.log_file.open("a") as file:
                file.writelines(f"{line}\n" for line in platform_lines)
        with self.spec.log_file.open("rb") as file:
            file.seek(self._log_offset)
            written = file.read()
        self._log_offset += len(written)
        return written.decode(errors="replace").strip("\n")

    def _next(self) -> tuple[Invocation, int] | None:
        if not self._ready.is_set():
            self.init_processor_s = processor_s(self.pid)
            self._ready.set()
        return self._events.get()

    def _request_handler(self) -> type[BaseHTTPRequestHandler]:
        environment = self

        class RuntimeApi(BaseHTTPRequestHandler):
            """The part of the Lambda Runtime API (2018-06-01) that the runtime client calls."""

            protocol_version = "HTTP/1.1"
            # one segment a response: 88 ms become 3 ms, since Nagle waits for a delayed ACK
            wbufsize = -1
            disable_nagle_algorithm = True

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
                """Keep requests out of stderr."""

            def do_GET(self) -> None:
                event = environment._next()
                if event is None:
                    self.close_connection = True
                    return
                invocation, deadline_ms = event
                headers = {
                    "Content-Type": "application/json",
                    "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
                    "Lambda-Runtime-Deadline-Ms": str(deadline_ms),
                    "Lambda-Runtime-Invoked-Function-Arn": environment.spec.function_arn,
                    "Lambda-Runtime-Trace-Id": invocation.trace_id,
                }
                self._answer(200, invocation.payload, headers)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                request_id, kind = self.path.split("/")[-2:]
                environment._results.put(
                    ("init" if request_id == "init" else kind, request_id, body)
                )
                self._answer(202, b'{"status":"OK"}', {})

            def _answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        return RuntimeApi
