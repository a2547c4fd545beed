"""What becomes of an order when the prepared process dies."""

import fcntl
import os
import signal
import struct
import termios
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab.embedded.functions.zygote import Zygote
from tests.embedded.conftest import until


def unread_bytes(zygote: Zygote) -> int:
    """What was sent to the process and is not read yet (SIOCOUTQ; the terminals' number of it)."""
    (count,) = struct.unpack("i", fcntl.ioctl(zygote._ours, termios.TIOCOUTQ, b"\0" * 4))
    return int(count)


def test_an_order_that_was_not_read_before_the_process_was_killed_is_not_waited_for(
    tmp_path: Path,
) -> None:
    zygote = Zygote({}, tmp_path)
    os.kill(zygote._process.pid, signal.SIGSTOP)  # it reads nothing any more
    with ThreadPoolExecutor() as threads, (tmp_path / "function.log").open("wb") as log:
        forked = threads.submit(
            zygote.fork, "handler.handle", {}, tmp_path, log.fileno(), log
        )
        until(lambda: unread_bytes(zygote) > 0)
        os.kill(zygote._process.pid, signal.SIGKILL)
        assert forked.result(timeout=60) is None
    zygote.close()
