"""Entry point of an emulated Lambda environment: start AWS's runtime client with the emulated clock.

The host runs this file as a script with an interpreter that sees the function's code, its layers and the runtime's own
packages, and nothing else of the project; so it imports the standard library only.

On AWS the platform provides the clock, so a function must not be able to tell: ``time.time``, ``time.time_ns``,
``time.gmtime``, ``time.localtime`` and the constructors of "now" of ``datetime`` give the emulated time, computed from
the numbers that the host keeps in a mapped file (``lab.embedded.emulated_time.clock``). The methods are replaced inside
the built-in types, so ``from datetime import datetime`` and ``isinstance`` work as ever. Monotonic clocks, timeouts and
``context.get_remaining_time_in_millis`` stay real: a function gets as much computing time as on AWS, whatever the rate.

With ``--prepared`` it is no environment but a process from which environments are forked (``zygote``): it sees layers
and runtime, and no function's code. From the first environment it learns what was loaded besides the function's own
code, and loads that once for all that follow. Nobody can tell, because an environment is refused here, and started
without anything prepared, when it must not share: its code has a module of a name that is loaded, or a variable
that was read while something was loaded has another value for it.
"""

import ctypes
import datetime
import gc
import importlib
import json
import mmap
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

STATE = struct.Struct("<Qqqdq")  # embedded.emulated_time.clock.PUBLISHED_STATE
# How variables begin that are read in C, where nobody sees it: by the interpreter, the C library, linear algebra.
UNSEEN = (
    "PYTHON",
    "LD_",
    "LC_",
    "LANG",
    "TZ",
    "MALLOC_",
    "GLIBC_",
    "OPENBLAS_",
    "GOTO_",
    "OMP_",
    "MKL_",
    "NPY_",
)
# The runtime client reads variables while it is loaded, partly in C.
NOT_SHARED = ("__main__", "awslambdaric", "runtime_client")
LARGEST_REPORT = 1 << 20


def emulated_time(path: str) -> Callable[[], int]:
    """Return a function that gives the time published at ``path``, in microseconds since 1970."""
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib would double this script's start-up time
        state = mmap.mmap(file.fileno(), STATE.size, access=mmap.ACCESS_READ)

    def now_us() -> int:
        while True:
            sequence, anchor_monotonic_ns, anchor_us, speed, limit_us = STATE.unpack(
                state[:]
            )
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

    def now(
        cls: type[datetime.datetime], tz: datetime.tzinfo | None = None
    ) -> datetime.datetime:
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
    time.gmtime = _Builtin(
        lambda seconds=None: real_gmtime(now_us() / 1e6 if seconds is None else seconds)
    )
    time.localtime = _Builtin(
        lambda seconds=None: real_localtime(now_us() / 1e6 if seconds is None else seconds)
    )


def _end_with_host() -> None:
    # The host holds the other end of this pipe; it closes when the host ends, however it ends.
    while os.read(0, 64):
        pass
    os._exit(1)


def run_function(real_time: Callable[[], float], when_ready: Callable[[], None]) -> None:
    """Run the handler named by the first argument until the host ends; call ``when_ready`` before its first event."""
    threading.Thread(target=_end_with_host, daemon=True).start()

    from awslambdaric import __main__ as runtime
    from awslambdaric.lambda_context import LambdaContext
    from awslambdaric.lambda_runtime_client import LambdaRuntimeClient

    def remaining_ms(context: Any) -> int:
        return max(0, int(context._epoch_deadline_time_in_ms - real_time() * 1000))  # noqa: SLF001 - as AWS's method does

    LambdaContext.get_remaining_time_in_millis = remaining_ms
    wait_next_invocation = LambdaRuntimeClient.wait_next_invocation

    def first(client: Any) -> Any:
        LambdaRuntimeClient.wait_next_invocation = wait_next_invocation
        when_ready()
        return wait_next_invocation(client)

    LambdaRuntimeClient.wait_next_invocation = first
    runtime.main(sys.argv)


