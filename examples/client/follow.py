"""Print what becomes of the namespace's workloads, until it is quiet for IDLE_S seconds.

python follow.py DEMAND_QUEUE_URL EVENTS_QUEUE_URL IDLE_S
"""

import asyncio
import sys

from reservoir.client import AsyncClient, Client


async def main() -> None:
    """Follow."""
    *queues, idle_s = sys.argv[1:]
    client = AsyncClient(Client.connect(*queues))
    async for fact in client.events(idle_s=float(idle_s)):
        print(
            f"{fact.time:%H:%M:%S} {fact.event.detail_type}: {', '.join(sorted(fact.workload_keys))}"
        )


asyncio.run(main())
