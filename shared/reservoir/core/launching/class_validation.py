"""Whether a class could be launched, asked before anybody needs it: when EC2 is asked for a dry run, and of what.

Karpenter's condition ``ValidationSucceeded``. A dry run warns; what EC2 answers to a launch decides.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.capacity.offerings import has_image, pool_admits
from reservoir.core.launching.launch_request import newest_images
from reservoir.core.launching.start_readiness import HOUR_BEFORE
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.instance_type import CapacityType, InstanceType, Offering
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.node_class import NodeClass, NodeClassStatus, ValidationOutcome
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import OfferingKey
from reservoir.core.scheduling_terms.labels import CAPACITY_TYPE, ZONE, ZONE_ID
from reservoir.core.serialisation.json_codec import dumps

# in place of a claim and a batch, in tags that nothing ever carries
VALIDATION_ID: Final = "validation"
_ASKED_AGAIN_AFTER: Final[Mapping[ValidationOutcome, timedelta]] = {
    ValidationOutcome.SUCCEEDED: timedelta(days=1),
    ValidationOutcome.SUSPECTED: timedelta(minutes=1),
    ValidationOutcome.REFUSED: timedelta(minutes=15),  # it may have been fixed since
    ValidationOutcome.UNKNOWN: timedelta(minutes=15),
}


def validated(node_class: NodeClass) -> str:
    """Name the subject of a dry run: the class, and what discovery found for it, without counts."""
    status = node_class.status
    images = newest_images(status.machine_images).values()
    found = NodeClassStatus(
        subnets=tuple(replace(subnet, available_ip_count=0) for subnet in status.subnets),
        security_group_ids=status.security_group_ids,
        machine_images=tuple(sorted(images, key=lambda image: image.id)),
        instance_profile=status.instance_profile,
    )
    return hashlib.sha256(dumps(replace(node_class, status=found)).encode()).hexdigest()[
        :24
    ]


def can_be_validated(node_class: NodeClass) -> bool:
    """Whether what every launch needs is known; without it there is nothing to ask for."""
    status = node_class.status
    has_profile = node_class.role is None or status.instance_profile is not None
    return bool(
        status.subnets
        and status.security_group_ids
        and status.machine_images
        and has_profile
    )


def is_due(node_class: NodeClass, now: datetime, starts: Iterable[datetime] = ()) -> bool:
    """Whether EC2 should be asked: the class or its selection has changed, or the last answer is old.

    ``starts``: when selected reservations begin. Shortly before that, yesterday's answer is too old.
    """
    if not can_be_validated(node_class):
        return False
    last = node_class.status.validation
    if last is None or last.of != validated(node_class):
        return True
    is_late = any(last.at < start_at - HOUR_BEFORE <= now < start_at for start_at in starts)
    return is_late or now - last.at >= _ASKED_AGAIN_AFTER[last.outcome]


def claim_to_validate(
    node_class: NodeClass,
    pools: Sequence[NodePool],
    catalogue: Sequence[InstanceType],
    reservations: Iterable[CapacityReservation],
    now: datetime,
) -> NodeClaim | None:
    """Return the claim whose launch is representative of the class: the cheapest that its pools could plan.

    On demand where a pool allows that, then on spot, then into a reservation; for a future one, on demand: EC2 would
    refuse launches into it before it begins, and a dry run launches nothing. None: its pools allow none of these.
    """
    bought = [
        (
            offering.price_micro_usd_per_hour,
            kind.name,
            offering.zone_id,
            pool.name,
            offering,
            kind,
        )
        for pool, kind, offering in _bought(node_class, pools, catalogue)
    ]
    for market in (CapacityType.ON_DEMAND, CapacityType.SPOT):
        on_market = [each for each in bought if each[4].capacity_type is market]
        if on_market:
            *_, pool_name, offering, kind = min(on_market, key=lambda each: each[:4])
            key = OfferingKey(kind.name, offering.zone, offering.zone_id, market)
            return _claim(node_class, pool_name, key, kind, now)
    return _reserved_claim(node_class, pools, catalogue, reservations, now)


# Branches: a reservation is passed over for one of several reasons.
def _reserved_claim(
    node_class: NodeClass,
    pools: Sequence[NodePool],
    catalogue: Sequence[InstanceType],
    reservations: Iterable[CapacityReservation],
    now: datetime,
) -> NodeClaim | None:
    """Return the claim of a unit of the first reservation that pools admit and the class can launch into."""
    types = {kind.name: kind for kind in catalogue if has_image(node_class, kind)}
    # existing reservations first: their answer is more certain
    for reservation in sorted(
        reservations, key=lambda each: (not each.is_active(now), each.id)
    ):
        kind = types.get(reservation.instance_type)
        if (
            kind is None
            or not node_class.may_use(reservation)
            or not (reservation.is_active(now) or reservation.is_upcoming(now))
        ):
            continue
        for pool_name in sorted(
            pool.name for pool in pools if pool_admits(pool, reservation)
        ):
            place = (reservation.zone, reservation.zone_id)
            if reservation.is_active(now):
                key = OfferingKey(kind.name, *place, CapacityType.RESERVED, reservation.id)
            else:
                key = OfferingKey(kind.name, *place, CapacityType.ON_DEMAND)
            return _claim(node_class, pool_name, key, kind, now)
    return None


def _bought(
    node_class: NodeClass, pools: Sequence[NodePool], catalogue: Sequence[InstanceType]
) -> Iterator[tuple[NodePool, InstanceType, Offering]]:
    """Yield what the pools could buy."""
    zone_ids = {subnet.zone_id for subnet in node_class.status.subnets}
    for kind in catalogue:
        if not has_image(node_class, kind):
            continue
        meeting = [pool for pool in pools if pool.requirements.meets(kind.requirements)]
        for offering in kind.offerings:
            if offering.zone_id in zone_ids:
                yield from (
                    (pool, kind, offering) for pool in meeting if _admits(pool, offering)
                )


def _admits(pool: NodePool, offering: Offering) -> bool:
    place = {
        ZONE: offering.zone,
        ZONE_ID: offering.zone_id,
        CAPACITY_TYPE: str(offering.capacity_type),
    }
    return all(
        pool.requirements[key].has(value)
        for key, value in place.items()
        if key in pool.requirements
    )


def _claim(
    node_class: NodeClass,
    pool_name: str,
    offering: OfferingKey,
    kind: InstanceType,
    now: datetime,
) -> NodeClaim:
    """Return a claim that is never stored."""
    return NodeClaim(
        id=VALIDATION_ID,
        state=ClaimState.PLANNED,
        revision=0,
        node_pool_name=pool_name,
        node_class_name=node_class.name,
        batch_id=VALIDATION_ID,
        attempt=0,
        offering=offering,
        price_atto_usd_per_hour=0,
        placements=(),
        allocatable=kind.allocatable,
        created_at=now,
    )
