"""What a listing reads of a fleet that has hardly changed, and what it shows while its index lags or is not there."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lab.fakes.system import START
from lab.fakes.values import node_claim, reservation, workload_record
from lab.local import ministack
from lab.local.stores import LISTING, Stores, dynamodb_stores
from reservoir.adapters.dynamodb.workloads import DynamoDbWorkloadStore
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.sharing.planning_groups import PlanningTurn, planning_turn_row
from reservoir.ports.errors import RefusedError
from reservoir.ports.state import TURN_ROW, PlannedCommit, UnreadableRowsError

pytestmark = pytest.mark.embedded


class Reads:
    """DynamoDB's client, counting what is read; its indexes stand still when they are told to."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.rows: Counter[str] = Counter()  # that were asked for by key
        self.scans: list[Mapping[str, Any]] = []
        self.stands_still = False
        # that a page has read beside those it shows, as in a large index
        self.entries_beside = 0
        self.segments: list[int] = []  # that were asked for

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def batch_get_item(self, **request: Any) -> Any:
        for wanted in request["RequestItems"].values():
            assert wanted["ConsistentRead"], "or a row could be older than its index"
            self.rows.update(key["id"]["S"] for key in wanted["Keys"])
        return self._client.batch_get_item(**request)

    def get_paginator(self, operation: str) -> Any:
        return self if operation == "scan" else self._client.get_paginator(operation)

    def paginate(self, **request: Any) -> Sequence[Any]:
        if "Segment" in request:
            self.segments.append(request["Segment"])
        if not (self.stands_still and self.scans):
            pages = self._client.get_paginator("scan").paginate(**request)
            self.scans = [
                page | {"ScannedCount": page["ScannedCount"] + self.entries_beside}
                for page in pages
            ]
        return self.scans

    def asked(self) -> list[str]:
        """Return whose rows were asked for since this was asked last."""
        keys = sorted(self.rows.elements())
        self.rows.clear()
        return keys


@pytest.fixture
def reads(dynamodb: Any) -> Reads:
    return Reads(dynamodb)


@pytest.fixture
def stores(reads: Reads) -> Stores:
    return dynamodb_stores(reads)


def add(stores: Stores, *claim_ids: str, workload: str | None = None) -> None:
    placements = () if workload is None else (PlacedReplicas(f"research/{workload}", 1),)
    for claim_id in claim_ids:
        claim = node_claim(claim_id, placements=placements, lease=None)
        stores.node_claims.commit(PlannedCommit(claims=(claim,)))


def move(
    stores: Stores, claim: NodeClaim, state: ClaimState = ClaimState.LAUNCHING
) -> NodeClaim:
    return stores.node_claims.save(
        replace(claim, state=state), expected_revision=claim.revision
    )


def test_only_what_has_changed_is_read(stores: Stores, reads: Reads) -> None:
    add(stores, "nc-1", "nc-2", "nc-3")
    one, two, three = stores.node_claims.list_live()
    assert reads.asked() == ["nc-1", "nc-2", "nc-3"]
    assert stores.node_claims.list_live() == (one, two, three)
    assert reads.asked() == []

    two = move(stores, two)
    move(stores, three, ClaimState.FAILED)
    add(stores, "nc-4")
    found = stores.node_claims.list_live()
    assert [claim.id for claim in found] == ["nc-1", "nc-2", "nc-4"]
    assert found[:2] == (one, two)
    assert reads.asked() == ["nc-2", "nc-4"], "what has ended is in the index no more"


def test_a_large_index_is_read_in_parts_and_lists_the_same(
    stores: Stores, reads: Reads
) -> None:
    reads.entries_beside = 16_000
    add(stores, *(f"nc-{number:02}" for number in range(12)))
    first = stores.node_claims.list_live()
    assert [claim.id for claim in first] == [f"nc-{number:02}" for number in range(12)]
    assert reads.segments == [], "how large it is, the first listing finds"

    for at in (0, 5, 11):  # ends and in between
        move(stores, first[at], ClaimState.FAILED)
    add(stores, "nc-", "nc-055", "nc-99")

    listed = [claim.id for claim in stores.node_claims.list_live()]
    kept = {claim.id for claim in first} - {first[at].id for at in (0, 5, 11)}
    assert listed == sorted(kept | {"nc-", "nc-055", "nc-99"})
    assert reads.segments == [*range(8)]


def test_a_row_is_never_older_than_its_index_and_ends_with_it(
    stores: Stores, reads: Reads
) -> None:
    add(stores, "nc-1", "nc-2", "nc-3")
    one, two, three = stores.node_claims.list_live()
    reads.stands_still = True
    move(stores, one)
    move(stores, three, ClaimState.FAILED)
    add(stores, "nc-4")
    assert stores.node_claims.list_live() == (one, two, three), (
        "as an index of whole rows that lags as much"
    )

    fresh = dynamodb_like(stores, reads)
    assert [claim.revision for claim in fresh.list_live()] == [2, 1], (
        "who knows none reads rows as they are"
    )
    assert stores.node_claims.list_live() == (one, two, three)
    reads.stands_still = False
    listed = [(claim.id, claim.revision) for claim in stores.node_claims.list_live()]
    assert listed == [("nc-1", 2), ("nc-2", 1), ("nc-4", 1)]


def dynamodb_like(stores: Stores, reads: Reads) -> Any:
    """Return the store of another process on the same tables."""
    store: Any = stores.node_claims
    return type(store)(
        reads,
        node_claims_table=store._table.name,
        reservations_table=store._reservations.name,
        workloads_table=store._workloads.name,
        clock=stores.clock,
    )


