"""MoveCapacityReservationInstances and CreateCapacityReservationBySplitting: units from one reservation to another.

Sources: EC2 user guide, "Move capacity between Capacity Reservations" and "Split off capacity from an existing Capacity
Reservation" (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservations-move.html and
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservations-split.html). They name no error codes.
"""

from dataclasses import replace
from typing import Any

from lab.embedded.ec2.account import slots
from lab.embedded.ec2.account.state import CapacityReservation, Instance
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import Ec2Error, invalid_combination, invalid_value
from lab.embedded.ec2.api.tags import from_specifications
from lab.embedded.ec2.reservations import future_dated
from lab.embedded.ec2.reservations.life import begin
from lab.embedded.ec2.reservations.ownership import own_plain
from lab.embedded.ec2.reservations.view import reservation_of

Parameters = dict[str, Any]
_SAME = ("instance_type", "zone", "platform", "tenancy", "placement_group_arn", "end_at")


def move_capacity_reservation_instances(
    world: World, parameters: Parameters
) -> dict[str, Any]:
    """Answer MoveCapacityReservationInstances: free slots first, then used ones if both reservations are open.

    A used slot moves with its instance, which must have been launched with the preference open. A reservation that was
    emptied is cancelled.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``, ``InvalidCapacityReservationState``, ``InvalidParameterCombination``,
        ``InvalidParameterValue``, ``OperationNotPermitted``, ``UnauthorizedOperation``.
    """
    source = own_plain(world, parameters["SourceCapacityReservationId"])
    target = own_plain(world, parameters["DestinationCapacityReservationId"])
    count = parameters["InstanceCount"]
    if source is target or any(
        getattr(source, name) != getattr(target, name) for name in _SAME
    ):
        raise invalid_combination(
            "Source and destination must differ and share type, platform, zone, tenancy and end time."
        )
    if source.state != "active" or target.state != "active":
        raise Ec2Error(
            "InvalidCapacityReservationState", "Both capacity reservations must be active."
        )
    both_open = source.match_criteria == target.match_criteria == "open"
    moving = _taken_along(world, source, count, may_take_used=both_open)
    for each in (source, target):
        future_dated.refuse_within_commitment(world, each, "move capacity of")
    _hand_over(world, source, target, count, moving)
    if source.total_count == 0:
        source.state = "cancelled"
    slots.absorb(world, target)
    return {
        "SourceCapacityReservation": reservation_of(world, source),
        "DestinationCapacityReservation": reservation_of(world, target),
        "InstanceCount": count,
    }


def create_capacity_reservation_by_splitting(
    world: World, parameters: Parameters
) -> dict[str, Any]:
    """Answer CreateCapacityReservationBySplitting: free slots first, then used ones if the source is open.

    The new reservation is like its source but for tags, and in no resource group. At least one slot stays.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``, ``InvalidCapacityReservationState``, ``InvalidParameterValue``,
        ``OperationNotPermitted``, ``TagLimitExceeded``, ``UnauthorizedOperation``.
    """
    source = own_plain(world, parameters["SourceCapacityReservationId"])
    count = parameters["InstanceCount"]
    if source.state != "active":
        raise Ec2Error(
            "InvalidCapacityReservationState",
            "The source capacity reservation must be active.",
        )
    if not 1 <= count < source.total_count:
        raise invalid_value(
            "You can split off between one instance and all but one of the source capacity reservation."
        )
    moving = _taken_along(
        world, source, count, may_take_used=source.match_criteria == "open"
    )
    future_dated.refuse_within_commitment(world, source, "split")
    tags = from_specifications(
        parameters.get("TagSpecifications"), ["capacity-reservation"]
    )
    # The commitment, if there was one, has passed.
    made = replace(
        source,
        reservation_id=world.ids.resource("cr"),
        total_count=0,
        planned_count=count,
        created_at=world.now(),
        start_at=world.now(),
        original_start_at=None,
        commitment_s=0,
        commitment_end_at=None,
        committed_count=0,
        adjustment=None,
        adjustment_status=None,
        occupants={},
        scrubbing=set(),
        stuck=set(),
        available_history=[],
    )
    world.tags.put(made.reservation_id, tags.get("capacity-reservation", {}))
    _hand_over(world, source, made, count, moving)
    begin(world, made)
    return {
        "SourceCapacityReservation": reservation_of(world, source),
        "DestinationCapacityReservation": reservation_of(world, made),
        "InstanceCount": count,
    }


def _taken_along(
    world: World, source: CapacityReservation, count: int, *, may_take_used: bool
) -> list[str]:
    """Return the instances that go with so many slots, because too few are free.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``: not that many can go.
    """
    used = [
        instance_id
        for instance_id in source.occupants
        if may_take_used and _was_launched_open(world.instances[instance_id])
    ]
    if not 1 <= count <= source.available_count + len(used):
        raise invalid_value(
            "The source capacity reservation does not have that much capacity to move."
        )
    return used[: max(0, count - source.available_count)]


def _hand_over(
    world: World,
    source: CapacityReservation,
    target: CapacityReservation,
    count: int,
    moving: list[str],
) -> None:
    source.total_count -= count
    target.total_count += count
    for instance_id in moving:
        source.occupants.pop(instance_id)
        slots.join(world, world.instances[instance_id], target)


def _was_launched_open(instance: Instance) -> bool:
    return (
        instance.spec.target.preference in (None, "open")
        and not instance.spec.target.is_targeted
    )
