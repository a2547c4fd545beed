"""A thread for each service: a call that takes long holds up later calls of its own service, and no other's.

Within a lane calls run one after the other, as MiniStack's services expect it, except while they wait (a long poll, an
invocation). Python runs one thread at a time, so lanes share a core; what they give is that nobody waits for somebody
else's call to end, and that the time in which OpenSSL, a hash or the operating system works is used.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

Handler = Callable[..., Coroutine[Any, Any, Any]]


class Lane:
    """A thread with an event loop of its own."""

    def __init__(self, name: str) -> None:
        self._loop = uvloop.new_event_loop()
        threading.Thread(target=self._run, name=f"lane-{name}", daemon=True).start()

    async def call(self, handler: Handler, *arguments: Any) -> Any:
        """Run ``handler`` in this lane, in a copy of the caller's context, and return what it returns."""
        caller = asyncio.get_running_loop()
        if caller is self._loop:
            return await handler(*arguments)
        answer = caller.create_future()
        context = contextvars.copy_context()

        def deliver(task: "asyncio.Task[Any]") -> None:
            caller.call_soon_threadsafe(_settle, answer, task)

        def start() -> None:
            self._loop.create_task(handler(*arguments), context=context).add_done_callback(deliver)

        self._loop.call_soon_threadsafe(start)
        return await answer

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()


class Lanes:
    """The lanes of all services; each begins with its service's first call."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}
        self._making = threading.Lock()

    def bound(self, service: str, handler: Handler) -> Handler:
        """Return ``handler`` as it is to be called from any event loop: it runs in the lane of ``service``."""

        async def call(*arguments: Any) -> Any:
            return await self._lane(service).call(handler, *arguments)

        return call

    def _lane(self, service: str) -> Lane:
        with self._making:
            if service not in self._lanes:
                self._lanes[service] = Lane(service)
            return self._lanes[service]


def _settle(answer: "asyncio.Future[Any]", task: "asyncio.Task[Any]") -> None:
    if answer.cancelled():
        return
    error = task.exception() if not task.cancelled() else asyncio.CancelledError()
    if error is None:
        answer.set_result(task.result())
    else:
        answer.set_exception(error)
