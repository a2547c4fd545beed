import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reservoir.core.capacity.reservation_changes import ReservationChangeKind
from reservoir.core.launching.start_readiness import Shortcoming
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState, DrainReason
from reservoir.core.model.plan import ReasonCode
from reservoir.core.safety.endings import EndingKind
from reservoir.manifests.described import (
    DrainStatus,
    NodeStatus,
    UnplacedDetail,
    WorkloadDescribed,
)
from reservoir.manifests.event_parts import (
    Event,
    NodeDetail,
    NodePlacement,
    OfferingDetail,
    PlacedWorkload,
    WorkloadRef,
)
from reservoir.manifests.events import (
    EVENTS,
    BlockStatusDetail,
    BoughtReservation,
    CapacityPurchased,
    CapacitySuspected,
    Change,
    ChangedFact,
    ChangedObject,
    EndingsHeld,
    EnvelopeLifted,
    IgnoredReason,
    LaunchesBlocked,
    LaunchFailed,
    NodeCapacityTypeChanged,
    NodeDraining,
    NodeLaunched,
    NodeMovedIntoReservation,
    NodeTerminated,
    OperationRequested,
    PolicyChanged,
    ReadinessProblem,
    RejectedProblem,
    ReservationChanged,
    ReservationEnding,
    ReservationExhausted,
    ReservationIdle,
    ReservationLendingChanged,
    ReservationReadiness,
    TablesAdopted,
    WorkloadAccepted,
    WorkloadIgnored,
    WorkloadPending,
    WorkloadPlaced,
    WorkloadRejected,
)
from reservoir.manifests.parsing.problems import Problem
from reservoir.manifests.replica_events import (
    ReplicaFailed,
    ReplicaFinished,
    ReplicaReady,
    WorkloadLeftSpot,
)
from reservoir.manifests.team_events import (
    BudgetPeriod,
    QuotaShare,
    ResourceShare,
    TeamOverBudget,
    TeamShareReported,
)

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas" / "events"
AT = datetime(2026, 1, 15, 12, tzinfo=UTC)
OFFERING: dict[str, Any] = {
    "instance_type": "p5.48xlarge",
    "zone": "us-west-2a",
    "zone_id": "usw2-az1",
}
NODE = NodeDetail(
    **OFFERING,
    capacity_type=CapacityType.RESERVED,
    capacity_reservation_id="cr-1",
    node_claim="nc-1",
    node_pool="gpu",
    node_class="gpu",
    instance_id="i-1",
    price_micro_usd_per_hour=0,
)
REF = WorkloadRef(namespace="research", name="train", generation=2)
PLACED = PlacedWorkload(namespace="research", name="train", replicas=1)
RESERVATION: dict[str, Any] = {
    "capacity_reservation_id": "cr-1",
    "instance_type": "p5.48xlarge",
    "zone": "us-west-2a",
    "zone_id": "usw2-az1",
}
ON_DEMAND = OfferingDetail(**OFFERING, capacity_type=CapacityType.ON_DEMAND)

