"""The client for asyncio: the same one, in threads."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

from reservoir.client.client import ANSWERED_WITHIN_S, Client, Submitted
from reservoir.client.facts import Fact
from shared.manifests.described import WorkloadDescribed
from shared.manifests.events import NodeDraining

_END: Final = object()


class AsyncClient:
    """Every method is that of ``Client`` and waits without holding up the loop.

    A call that is cancelled is given up by its task; the thread under it ends with its time-out.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def submit(self, workload: Mapping[str, Any], *, timeout_s: float = ANSWERED_WITHIN_S) -> Submitted:
        """``Client.submit``."""
        return await asyncio.to_thread(self._client.submit, workload, timeout_s=timeout_s)

    async def withdraw(self, key: str, *, timeout_s: float = ANSWERED_WITHIN_S) -> None:
        """``Client.withdraw``."""
        await asyncio.to_thread(self._client.withdraw, key, timeout_s=timeout_s)

    async def release(self, key: str, node_claim: str, replicas: int | None = None) -> None:
        """``Client.release``."""
        await asyncio.to_thread(self._client.release, key, node_claim, replicas)

    async def status(self, key: str, *, timeout_s: float = ANSWERED_WITHIN_S) -> WorkloadDescribed:
        """``Client.status``."""
        return await asyncio.to_thread(self._client.status, key, timeout_s=timeout_s)

    async def wait_placed(
        self, key: str, *, launched: bool = False, timeout_s: float | None = None
    ) -> WorkloadDescribed:
        """``Client.wait_placed``."""
        return await asyncio.to_thread(self._client.wait_placed, key, launched=launched, timeout_s=timeout_s)

    async def events(self, *, idle_s: float | None = None) -> AsyncIterator[Fact]:
        """``Client.events``."""
        facts = self._client.events(idle_s=idle_s)
        try:
            while (fact := await asyncio.to_thread(next, facts, _END)) is not _END:
                yield fact  # type: ignore[misc] # the sentinel has been told apart
        finally:
            await asyncio.to_thread(facts.close)  # type: ignore[attr-defined] # it is a generator

    async def on_draining(
        self, handle: Callable[[NodeDraining], Awaitable[None]], *whose: str, idle_s: float | None = None
    ) -> None:
        """``Client.on_draining``; the handler runs in this loop."""
        loop = asyncio.get_running_loop()

        def in_loop(notice: NodeDraining) -> None:
            async def run() -> None:
                await handle(notice)

            asyncio.run_coroutine_threadsafe(run(), loop).result()

        await asyncio.to_thread(self._client.on_draining, in_loop, *whose, idle_s=idle_s)
