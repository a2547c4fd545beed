"""Integrations against the deployed stack, each in a namespace of its own."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from embedded.reservoir.example import EXAMPLES
from integrations.worker_pool import WorkerPool
from reservoir.client import Client, Subscription
from shared.names import EVENT_BUS, Queue
from tests.deployed.world import World

pytestmark = pytest.mark.embedded

Connect = Callable[[str], Client]


@pytest.fixture(scope="module", autouse=True)
def policy(world: World) -> None:
    world.reserve("general", "m7i.4xlarge", "us-east-1a", 2, "general")
    world.apply(EXAMPLES / "policy.yaml")
    world.discover()


@pytest.fixture(scope="module")
def connect(world: World) -> Iterator[Connect]:
    """Return how a client of a namespace is made, with a subscription of that name."""
    bus, made = world.output(EVENT_BUS), set()

    def connect_to(namespace: str) -> Client:
        made.add(namespace)
        subscription = Subscription.create(namespace, bus, [namespace], make_client=world.aws.client)
        return Client.connect(
            world.output(Queue.DEMAND.value), subscription.events_queue_url, make_client=world.aws.client
        )

    yield connect_to
    for namespace in made:
        Subscription.remove(namespace, bus, make_client=world.aws.client)


def template(cpu: str) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu, "memory": "4Gi"}}}


def test_a_pool_of_workers_is_rolled(connect: Connect) -> None:
    client = connect("workers")
    pool = WorkerPool(client, "workers", "jobs")
    old, new = template("3"), template("2")
    pool.keep(old, 3)
    client.wait_placed(pool.key(old), launched=True)
    pool.roll(old, new, 3, step=2)
    known = client.status(pool.key(new))
    assert (known.placed, sum(node.replicas for node in known.nodes)) == (3, 3)
    assert all(node.instance_id for node in known.nodes)
    assert client.status(pool.key(old)).withdrawn
