"""One node's whole life on the real adapters: DynamoDB's stores, the emulated EC2 and its events."""

import itertools
from typing import Any

import pytest

from lab.fakes.values import workload_record
from lab.local import ministack
from lab.local.stores import Stores, dynamodb_stores
from lab.worlds.launch_world import CATALOGUE
from lab.worlds.live_world import LiveWorld
from reservoir.adapters.dynamodb.launches import (
    DynamoDbLaunchAttempts,
    DynamoDbShortageHistory,
)
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState, LeaseState
from reservoir.names import LISTING_INDEX, LISTING_KEY

pytestmark = pytest.mark.embedded

# Worlds of one process share an endpoint, and an address of memory comes back.
_table_numbers = itertools.count()


class StoredWorld(LiveWorld):
    """The live world with its state in DynamoDB."""

    def __init__(self, dynamodb: Any) -> None:
        super().__init__()
        self.stores: Stores = dynamodb_stores(dynamodb)
        self.state: Any = self.stores
        self.stores.clock.set(self.clock.now())
        table = f"launches-of-world-{next(_table_numbers)}"
        ministack.create_table(
            dynamodb, table, indexes={LISTING_INDEX: (LISTING_KEY, "ALL")}
        )
        self.attempts: Any = DynamoDbLaunchAttempts(dynamodb, table, self.clock)
        self.shortages: Any = DynamoDbShortageHistory(dynamodb, table, self.clock)
        self.stores.offerings.save_catalogue(
            [each for each in CATALOGUE if each.name != "m6g.large"]
        )
        self.stores.workloads.put(workload_record(replicas=10), expected_revision=None)

    def placed(self, key: str = "research/train") -> int:
        record = self.stores.workloads.get(key)
        assert record is not None
        return record.placed_count

    def states(self, *claim_ids: str) -> set[ClaimState]:
        return {
            claim.state for claim in self.stores.node_claims.get_many(claim_ids).values()
        }


@pytest.fixture
def world(dynamodb: Any) -> StoredWorld:
    return StoredWorld(dynamodb)


def test_planned_launched_running_interrupted_terminated(world: StoredWorld) -> None:
    batch = world.plan(2, world.aws.offering("m5.large", "us-east-1a", CapacityType.SPOT))
    assert world.launch().run(batch).launched_count == 2
    assert world.launch().run(batch).attempt_count == 0
    world.aws.cloud.advance(minutes=2)
    world.react().run(world.events())
    assert world.states(*batch.claim_ids) == {ClaimState.RUNNING}
    (first, second) = (
        world.stores.node_claims.get(claim_id) for claim_id in batch.claim_ids
    )
    assert first is not None
    assert second is not None
    world.aws.cloud.control("interrupt_spot", instance_id=first.instance_id)
    world.react().run(world.events())
    assert world.states(first.id) == {ClaimState.DRAINING}
    assert world.placed() == 1
    assert world.stores.offerings.list_unavailable(world.clock.now())
    world.aws.cloud.advance(minutes=4)
    world.react().run(world.events())
    assert world.states(first.id) == {ClaimState.TERMINATED}
    assert world.states(second.id) == {ClaimState.RUNNING}
    assert world.placed() == 1


def test_a_reservation_that_an_outsider_filled(world: StoredWorld) -> None:
    cr = world.aws.cloud.reserve(3)
    world.discover(cr)
    world.aws.cloud.advance(seconds=5)
    batch = world.plan(3, world.aws.reserved(cr))
    world.aws.cloud.control("outsider_launch", capacity_reservation_id=cr)
    report = world.launch().run(batch)
    assert (report.launched_count, report.failed_count) == (2, 1)
    assert world.placed() == 2
    stored = world.stores.reservations.get(cr)
    assert stored is not None
    assert stored.balance.free_units <= 0
    claims = world.stores.node_claims.get_many(batch.claim_ids).values()
    leases = sorted(claim.lease.state for claim in claims if claim.lease is not None)
    assert leases == [LeaseState.RETURNED, LeaseState.SETTLED, LeaseState.SETTLED]


def test_sweeps_find_what_events_did_not_tell(world: StoredWorld) -> None:
    batch = world.plan(2, world.aws.offering())
    world.launch().run(batch)
    world.aws.cloud.advance(minutes=2)
    world.expire().run()
    assert world.states(*batch.claim_ids) == {ClaimState.RUNNING}
    claim = world.stores.node_claims.get(batch.claim_ids[0])
    assert claim is not None
    world.aws.cloud.control("terminate_instance", instance_id=claim.instance_id)
    world.aws.cloud.advance(minutes=2)
    world.expire().run()
    assert world.states(claim.id) == {ClaimState.TERMINATED}
    assert world.placed() == 1
