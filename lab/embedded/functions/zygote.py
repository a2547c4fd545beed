"""A prepared process for the functions of one set of layers, from which their execution environments are forked.

Interpreter, runtime client and what the layers hold are loaded once; what a function brings itself is loaded in each
environment, as ever. The process is ``worker --prepared``, which says what may be shared and what may not; where it
refuses, the environment gets an interpreter of its own.
"""

import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, Final, Protocol

WORKER: Final = Path(__file__).with_name("worker.py")
JsonObject = dict[str, Any]
logger = logging.getLogger(__name__)


class Process(Protocol):
    """What an environment needs of its process; ``subprocess.Popen`` has it, too."""

    pid: int

    def poll(self) -> int | None:
        """Return the exit status if the process has ended; -N when signal N ended it."""
        ...

    def wait(self) -> int:
        """Wait for the end; return the exit status."""
        ...


def start_alone(
    handler: str, variables: Mapping[str, str], folder: Path, stdin: int, log: IO[bytes]
) -> Process:
    """Start an interpreter of its own for one environment."""
    return subprocess.Popen(  # noqa: S603 - our own interpreter and script
        [sys.executable, "-P", "-S", "-s", str(WORKER), handler],
        env=dict(variables),
        cwd=folder,
        stdin=stdin,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


@dataclass
class _Forked:
    """A process that is another one's child; ``Zygote`` learns of its end."""

    pid: int
    ended: threading.Event = field(default_factory=threading.Event)
    status: int = 0

    def poll(self) -> int | None:
        return self.status if self.ended.is_set() else None

    def wait(self) -> int:
        self.ended.wait()
        return self.status


class Zygote:
    """One prepared process; it and all that were forked from it end with ``close``, and with this process.

    Parameters
    ----------
    variables
        Environment of the process. A function that has another value for a variable that was read while something was
        loaded does not share what was loaded.
    folder
        Where it runs; its log is written there.
    """

    def __init__(self, variables: Mapping[str, str], folder: Path) -> None:
        self._closing = False
        self._asking = threading.Lock()
        # a reason: refused; None: the end
        self._answers: SimpleQueue[_Forked | str | None] = SimpleQueue()
        self._children: dict[int, _Forked] = {}
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs, (folder / "prepared.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and script
                [
                    sys.executable,
                    "-P",
                    "-S",
                    "-s",
                    str(WORKER),
                    "--prepared",
                    str(theirs.fileno()),
                ],
                env=dict(variables),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        threading.Thread(target=self._listen, name="lambda-prepared", daemon=True).start()

    def fork(
        self,
        handler: str,
        variables: Mapping[str, str],
        folder: Path,
        stdin: int,
        log: IO[bytes],
    ) -> Process | None:
        """Fork an environment; None when it must not share what is loaded, or when the prepared process is gone."""
        order = {"handler": handler, "variables": dict(variables), "folder": str(folder)}
        with self._asking:
            try:
                _send(self._ours, order, [stdin, log.fileno()])
            except OSError:
                return None
            answer = self._answers.get()
            if answer is None:
                self._answers.put(None)  # for whoever asks next
                return None
        if isinstance(answer, str):
            logger.info("%s is not forked: %s", handler, answer)
            return None
        return answer

    def close(self) -> None:
        """End the process."""
        self._closing = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._ours.close()

    def _listen(self) -> None:
        # A process that is killed with an order unread resets the connection instead of closing it.
        with self._ours.makefile("rb") as lines, contextlib.suppress(ConnectionResetError):
            for line in lines:
                self._hear(json.loads(line))
        if not self._closing:
            logger.error(
                "the prepared process has ended by itself; environments are started without it from now on"
            )
        self._answers.put(None)
        # nobody can tell; they end when their prepared process does
        for child in self._children.values():
            child.status = -signal.SIGKILL
            child.ended.set()

    def _hear(self, message: JsonObject) -> None:
        if "ended" in message:
            child = self._children.pop(message["ended"])
            child.status = message["status"]
            child.ended.set()
        elif "refused" in message:
            self._answers.put(message["refused"])
        else:
            child = self._children[message["pid"]] = _Forked(message["pid"])
            self._answers.put(child)


def _send(connection: socket.socket, order: JsonObject, descriptors: Sequence[int]) -> None:
    content = json.dumps(order).encode()
    header = len(content).to_bytes(4, "big")
    socket.send_fds(connection, [header], list(descriptors))
    connection.sendall(content)
