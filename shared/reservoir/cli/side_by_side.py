"""Computations at once, on as many cores as there are."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Generic, TypeVar

T = TypeVar("T")


def side_by_side(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Return what each task returns, in their order; all but the first core's run in copies of this process.

    What a task changes may be lost with its process. Raises what a task raises.
    """
    # Only Linux: elsewhere libraries of the system do not survive in a copy of a process that uses them.
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
    shares = [tasks[core::cores] for core in range(min(cores, len(tasks)))]
    copies = [_Copy(share) for share in shares[1:]]
    try:
        found = [
            [task() for task in shares[0]] if shares else [],
            *(copy.answers() for copy in copies),
        ]
    finally:
        for copy in copies:
            copy.end()
    return [found[number % cores][number // cores] for number in range(len(tasks))]


class _Copy(Generic[T]):
    """A copy of this process, and the work that it does."""

    def __init__(self, tasks: Sequence[Callable[[], T]]) -> None:
        context = multiprocessing.get_context("fork")
        self._tasks = tasks
        self._from, there = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(tasks, there))
        self._process.start()
        there.close()

    def answers(self) -> list[T]:
        """Wait for them. Raises what a task raised."""
        try:
            found = self._from.recv()
        except EOFError:
            # killed, perhaps because there is no memory for two: one after the other, then
            return [task() for task in self._tasks]
        if isinstance(found, Exception):
            raise found
        return list(found)

    def end(self) -> None:
        """Take it from the system's list, whether it is done or not."""
        self._process.kill()
        self._process.join()
        self._from.close()


def _work(tasks: Sequence[Callable[[], object]], there: Connection) -> None:
    # Ctrl-C is for the first process, which ends this one
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        there.send([task() for task in tasks])
    except Exception as error:  # noqa: BLE001 - whatever it is, the first process raises it
        there.send(error)
