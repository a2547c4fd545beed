"""The status that users see beside a manifest: conditions, discovery's results, counts (as in the ODCR RFC)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from reservoir.core.model.capacity_reservation import (
    ACTIVE,
    CapacityReservation,
    ReservationKind,
)
from reservoir.core.model.conditions import Condition
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.node_class import NodeClassStatus
from reservoir.core.scheduling_terms.money import usd
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.static_pools.census import Census
from reservoir.core.static_pools.shortfall import Shortfall

EXPIRING = "expiring"


def node_class_status(
    found: NodeClassStatus,
    conditions: Sequence[Condition],
    reservations: Iterable[CapacityReservation],
    now: datetime,
) -> dict[str, Any]:
    """Return an EC2NodeClass's status; ``reservations``: the ones that the class selects."""
    status: dict[str, Any] = {
        "capacityReservations": [
            _reservation(each, now)
            for each in sorted(reservations, key=lambda each: each.id)
        ],
        "subnets": [
            {"id": subnet.id, "zone": subnet.zone, "zoneID": subnet.zone_id}
            for subnet in found.subnets
        ],
        "securityGroups": [{"id": identity} for identity in found.security_group_ids],
        "amis": [
            _given(id=i.id, name=i.name or None, architecture=i.architecture)
            for i in found.machine_images
        ],
    }
    if found.instance_profile is not None:
        status["instanceProfile"] = found.instance_profile
    return {**status, "conditions": _conditions(conditions)}


def node_pool_status(
    conditions: Sequence[Condition],
    claims: Iterable[NodeClaim],
    paused: str | None = None,
    counted: Census | None = None,
    lacking: Shortfall | None = None,
) -> dict[str, Any]:
    """Return a NodePool's status; ``claims`` are the pool's live ones, ``paused``: who paused it and why.

    ``counted``: how many nodes a static pool wants, has, and is about to have; ``lacking``: why it has fewer.
    """
    live = list(claims)
    resources = sum((claim.allocatable for claim in live), Resources.of({}))
    counts: dict[str, int] = {}
    for claim in live:
        capacity_type = claim.offering.capacity_type.value
        counts[capacity_type] = counts.get(capacity_type, 0) + 1
    return {
        "nodes": len(live),
        "nodesByCapacityType": dict(sorted(counts.items())),
        "resources": resources.formatted(),
        **_given(warm=sum(claim.is_kept_warm for claim in live) or None),
        **({} if counted is None else {"replicas": _replicas(counted, lacking)}),
        **_given(paused=paused),
        "conditions": _conditions(conditions),
    }


def _replicas(counted: Census, lacking: Shortfall | None) -> dict[str, Any]:
    counts = {"wanted": counted.wanted, "there": counted.there, "coming": counted.coming}
    if lacking is None:
        return counts
    earliest_at = None if lacking.earliest_at is None else lacking.earliest_at.isoformat()
    return counts | _given(
        reason=lacking.code.value, message=lacking.message, earliestAt=earliest_at
    )


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """Units of one group of reservations: what a team owns, uses, uses beyond that, and has lent at the least."""

    group: str
    nominal: int
    used: int
    borrowed: int
    lent: int
    total: int
    # units by team; the empty name: of no team
    borrowers: Mapping[str, int] = field(default_factory=dict)
    # when the first loan should come back, where that is known
    back_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """An amount of a resource on some capacity types: what a team owns, requests, requests beyond that, who borrows.

    Amounts are in the units of ``Resources``: millicores, bytes, else whole counts.
    """

    capacity_types: tuple[str, ...]
    resource: str
    nominal: int
    used: int
    borrowed: int
    borrowers: Mapping[str, int] = field(default_factory=dict)  # amounts by team
    back_at: datetime | None = None

    def formatted(self, amount: int) -> str:
        """Return an amount of it as manifests write it."""
        return Resources.of({self.resource: amount}).formatted()[self.resource]


