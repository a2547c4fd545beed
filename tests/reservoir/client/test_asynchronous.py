"""The client in a loop of asyncio."""

import asyncio

import pytest

from reservoir.client import AsyncClient, WithdrawnError
from shared.manifests.events import NodeDraining
from tests.reservoir.client.test_client import KEY, draining, place, workload
from tests.reservoir.client.world import Deployment


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