ONE_OF_EACH: tuple[Event, ...] = (
    WorkloadPlaced(
        workload=REF,
        replicas=1,
        nodes=[NodePlacement(**NODE.model_dump(by_alias=False), replicas=1)],
    ),
    WorkloadPending(
        workload=REF,
        replicas=3,
        reason=ReasonCode.RESERVATION_FULL,
        message="cr-1 has no free unit",
        nearest_offering=ON_DEMAND,
        earliest_at=AT,
    ),
    WorkloadRejected(
        message_id="m-1",
        problems=[RejectedProblem.of(Problem("spec", "missing", "is required"))],
    ),
    NodeLaunched(node=NODE, launched_at=AT, workloads=[PLACED]),
    NodeDraining(
        drain_id="d-1",
        node=NODE,
        reason=DrainReason.CAPACITY_BLOCK_ENDING,
        notified_at=AT,
        deadline=AT,
        workloads=[PLACED],
    ),
    NodeTerminated(
        node=NODE,
        reason="Drained",
        terminated_at=AT,
        returned=[PLACED],
        correlation_ids=["m-1"],
    ),
    NodeCapacityTypeChanged(
        node=NODE, previous=CapacityType.ON_DEMAND, correlation_ids=["m-1"]
    ),
    LaunchFailed(
        node_claims=["nc-1"],
        offering=ON_DEMAND,
        code="InsufficientInstanceCapacity",
        message="none left",
        workloads=[PLACED],
        unavailable_until=AT,
    ),
    LaunchesBlocked(
        node_class="gpu", reason="AccessDenied", message="ec2:RunInstances is denied"
    ),
    ReservationExhausted(**RESERVATION, total_count=4),
    ReservationIdle(**RESERVATION, total_count=4, idle_count=2, idle_since=AT),
    ReservationLendingChanged(
        **RESERVATION, lent_before=0, lent_count=2, reason="2 units have been idle"
    ),
    CapacitySuspected(
        **RESERVATION,
        capacity_block_id="cb-1",
        suspected_count=1,
        rounds=2,
        node_claims=["nc-1"],
        instance_ids=["i-1"],
        unused_until=AT,
        block_status=BlockStatusDetail(
            interconnect_status="ok", total_count=4, available_count=4, unavailable_count=0
        ),
    ),
    PolicyChanged(
        changes=[
            ChangedObject(kind="NodePool", name="gpu", change=Change.CREATED, generation=1)
        ]
    ),
    EndingsHeld(
        kind=EndingKind.DISRUPTION,
        wanted_count=9,
        passed_count=2,
        limit=10,
        fleet_count=40,
        is_shut=False,
        message="9 nodes would end",
    ),
    EnvelopeLifted(
        kind=EndingKind.ORPHANS,
        count=3,
        until=AT,
        by="arn:aws:iam::123456789012:user/ada",
        reason="known",
    ),
    TablesAdopted(
        generation=2,
        by="arn:aws:iam::123456789012:user/ada",
        reason="restored",
        adopted_at=AT,
    ),
    WorkloadAccepted(message_id="m-1", action="submit", workload=REF),
    WorkloadIgnored(
        message_id="m-2",
        action="submit",
        workload=REF,
        reason=IgnoredReason.UNCHANGED,
        stored_generation=1,
    ),
    WorkloadDescribed(
        request_id="r-1",
        workload=REF,
        content_digest="0123456789abcdef",
        sent_by="AROAEXAMPLE:launcher",
        sent_at=AT,
        wanted=3,
        placed=1,
        waiting=[
            UnplacedDetail(
                replicas=2,
                reason=ReasonCode.RESERVATION_FULL,
                message="cr-1 has no free unit",
                earliest_at=AT,
            )
        ],
        nodes=[
            NodeStatus(
                **NODE.model_dump(by_alias=False),
                replicas=1,
                state=ClaimState.DRAINING,
                launched_at=AT,
                running_at=AT,
                drain=DrainStatus(
                    drain_id="d-1",
                    reason=DrainReason.CAPACITY_BLOCK_ENDING,
                    notified_at=AT,
                    deadline=AT,
                    awaiting=1,
                ),
            )
        ],
        part=1,
        part_count=1,
    ),
    ReplicaReady(node=NODE, workload=REF, replicas=1),
    ReplicaFailed(
        node=NODE,
        workload=REF,
        exit_code=1,
        restarts=3,
        next_start_in_s=80,
        is_crash_loop=True,
        log_tail="no disk\n",
    ),
    ReplicaFinished(
        node=NODE, workload=REF, replicas=1, finished=2, wanted=3, log_tail="done\n"
    ),
    OperationRequested(
        verb="drain",
        names=["nc-1"],
        by="arn:aws:iam::123456789012:user/ada",
        reason="OPS-7",
        requested_at=AT,
        deadline="30m",
    ),
    TeamShareReported(
        team="audio",
        quotas=[
            QuotaShare(
                reservations="tag purpose training",
                nominal=4,
                used=6,
                borrowed=2,
                lent=0,
                total=8,
            )
        ],
        resources=[
            ResourceShare(
                capacity_types=["spot"],
                resource="cpu",
                nominal="64",
                used="6",
                borrowed="0",
                borrowers={"vision": "32"},
            )
        ],
        month="2026-01",
        spent_micro_usd=12_000_000,
        forecast_micro_usd=30_000_000,
        micro_usd_per_hour=40_000,
    ),
    TeamOverBudget(
        team="audio",
        period=BudgetPeriod.MONTH,
        limit_micro_usd=20_000_000,
        spent_micro_usd=12_000_000,
        forecast_micro_usd=30_000_000,
        waiting_replicas=2,
    ),
    CapacityPurchased(
        offering="cb-1",
        reservations=[BoughtReservation(capacity_reservation_id="cr-1")],
        is_extension=False,
        instance_type="p5.48xlarge",
        zone="us-east-1c",
        count=2,
        start_at=AT,
        end_at=AT,
        fee_micro_usd=1_500_000_000,
        by="arn:aws:iam::123456789012:user/ada",
        purchased_at=AT,
    ),
    ReservationChanged(
        capacity_reservation_id="cr-1",
        instance_type="p5.48xlarge",
        zone="us-east-1c",
        zone_id="use1-az4",
        owner_id="123456789012",
        what=[ReservationChangeKind.RESIZED],
        changes=[ChangedFact(field="size", old="4", new="8")],
    ),
    ReservationEnding(
        capacity_reservation_id="cr-1",
        instance_type="p5.48xlarge",
        zone="us-east-1c",
        zone_id="use1-az4",
        units=2,
        end_at=AT,
        drain_at=AT,
        days=7,
        node_count=1,
        workloads=[],
        recent_workloads=[],
        successor="cr-2",
        gap_s=0,
    ),
    ReservationReadiness(
        capacity_reservation_id="cr-1",
        instance_type="p5.48xlarge",
        zone="us-east-1c",
        zone_id="use1-az4",
        units=2,
        start_at=AT,
        problems=[
            ReadinessProblem(
                code=Shortcoming.NO_NODE_POOL,
                message="no NodePool uses EC2NodeClass gpu",
                advice="apply a NodePool whose nodeClassRef is gpu",
            )
        ],
    ),
    NodeMovedIntoReservation(
        node=NODE,
        previous_price_micro_usd_per_hour=98_320_000,
        split_from="cr-1",
        workloads=[PLACED],
    ),
    WorkloadLeftSpot(
        workload=WorkloadRef(namespace="research", name="train", generation=1),
        until=AT,
        times=1,
        reason="interruptions cost it more than spot saves",
    ),
)


def test_there_is_one_of_each() -> None:
    assert {type(event) for event in ONE_OF_EACH} == set(EVENTS)
    assert len({event.detail_type for event in EVENTS}) == len(EVENTS)


@pytest.mark.parametrize("event", ONE_OF_EACH, ids=lambda event: event.detail_type)
def test_a_detail_follows_its_schema_and_reads_back(event: Event) -> None:
    name = event.detail_type.lower().replace(" ", "-")
    detail = json.loads(json.dumps(event.detail()))
    jsonschema.validate(detail, json.loads((SCHEMAS / f"{name}.json").read_text()))
    assert detail["version"] == 1
    assert type(event).model_validate_json(json.dumps(detail)) == event


def test_readers_ignore_fields_that_they_do_not_know() -> None:
    detail = {**ONE_OF_EACH[8].detail(), "addedLater": {"x": 1}}
    assert LaunchesBlocked.model_validate_json(json.dumps(detail)) == ONE_OF_EACH[8]


def test_instants_are_in_utc() -> None:
    assert ONE_OF_EACH[3].detail()["launchedAt"] == "2026-01-15T12:00:00Z"
