"""Work that is longer than the reservation that it would run in: where it goes on after it."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from reservoir.core.capacity.lineage import successors
from reservoir.core.model.capacity_reservation import (
    CapacityReservation,
    ObservedReservation,
)
from reservoir.core.model.plan import Plan
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import Workload


# Branches: what is passed over, for one of two reasons.
def parts_after(
    plan: Plan, snapshot: Snapshot, workloads: Iterable[Workload], now: datetime
) -> tuple[str, ...]:
    """Say of work that may be split, and would be, when it is drained and where it goes on; once for each place."""
    split = {each.key: each for each in workloads if each.may_be_split}
    known = {each.id: each for each in snapshot.reservations}
    following = successors(snapshot.reservations)
    found: dict[tuple[str, str], str] = {}
    for key, reservation_id in _places(plan, snapshot):
        reservation = known.get(reservation_id)
        if key not in split or reservation is None:
            continue
        drains_at = _drains_at(split[key], reservation)
        begins_at = max(now, reservation.start_at or now)
        if drains_at is None or begins_at + _length(split[key]) <= drains_at:
            continue
        then = goes_on(reservation, following)
        found[key, reservation_id] = (
            f"{key} is not through when {reservation_id} drains at {_said(drains_at)}: {then}"
        )
    return tuple(found[each] for each in sorted(found))


def goes_on(
    reservation: ObservedReservation, following: Mapping[str, ObservedReservation]
) -> str:
    """Say where work goes on after a reservation."""
    after = following.get(reservation.id)
    if after is None:
        return "nothing that is known goes on after it, so it waits then"
    if after.start_at is None or reservation.end_at is None:
        return f"it goes on in {after.id}"
    begins_at = max(after.start_at, reservation.end_at)
    return f"it goes on in {after.id} from {_said(begins_at)} on"


def _places(plan: Plan, snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield workloads with the reservations that a plan puts replicas of theirs in."""
    nodes = {node.claim_id: node.reservation_id for node in snapshot.nodes}
    for launch in plan.launches:
        if launch.offering.reservation_id is not None:
            for placed in launch.placements:
                yield placed.workload_key, launch.offering.reservation_id
    for growth in plan.existing:
        reservation_id = nodes.get(growth.claim_id)
        if reservation_id is not None:
            for placed in growth.placements:
                yield placed.workload_key, reservation_id


def _drains_at(workload: Workload, reservation: CapacityReservation) -> datetime | None:
    drain = reservation.block_drain()
    if drain is None:
        return reservation.end_at
    return drain.for_notice(workload.checkpoint_period_s or 0).starts_at


def _length(workload: Workload) -> timedelta:
    return timedelta(seconds=workload.duration_s or 0)


def _said(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%MZ}"
