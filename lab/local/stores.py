"""The stores twice, in memory and on DynamoDB, for the contract suites."""

import itertools
from dataclasses import dataclass
from typing import Any

from lab.fakes.stores.state import MemoryState
from lab.fakes.system import InTurn, ManualClock
from lab.local import ministack
from reservoir.adapters.dynamodb.node_claims import DynamoDbNodeClaimStore
from reservoir.adapters.dynamodb.offerings import DynamoDbOfferingStore
from reservoir.adapters.dynamodb.reservations import DynamoDbReservationStore
from reservoir.adapters.dynamodb.workloads import DynamoDbWorkloadStore
from reservoir.names import (
    IDENTITY_INDEX,
    IDENTITY_KEY,
    INSTANCE_INDEX,
    INSTANCE_KEY,
    KEY,
    LEASE_INDEX,
    LEASE_KEY,
    LISTING_INDEX,
    LISTING_KEY,
    LIVE_REVISIONS_INDEX,
    PLACED_REVISIONS_INDEX,
    WAITING_REVISIONS_INDEX,
)
from reservoir.ports.state import (
    NodeClaimStore,
    OfferingStore,
    ReservationStore,
    WorkloadStore,
)

LISTING = {LISTING_INDEX: (LISTING_KEY, "ALL")}
CLAIM_INDEXES = {
    INSTANCE_INDEX: (INSTANCE_KEY, "KEYS_ONLY"),
    LEASE_INDEX: (LEASE_KEY, "KEYS_ONLY"),
    IDENTITY_INDEX: (IDENTITY_KEY, "INCLUDE"),
    LIVE_REVISIONS_INDEX: (KEY, "INCLUDE"),
}
WORKLOAD_INDEXES = {
    PLACED_REVISIONS_INDEX: (KEY, "INCLUDE"),
    WAITING_REVISIONS_INDEX: (KEY, "INCLUDE"),
}
INDEXES = {"node-claims": CLAIM_INDEXES, "workloads": WORKLOAD_INDEXES}
_names = itertools.count()


@dataclass
class Stores:
    """The stores under test with the clock that they read."""

    workloads: WorkloadStore
    reservations: ReservationStore
    node_claims: NodeClaimStore
    offerings: OfferingStore
    clock: ManualClock


def memory_stores() -> Stores:
    clock = ManualClock()
    state = MemoryState(clock)
    return Stores(
        state.workloads, state.reservations, state.node_claims, state.offerings, clock
    )


def dynamodb_stores(dynamodb: Any) -> Stores:
    """Stores on fresh tables."""
    suffix = next(_names)
    names = {
        name: f"{name}-{suffix}"
        for name in ("workloads", "reservations", "node-claims", "offerings")
    }
    for name, table in names.items():
        ministack.create_table(dynamodb, table, indexes=INDEXES.get(name, LISTING))
    clock = ManualClock()
    return Stores(
        DynamoDbWorkloadStore(dynamodb, names["workloads"], clock, InTurn()),
        DynamoDbReservationStore(
            dynamodb, names["reservations"], names["node-claims"], clock
        ),
        DynamoDbNodeClaimStore(
            dynamodb,
            node_claims_table=names["node-claims"],
            reservations_table=names["reservations"],
            workloads_table=names["workloads"],
            clock=clock,
            parts=InTurn(),
        ),
        DynamoDbOfferingStore(dynamodb, names["offerings"], clock, InTurn()),
        clock,
    )
