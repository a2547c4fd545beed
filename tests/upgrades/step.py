"""Steps of functions' lives, played by whichever release's code is on the path, which says what it sees after each.

Uses what both releases have: the stores, and the values that tests of both make. The argument is DynamoDB's endpoint;
each line of the input names the tables and the step, as JSON, and is answered by one line.
"""

import dataclasses
import enum
import json
import sys
import typing
from dataclasses import replace
from datetime import timedelta
from typing import Any

from lab.fakes.system import START, ManualClock
from lab.fakes.values import node_claim, reservation, workload_record
from lab.local import ministack
from reservoir.adapters.dynamodb.node_claims import DynamoDbNodeClaimStore
from reservoir.adapters.dynamodb.reservations import DynamoDbReservationStore
from reservoir.adapters.dynamodb.workloads import DynamoDbWorkloadStore
from reservoir.core.capacity.boot_failure import BootFailures
from reservoir.core.capacity.ledger import COUNT_LAG
from reservoir.core.capacity.shortage import Shortage
from reservoir.core.launching.launch_outcome import LaunchAttempt
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.ports.policy import PolicyStatus
from reservoir.ports.state import PlannedCommit, WorkloadRecord

KEY = "research/train"


class Release:
    """The stores of the release whose code this is."""

    def __init__(self, endpoint: str, tables: dict[str, str]) -> None:
        dynamodb, clock = ministack.client("dynamodb", endpoint), ManualClock()
        self.workloads = DynamoDbWorkloadStore(dynamodb, tables["workloads"], clock)
        self.reservations = DynamoDbReservationStore(
            dynamodb, tables["reservations"], tables["node-claims"], clock
        )
        self.node_claims = DynamoDbNodeClaimStore(
            dynamodb,
            node_claims_table=tables["node-claims"],
            reservations_table=tables["reservations"],
            workloads_table=tables["workloads"],
            clock=clock,
        )

    def claim(self, claim_id: str) -> NodeClaim:
        found = self.node_claims.get(claim_id)
        assert found is not None
        return found

    def submit(self) -> None:
        """``intake``."""
        self.workloads.put(workload_record(), expected_revision=None)

    def observe(self) -> None:
        """``discover_reservations``, after every launch so far has settled for long."""
        before = self.reservations.get("cr-1")
        leased = self.node_claims.list_leased("cr-1")
        settled = tuple(
            claim
            for claim in leased
            if claim.lease is not None and claim.lease.settled_at is not None
        )
        passed = (
            timedelta(0)
            if before is None
            else before.observed_at - START + COUNT_LAG + timedelta(minutes=1)
        )
        running = sum(
            claim.instance_id is not None for claim in self.node_claims.list_live()
        )
        self.reservations.save_observation(
            reservation(available_count=4 - running),
            observed_at=START + passed,
            absorbed=settled,
            expected=before,
        )

    def plan(self) -> None:
        """``provision``: one more claim, with a lease and a replica."""
        claim_id = f"nc-{len(self.node_claims.list_live())}"
        claim = node_claim(claim_id, placements=(PlacedReplicas(KEY, 1),))
        self.node_claims.commit(PlannedCommit((claim,), generations={KEY: 1}))

    def launch(self) -> None:
        """``launch``: every planned claim gets its instance."""
        for claim in self.node_claims.list_live():
            if claim.state is ClaimState.PLANNED:
                begun = replace(claim, state=ClaimState.LAUNCHING)
                begun = self.node_claims.save(begun, expected_revision=claim.revision)
                launched = replace(
                    begun,
                    state=ClaimState.LAUNCHED,
                    instance_id=f"i-{claim.id}",
                    launched_at=START,
                )
                self.node_claims.settle(launched, expected_revision=begun.revision)

    def run(self) -> None:
        """``react``: launched instances run."""
        for claim in self.node_claims.list_live():
            if claim.state is ClaimState.LAUNCHED:
                self.node_claims.save(
                    replace(claim, state=ClaimState.RUNNING),
                    expected_revision=claim.revision,
                )

    def look(self) -> None:
        """Nothing but reading."""

    def seen(self) -> dict[str, object]:
        """What there is, as far as both releases know it."""
        workload, held = self.workloads.get(KEY), self.reservations.get("cr-1")
        return {
            "claims": {
                claim.id: claim.state.value for claim in self.node_claims.list_live()
            },
            "instances": sorted(
                self.node_claims.find_by_instance([f"i-nc-{index}" for index in range(4)])
            ),
            "leases": len(self.node_claims.list_leased("cr-1")),
            "placed": None if workload is None else workload.placed_count,
            "waiting": [record.key for record in self.workloads.list_needing_planning()],
            "outstanding": None if held is None else held.balance.outstanding_count,
            "free": None if held is None else held.balance.free_units,
        }


STORED = (
    NodeClaim,
    WorkloadRecord,
    LaunchAttempt,
    Shortage,
    BootFailures,
    PolicyStatus,
    CapacityReservation,
)


def fields() -> dict[str, list[str]]:
    """Return the fields of every kind of value that rows hold, those within others included, by its name.

    Of an enumeration: its members, each of which a reader must know.
    """
    found: dict[str, list[str]] = {}

    def walk(kind: Any) -> None:
        if (
            dataclasses.is_dataclass(kind)
            and isinstance(kind, type)
            and kind.__name__ not in found
        ):
            found[kind.__name__] = sorted(each.name for each in dataclasses.fields(kind))
            for hint in typing.get_type_hints(kind).values():
                walk(hint)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            found[f"{kind.__name__} members"] = sorted(str(member.value) for member in kind)
        for part in typing.get_args(kind):
            walk(part)

    for stored in STORED:
        walk(stored)
    return found


def main() -> None:
    """Play the steps that are asked for."""
    for line in sys.stdin:
        tables, step = json.loads(line)
        if step == "fields":
            sys.stdout.write(json.dumps(fields()) + "\n")
            sys.stdout.flush()
            continue
        release = Release(sys.argv[1], tables)
        getattr(release, step)()
        sys.stdout.write(json.dumps(release.seen()) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
