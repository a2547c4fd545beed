"""How far the writes of a fleet spread over the partitions of its tables' indexes.

A partition takes 1,000 write units a second, and what an index cannot take, DynamoDB refuses to its table, too.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from lab.fakes.system import START
from lab.fakes.values import node_claim, reservation, workload_record
from lab.local.stores import Stores, dynamodb_stores
from reservoir import names
from reservoir.core.model.node_claim import ClaimState
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.names import Table
from reservoir.ports.state import PlannedCommit

pytestmark = pytest.mark.embedded

NODES = 40
RESERVATIONS = 4
# What one reservation bounds: its own row is written with each lease anyway, so an index by it bounds nothing more.
BY_RESERVATION = {names.LEASE_INDEX: RESERVATIONS}


class Written:
    """DynamoDB's client, which remembers under which partition keys of indexes each row has stood."""

    def __init__(self, client: Any, tables: Mapping[str, Table]) -> None:
        self._client = client
        self._tables = tables
        self.keys: dict[tuple[Table, str], set[str]] = defaultdict(set)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def look(self) -> None:
        """Remember the keys of all rows as they are now."""
        for name, table in self._tables.items():
            for row in self._client.scan(TableName=name, ConsistentRead=True)["Items"]:
                for index in names.indexes(table):
                    partition, sort = names.INDEX_KEYS[index]
                    if partition in row and sort in row:
                        self.keys[table, index].add(row[partition]["S"])


def test_each_node_and_each_workload_is_written_to_partitions_of_its_own(
    dynamodb: Any,
) -> None:
    """Submitted, planned with a unit of a reservation, launched, running, ended: the rows at each step."""
    stores: Any = dynamodb_stores(dynamodb)
    tables = {
        stores.node_claims._table.name: Table.NODE_CLAIMS,
        stores.workloads._table.name: Table.WORKLOADS,
    }
    written = Written(dynamodb, tables)
    stores.node_claims._rows = replace(
        stores.node_claims._rows, instance_arn_prefix="arn:aws:ec2:::instance/"
    )
    for step in _life(stores):
        assert step
        written.look()
    indexes = {
        (table, index) for table in tables.values() for index in names.indexes(table)
    }
    assert written.keys.keys() == indexes, "each index has had a row"
    for (table, index), keys in written.keys.items():
        assert len(keys) == BY_RESERVATION.get(index, NODES), (table, index)


def _life(stores: Stores) -> Any:
    for number in range(RESERVATIONS):
        observed = reservation(f"cr-{number}", NODES)
        stores.reservations.save_observation(
            observed, observed_at=START, absorbed=(), expected=None
        )
    for number in range(NODES):
        stores.workloads.put(
            workload_record(f"job-{number}", replicas=1), expected_revision=None
        )
    yield "submitted"
    for number in range(NODES):
        claim = node_claim(
            f"nc-{number}", placements=(PlacedReplicas(f"research/job-{number}", 1),)
        )
        leased = replace(claim.offering, reservation_id=f"cr-{number % RESERVATIONS}")
        assert claim.lease is not None
        lease = replace(claim.lease, reservation_id=f"cr-{number % RESERVATIONS}")
        stores.node_claims.commit(
            PlannedCommit((replace(claim, offering=leased, lease=lease),))
        )
    yield "planned"
    for number, claim in enumerate(stores.node_claims.list_live()):
        launched = replace(
            claim, state=ClaimState.LAUNCHED, instance_id=f"i-{number}", launched_at=START
        )
        stores.node_claims.settle(launched, expected_revision=claim.revision)
    yield "launched"
    for claim in stores.node_claims.list_live():
        ended = replace(claim, state=ClaimState.TERMINATED, terminated_at=START)
        stores.node_claims.save(ended, expected_revision=claim.revision)
    yield "ended"
