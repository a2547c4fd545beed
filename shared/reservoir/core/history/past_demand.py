"""Demand as it arrived, found a place and left, for looking back over weeks.

Decisions say what was done about demand, and are kept for two weeks with all that they were based on. These steps say
what demand there was, and are small enough to be kept for months.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from reservoir.core.history.past_event import PastEvent
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.plan import OfferingKey
from reservoir.core.model.workload import Workload

DEMAND_KEPT: Final = timedelta(days=90)  # also of what there was every ten minutes
_WANTS: Final = frozenset({"submit", "update"})


class DemandStepKind(StrEnum):
    """What happened to demand."""

    WANTED = "wanted"  # a message brought this generation
    PLACED = "placed"  # replicas got a place
    FINISHED = "finished"  # replicas have done what they were for
    WITHDRAWN = "withdrawn"  # withdrawn
    REFUSED = "refused"  # EC2 did not sell the capacity that was to be bought for it


@dataclass(frozen=True, slots=True)
class DemandStep:
    """A step of a workload's demand; ``id`` is the same in every delivery of the event that reports it.

    ``workload`` is the demand, None where it had gone before it could be read. ``offering`` is the one that EC2
    refused, and that rests until ``until``.
    """

    id: str
    at: datetime
    kind: DemandStepKind
    workload_key: str
    generation: int | None = None
    replicas: int = 0  # how many were placed, or have finished
    workload: Workload | None = None
    offering: OfferingKey | None = None
    until: datetime | None = None


def steps_of(event: PastEvent) -> tuple[DemandStep, ...]:
    """Return the steps that an event reports, without the workload, which it does not have; most events report none."""
    detail = event.detail
    if event.detail_type == "Launch Failed":
        return _refused(event)
    ref = detail.get("workload")
    if not isinstance(ref, dict):
        return ()
    key, generation = f"{ref.get('namespace')}/{ref.get('name')}", ref.get("generation")
    if event.detail_type == "Workload Accepted":
        if detail.get("action") in _WANTS:
            return (DemandStep(event.id, event.at, DemandStepKind.WANTED, key, generation),)
        if detail.get("action") == "withdraw":
            return (
                DemandStep(event.id, event.at, DemandStepKind.WITHDRAWN, key, generation),
            )
    kind = _COUNTED.get(event.detail_type)
    if kind is None:
        return ()
    replicas = detail.get("replicas")
    return (
        DemandStep(
            event.id,
            event.at,
            kind,
            key,
            generation,
            replicas if isinstance(replicas, int) else 0,
        ),
    )


_COUNTED: Final = {
    "Workload Placed": DemandStepKind.PLACED,
    "Replica Finished": DemandStepKind.FINISHED,
}


def _refused(event: PastEvent) -> tuple[DemandStep, ...]:
    """Return the refusal, for the first workload that the offering was for; without a rest it is no step."""
    offering, until = event.detail.get("offering"), event.detail.get("unavailableUntil")
    if not isinstance(offering, dict) or not isinstance(until, str):
        return ()
    if offering.get("capacityType") not in {each.value for each in CapacityType}:
        return ()  # a market of a newer release
    refs = event.detail.get("workloads")
    first: Any = refs[0] if isinstance(refs, list) and refs else {}
    key = OfferingKey(
        str(offering.get("instanceType")),
        str(offering.get("zone")),
        str(offering.get("zoneId")),
        CapacityType(str(offering.get("capacityType"))),
        offering.get("capacityReservationId"),
    )
    return (
        DemandStep(
            event.id,
            event.at,
            DemandStepKind.REFUSED,
            f"{first.get('namespace', '')}/{first.get('name', '')}",
            offering=key,
            until=datetime.fromisoformat(until),
        ),
    )
