"""The client for asyncio: the same one, in threads."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from reservoir.client.client import ANSWERED_WITHIN_S, Client, Submitted
from reservoir.client.facts import Fact
from reservoir.manifests.described import WorkloadDescribed
from reservoir.manifests.events import NodeDraining

_END: Final = object()


class AsyncClient:
    """Every method is as in ``Client`` and waits without holding up the loop.

    A call that is cancelled is given up by its task at once. The thread under it ends with its time-out, or, where the
    call may wait for ever, with the current reading of the queue.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def submit(
        self, workload: Mapping[str, Any], *, timeout_s: float = ANSWERED_WITHIN_S
    ) -> Submitted:
        """``Client.submit``."""
        return await asyncio.to_thread(self._client.submit, workload, timeout_s=timeout_s)

    async def withdraw(self, key: str, *, timeout_s: float = ANSWERED_WITHIN_S) -> None:
        """``Client.withdraw``."""
        await asyncio.to_thread(self._client.withdraw, key, timeout_s=timeout_s)

    async def release(self, key: str, node_claim: str, replicas: int | None = None) -> None:
        """``Client.release``."""
        await asyncio.to_thread(self._client.release, key, node_claim, replicas)

    async def status(
        self, key: str, *, timeout_s: float = ANSWERED_WITHIN_S
    ) -> WorkloadDescribed:
        """``Client.status``."""
        return await asyncio.to_thread(self._client.status, key, timeout_s=timeout_s)

    async def wait_placed(
        self, key: str, *, launched: bool = False, timeout_s: float | None = None
    ) -> WorkloadDescribed:
        """``Client.wait_placed``."""
        stop = threading.Event()
        try:
            return await asyncio.to_thread(
                self._client.wait_placed,
                key,
                launched=launched,
                timeout_s=timeout_s,
                stop=stop,
            )
        finally:
            stop.set()

    async def events(self, *, idle_s: float | None = None) -> AsyncGenerator[Fact, None]:
        """``Client.events``."""
        stop = threading.Event()
        facts = self._client.events(idle_s=idle_s, stop=stop)
        reading: asyncio.Future[Any] | None = None
        try:
            while True:
                reading = asyncio.ensure_future(asyncio.to_thread(next, facts, _END))
                # the thread is in the generator until it has read
                fact = await asyncio.shield(reading)
                if fact is _END:
                    return
                yield fact
        finally:
            stop.set()
            if reading is None or reading.done():
                facts.close()

    async def on_draining(
        self,
        handle: Callable[[NodeDraining], Awaitable[None]],
        *whose: str,
        idle_s: float | None = None,
    ) -> None:
        """``Client.on_draining``; the handler runs in this loop, and is cancelled with the call."""
        loop, stop = asyncio.get_running_loop(), threading.Event()
        under_way: list[Future[None]] = []

        async def handled(notice: NodeDraining) -> None:
            await handle(notice)

        def in_loop(notice: NodeDraining) -> None:
            if stop.is_set():
                # nothing is released, and this thread is no longer waited for
                raise asyncio.CancelledError
            under_way[:] = [asyncio.run_coroutine_threadsafe(handled(notice), loop)]
            under_way[0].result()

        try:
            await asyncio.to_thread(
                self._client.on_draining, in_loop, *whose, idle_s=idle_s, stop=stop
            )
        finally:
            stop.set()
            for handling in under_way:
                handling.cancel()
