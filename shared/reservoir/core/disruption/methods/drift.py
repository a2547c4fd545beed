"""Drift: a node that no longer is what its pool and class ask for (R-149 to R-155; ODCR RFC, "Drift")."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.solver.problem.catalogue import accepts

# A node that was launched moments ago was on offer; a catalogue that does not show it yet is the older of the two.
TYPE_GONE_AFTER: Final = timedelta(hours=1)
# Markets of which one must remain. A spot market that only lacks a price at the moment is not in the catalogue either.
_ONE_OF: Final = {
    CapacityType.RESERVED: frozenset({CapacityType.RESERVED, CapacityType.ON_DEMAND}),
    CapacityType.SPOT: frozenset({CapacityType.SPOT, CapacityType.ON_DEMAND}),
    CapacityType.ON_DEMAND: frozenset({CapacityType.ON_DEMAND}),
}


@dataclass(frozen=True, slots=True)
class Offered:
    """What can be bought at all, short of capacity or not: markets by instance type and zone id, and reservations."""

    markets: Mapping[tuple[str, str], frozenset[CapacityType]]
    reservation_ids: frozenset[str]  # that have not ended

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Offered":
        """Read the catalogue, and the reservations, which a type needs no offering of its own for."""
        found: dict[tuple[str, str], set[CapacityType]] = {}
        for instance_type in snapshot.instance_types:
            for offering in instance_type.offerings:
                found.setdefault((instance_type.name, offering.zone_id), set()).add(
                    offering.capacity_type
                )
        for reservation in snapshot.reservations:
            found.setdefault((reservation.instance_type, reservation.zone_id), set()).add(
                CapacityType.RESERVED
            )
        # Without any type, discovery of the catalogue has not run: nothing follows about a node.
        markets = (
            {key: frozenset(markets) for key, markets in found.items()}
            if snapshot.instance_types
            else {}
        )
        return cls(
            markets, frozenset(reservation.id for reservation in snapshot.reservations)
        )


def _mismatch(claim: NodeClaim, pool: NodePool) -> str | None:
    """Say why the pool's requirements no longer admit the node; labels that they do not name are only hints."""
    if accepts(claim.labels, pool.requirements.values()):
        return None
    return Requirements.from_labels(claim.labels).compatible(pool.requirements)


def drift_reason(
    claim: NodeClaim,
    pool: NodePool,
    node_class: NodeClass | None,
    offered: Offered,
    now: datetime,
) -> str | None:
    """Return why a claim has drifted, or None. The first reason wins, in this order (R-149, R-152).

    The claim must have EC2's most recent facts about its instance: a reservation that ended under it makes it on-demand
    first (``reservoir.usecases.node_life.expire``), and an on-demand node in a pool that allows on-demand has not
    drifted merely because its reservation ended (ODCR RFC, goal 9).
    """
    if claim.node_pool_hash != pool.static_hash:
        return f"NodePool {pool.name} changed"
    mismatch = _mismatch(claim, pool)
    if mismatch is not None:
        return f"NodePool {pool.name} no longer admits it: {mismatch}"
    gone = _type_gone(claim, offered, now)
    if gone is not None:
        return gone
    if node_class is None:
        return f"EC2NodeClass {claim.node_class_name} no longer exists"
    if claim.node_class_hash != node_class.static_hash:
        return f"EC2NodeClass {node_class.name} changed"
    return _found_differs(claim, node_class, offered)


def _type_gone(claim: NodeClaim, offered: Offered, now: datetime) -> str | None:
    """Return that no node like this one could be launched any more (R-151), or None.

    For a reserved node, on-demand and any reservation of its type count too: a full or ended reservation is no drift.
    For a spot node, on-demand counts.
    """
    if not offered.markets or now - claim.created_at < TYPE_GONE_AFTER:
        return None
    offering = claim.offering
    if _ONE_OF[offering.capacity_type] & offered.markets.get(
        (offering.instance_type, offering.zone_id), frozenset()
    ):
        return None
    return f"{offering.instance_type} is no longer offered {offering.capacity_type.value} in {offering.zone}"


# Branches: one finding after the other, each with its own words.
def _found_differs(claim: NodeClaim, node_class: NodeClass, offered: Offered) -> str | None:
    """Compare with what discovery found for the class; an empty result is ignored (discovery may have failed).

    A reservation that has ended is no longer selected either. The next sweep makes its nodes on-demand, and nothing has
    drifted where on-demand is allowed (R-153: EC2's facts about the instance win). A reservation that goes on was
    deselected.
    """
    status = node_class.status
    images = {image.id for image in status.machine_images}
    if images and claim.image_id is not None and claim.image_id not in images:
        return f"AMI {claim.image_id} is no longer selected"
    if status.security_group_ids and claim.security_group_ids not in (
        (),
        status.security_group_ids,
    ):
        return "security groups differ from those selected"
    subnets = {subnet.id for subnet in status.subnets}
    if subnets and claim.subnet_id is not None and claim.subnet_id not in subnets:
        return f"subnet {claim.subnet_id} is no longer selected"
    offering = claim.offering
    if (
        offering.capacity_type is CapacityType.RESERVED
        and offering.reservation_id not in status.reservation_ids
    ):
        goes_on = offering.reservation_id in offered.reservation_ids
        if goes_on:
            return f"reservation {offering.reservation_id} is no longer selected"
        return None
    return None
