"""Entry point of an emulated Lambda environment: start AWS's runtime client with the emulated clock.

The host runs this file as a script with an interpreter that sees the function's code, its layers and the runtime's own
packages, and nothing else of the project; so it imports the standard library only.

On AWS the platform provides the clock, so a function must not be able to tell: ``time.time``, ``time.time_ns``,
``time.gmtime``, ``time.localtime`` and the constructors of "now" of ``datetime`` give the emulated time, computed from
the numbers that the host keeps in a mapped file (``embedded.emulated_time.clock``). The methods are replaced inside the
built-in types, so ``from datetime import datetime`` and ``isinstance`` work as ever. Monotonic clocks, timeouts and
``context.get_remaining_time_in_millis`` stay real: a function gets as much computing time as on AWS, whatever the rate.
"""

import ctypes
import datetime
import gc
import mmap
import os
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

STATE = struct.Struct("<Qqqdq")  # embedded.emulated_time.clock.PUBLISHED_STATE


def emulated_time(path: str) -> Callable[[], int]:
    """Return a function that gives the time published at ``path``, in microseconds since 1970."""
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib would double this script's start-up time
        state = mmap.mmap(file.fileno(), STATE.size, access=mmap.ACCESS_READ)

    def now_us() -> int:
        while True:
            sequence, anchor_monotonic_ns, anchor_us, speed, limit_us = STATE.unpack(state[:])
            if sequence % 2 == 0 and STATE.unpack(state[:])[0] == sequence:
                passed_us = int((time.monotonic_ns() - anchor_monotonic_ns) * speed / 1000)
                return int(min(anchor_us + passed_us, limit_us))

    return now_us


def _replace(owner: type, name: str, function: Any) -> None:
    # The dictionary behind a built-in type's read-only view; PyType_Modified drops what the interpreter cached of it.
    gc.get_referents(owner.__dict__)[0][name] = function
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))


class _Builtin:
    """A callable that, like a built-in function, becomes no method as a class attribute; logging relies on that."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)


def shift_clock(now_us: Callable[[], int]) -> None:
    """Make this process read the wall clock from ``now_us``."""
    real_gmtime, real_localtime = time.gmtime, time.localtime
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

    def now(cls: type[datetime.datetime], tz: datetime.tzinfo | None = None) -> datetime.datetime:
        moment = epoch + datetime.timedelta(microseconds=now_us())
        moment = moment.astimezone(tz) if tz else moment.astimezone().replace(tzinfo=None)
        return cls.combine(moment.date(), moment.timetz())

    def utcnow(cls: type[datetime.datetime]) -> datetime.datetime:
        return now(cls, datetime.UTC).replace(tzinfo=None)

    def today(cls: type[datetime.date]) -> datetime.date:
        return cls.fromtimestamp(now_us() / 1e6)

    _replace(datetime.datetime, "now", classmethod(now))
    _replace(datetime.datetime, "utcnow", classmethod(utcnow))
    _replace(datetime.date, "today", classmethod(today))
    time.time = _Builtin(lambda: now_us() / 1e6)
    time.time_ns = _Builtin(lambda: now_us() * 1000)
    time.gmtime = _Builtin(lambda seconds=None: real_gmtime(now_us() / 1e6 if seconds is None else seconds))
    time.localtime = _Builtin(lambda seconds=None: real_localtime(now_us() / 1e6 if seconds is None else seconds))


def _end_with_host() -> None:
    # The host holds the other end of this pipe; it closes when the host ends, however it ends.
    while os.read(0, 64):
        pass
    os._exit(1)


def main() -> None:
    """Run the handler named by the first argument until the host ends."""
    threading.Thread(target=_end_with_host, daemon=True).start()
    real_time = time.time
    shift_clock(emulated_time(os.environ.pop("EMBEDDED_CLOCK_FILE")))

    from awslambdaric import __main__ as runtime
    from awslambdaric.lambda_context import LambdaContext

    def remaining_ms(context: Any) -> int:
        return max(0, int(context._epoch_deadline_time_in_ms - real_time() * 1000))  # noqa: SLF001 - as AWS's method does

    LambdaContext.get_remaining_time_in_millis = remaining_ms
    runtime.main(sys.argv)


if __name__ == "__main__":
    main()
