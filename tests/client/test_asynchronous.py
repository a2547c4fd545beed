"""The client in a loop of asyncio."""

import asyncio
import inspect
from collections.abc import Coroutine
from typing import Any

import pytest

from reservoir.client import AsyncClient, Client, WithdrawnError
from reservoir.manifests.events import NodeDraining
from tests.client.test_client import place, workload
from tests.client.values import KEY, draining
from tests.client.world import Deployment


def test_each_call_of_the_client_is_there_and_takes_the_same() -> None:
    """But for ``stop``: a task is cancelled instead."""

    def calls(of: type) -> dict[str, list[str]]:
        public = {
            name: call
            for name, call in vars(of).items()
            if callable(call) and not name.startswith("_")
        }
        return {
            name: [it for it in inspect.signature(call).parameters if it != "stop"]
            for name, call in public.items()
        }

    assert calls(AsyncClient) == calls(Client)


def test_the_whole_way() -> None:
    world = Deployment()

    async def run() -> None:
        client = AsyncClient(world.client())
        assert (await client.submit(workload(2))).generation == 1
        place(world, 2)
        assert (await client.wait_placed(KEY)).placed == 2
        assert (await client.status(KEY)).wanted == 2
        world.publish(draining("d-1", "nc-1"))
        handled: list[str] = []

        async def handle(notice: NodeDraining) -> None:
            await asyncio.sleep(0)
            handled.append(notice.drain_id)

        await client.on_draining(handle, "research", idle_s=5)
        assert handled == ["d-1"]
        world.publish(draining("d-2", "nc-2"))
        facts = [fact async for fact in client.events(idle_s=5)]
        assert len(facts) == 1
        await client.release(KEY, "nc-2")
        await client.withdraw(KEY)
        with pytest.raises(WithdrawnError):
            await client.wait_placed(KEY)

    asyncio.run(run())
    assert world.releases == [(KEY, "nc-1"), (KEY, "nc-2")]


async def _cancelled(waiting: Coroutine[Any, Any, object]) -> None:
    task = asyncio.create_task(waiting)
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("call", ["events", "on_draining", "wait_placed"])
def test_a_call_that_waits_for_ever_can_be_cancelled_and_leaves_no_thread(
    call: str,
) -> None:
    """``asyncio.run`` waits for the threads: it would not return if one went on."""
    world = Deployment()
    world.client().submit(workload(2))

    async def first_fact(client: AsyncClient) -> None:
        async for _ in client.events():
            raise AssertionError("nothing happens here")

    async def ignore(_: NodeDraining) -> None:
        raise AssertionError("nothing drains here")

    async def run() -> None:
        client = AsyncClient(world.client())
        waiting: dict[str, Coroutine[Any, Any, object]] = {
            "events": first_fact(client),
            "on_draining": client.on_draining(ignore, "research"),
            "wait_placed": client.wait_placed(KEY),
        }
        await _cancelled(waiting.pop(call))
        for other in waiting.values():
            other.close()

    asyncio.run(run())


def test_a_handler_that_is_cancelled_has_released_nothing() -> None:
    world = Deployment()
    world.publish(draining("d-1", "nc-1"))

    async def never(_: NodeDraining) -> None:
        await asyncio.Event().wait()

    asyncio.run(_cancelled(AsyncClient(world.client()).on_draining(never, "research")))
    assert world.releases == []
    world.client().on_draining(lambda _: None, "research", idle_s=200)
    assert world.releases == [(KEY, "nc-1")]
