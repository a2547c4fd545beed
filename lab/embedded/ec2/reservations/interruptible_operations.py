"""The owner's side of interruptible reservations: making an allocation of a reservation, and changing it."""

from typing import Any, Final

from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import Ec2Error, invalid_value
from lab.embedded.ec2.api.tags import from_specifications
from lab.embedded.ec2.reservations import interruptible
from lab.embedded.ec2.reservations.ownership import own_plain
from lab.embedded.ec2.reservations.view import allocation_of, allocation_status

Parameters = dict[str, Any]
_RETAIN: Final = "retain"


def create_allocation(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer CreateInterruptibleCapacityReservationAllocation.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``, ``InvalidParameterValue``, ``OperationNotPermitted``,
        ``TagLimitExceeded``, ``UnauthorizedOperation``.
    """
    source = own_plain(world, parameters["CapacityReservationId"])
    tags = from_specifications(
        parameters.get("TagSpecifications"), ["capacity-reservation"]
    )
    made = interruptible.allocate(
        world,
        source,
        parameters["InstanceCount"],
        is_retained=parameters.get("ZeroSizePreference") == _RETAIN,
    )
    world.tags.put(made.reservation_id, tags.get("capacity-reservation", {}))
    return {
        "SourceCapacityReservationId": source.reservation_id,
        "TargetInstanceCount": made.planned_count,
        "Status": allocation_status(made),
        "InterruptionType": "adhoc",
    }


def update_allocation(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer UpdateInterruptibleCapacityReservationAllocation: more, less, or what becomes of it at zero.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``, ``InvalidParameterValue``, ``MissingParameter``,
        ``OperationNotPermitted``, ``UnauthorizedOperation``.
    """
    source = own_plain(world, parameters["CapacityReservationId"])
    allocation = allocation_of(world, source)
    if allocation is None or allocation.state != "active":
        raise invalid_value(f"{source.reservation_id} has no interruptible allocation.")
    preference = parameters.get("ZeroSizePreference")
    target = parameters.get("TargetInstanceCount")
    if preference is None and target is None:
        raise Ec2Error("MissingParameter", "Nothing is to be changed.")
    was_retained = allocation.is_retained
    if preference is not None:
        allocation.is_retained = preference == _RETAIN
    if target is not None:
        try:
            interruptible.change(world, source, allocation, target)
        except Ec2Error:
            allocation.is_retained = was_retained
            raise
    return {
        "InterruptibleCapacityReservationId": allocation.reservation_id,
        "SourceCapacityReservationId": source.reservation_id,
        "InstanceCount": allocation.total_count,
        "TargetInstanceCount": allocation.planned_count,
        "Status": allocation_status(allocation),
        "InterruptionType": "adhoc",
    }
