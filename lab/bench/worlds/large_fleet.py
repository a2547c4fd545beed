"""A large fleet in tables that answer at once: the functions' own stores read it, through botocore's own parser.

Nodes of 24 EC2 types on three markets, a third to nine tenths full of two replicas each, of as many workloads as there
are nodes in five. DynamoDB's stand-in serves pages of 1 MB and the bytes of its wire; what it writes stays written.
"""

import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import botocore.session
from botocore.parsers import create_parser

from lab.bench.worlds.catalogue import ec2_catalogue
from lab.bench.worlds.common import NODE_CLASS, NOW, node_class
from lab.fakes.messaging import MemoryBus, MemoryQueue, MemoryTimers
from lab.fakes.outside import memory_outside, settings
from lab.fakes.stores.accounts import MemoryAccounts
from lab.fakes.stores.capacity_blocks import MemoryBootFailures
from lab.fakes.stores.policy_store import MemoryPolicyStore
from lab.fakes.stores.safety import MemoryTableMarks, MemoryTallies
from lab.fakes.stores.state import MemoryState
from lab.fakes.system import InTurn, ManualClock, SequentialIds
from reservoir.adapters.dynamodb.decisions import StoredDecisions
from reservoir.adapters.dynamodb.node_claims import ClaimRows, DynamoDbNodeClaimStore
from reservoir.adapters.dynamodb.table import Attributes, DynamoDbTable
from reservoir.adapters.dynamodb.workloads import DynamoDbWorkloadStore, row_of
from reservoir.core.capacity.ledger import Balance
from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from reservoir.core.model.instance_type import CapacityType, InstanceType, Offering
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.plan import OfferingKey
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.model.workload import Workload
from reservoir.core.safety.endings import Bound, Bounds, EndingKind
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.labels import INSTANCE_CATEGORY
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.names import KEY
from reservoir.ports.policy import PolicyKind, PolicyStatus, PutPolicy
from reservoir.ports.state import ReservationRecord, WorkloadRecord
from reservoir.runtime.outside import Outside
from reservoir.usecases.policy.policy_objects import policy_of
from reservoir.usecases.policy.stored_policy import StoredPolicy
from reservoir.usecases.safety.tables import OwnTables

POOL: Final = "pool-0"
_SEED: Final = 42
_TYPES: Final = 24
_RESERVED_TYPES: Final = 6
_PAGE_BYTES: Final = 1 << 20
_UNIT_BYTES: Final = 4 << 10
# of an index of revisions, as DynamoDB counts: names and values of key, attribute, revision
_ENTRY_BYTES: Final = 64
_WAITING: Final = 20  # workloads with ten replicas each that want a place
_LISTED_NAMES: Final = ("id", "form", "data", "revision", "expires_at_s")
# Passes end as much as budgets let them: what the safety envelope holds back costs less.
_UNBOUNDED: Final = Bounds(dict.fromkeys(EndingKind, Bound(100, 10**6, 10**6)))
_CLAIMS: Final = "the-node_claims"
_WORKLOADS: Final = "the-workloads"
_REVISIONS: Final = {  # of which table an index is, and what makes it sparse
    "live-revisions": (_CLAIMS, "listing"),
    "placed-revisions": (_WORKLOADS, "placed"),
    "waiting-revisions": (_WORKLOADS, "listing"),
}


