"""The processes of the node's work, and the ends of what they write."""

import contextlib
import logging
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from reservoir.agent.configuration import Run
from reservoir.agent.containers import find_engine, kill_command, run_command
from reservoir.agent.log_copies import LogCopies
from reservoir.agent.machine import ProcessId

TAIL_CHARACTERS: Final = 2_048
ENGINE_S: Final = 60  # that an engine has to end a container
_NOT_STARTED: Final = 127  # as a shell says of a command that it does not find
log = logging.getLogger("reservoir.agent")


class Processes:
    """Runs commands in sessions of their own; what they write goes to a file for each, kept in ``log_folder``.

    ``copies`` sends it on from there.
    """

    def __init__(self, log_folder: Path, copies: LogCopies | None = None) -> None:
        self._log_folder = log_folder
        self._copies = copies
        self._running: dict[ProcessId, subprocess.Popen[bytes]] = {}
        self._failed: dict[ProcessId, str] = {}
        self._hooks: dict[str, subprocess.Popen[bytes]] = {}
        self._engines: dict[ProcessId, str] = {}  # of those in containers

    def start(self, process: ProcessId, run: Run, environment: Mapping[str, str]) -> None:
        """Start a process; one that cannot be started ends at once with status 127."""
        try:
            command = (
                self._in_container(process, run, environment) if run.image else run.command
            )
            log = self.log_of(process)
            self._copy(log, environment, str(process.number))
            self._running[process] = self._begin(log, command, environment, run.user)
        except OSError as error:
            self._failed[process] = f"{error}\n"

    def start_hook(
        self, workload_key: str, run: Run, environment: Mapping[str, str]
    ) -> None:
        """Start a checkpoint hook; one that cannot be started is over."""
        log = self._log_folder / f"{workload_key.replace('/', '_')}-checkpoint.log"
        self._copy(log, environment, "checkpoint")
        try:
            self._hooks[workload_key] = self._begin(
                log, run.checkpoint, environment, run.user
            )
        except OSError as error:
            log.write_text(f"{error}\n", encoding="utf-8")
            self._hooks[workload_key] = self._begin(log, ("true",), {})

    def signal(self, process: ProcessId, *, kill: bool) -> None:
        """Signal a process and all that it has started."""
        if process in self._running and self._running[process].poll() is None:
            os.killpg(
                self._running[process].pid, signal.SIGKILL if kill else signal.SIGTERM
            )
            if kill and process in self._engines:
                self._end_container(process)

    def ended(self) -> Iterator[tuple[ProcessId, int, str]]:
        """Yield what has ended since, with its status and the end of what it wrote."""
        for process, why in list(self._failed.items()):
            del self._failed[process]
            yield process, _NOT_STARTED, why
        for process, child in list(self._running.items()):
            status = child.poll()
            if status is not None:
                del self._running[process]
                yield process, status, _tail(self.log_of(process))

    def ended_hooks(self) -> Iterator[str]:
        """Yield the workloads whose checkpoint hooks have ended since."""
        for key, child in list(self._hooks.items()):
            if child.poll() is not None:
                del self._hooks[key]
                yield key

    def stop(self, within_s: float) -> None:
        """Ask all to end, and kill what has not within so many seconds; systemd would kill all of it at our end."""
        for kill in (False, True):
            for process in list(self._running):
                self.signal(process, kill=kill)
            until_s = time.monotonic() + within_s
            for child in self._running.values():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(max(0.0, until_s - time.monotonic()))

    def _copy(self, log: Path, environment: Mapping[str, str], part: str) -> None:
        if self._copies is not None:
            workload, claim = (
                environment["RESERVOIR_WORKLOAD"],
                environment["RESERVOIR_NODE_CLAIM"],
            )
            self._copies.add(log, f"{workload}/{claim}/{part}")

    def _in_container(
        self, process: ProcessId, run: Run, environment: Mapping[str, str]
    ) -> tuple[str, ...]:
        self._engines[process] = find_engine()
        self._end_container(process)  # which an agent before us may have left
        return run_command(self._engines[process], process, run, environment)

    def _end_container(self, process: ProcessId) -> None:
        command = kill_command(self._engines[process], process)
        try:
            subprocess.run(command, capture_output=True, check=False, timeout=ENGINE_S)  # noqa: S603 - as below
        except (OSError, subprocess.TimeoutExpired) as error:
            log.warning(
                "the container of %s-%d may go on: %s",
                process.workload_key,
                process.number,
                error,
            )

    def _begin(
        self,
        log: Path,
        command: tuple[str, ...],
        environment: Mapping[str, str],
        user: str = "",
    ) -> "subprocess.Popen[bytes]":
        # users of a node read nothing of each other's
        self._log_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        runs_as = _user(user) if user else _User()
        with log.open("ab") as output:
            return subprocess.Popen(  # noqa: S603 - what whoever made the node has configured
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **runs_as.environment, **environment},
                start_new_session=True,
                user=runs_as.uid,
                group=runs_as.gid,
                extra_groups=runs_as.groups,
            )

    def log_of(self, process: ProcessId) -> Path:
        """Return where what a process writes is kept."""
        return (
            self._log_folder
            / f"{process.workload_key.replace('/', '_')}-{process.number}.log"
        )


@dataclass(frozen=True, slots=True)
class _User:
    """Who a process runs as; without anything, who runs the agent."""

    uid: int | None = None
    gid: int | None = None
    groups: Sequence[int] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


def _user(name: str) -> _User:
    """Look a user up; raises OSError where there is none, so that nothing runs as another."""
    try:
        found = pwd.getpwnam(name)
    except KeyError as error:
        raise FileNotFoundError(f"there is no user {name} on the node") from error
    return _User(
        found.pw_uid,
        found.pw_gid,
        os.getgrouplist(name, found.pw_gid),
        {"HOME": found.pw_dir, "LOGNAME": name, "USER": name},
    )


def _tail(log: Path) -> str:
    """Return the end of a log, without what is not text or could move a terminal's cursor."""
    with log.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - TAIL_CHARACTERS))
        text = file.read().decode("utf-8", "replace")
    return "".join(
        character for character in text if character.isprintable() or character in "\n\t"
    )
