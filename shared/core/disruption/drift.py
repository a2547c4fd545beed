"""Drift: a node that no longer is what its pool and class ask for (R-149 to R-155; ODCR RFC, "Drift")."""

from shared.core.instance_type import CapacityType
from shared.core.node_claim import NodeClaim
from shared.core.node_class import NodeClass
from shared.core.node_pool import NodePool
from shared.core.requirements import Requirements


def drift_reason(claim: NodeClaim, pool: NodePool | None, node_class: NodeClass | None) -> str | None:
    """Say why a claim has drifted, or None. First hit wins, in this order (R-149, R-152).

    The claim must carry what EC2 said of its instance most recently: a reservation that vanished under it demotes it to
    on-demand first (``shared.usecases.expire``), and an on-demand node in a pool that allows on-demand has not
    drifted merely because its reservation ended (ODCR RFC, goal 9).
    """
    if pool is None:
        return f"NodePool {claim.node_pool_name} no longer exists"
    if claim.node_pool_hash != pool.static_hash:
        return f"NodePool {pool.name} changed"
    mismatch = Requirements.from_labels(claim.labels).compatible(pool.requirements)
    if mismatch is not None:
        return f"NodePool {pool.name} no longer admits it: {mismatch}"
    if node_class is None:
        return f"EC2NodeClass {claim.node_class_name} no longer exists"
    if claim.node_class_hash != node_class.static_hash:
        return f"EC2NodeClass {node_class.name} changed"
    return _found_differs(claim, node_class)


def _found_differs(claim: NodeClaim, node_class: NodeClass) -> str | None:
    """Compare with what discovery found for the class; an empty finding says nothing (discovery may have failed)."""
    status = node_class.status
    images = {image.id for image in status.machine_images}
    if images and claim.image_id is not None and claim.image_id not in images:
        return f"AMI {claim.image_id} is no longer selected"
    if status.security_group_ids and claim.security_group_ids not in ((), status.security_group_ids):
        return "security groups differ from those selected"
    subnets = {subnet.id for subnet in status.subnets}
    if subnets and claim.subnet_id is not None and claim.subnet_id not in subnets:
        return f"subnet {claim.subnet_id} is no longer selected"
    offering = claim.offering
    if offering.capacity_type is CapacityType.RESERVED and offering.reservation_id not in status.reservation_ids:
        return f"reservation {offering.reservation_id} is no longer selected"
    return None