class Tables:
    """As much of DynamoDB's client as passes of planning and disruption use; counts calls and what they read."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.read_units = 0.0
        self._rows: dict[str, dict[str, bytes]] = {}
        self._narrow: dict[str, bytes] = {}  # claims, as far as a listing asks for them
        self._lists: dict[tuple[str, str, str], set[str]] = {}
        self._revisions: dict[str, dict[str, tuple[Any, bytes]]] = {
            index: {} for index in _REVISIONS
        }
        self._model = botocore.session.get_session().get_service_model("dynamodb")
        self._parser = create_parser("json")

    def put(self, table: str, row: Attributes) -> None:
        """Write a row."""
        key = row[KEY]["S"]
        for listed in self._lists.values():
            listed.discard(key)
        if "listing" in row:
            self._lists.setdefault((table, "listing", row["listing"]["S"]), set()).add(key)
        for index, (of_table, attribute) in _REVISIONS.items():
            if of_table == table and attribute in row:
                # what is asked for
                entry = {name: row[name] for name in ("id", "revision")}
                self._revisions[index][key] = (row[attribute], json.dumps(entry).encode())
            elif of_table == table:
                self._revisions[index].pop(key, None)
        self._rows.setdefault(table, {})[key] = json.dumps(row).encode()
        if table == _CLAIMS:
            self._narrow[key] = json.dumps(
                {name: row[name] for name in _LISTED_NAMES if name in row}
            ).encode()

    def row(self, table: str, key: str) -> bytes | None:
        """Return what is stored of a row."""
        return self._rows.get(table, {}).get(key)

    def _answer(self, operation: str, body: bytes, units: float) -> Any:
        self.calls[operation] += 1
        self.read_units += units
        shape: Any = self._model.operation_model(operation).output_shape
        return self._parser.parse({"status_code": 200, "headers": {}, "body": body}, shape)

    def get_paginator(self, operation: str) -> "Tables":
        """Return itself: it serves one operation."""
        assert operation in ("query", "scan")
        return self

    def paginate(self, **request: Any) -> Iterator[dict[str, Sequence[Attributes]]]:
        """Yield the pages of a partition, or of a part of an index."""
        if "KeyConditionExpression" in request:
            return self._partition(**request)
        return self._part(**request)

    def _part(self, **scan: Any) -> Iterator[dict[str, Sequence[Attributes]]]:
        entries = list(self._revisions[scan["IndexName"]].values())[
            scan.get("Segment", 0) :: scan.get("TotalSegments", 1)
        ]
        step = _PAGE_BYTES // _ENTRY_BYTES
        for start in range(0, max(1, len(entries)), step):
            page = entries[start : start + step]
            shown = [
                entry
                for value, entry in page
                if value == scan["ExpressionAttributeValues"][":v0"]
            ]
            yield self._page(shown, len(page) * _ENTRY_BYTES, "Scan", len(page))

    def _partition(self, **query: Any) -> Iterator[dict[str, Sequence[Attributes]]]:
        name = query["ExpressionAttributeNames"][
            query["KeyConditionExpression"].partition(" ")[0]
        ]
        value = query["ExpressionAttributeValues"][":v0"]
        rows = self._rows.get(query["TableName"], {})
        told = self._narrow if "ProjectionExpression" in query else rows
        page: list[bytes] = []
        size = 0
        for key in sorted(self._lists.get((query["TableName"], name, value["S"]), ())):
            if size + len(rows[key]) > _PAGE_BYTES:
                yield self._page(page, size)
                page, size = [], 0
            page.append(told[key])
            size += len(rows[key])
        yield self._page(page, size)

    def _page(
        self, rows: Sequence[bytes], size: int, operation: str = "Query", scanned: int = 0
    ) -> Any:
        body = b'{"Items":[' + b",".join(rows) + b'],"ScannedCount":%d}' % scanned
        return self._answer(operation, body, -(-size // _UNIT_BYTES) / 2)

    def get_item(self, **request: Any) -> Any:
        """Return a row."""
        found = self.row(request["TableName"], request["Key"][KEY]["S"])
        return self._answer(
            "GetItem",
            b"{}" if found is None else b'{"Item":' + found + b"}",
            _units(found or b""),
        )

    def batch_get_item(self, **request: Any) -> Any:
        """Return rows."""
        ((table, wanted),) = request["RequestItems"].items()
        keys = [key[KEY]["S"] for key in wanted["Keys"]]
        found = [row for key in keys if (row := self.row(table, key)) is not None]
        told = (
            [self._narrow[key] for key in keys]
            if "ProjectionExpression" in wanted
            else found
        )
        body = (
            b'{"Responses":{"'
            + table.encode()
            + b'":['
            + b",".join(told)
            + b']},"UnprocessedKeys":{}}'
        )
        return self._answer("BatchGetItem", body, sum(map(_units, found)))

    def put_item(self, **request: Any) -> None:
        """Write a row."""
        self.calls["PutItem"] += 1
        self.put(request["TableName"], request["Item"])

    def transact_write_items(self, **request: Any) -> None:
        """Write claims; counters of workloads stay as they are, so that each pass finds the same demand."""
        self.calls["TransactWriteItems"] += 1
        for item in request["TransactItems"]:
            if "Put" in item:
                self.put(item["Put"]["TableName"], item["Put"]["Item"])


def _units(row: bytes) -> int:
    """Return what a consistent read of a row costs."""
    return max(1, -(-len(row) // _UNIT_BYTES))


class Bucket:
    """S3, of which only the size of what is written is kept."""

    def __init__(self) -> None:
        self.written: list[int] = []

    def put_object(self, **request: Any) -> None:
        """Write an object."""
        self.written.append(len(request["Body"]))


class LargeFleet:
    """The fleet, and what the functions need of their outside."""

    def __init__(self, size: int) -> None:
        self.tables, self.bucket = Tables(), Bucket()
        self.clock = ManualClock(NOW)
        rng = random.Random(_SEED)
        catalogue = ec2_catalogue()
        usual = [
            kind
            for kind in catalogue.instance_types
            if kind.requirements.labels()[INSTANCE_CATEGORY] in "cmr"
            and 4_000 <= kind.capacity["cpu"] <= 32_000
        ]
        self.kinds = rng.sample(usual, _TYPES)
        of_a_kind = range(max(2, size // 5 // _TYPES))
        self._workloads: list[list[Workload]] = []
        for at, kind in enumerate(self.kinds):
            made = [_workload(kind, f"job-{at}-{n}", rng) for n in of_a_kind]
            self._workloads.append(made)
        self._standing: Counter[str] = Counter()
        self._placed: Counter[str] = Counter()
        self._rows = ClaimRows(
            DynamoDbTable(self._client, _CLAIMS),
            "arn:aws:ec2:us-east-1:111122223333:instance/",
        )
        reserved = [f"cr-{at:017x}" for at in range(_RESERVED_TYPES)]
        self.policy = _policy(catalogue.zones, reserved)
        known = policy_of(self.policy.list_all())
        self._hashes = (known.node_pools[0].static_hash, known.node_classes[0].static_hash)
        self.claims = [self._claim(number, rng) for number in range(size)]
        for claim in self.claims:
            self.tables.put(_CLAIMS, self._rows.row(claim))
        self._store_workloads(rng)
        self.state = MemoryState(self.clock)
        self.state.offerings.save_catalogue(catalogue.instance_types)
        self._store_reservations(max(1, size // 1000))
        self._marks = MemoryTableMarks()
        OwnTables(self._marks, "test").mark_if_new([], frozenset, NOW)

    @property
    def _client(self) -> Any:
        return self.tables

    def outside(self) -> Outside:
        """Return what functions are made of."""
        client: Any = self.tables
        bucket: Any = self.bucket
        claims = DynamoDbNodeClaimStore(
            client,
            node_claims_table=_CLAIMS,
            reservations_table="r",
            workloads_table=_WORKLOADS,
            clock=self.clock,
            parts=InTurn(),
        )
        return memory_outside(
            settings=settings(ending_bounds=_UNBOUNDED),
            clock=self.clock,
            monotonic_s=time.process_time,
            ids=SequentialIds(),
            workloads=DynamoDbWorkloadStore(client, _WORKLOADS, self.clock),
            reservations=self.state.reservations,
            node_claims=claims,
            offerings=self.state.offerings,
            policy=self.policy,
            launch_policy=StoredPolicy(self.policy, self.clock),
            decisions=StoredDecisions(client, "d", bucket, "b", self.clock),
            boot_failures=MemoryBootFailures(self.clock),
            tallies=MemoryTallies(),
            table_marks=self._marks,
            accounts=MemoryAccounts(),
            timers=MemoryTimers(),
            start_messages=MemoryTimers(),
            queue=MemoryQueue(),
            publisher=MemoryBus(),
        )

    def change(self, count: int) -> None:
        """Let so many claims move on, as agents' reports do."""
        for number in range(count):
            claim = self.claims[number] = replace(
                self.claims[number], revision=self.claims[number].revision + 1
            )
            self.tables.put(_CLAIMS, self._rows.row(claim))

    def _claim(self, number: int, rng: random.Random) -> NodeClaim:
        at = rng.randrange(_TYPES)
        kind = self.kinds[at]
        market = rng.choices(
            (CapacityType.ON_DEMAND, CapacityType.SPOT, CapacityType.RESERVED), (5, 3, 2)
        )[0]
        offers = [it for it in kind.offerings if it.capacity_type is market]
        if market is CapacityType.RESERVED and at < _RESERVED_TYPES:
            first = kind.offerings[0]
            key = OfferingKey(kind.name, first.zone, first.zone_id, market, f"cr-{at:017x}")
            price = kind.offerings[0].price_micro_usd_per_hour // 1000
            self._standing[f"cr-{at:017x}"] += 1
        else:
            offer: Offering = rng.choice(offers or list(kind.offerings))
            key = OfferingKey(kind.name, offer.zone, offer.zone_id, offer.capacity_type)
            price = offer.price_micro_usd_per_hour
        placed = Counter(rng.choice(self._workloads[at]).key for _ in range(2))
        self._placed.update(placed)
        own = {
            labels.NODE_POOL: POOL,
            labels.ZONE: key.zone,
            labels.ZONE_ID: key.zone_id,
            labels.CAPACITY_TYPE: key.capacity_type.value,
        }
        since = NOW - timedelta(days=1)
        return NodeClaim(
            id=f"nc-{rng.randrange(10**6):06d}-{number:06d}",
            state=ClaimState.RUNNING,
            revision=3,
            node_pool_name=POOL,
            node_class_name=NODE_CLASS,
            batch_id=f"b-{number // 10:06d}",
            attempt=1,
            offering=key,
            price_atto_usd_per_hour=price * ATTO_USD_PER_MICRO_USD,
            placements=tuple(
                PlacedReplicas(name, count) for name, count in sorted(placed.items())
            ),
            allocatable=kind.allocatable,
            created_at=since,
            running_at=since,
            instance_id=f"i-{number:017x}",
            labels={**kind.requirements.labels(), **own},
            node_pool_hash=self._hashes[0],
            node_class_hash=self._hashes[1],
        )

    def _store_workloads(self, rng: random.Random) -> None:
        for workload in (each for group in self._workloads for each in group):
            self._store_workload(
                workload, self._placed[workload.key], self._placed[workload.key]
            )
        for number in range(_WAITING):
            self._store_workload(
                _workload(rng.choice(self.kinds), f"waiting-{number}", rng), 0, 10
            )

    def _store_workload(self, workload: Workload, placed: int, wanted: int) -> None:
        record = WorkloadRecord(
            key=workload.key,
            generation=1,
            revision=1,
            workload=replace(workload, replicas=max(1, wanted)),
            placed_count=max(1, placed) if wanted == placed else placed,
            submitted_at=NOW,
            pending_since=None if placed == wanted else NOW - timedelta(seconds=30),
        )
        self.tables.put(_WORKLOADS, row_of(record))

    def _store_reservations(self, free: int) -> None:
        for at in range(_RESERVED_TYPES):
            key, kind = f"cr-{at:017x}", self.kinds[at]
            first, total = kind.offerings[0], self._standing[f"cr-{at:017x}"] + free
            reservation = CapacityReservation(
                key,
                "111122223333",
                kind.name,
                first.zone,
                first.zone_id,
                ReservationKind.DEFAULT,
                "active",
                total,
                free,
                free_units=free,
            )
            self.state.reservation_rows[key] = ReservationRecord(
                reservation, Balance(free, 0), NOW
            )


