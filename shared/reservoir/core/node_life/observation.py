"""What an instance, re-read from EC2, means for its claim.

One decision for every reader (events, the minute's sweep, the collector): an event only names the claims to look at.
"""

from collections.abc import Mapping, Set
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from reservoir.core.capacity.offerings import (
    ReservedPrices,
    price_atto_usd,
    reservation_labels,
)
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.instance import RUNNING, TERMINATED, Instance
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.scheduling_terms import labels

# EC2 may not show an instance for a while after its launch ("not found" then means "not yet").
VISIBLE_WITHIN: Final = timedelta(minutes=5)
# An instance that has not reached running by then never will (R-140 gives a node 15 minutes to register).
RUNNING_WITHIN: Final = timedelta(minutes=15)


class Meaning(StrEnum):
    """What to do with the claim."""

    NOTHING = "nothing"
    RUNNING = "running"  # it reached running
    ENDED = "ended"  # it is gone: the claim is terminated and its replicas are demand again
    STOPPED = "stopped"  # nothing runs on it any more: terminate it
    TERMINATE_AGAIN = "terminate-again"  # we asked, and it still lives
    STUCK = "stuck"  # it never came up: replace it


_ALIVE_STATES: Final = frozenset(
    {ClaimState.LAUNCHED, ClaimState.RUNNING, ClaimState.DRAINING}
)


# Branches: one state after the other, each with its own answer.
def meaning(claim: NodeClaim, instance: Instance | None, now: datetime) -> Meaning:
    """Return what the claim's instance, or its absence, means."""
    if claim.instance_id is None or not claim.is_live:
        return Meaning.NOTHING
    launched_at = claim.launched_at or claim.created_at
    if instance is None:
        return Meaning.ENDED if now - launched_at > VISIBLE_WITHIN else Meaning.NOTHING
    if claim.state is ClaimState.TERMINATING and instance.state != TERMINATED:
        # The slot is free, and the node reported as terminated, only when EC2 is through.
        return Meaning.NOTHING if instance.is_gone else Meaning.TERMINATE_AGAIN
    if instance.is_gone:
        return Meaning.ENDED
    if instance.is_stopped:
        return Meaning.STOPPED
    if claim.state is ClaimState.LAUNCHED:
        if instance.state == RUNNING:
            return Meaning.RUNNING
        return Meaning.STUCK if now - launched_at > RUNNING_WITHIN else Meaning.NOTHING
    return Meaning.NOTHING


# Branches: each field of the claim follows from what the instance is bought as.
def rebought(
    claim: NodeClaim,
    instance: Instance,
    selected_reservation_ids: Set[str],
    reservations: Mapping[str, CapacityReservation],
    catalogue: Mapping[str, InstanceType],
) -> NodeClaim | None:
    """Return the claim as what its instance is bought as now, or None when that has not changed (R-142, R-129).

    Demotion takes every label of the reservation off and puts the real price on; an instance that EC2 moved into a
    reservation that its class selects is promoted. A claim keeps the reservation that it was launched into even if
    the class has stopped selecting it: that is drift's business.
    """
    if (
        claim.state not in _ALIVE_STATES
        or instance.is_gone
        or claim.offering.capacity_type is CapacityType.SPOT
    ):
        return None
    bound = claim.offering.reservation_id
    capacity_type = instance.capacity_type(
        selected_reservation_ids | ({bound} if bound is not None else set())
    )
    reservation_id = (
        instance.capacity_reservation_id if capacity_type is CapacityType.RESERVED else None
    )
    if (capacity_type, reservation_id) == (claim.offering.capacity_type, bound):
        return None
    offering = replace(
        claim.offering, capacity_type=capacity_type, reservation_id=reservation_id
    )
    own = {
        key: value
        for key, value in claim.labels.items()
        if key not in labels.RESERVATION_LABELS
    }
    own[labels.CAPACITY_TYPE] = capacity_type.value
    reservation = None if reservation_id is None else reservations.get(reservation_id)
    if reservation is not None:
        # Only an open match, or its group, moves an instance into a reservation that it was not launched into.
        own |= reservation_labels(reservation, _setting(claim))
    drain = None if reservation is None else reservation.block_drain()
    return replace(
        claim,
        offering=offering,
        labels=own,
        price_atto_usd_per_hour=_price(claim, capacity_type, catalogue),
        drain_at=None if drain is None else drain.starts_at,
        drain_deadline=None if drain is None else drain.deadline,
    )


def _setting(claim: NodeClaim) -> str:
    before = claim.labels.get(
        labels.CAPACITY_RESERVATION_SETTING, labels.RESERVATION_SETTING_TARGET
    )
    is_moved_by_group = claim.reclaim_group_arn is not None
    was_outside = claim.offering.reservation_id is None
    if was_outside and not is_moved_by_group:
        return labels.RESERVATION_SETTING_OPEN
    return before


def _price(
    claim: NodeClaim, capacity_type: CapacityType, catalogue: Mapping[str, InstanceType]
) -> int:
    instance_type = catalogue.get(claim.offering.instance_type)
    if instance_type is None:
        return claim.price_atto_usd_per_hour  # a missing price never makes a node free
    prices = ReservedPrices.of(catalogue.values())
    if capacity_type is CapacityType.RESERVED:
        return prices.atto_usd_per_hour(instance_type)
    return price_atto_usd(prices.on_demand_micro_usd(instance_type))
