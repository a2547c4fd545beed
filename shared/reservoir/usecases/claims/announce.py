"""Claims as facts on the outbound bus."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain

from reservoir.core.capacity.lineage import gap
from reservoir.core.capacity.reservation_changes import (
    ReservationChangeKind,
    changed_fields,
)
from reservoir.core.launching.start_readiness import Missing
from reservoir.core.model.capacity_reservation import (
    CapacityReservation,
    ObservedReservation,
)
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import Drain, NodeClaim
from reservoir.core.model.plan import OfferingKey
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.manifests.event_parts import (
    NodeDetail,
    OfferingDetail,
    PlacedWorkload,
    WorkloadRef,
)
from reservoir.manifests.events import (
    ChangedFact,
    LaunchFailed,
    NodeCapacityTypeChanged,
    NodeDraining,
    NodeLaunched,
    NodeMovedIntoReservation,
    NodeTerminated,
    ReadinessProblem,
    ReservationChanged,
    ReservationEnding,
    ReservationExhausted,
    ReservationIdle,
    ReservationReadiness,
)
from reservoir.ports.messaging import NAMED_MAX
from reservoir.ports.state import ReservationRecord, WorkloadRecord


def offering_detail(offering: OfferingKey) -> OfferingDetail:
    """Describe an offering."""
    return OfferingDetail(
        instance_type=offering.instance_type,
        zone=offering.zone,
        zone_id=offering.zone_id,
        capacity_type=offering.capacity_type,
        capacity_reservation_id=offering.reservation_id,
    )


def node_detail(claim: NodeClaim) -> NodeDetail:
    """Describe a claim's node. The near-zero price that orders reservations inside the scheduler reads as 0 here."""
    reserved = claim.offering.capacity_type is CapacityType.RESERVED
    return NodeDetail(
        instance_type=claim.offering.instance_type,
        zone=claim.offering.zone,
        zone_id=claim.offering.zone_id,
        capacity_type=claim.offering.capacity_type,
        capacity_reservation_id=claim.offering.reservation_id,
        node_claim=claim.id,
        node_pool=claim.node_pool_name,
        node_class=claim.node_class_name,
        instance_id=claim.instance_id,
        price_micro_usd_per_hour=0
        if reserved
        else claim.price_atto_usd_per_hour // ATTO_USD_PER_MICRO_USD,
    )


def placed_workloads(
    placements: Sequence[PlacedReplicas], correlation_ids: Mapping[str, str]
) -> list[PlacedWorkload]:
    """Describe replicas by workload; ``correlation_ids`` by key, as far as they are known."""
    return [
        PlacedWorkload(
            **dict(
                workload_ref(
                    placed.workload_key,
                    correlation_id=correlation_ids.get(placed.workload_key),
                )
            ),
            replicas=placed.count,
        )
        for placed in placements
    ]


def node_launched(claim: NodeClaim, launched_at: datetime) -> NodeLaunched:
    """Say that EC2 has an instance for the claim."""
    workloads = placed_workloads(claim.placements, claim.correlation_ids)
    return NodeLaunched(
        node=node_detail(claim), launched_at=launched_at, workloads=workloads
    )


def node_draining(claim: NodeClaim, drain: Drain) -> NodeDraining:
    """Say that the node must go."""
    return NodeDraining(
        drain_id=drain.id,
        node=node_detail(claim),
        reason=drain.reason,
        notified_at=drain.notified_at,
        deadline=drain.deadline,
        workloads=placed_workloads(drain.awaiting, claim.correlation_ids),
    )


def node_terminated(
    claim: NodeClaim,
    reason: str,
    terminated_at: datetime,
    returned: Sequence[PlacedReplicas],
) -> NodeTerminated:
    """Say that the node is gone."""
    return NodeTerminated(
        node=node_detail(claim),
        reason=reason,
        terminated_at=terminated_at,
        returned=placed_workloads(returned, claim.correlation_ids),
        correlation_ids=_correlation_ids(claim),
    )


def capacity_type_changed(before: NodeClaim, after: NodeClaim) -> NodeCapacityTypeChanged:
    """Say that the reservation under a running node ended, or that EC2 moved the node into one."""
    return NodeCapacityTypeChanged(
        node=node_detail(after),
        previous=before.offering.capacity_type,
        previous_capacity_reservation_id=before.offering.reservation_id,
        correlation_ids=_correlation_ids(after),
    )


def moved_into_reservation(
    before: NodeClaim, after: NodeClaim, reservations: Mapping[str, CapacityReservation]
) -> list[NodeMovedIntoReservation]:
    """Say that EC2 moved a node that ran on demand into a reservation; nothing of any other change."""
    was, reservation_id = before.offering.capacity_type, after.offering.reservation_id
    if was is not CapacityType.ON_DEMAND or reservation_id is None:
        return []
    reservation = reservations.get(reservation_id)
    return [
        NodeMovedIntoReservation(
            node=node_detail(after),
            previous_price_micro_usd_per_hour=(
                before.price_atto_usd_per_hour // ATTO_USD_PER_MICRO_USD
            ),
            split_from=None if reservation is None else reservation.split_from,
            workloads=placed_workloads(after.placements, after.correlation_ids),
        )
    ]