def test_a_row_that_cannot_be_read_is_asked_for_each_time(
    stores: Stores, reads: Reads, caplog: pytest.LogCaptureFixture
) -> None:
    add(stores, "nc-1", "nc-2")
    store: Any = stores.node_claims
    reads.put_item(
        TableName=store._table.name,
        Item={
            "id": {"S": "nc-1"},
            "form": {"N": "2"},
            "data": {"S": json.dumps({})},
            "revision": {"N": "1"},
            "listing": {"S": "live"},
        },
    )
    for _ in range(2):
        assert [claim.id for claim in stores.node_claims.list_live()] == ["nc-2"]
        assert "nc-1" in reads.asked()
        assert "nc-1 is left alone" in caplog.text
        caplog.clear()


def test_turns_that_cannot_be_read_are_not_taken_for_none(
    stores: Stores, reads: Reads
) -> None:
    store: Any = stores.node_claims
    for key, number in ((TURN_ROW, "x"), (planning_turn_row("a"), "1")):
        row = {
            "id": {"S": key},
            "revision": {"N" if number == "1" else "S": number},
            "taken_at": {"S": "some day"},
        }
        reads.put_item(TableName=store._table.name, Item=row)
    with pytest.raises(UnreadableRowsError, match=TURN_ROW):
        stores.node_claims.turn()
    with pytest.raises(UnreadableRowsError, match=f"row {planning_turn_row('a')}$"):
        stores.node_claims.planning_turns(["a", "b"])
    assert stores.node_claims.planning_turns(["b"]) == {"b": PlanningTurn()}


def test_a_listing_that_is_refused_is_not_an_empty_one(dynamodb: Any) -> None:
    made: Any = dynamodb_stores(dynamodb)
    store: Any = type(made.node_claims)(
        dynamodb,
        node_claims_table="none",
        reservations_table="none",
        workloads_table="none",
        clock=made.clock,
    )
    with pytest.raises(RefusedError):
        store.list_live()


def test_settled_workloads_are_read_once_and_all_others_each_time(
    stores: Stores, reads: Reads
) -> None:
    for name, replicas in (("settled", 1), ("waiting", 2), ("unplaced", 1)):
        stores.workloads.put(
            workload_record(name, replicas=replicas), expected_revision=None
        )
    add(stores, "nc-1", workload="settled")
    add(stores, "nc-2", workload="waiting")
    keys = ["research/settled", "research/unplaced", "research/waiting"]
    store = stores.workloads
    for expected in (keys, keys[1:], keys[1:]):
        found = store.get_placed(keys, store.placed_revisions())
        assert reads.asked() == expected
        assert found == store.get_many(keys)
        reads.asked()


def test_of_workloads_that_wait_only_those_are_read_that_have_changed(
    stores: Stores, reads: Reads
) -> None:
    first, second, third = (
        stores.workloads.put(workload_record(name), expected_revision=None)
        for name in ("one", "three", "two")
    )
    for expected in ([first.key, second.key, third.key], []):
        assert stores.workloads.list_needing_planning() == (first, second, third)
        assert reads.asked() == expected

    first = stores.workloads.put(replace(first, sent_by="AROA"), expected_revision=1)
    stores.workloads.put(
        replace(third, pending_since=None, workload=None), expected_revision=1
    )
    assert stores.workloads.list_needing_planning() == (first, second)
    assert reads.asked() == [first.key], "what waits no more is in the index no more"


def test_a_workload_that_waits_no_more_is_not_listed_by_an_index_that_lags(
    stores: Stores, reads: Reads
) -> None:
    one = stores.workloads.put(workload_record("one"), expected_revision=None)
    stores.workloads.put(workload_record("two"), expected_revision=None)
    stores.workloads.list_needing_planning()
    reads.stands_still = True
    known = stores.workloads.list_needing_planning()
    one = stores.workloads.put(
        replace(one, pending_since=None, workload=None), expected_revision=1
    )
    assert stores.workloads.list_needing_planning() == known, (
        "as an index of whole rows that lags as much"
    )

    store: Any = stores.workloads
    fresh = type(store)(reads, store._table.name, stores.clock)
    assert [record.key for record in fresh.list_needing_planning()] == ["research/two"], (
        "rows are read as they are"
    )


def test_while_an_update_is_rolled_back_workloads_are_listed_as_the_release_before_does(
    dynamodb: Any,
) -> None:
    """The index of this release goes first, its functions last."""
    clock = dynamodb_stores(dynamodb).clock
    ministack.create_table(dynamodb, "workloads-rolled-back", indexes=LISTING)
    store = DynamoDbWorkloadStore(dynamodb, "workloads-rolled-back", clock)
    record = store.put(workload_record(), expected_revision=None)
    assert store.list_needing_planning() == (record,)


def test_units_on_their_way_are_read_as_they_are_and_no_live_claim_with_them(
    stores: Stores, reads: Reads
) -> None:
    add(stores, "nc-1")
    stores.reservations.save_observation(
        reservation(available_count=2), observed_at=START, absorbed=(), expected=None
    )
    moving = node_claim("mv-1", placements=(), state=ClaimState.FAILED, moves_to="cr-2")
    stores.node_claims.commit(PlannedCommit(claims=(moving,)))
    assert stores.node_claims.list_moving() == (moving,)
    assert reads.asked() == ["mv-1"]
    assert [claim.id for claim in stores.node_claims.list_live()] == ["nc-1"]
