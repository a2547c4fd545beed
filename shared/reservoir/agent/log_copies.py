"""Copies what commands write to a log group of CloudWatch Logs, a stream for each process.

How far a file has been copied is kept beside it, so that an agent that is started again goes on there. What was sent
just before an agent died may be copied twice; nothing is left out but what exceeds the rate below.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from reservoir.agent.aws import UnreachableError
from reservoir.agent.retries import Retries

LOOK_S: Final = 2.0  # between two looks at the files
# AWS charges by the byte: a command that writes without end costs no more than this a second.
BYTES_PER_LOOK: Final = 128 * 1024
LEAST_BYTES_PER_FILE: Final = 4 * 1024
# A file that is further ahead than this will never be caught up with.
LONGEST_LEAD_BYTES: Final = 16 * 1024 * 1024
# PutLogEvents takes 10,000 lines, and 1 MiB with 26 bytes for each line.
LINES_PER_CALL: Final = 5_000
log = logging.getLogger("reservoir.agent")

Send = Callable[[str, int, Sequence[str]], None]


class _Part(NamedTuple):
    """Lines of a file, and where they end."""

    lines: list[str]
    end: int


class _CopiedFile:
    """One file, and how far it has been copied."""

    def __init__(self, path: Path, stream: str) -> None:
        self._path = path
        self._mark = path.with_name(f"{path.name}.copied")
        self.stream = stream
        self._offset = self._marked()
        self._size_before = -1

    def next_part(self, bytes_max: int) -> _Part | None:
        """Return what comes next of at most so many bytes; None while there is no whole line."""
        if not self._path.exists():
            return None
        size = self._path.stat().st_size
        has_grown, self._size_before = size != self._size_before, size
        if size < self._offset:  # another program has emptied it
            self._offset = 0
        if size - self._offset > LONGEST_LEAD_BYTES:
            return self._jump(size)
        with self._path.open("rb") as file:
            file.seek(self._offset)
            content = file.read(min(bytes_max, size - self._offset))
        lines = content.splitlines(keepends=True)[:LINES_PER_CALL]
        # The last line may not be complete yet. It is taken as it is if it fills all that may be read, or if nothing
        # has followed it since the last look.
        is_begun = bool(lines) and not lines[-1].endswith((b"\n", b"\r"))
        if is_begun and (len(lines) > 1 or (has_grown and len(content) < bytes_max)):
            lines.pop()
        if not lines:
            return None
        end = self._offset + sum(map(len, lines))
        texts = [line.decode("utf-8", "replace").rstrip("\r\n") for line in lines]
        return _Part([text for text in texts if text], end)

    def _jump(self, size: int) -> _Part:
        """Leave out what cannot be caught up with, and say so."""
        left_out = size - self._offset
        return _Part(
            [
                f"[{left_out} bytes are left out here: they were written too fast to be copied]"
            ],
            size,
        )

    def copied(self, end: int) -> None:
        """Remember that everything before ``end`` has been copied."""
        self._offset = end
        self._mark.write_text(str(end), encoding="ascii")

    def _marked(self) -> int:
        try:
            return int(self._mark.read_text(encoding="ascii"))
        except (OSError, ValueError):  # it was never copied, or the disk was full
            return 0


class LogCopies:
    """The files that are copied.

    Parameters
    ----------
    send
        Sends lines to a stream with the time of all of them, in milliseconds since 1970; raises UnreachableError.
    now_s
        Gives seconds since 1970.
    """

    def __init__(self, send: Send, now_s: Callable[[], float]) -> None:
        self._send = send
        self._now_s = now_s
        self._files: dict[Path, _CopiedFile] = {}

    def add(self, path: Path, stream: str) -> None:
        """Copy a file from now on; one that is copied already goes on."""
        if path not in self._files:
            self._files[path] = _CopiedFile(path, stream)

    def copy(self) -> None:
        """Look at each file once.

        Raises
        ------
        UnreachableError
            AWS could not be asked; what was not sent is sent by a later look.
        """
        files = list(self._files.values())  # a command may start meanwhile
        for file in files:
            part = file.next_part(max(LEAST_BYTES_PER_FILE, BYTES_PER_LOOK // len(files)))
            if part is None:
                continue
            if part.lines:
                self._send(file.stream, round(self._now_s() * 1000), part.lines)
            file.copied(part.end)


class LogCopying(threading.Thread):
    """Copies in a thread of its own: a node that cannot reach CloudWatch still hears of its drain at once."""

    def __init__(self, copies: LogCopies) -> None:
        super().__init__(name="log copies", daemon=True)
        self.copies = copies
        self._ended = threading.Event()
        self._retries = Retries()

    def run(self) -> None:
        """Copy until ``finish``, and once more then."""
        while not self._ended.wait(self._look()):
            pass
        self._look()

    def finish(self, within_s: float) -> None:
        """Copy what is left, for so many seconds at most."""
        self._ended.set()
        self.join(within_s)

    def _look(self) -> float:
        """Look at the files once; return when to look again, in seconds from now."""
        try:
            self.copies.copy()
        except (UnreachableError, OSError) as error:
            log.warning("logs are copied later: %s", error)
            return self._retries.failed()
        self._retries.succeeded()
        return LOOK_S