def launch_failed(
    claims: Sequence[NodeClaim], code: str, message: str, until: datetime | None
) -> LaunchFailed:
    """Say that EC2 refused a launch; ``claims`` share one offering and still carry their placements."""
    counts: dict[str, int] = {}
    correlation_ids: dict[str, str] = {}
    for claim in claims:
        correlation_ids |= claim.correlation_ids
        for placed in claim.placements:
            counts[placed.workload_key] = counts.get(placed.workload_key, 0) + placed.count
    return LaunchFailed(
        node_claims=[claim.id for claim in claims],
        offering=offering_detail(claims[0].offering),
        code=code,
        message=message,
        workloads=placed_workloads(
            [PlacedReplicas(key, counts[key]) for key in sorted(counts)], correlation_ids
        ),
        unavailable_until=until,
    )


def reservation_changed(
    before: ObservedReservation | None,
    after: ObservedReservation,
    kinds: Sequence[ReservationChangeKind],
) -> ReservationChanged:
    """Publish how a reservation changed."""
    return ReservationChanged(
        capacity_reservation_id=after.id,
        instance_type=after.instance_type,
        zone=after.zone,
        zone_id=after.zone_id,
        owner_id=after.owner_id,
        what=list(kinds),
        changes=[
            ChangedFact(field=each.field, old=each.old, new=each.new)
            for each in changed_fields(before, after)
        ],
    )


def reservation_ending(
    ending: CapacityReservation,
    days: int,
    successor: ObservedReservation | None,
    claims: Iterable[NodeClaim],
    recent: Mapping[str, int] | None,
) -> ReservationEnding:
    """Return the event that a reservation ends, with its work now and recently, and the reservation that follows it.

    ``recent``: how many replicas of each workload were placed in it, None where the history could not be read.

    Raises ValueError for a reservation without an end.
    """
    if ending.end_at is None:
        raise ValueError(f"{ending.id} has no end")
    within = [claim for claim in claims if claim.offering.reservation_id == ending.id]
    counts = by_workload(chain.from_iterable(claim.placements for claim in within))
    between = gap(ending, successor)
    return ReservationEnding(
        capacity_reservation_id=ending.id,
        instance_type=ending.instance_type,
        zone=ending.zone,
        zone_id=ending.zone_id,
        units=ending.size,
        end_at=ending.end_at,
        drain_at=ending.drain_at(),
        days=days,
        node_count=len(within),
        workloads=_named(counts),
        recent_workloads=None if recent is None else _named(recent),
        successor=None if successor is None else successor.id,
        gap_s=None if between is None else int(between.total_seconds()),
    )


def _named(counts: Mapping[str, int]) -> list[PlacedWorkload]:
    """Describe so many workloads as an event has room for: those with the most replicas, by name."""
    most = sorted(counts, key=lambda key: (-counts[key], key))[:NAMED_MAX]
    return placed_workloads([PlacedReplicas(key, counts[key]) for key in sorted(most)], {})


def reservation_readiness(
    reservation: CapacityReservation, found: Sequence[Missing]
) -> ReservationReadiness:
    """Say what would keep launches out of a reservation that begins soon.

    Raises ValueError for a reservation without a beginning.
    """
    if reservation.start_at is None:
        raise ValueError(f"{reservation.id} has no beginning")
    return ReservationReadiness(
        capacity_reservation_id=reservation.id,
        instance_type=reservation.instance_type,
        zone=reservation.zone,
        zone_id=reservation.zone_id,
        units=reservation.size,
        start_at=reservation.start_at,
        problems=[
            ReadinessProblem(code=each.what, message=each.message, advice=each.advice)
            for each in found
        ],
    )


def reservation_exhausted(reservation: CapacityReservation) -> ReservationExhausted:
    """Say that a reservation has no free unit left."""
    return ReservationExhausted(
        capacity_reservation_id=reservation.id,
        instance_type=reservation.instance_type,
        zone=reservation.zone,
        zone_id=reservation.zone_id,
        total_count=reservation.total_count,
    )


def reservation_idle(record: ReservationRecord, since: datetime) -> ReservationIdle:
    """Say that units of a reservation have been free for long."""
    return ReservationIdle(
        capacity_reservation_id=record.reservation.id,
        instance_type=record.reservation.instance_type,
        zone=record.reservation.zone,
        zone_id=record.reservation.zone_id,
        total_count=record.reservation.total_count,
        idle_count=record.balance.free_units,
        idle_since=since,
    )


def workload_ref(
    workload_key: str, generation: int | None = None, correlation_id: str | None = None
) -> WorkloadRef:
    """Name a workload."""
    namespace, _, name = workload_key.partition("/")
    return WorkloadRef(
        namespace=namespace, name=name, generation=generation, correlation_id=correlation_id
    )


def stored_ref(record: WorkloadRecord) -> WorkloadRef:
    """Name a stored workload."""
    return workload_ref(record.key, record.generation, record.correlation_id)


def hosted_ref(
    claim: NodeClaim, workload_key: str, generation: int | None = None
) -> WorkloadRef:
    """Name a workload that is on a claim."""
    return workload_ref(workload_key, generation, claim.correlation_ids.get(workload_key))


def by_workload(placements: Iterable[PlacedReplicas]) -> Mapping[str, int]:
    """Return replicas by workload key."""
    counts: dict[str, int] = {}
    for placed in placements:
        counts[placed.workload_key] = counts.get(placed.workload_key, 0) + placed.count
    return counts


def _correlation_ids(claim: NodeClaim) -> list[str]:
    return sorted(set(claim.correlation_ids.values()))[:NAMED_MAX]
