"""A gate before all requests: closed, those that are inside end and those that come wait."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from ministack import app

LOOK_S: Final = 0.02


class Gate:
    """Stands before MiniStack's dispatcher, so no request is half done while the gate is closed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._closed = False
        self._inside_count = 0

    def install(self) -> None:
        """Put the gate before everything that is installed there already."""
        dispatch: Callable[..., Awaitable[Any]] = app._dispatch_service_request  # noqa: SLF001 - MiniStack is pinned

        async def guarded(*arguments: Any) -> Any:
            while not self._enter():
                await asyncio.sleep(LOOK_S)
            try:
                return await dispatch(*arguments)
            finally:
                self._leave()

        app._dispatch_service_request = guarded  # noqa: SLF001 - as above

    @contextmanager
    def closed(self, limit_s: float) -> Iterator[None]:
        """Close the gate, and wait until nothing is inside.

        Raises
        ------
        TimeoutError
            When something is inside for longer than ``limit_s`` real seconds.
        """
        with self._changed:
            self._closed = True
        try:
            with self._changed:
                if not self._changed.wait_for(lambda: not self._inside_count, limit_s):
                    raise TimeoutError(
                        f"{self._inside_count} requests have been under way for {limit_s:.0f} s"
                    )
            yield
        finally:
            with self._changed:
                self._closed = False

    def _enter(self) -> bool:
        with self._changed:
            if self._closed:
                return False
            self._inside_count += 1
            return True

    def _leave(self) -> None:
        with self._changed:
            self._inside_count -= 1
            self._changed.notify_all()