def _workload(kind: InstanceType, name: str, rng: random.Random) -> Workload:
    """Return a workload of which two replicas fill a third to nine tenths of a node of this type."""
    share = rng.uniform(0.17, 0.45)
    requests = {
        resource: int(kind.allocatable[resource] * share) for resource in ("cpu", "memory")
    }
    return Workload("bench", name, 1, 1, Resources.of(requests | {"pods": 1}))


def _policy(
    zones: Sequence[tuple[str, str]], reservations: Sequence[str]
) -> MemoryPolicyStore:
    store = MemoryPolicyStore()
    name = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": NODE_CLASS},
    }
    spec = {
        "instanceProfile": "bench",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"reservoir": "true"}}],
        "securityGroupSelectorTerms": [{"tags": {"reservoir": "true"}}],
    }
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": POOL},
        "spec": {
            "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "10%"}]},
            "template": {
                "spec": {
                    "expireAfter": "Never",
                    "nodeClassRef": {
                        "group": "karpenter.k8s.aws",
                        "kind": "EC2NodeClass",
                        "name": NODE_CLASS,
                    },
                    "requirements": [
                        {
                            "key": labels.CAPACITY_TYPE,
                            "operator": "In",
                            "values": ["reserved", "spot", "on-demand"],
                        }
                    ],
                }
            },
        },
    }
    store.commit(
        [PutPolicy(PolicyKind.NODE_CLASS, NODE_CLASS, {**name, "spec": spec}, 1, None)]
    )
    store.commit([PutPolicy(PolicyKind.NODE_POOL, POOL, pool, 1, None)])
    status = node_class(zones, reservations).status
    store.save_status(PolicyKind.NODE_CLASS, NODE_CLASS, PolicyStatus(node_class=status))
    return store