class Prepared:
    """The process from which environments are forked. It has one thread: no other would live on in a fork."""

    def __init__(
        self, connection: socket.socket, real_time: Callable[[], float], bare: set[str]
    ) -> None:
        self._connection = connection
        self._real_time = real_time
        self._bare = bare  # what every interpreter has loaded before it sees any path
        self._own_path = os.environ["PYTHONPATH"].split(":")
        self._system_path = [entry for entry in sys.path if entry not in self._own_path]
        self._variables = dict(os.environ)
        self._read: set[str] = set()  # variables that were read while something was loaded
        self._read_all = False
        self._reports, self._reporting = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_DGRAM
        )
        for end in (self._reports, self._reporting):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST_REPORT)
        self._ended, self._wake = socket.socketpair()
        for end in (self._ended, self._wake):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)

    def serve(self) -> None:
        """Fork, tell of ends and load what was reported, until the host is gone."""
        waited_for = [self._connection, self._ended, self._reports]
        while True:
            readable, _, _ = select.select(waited_for, [], [])
            if self._ended in readable:
                self._ended.recv(4096)
                self._tell_ends()
            if self._reports in readable:  # before an order, so that it profits
                self._load(json.loads(self._reports.recv(LARGEST_REPORT)))
            if self._connection in readable and not self._take_order():
                return

    def _take_order(self) -> bool:
        header, descriptors, _, _ = socket.recv_fds(self._connection, 4, 2)
        if not header:
            return False
        content = b""
        while len(content) < int.from_bytes(header, "big"):
            content += self._connection.recv(1 << 16)
        order = json.loads(content)
        reason = self._refusal(order)
        if reason is None:
            pid = os.fork()
            if not pid:
                self._become(order, *descriptors)
            self._tell({"pid": pid})
        else:
            self._tell({"refused": reason})
        for descriptor in descriptors:
            os.close(descriptor)
        return True

    def _refusal(self, order: dict[str, Any]) -> str | None:
        """Return why a function must not share what is loaded here, or None."""
        wanted = order["variables"]
        unseen = {
            name for name in (*wanted, *self._variables) if name.startswith(UNSEEN)
        } - {"PYTHONPATH"}
        for name in sorted(unseen | self._read):
            if wanted.get(name) != self._variables.get(name):
                return f"its {name} differs"
        if self._read_all:
            return "what is loaded has read all variables"
        loaded = {name.partition(".")[0] for name in sys.modules} - self._bare
        shadowed = loaded & {
            entry.partition(".")[0]
            for entry in os.listdir(order["folder"])  # noqa: PTH208 - as above
        }
        return f"it brings its own {', '.join(sorted(shadowed))}" if shadowed else None

    def _become(self, order: dict[str, Any], stdin: int, log: int) -> None:
        """Be an environment, in the new process; never returns."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            for source, target in ((stdin, 0), (log, 1), (log, 2)):
                os.dup2(source, target)
            for each in (self._connection, self._ended, self._wake, self._reports):
                each.close()
            os.close(stdin)
            os.close(log)
            os.chdir(order["folder"])
            os.environ.clear()
            os.environ.update(order["variables"])
            del os.environ["EMBEDDED_CLOCK_FILE"]  # mapped already
            sys.path[:] = [*os.environ["PYTHONPATH"].split(":"), *self._system_path]
            sys.argv[1:] = [order["handler"]]
            if "numpy.random" in sys.modules:
                # else all environments would draw the same numbers
                sys.modules["numpy.random"].seed()
            run_function(self._real_time, lambda: self._report(order["folder"]))
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:  # noqa: BLE001 - what an interpreter would do at its end
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _report(self, task_root: str) -> None:
        """Tell which modules are loaded that are not the function's own."""
        names = [
            name
            for name, module in sys.modules.items()
            if (origin := getattr(getattr(module, "__spec__", None), "origin", None))
            is not None
            and not origin.startswith(task_root)
            and name.partition(".")[0] not in NOT_SHARED
        ]
        self._reporting.send(json.dumps(names).encode())
        self._reporting.close()

    def _load(self, names: list[str]) -> None:
        with self._watched_environment():
            for name in names:
                if name not in sys.modules:
                    try:
                        importlib.import_module(name)
                    except Exception:  # noqa: BLE001 - whoever needs it will get the error
                        traceback.print_exc()
        gc.collect()
        gc.freeze()  # so that collections in environments do not copy what they share

    @contextmanager
    def _watched_environment(self) -> Iterator[None]:
        kind = type(os.environ)
        get, iterate = kind.__getitem__, kind.__iter__

        def watched_get(variables: Any, name: str) -> str:
            self._read.add(name)
            return get(variables, name)

        def watched_iterate(variables: Any) -> Iterator[str]:
            self._read_all = True
            return iterate(variables)

        kind.__getitem__, kind.__iter__ = watched_get, watched_iterate  # type: ignore[method-assign]  # for a while
        try:
            yield
        finally:
            kind.__getitem__, kind.__iter__ = get, iterate  # type: ignore[method-assign]  # as before

    def _tell_ends(self) -> None:
        while True:
            try:
                pid, status, _ = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            self._tell({"ended": pid, "status": os.waitstatus_to_exitcode(status)})

    def _tell(self, message: dict[str, Any]) -> None:
        self._connection.sendall(json.dumps(message).encode() + b"\n")


def main(bare: set[str]) -> None:
    """Be an environment, or with ``--prepared`` the process from which environments are forked."""
    real_time = time.time
    shift_clock(emulated_time(os.environ.pop("EMBEDDED_CLOCK_FILE")))
    if sys.argv[1] == "--prepared":
        Prepared(socket.socket(fileno=int(sys.argv[2])), real_time, bare).serve()
    else:
        run_function(real_time, lambda: None)


if __name__ == "__main__":
    main({name.partition(".")[0] for name in sys.modules})
