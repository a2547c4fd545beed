"""Reading and describing a large fleet: what one planning pass does before it solves, cold and warm.

Claims with two replicas each lie in a stand-in for DynamoDB that serves the pages of 1 MB that DynamoDB serves, at no
cost of its own. *Cold* is the first pass of a process, *warm* the next one, after a hundred claims have changed.
``read_s`` lists the claims, ``describe_s`` makes the snapshot's nodes, ``write_s`` makes the JSON that the decision
keeps; all are processor seconds. ``read_units`` is what it costs in DynamoDB: half a unit for 4 KiB of the index of
revisions, and a unit for each row that is read.
"""

import gc
import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from lab.fakes.system import ManualClock
from lab.fakes.values import node_claim, workload
from reservoir.adapters.dynamodb.node_claims import ClaimRows, DynamoDbNodeClaimStore
from reservoir.adapters.dynamodb.table import DynamoDbTable
from reservoir.core.launching.claim_nodes import node_of
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.snapshot import PlacedReplicas, Snapshot
from reservoir.core.serialisation.json_codec import dumps

NODES: Final = (5_000, 20_000, 50_000)
CHANGED: Final = 100
_PAGE_BYTES: Final = 1 << 20
_UNIT_BYTES: Final = 8 << 10  # of an eventually consistent read
_ENTRY_BYTES: Final = 64  # of the index of revisions
_LABELS: Final = 12  # of a node, beside those of the claim in tests


def cases() -> Sequence[str]:
    """Return one case a size of fleet."""
    return [f"fleet-reading-{count}" for count in NODES]


def run(case: str) -> dict[str, object]:
    """Read the fleet twice and return figures."""
    count = int(case.rpartition("-")[2])
    made = [workload(f"job-{number}") for number in range(count // 5)]
    workloads = {it.key: it for it in made}
    keys = sorted(workloads)
    pages = Pages(count, keys)
    client: Any = pages
    store = DynamoDbNodeClaimStore(
        client,
        node_claims_table="c",
        reservations_table="r",
        workloads_table="w",
        clock=ManualClock(),
    )
    figures: dict[str, object] = {"nodes": count, "replicas": 2 * count}
    gc.disable()  # as in a planning pass
    for name in ("cold", "warm"):
        at = [time.process_time()]
        claims = store.list_live()
        at.append(time.process_time())
        nodes = tuple(node_of(claim, workloads, held=False) for claim in claims)
        at.append(time.process_time())
        text = dumps(Snapshot(instance_types=(), nodes=nodes, workloads=workloads))
        at.append(time.process_time())
        steps = zip(("read", "describe", "write"), at, at[1:], strict=False)
        figures |= {f"{name}_{step}_s": round(end - begin, 2) for step, begin, end in steps}
        figures[f"{name}_read_units"] = round(pages.read_units)
        pages.read_units = 0.0
        pages.change(CHANGED)
    figures["snapshot_mib"] = len(text) >> 20
    figures["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return figures


class Pages:
    """As much of DynamoDB's client as a listing uses."""

    def __init__(self, count: int, keys: Sequence[str]) -> None:
        client: Any = self
        self._rows = ClaimRows(DynamoDbTable(client, "c"), None)
        self._claims = [_claim(number, keys) for number in range(count)]
        self._listed = {claim.id: self._rows.row(claim) for claim in self._claims}
        self.read_units = 0.0

    def change(self, count: int) -> None:
        """Let so many claims move on."""
        for number in range(count):
            claim = self._claims[number] = replace(
                self._claims[number], revision=self._claims[number].revision + 1
            )
            self._listed[claim.id] = self._rows.row(claim)

    def get_paginator(self, operation: str) -> "Pages":
        """Return itself: it serves one operation."""
        assert operation == "scan"
        return self

    def paginate(self, **_scan: object) -> Iterator[dict[str, Any]]:
        """Yield the index of revisions, each entry a value of its own as boto3 makes them."""
        rows, step = list(self._listed.values()), _PAGE_BYTES // _ENTRY_BYTES
        for start in range(0, len(rows), step):
            page = rows[start : start + step]
            self.read_units += -(-len(page) * _ENTRY_BYTES // _UNIT_BYTES)
            entries = [
                {
                    "id": dict(row["id"]),
                    "listing": dict(row["listing"]),
                    "revision": dict(row["revision"]),
                }
                for row in page
            ]
            yield {"Items": entries, "ScannedCount": len(entries)}

    def batch_get_item(self, **request: Any) -> Any:
        """Return rows."""
        ((table, wanted),) = request["RequestItems"].items()
        rows = []
        for key in wanted["Keys"]:
            row = self._listed[key["id"]["S"]]
            rows.append({name: dict(part) for name, part in row.items()})
        self.read_units += len(rows)
        return {"Responses": {table: rows}, "UnprocessedKeys": {}}


def _claim(number: int, keys: Sequence[str]) -> NodeClaim:
    value = f"value-{number % 7}"
    first, second = keys[number % len(keys)], keys[(number + 1) % len(keys)]
    return replace(
        node_claim(f"nc-{number:06}"),
        labels={f"example.com/label-{label}": value for label in range(_LABELS)},
        placements=(PlacedReplicas(first, 1), PlacedReplicas(second, 1)),
    )
