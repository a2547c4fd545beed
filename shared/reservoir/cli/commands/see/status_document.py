"""The overview for programs."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from reservoir.core.history.past_event import PastEvent
from reservoir.core.history.sample import ReservationSample, Sample
from reservoir.core.history.summary import subject, summary
from reservoir.core.launching.start_readiness import Missing
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.manifests.answers.overview import (
    BoughtNow,
    DiscoveryNow,
    MarketNow,
    NotKnown,
    NotLaunchingNow,
    QueueNow,
    RefusedNow,
    ReservationNow,
    StatusAnswer,
    TeamNow,
    ThereNow,
    UnreadyNow,
    WaitingNow,
)
from reservoir.ports.overview import QueueDepth
from reservoir.usecases.claims.announce import reservation_readiness
from reservoir.usecases.history.see_status import LastDiscovery, Status, Unknown

S = TypeVar("S")
T = TypeVar("T")


def document(seen: Status) -> StatusAnswer:
    """Return the status as a document."""
    return StatusAnswer(
        at=seen.asked_at,
        there=_known(seen.there, _there),
        refused=_known(seen.refused, lambda events: [_refused(each) for each in events]),
        discovery=_known(seen.discovery, _discovery),
        queues=_known(
            seen.queues,
            lambda depths: {queue.name.lower(): _queue(it) for queue, it in depths.items()},
        ),
        alarms=_known(seen.alarms, list),
        refused_dry_runs=_known(
            seen.refused_dry_runs,
            lambda found: [
                NotLaunchingNow(kind=it.kind, name=it.name, why=it.why) for it in found
            ],
        ),
        unready=_known(
            seen.unready, lambda found: [_unready(*found[key]) for key in sorted(found)]
        ),
        not_launching=_known(
            seen.not_launching,
            lambda found: [
                NotLaunchingNow(kind=it.kind, name=it.name, why=it.why) for it in found
            ],
        ),
    )


def _known(found: S | Unknown, restate: Callable[[S], T]) -> T | NotKnown:
    return NotKnown(unknown=found.why) if isinstance(found, Unknown) else restate(found)


def _unready(reservation: CapacityReservation, problems: Sequence[Missing]) -> UnreadyNow:
    told = reservation_readiness(reservation, problems)
    return UnreadyNow(
        reservation=reservation.id, start_at=told.start_at, problems=told.problems
    )


def _there(there: Sample) -> ThereNow:
    return ThereNow(
        taken_at=there.taken_at,
        reservations=[_reservation(each) for each in there.reservations],
        markets=[
            MarketNow(
                capacity_type=it.capacity_type,
                nodes=it.node_count,
                micro_usd_per_hour=it.micro_usd_per_hour,
                avoided_micro_usd_per_hour=it.avoided_micro_usd_per_hour,
            )
            for it in there.markets
        ],
        waiting=[
            WaitingNow(
                reason=it.reason,
                replicas=it.replica_count,
                workloads=it.workload_count,
                since=it.since,
            )
            for it in there.waiting
        ],
        unread_workloads=there.unread_count,
        bought=[
            BoughtNow(
                workload=it.workload_key,
                nodes=it.node_count,
                micro_usd_per_hour=it.micro_usd_per_hour,
            )
            for it in there.bought
        ],
        teams=[
            TeamNow(
                name=it.name,
                owned=it.owned_count,
                used=it.used_count,
                micro_usd_per_hour=it.micro_usd_per_hour,
                waiting_replicas=it.waiting_replica_count,
            )
            for it in there.teams
        ],
    )


def _reservation(it: ReservationSample) -> ReservationNow:
    return ReservationNow(
        id=it.id,
        instance_type=it.instance_type,
        zone=it.zone,
        kind=it.kind,
        state=it.state,
        total=it.total_count,
        ours=it.ours_count,
        others=it.others_count,
        free=it.free_count,
        micro_usd_per_hour=it.micro_usd_per_hour,
        idle_micro_usd_per_hour=it.idle_micro_usd_per_hour,
        end_at=it.end_at,
        drain_at=it.drain_at,
        stale=it.stale,
    )


def _refused(event: PastEvent) -> RefusedNow:
    return RefusedNow(
        at=event.at, type=event.detail_type, object=subject(event), what=summary(event)
    )


def _discovery(found: LastDiscovery) -> DiscoveryNow:
    return DiscoveryNow(
        changed_at=found.changed_at, read_at=found.read_at, stale=list(found.stale)
    )


def _queue(depth: QueueDepth) -> QueueNow:
    return QueueNow(messages=depth.message_count, oldest_s=depth.oldest_s)