@dataclass(frozen=True, slots=True)
class TeamSpending:
    """A team's cost of a month so far, in micro-USD; seconds and money by namespace and capacity type."""

    month: str
    spent_micro_usd: int
    forecast_micro_usd: int
    micro_usd_per_hour: int
    namespaces: Mapping[tuple[str, str], tuple[int, int]]


def team_status(
    conditions: Sequence[Condition],
    principals: Mapping[str, str],
    uses: Sequence[QuotaUse],
    spending: TeamSpending | None = None,
    resources: Sequence[ResourceUse] = (),
) -> dict[str, Any]:
    """Return a Team's status; ``principals`` are unique ids by ARN, as they were when it was applied."""
    found = [
        {"arn": arn, "uniqueID": unique_id} for arn, unique_id in sorted(principals.items())
    ]
    quotas = [_quota_use(use) for use in uses]
    spent = {} if spending is None else {"spending": _spending(spending)}
    amounts = (
        {"resourceQuotas": [_resource_use(use) for use in resources]} if resources else {}
    )
    return {
        "principals": found,
        "quotas": quotas,
        **amounts,
        **spent,
        "conditions": _conditions(conditions),
    }


def _quota_use(use: QuotaUse) -> dict[str, Any]:
    borrowers = [{"team": name, "units": count} for name, count in use.borrowers.items()]
    return _given(
        reservations=use.group,
        nominalUnits=use.nominal,
        usedUnits=use.used,
        borrowedUnits=use.borrowed,
        lentUnits=use.lent,
        totalUnits=use.total,
        borrowers=borrowers or None,
        backAt=None if use.back_at is None else _instant(use.back_at),
    )


def _resource_use(use: ResourceUse) -> dict[str, Any]:
    return _given(
        capacityTypes=list(use.capacity_types),
        resource=use.resource,
        nominal=use.formatted(use.nominal),
        used=use.formatted(use.used),
        borrowed=use.formatted(use.borrowed),
        borrowers=[
            {"team": name, "amount": use.formatted(amount)}
            for name, amount in use.borrowers.items()
        ]
        or None,
        backAt=None if use.back_at is None else _instant(use.back_at),
    )


def _spending(spending: TeamSpending) -> dict[str, Any]:
    return {
        "month": spending.month,
        "spent": usd(spending.spent_micro_usd),
        "forecast": usd(spending.forecast_micro_usd),
        "perHour": usd(spending.micro_usd_per_hour),
        "namespaces": [
            {
                "namespace": name,
                "capacityType": market,
                "instanceSeconds": seconds,
                "spent": usd(micro_usd),
            }
            for (name, market), (seconds, micro_usd) in sorted(spending.namespaces.items())
        ],
    }


def _conditions(conditions: Sequence[Condition]) -> list[dict[str, str]]:
    return [
        {
            "type": condition.type.value,
            "status": condition.status.value,
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": _instant(condition.last_transition_at),
        }
        for condition in conditions
    ]


def _reservation(reservation: CapacityReservation, now: datetime) -> dict[str, Any]:
    draining = reservation.state == ACTIVE and not reservation.is_active(now)
    block = reservation.kind is ReservationKind.CAPACITY_BLOCK
    return _given(
        id=reservation.id,
        availabilityZone=reservation.zone,
        zoneID=reservation.zone_id,
        instanceType=reservation.instance_type,
        instanceMatchCriteria=reservation.instance_match_criteria,
        ownerID=reservation.owner_id,
        reservationType="capacity-block" if block else "default",
        interruptible=reservation.kind is ReservationKind.INTERRUPTIBLE,
        state=EXPIRING if draining else reservation.state,
        startTime=None if reservation.start_at is None else _instant(reservation.start_at),
        endTime=None if reservation.end_at is None else _instant(reservation.end_at),
        totalInstanceCount=reservation.total_count,
        availableInstanceCount=reservation.available_count,
        freeUnits=reservation.free_units,
        stale=True if reservation.stale else None,
    )


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _instant(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
