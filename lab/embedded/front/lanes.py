"""A thread for each service: a call that takes long holds up later calls of its own service, and no other's.

Within a lane calls run one after the other, as MiniStack's services expect it, except while they wait (a long poll, an
invocation). Python runs one thread at a time, so lanes share a core; what they give is that nobody waits for somebody
else's call to end, and that the time in which OpenSSL, a hash or the operating system works is used.

The way to a thread and back costs as much processor time as a ``GetItem``. So calls that are known to be short take
the caller's thread while their lane is idle; all decisions are made in one thread, which then cannot make another.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

Handler = Callable[..., Coroutine[Any, Any, Any]]
Loop = asyncio.AbstractEventLoop


class Lane:
    """A thread with an event loop of its own; all calls go through the event loop ``home``."""

    def __init__(self, name: str, home: Loop) -> None:
        self._home = home
        self._loop: Loop = uvloop.new_event_loop()
        self._running_count = 0  # read and written in the home loop's thread only
        threading.Thread(target=self._run, name=f"lane-{name}", daemon=True).start()

    async def call(
        self, handler: Handler, arguments: tuple[Any, ...], *, short: bool
    ) -> Any:
        """Run ``handler`` in this lane, in a copy of the caller's context, and return what it returns.

        A ``short`` handler must never wait: it may run in the home loop's thread instead.
        """
        caller = asyncio.get_running_loop()
        if caller is self._loop:
            return await handler(*arguments)
        if caller is not self._home:
            at_home = asyncio.run_coroutine_threadsafe(
                self.call(handler, arguments, short=short), self._home
            )
            return await asyncio.wrap_future(at_home)
        self._running_count += 1
        try:
            if short and self._running_count == 1:
                return await handler(*arguments)
            return await self._in_own_thread(handler, arguments)
        finally:
            self._running_count -= 1

    async def _in_own_thread(self, handler: Handler, arguments: tuple[Any, ...]) -> Any:
        answer = self._home.create_future()
        context = contextvars.copy_context()

        def deliver(task: "asyncio.Task[Any]") -> None:
            self._home.call_soon_threadsafe(_settle, answer, task)

        def start() -> None:
            self._loop.create_task(handler(*arguments), context=context).add_done_callback(
                deliver
            )

        self._loop.call_soon_threadsafe(start)
        return await answer

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()


class Lanes:
    """The lanes of all services; each begins with its service's first call, the first of all with the home loop."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}
        self._home: Loop | None = None
        self._making = threading.Lock()

    def bound(
        self, service: str, handler: Handler, is_short: Callable[..., bool]
    ) -> Handler:
        """Return ``handler`` as it is to be called from any event loop: it runs in the lane of ``service``.

        ``is_short`` says of a call's arguments that it is over at once, and never waits.
        """

        async def call(*arguments: Any) -> Any:
            return await self._lane(service).call(
                handler, arguments, short=is_short(*arguments)
            )

        return call

    def _lane(self, service: str) -> Lane:
        with self._making:
            if self._home is None:
                self._home = asyncio.get_running_loop()
            if service not in self._lanes:
                self._lanes[service] = Lane(service, self._home)
            return self._lanes[service]


def _settle(answer: "asyncio.Future[Any]", task: "asyncio.Task[Any]") -> None:
    if answer.cancelled():
        return
    error = task.exception() if not task.cancelled() else asyncio.CancelledError()
    if error is None:
        answer.set_result(task.result())
    else:
        answer.set_exception(error)
