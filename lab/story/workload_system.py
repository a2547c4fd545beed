"""A workload system in a VPC of its own: ``python -m lab.story.workload_system DEMAND_QUEUE_URL BUS``.

It does all that a client can, prints what came of it, and every address that it tried to reach.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from reservoir.client import AsyncClient, Client, Subscription
from reservoir.manifests.events import NodeDraining

KEY: Final = "vpc/batch"
# Too large to share a node with others: what is withdrawn from a shared one leaves it without a drain.
WORKLOAD: Final = {
    "apiVersion": "reservoir/v1",
    "kind": "Workload",
    "metadata": {"namespace": "vpc", "name": "batch"},
    "spec": {"replicas": 2, "resources": {"requests": {"cpu": "14", "memory": "4Gi"}}},
}
# One call of every service that the rest of Reservoir speaks to, and that nobody has an endpoint for here.
OTHERS: Final[Mapping[str, Callable[[Any], object]]] = {
    "dynamodb": lambda it: it.list_tables(),
    "ec2": lambda it: it.describe_instances(),
    "lambda": lambda it: it.list_functions(),
    "cloudformation": lambda it: it.list_stacks(),
    "ssm": lambda it: it.describe_parameters(),
    "sts": lambda it: it.get_caller_identity(),
}


def connect_attempts() -> set[str]:
    """Return a set into which goes every address that this process tries to connect to from now on."""
    tried: set[str] = set()

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.connect":
            tried.add(":".join(map(str, arguments[1][:2])))

    sys.addaudithook(note)
    return tried


def everything(demand_queue_url: str, bus: str) -> dict[str, Any]:
    """Call everything; return what came of it."""
    found: dict[str, Any] = {}
    subscription = Subscription.create("vpc", bus, ["vpc"])
    client = Client.connect(demand_queue_url, subscription.events_queue_url)
    found["generation"] = client.submit(WORKLOAD).generation
    nodes = client.wait_placed(KEY, launched=True).nodes
    found["nodes"] = sorted(node.node_claim for node in nodes)
    found["instances"] = sorted(str(node.instance_id) for node in nodes)
    client.withdraw(KEY)
    drained: list[str] = []

    def handle(notice: NodeDraining) -> None:
        drained.append(notice.node.node_claim)

    while len(drained) < len(nodes):
        client.on_draining(handle, "vpc", idle_s=5)
    found["drained"] = sorted(drained)
    for claim in drained:
        client.release(KEY, claim)  # once more
    found["withdrawn"] = client.status(KEY).withdrawn
    found["facts"] = asyncio.run(_facts(AsyncClient(client)))
    Subscription.remove("vpc", bus)
    return found


async def _facts(client: AsyncClient) -> list[str]:
    return sorted({fact.event.detail_type async for fact in client.events(idle_s=5)})


def refusals() -> dict[str, str]:
    """Return what became of a call of each other service."""
    session, found = botocore.session.get_session(), {}
    for service, call in OTHERS.items():
        client = session.create_client(
            service, config=Config(retries={"total_max_attempts": 1}, connect_timeout=5)
        )
        try:
            call(client)
        except BotoCoreError as error:
            found[service] = type(error).__name__
        else:
            found[service] = "answered"
    return found


if __name__ == "__main__":
    tried = connect_attempts()
    done = everything(*sys.argv[1:])
    json.dump({**done, "reached": sorted(tried), "others": refusals()}, sys.stdout)
