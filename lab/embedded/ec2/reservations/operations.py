"""CreateCapacityReservation, ModifyCapacityReservation, CancelCapacityReservation, DescribeCapacityReservations."""

import re
from datetime import datetime, timedelta
from typing import Any

from lab.embedded.ec2.account import slots
from lab.embedded.ec2.account.state import (
    CapacityReservation,
    Market,
    ReservationKind,
)
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import (
    Ec2Error,
    insufficient_capacity,
    invalid_combination,
    invalid_value,
)
from lab.embedded.ec2.api.filters import Readers, page, select, without_empty
from lab.embedded.ec2.api.tags import from_specifications
from lab.embedded.ec2.instances.launch_specs import resolve_zone
from lab.embedded.ec2.market.catalogue import instance_types, offered_zones
from lab.embedded.ec2.reservations.life import begin, end_on_time
from lab.embedded.ec2.reservations.view import reservation_of

Parameters = dict[str, Any]
COUNT_LIMIT = 1000
_RESERVATION_ID = re.compile(r"cr-[0-9a-f]{8,17}")


def create_capacity_reservation(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer CreateCapacityReservation: immediate, or future-dated when it has a start date.

    Raises
    ------
    Ec2Error
        ``InsufficientInstanceCapacity``, ``InvalidParameter``, ``InvalidParameterCombination``,
        ``InvalidParameterValue``, ``MissingParameter``, ``TagLimitExceeded``, ``Unsupported``.
    """
    instance_type, count = parameters["InstanceType"], parameters["InstanceCount"]
    zone = resolve_zone(world, parameters)
    if "AvailabilityZone" not in parameters and "AvailabilityZoneId" not in parameters:
        raise Ec2Error(
            "MissingParameter",
            "The request must contain the parameter availabilityZone or availabilityZoneId",
        )
    if instance_type not in instance_types():
        raise invalid_value(f"Invalid value '{instance_type}' for InstanceType.")
    if zone.name not in offered_zones(world.region).get(instance_type, frozenset()):
        raise Ec2Error(
            "Unsupported",
            f"The instance type {instance_type} is not supported in {zone.name}.",
        )
    _check_count(count)
    end_at = _end_date(world, parameters)
    tags = from_specifications(
        parameters.get("TagSpecifications"), ["capacity-reservation"]
    )
    starts_later = "StartDate" in parameters
    reservation = CapacityReservation(
        reservation_id=world.ids.resource("cr"),
        owner_id=world.account_id,
        kind=ReservationKind.ON_DEMAND,
        instance_type=instance_type,
        zone=zone,
        total_count=0 if starts_later else count,
        planned_count=count,
        created_at=world.now(),
        start_at=parameters["StartDate"] if starts_later else world.now(),
        end_at=end_at,
        platform=parameters["InstancePlatform"],
        tenancy=parameters.get("Tenancy", "default"),
        match_criteria=parameters.get("InstanceMatchCriteria", "open"),
        placement_group_arn=parameters.get("PlacementGroupArn"),
        ebs_optimized=bool(parameters.get("EbsOptimized")),
        delivery_preference=parameters.get("DeliveryPreference"),
    )
    if starts_later:
        _check_future_dated(world, reservation, parameters)
    else:
        _refuse_without_hardware(world, reservation, count)
    world.tags.put(reservation.reservation_id, tags.get("capacity-reservation", {}))
    begin(world, reservation)
    return {"CapacityReservation": reservation_of(world, reservation)}


def modify_capacity_reservation(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer ModifyCapacityReservation: size, end and match criteria of one's own active on-demand one.

    Raises
    ------
    Ec2Error
        ``InsufficientInstanceCapacity``, ``InvalidCapacityReservationId.NotFound``,
        ``InvalidCapacityReservationState``, ``InvalidParameterCombination``, ``InvalidParameterValue``,
        ``OperationNotPermitted``, ``UnauthorizedOperation``.
    """
    reservation = own_plain(world, parameters["CapacityReservationId"])
    if reservation.state != "active":
        raise Ec2Error(
            "InvalidCapacityReservationState",
            f"The capacity reservation is {reservation.state} and cannot be modified.",
        )
    if "InstanceCount" in parameters:
        _resize(world, reservation, parameters["InstanceCount"])
    if (
        "InstanceMatchCriteria" in parameters
        and parameters["InstanceMatchCriteria"] != reservation.match_criteria
    ):
        if reservation.occupants:
            raise invalid_value(
                "The instance eligibility can only be changed while no instance uses the reservation."
            )
        reservation.match_criteria = parameters["InstanceMatchCriteria"]
        slots.absorb(world, reservation)
    if "EndDateType" in parameters or "EndDate" in parameters:
        reservation.end_at = _end_date(world, parameters)
        end_on_time(world, reservation)
    return {"Return": True}


def cancel_capacity_reservation(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer CancelCapacityReservation: its instances run on as plain on-demand.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``, ``InvalidCapacityReservationState``, ``OperationNotPermitted``,
        ``UnauthorizedOperation``.
    """
    reservation = own_plain(world, parameters["CapacityReservationId"])
    if reservation.state not in {"active", "pending", "assessing", "scheduled", "delayed"}:
        raise Ec2Error(
            "InvalidCapacityReservationState",
            f"The capacity reservation is already {reservation.state}.",
        )
    future_dated = reservation.state in {"assessing", "scheduled", "delayed"}
    reservation.state = "cancelled"
    slots.release_all(world, reservation)
    if future_dated:
        world.announce(world.events.reservation_state(reservation, world.now()))
    return {"Return": True}


def describe_capacity_reservations(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer DescribeCapacityReservations.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.Malformed``, ``InvalidCapacityReservationId.NotFound``,
        ``InvalidParameterCombination``, ``InvalidParameterValue``.
    """
    ids = parameters.get("CapacityReservationIds", [])
    malformed = [i for i in ids if not _RESERVATION_ID.fullmatch(i)]
    if malformed:
        raise Ec2Error(
            "InvalidCapacityReservationId.Malformed",
            f"The ID '{malformed[0]}' is not valid",
        )
    chosen = [world.reservation(i) for i in ids] if ids else world.visible_reservations()
    found = select(
        chosen,
        parameters.get("Filters"),
        _READERS,
        lambda r: world.tags.of(r.reservation_id),
    )
    reservations, token = page(
        found, parameters, default=1000, maximum=1000, with_ids=bool(ids)
    )
    return without_empty(
        {
            "CapacityReservations": [reservation_of(world, r) for r in reservations],
            "NextToken": token,
        }
    )


def get_capacity_reservation_usage(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer GetCapacityReservationUsage: who uses the slots of a reservation of one's own.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``.
    """
    reservation = world.reservation(parameters["CapacityReservationId"])
    used: dict[str, int] = {}
    for instance_id in reservation.occupants:
        owner = world.instances[instance_id].owner_id
        used[owner] = used.get(owner, 0) + 1
    return {
        "CapacityReservationId": reservation.reservation_id,
        "InstanceType": reservation.instance_type,
        "TotalInstanceCount": reservation.total_count,
        "AvailableInstanceCount": slots.described_available(world, reservation),
        "State": reservation.state,
        "InstanceUsages": [
            {"AccountId": owner, "UsedInstanceCount": count}
            for owner, count in sorted(used.items())
        ],
    }


_READERS: Readers[CapacityReservation] = {
    "instance-type": lambda r: r.instance_type,
    "owner-id": lambda r: r.owner_id,
    "instance-platform": lambda r: r.platform,
    "availability-zone": lambda r: r.zone.name,
    "availability-zone-id": lambda r: r.zone.zone_id,
    "tenancy": lambda r: r.tenancy,
    "outpost-arn": lambda _: None,
    "state": lambda r: r.state,
    "start-date": lambda r: r.start_at,
    "end-date": lambda r: r.end_at,
    "end-date-type": lambda r: "limited" if r.end_at else "unlimited",
    "instance-match-criteria": lambda r: r.match_criteria,
    "placement-group-arn": lambda r: r.placement_group_arn,
    "interruptible": lambda r: r.kind is ReservationKind.INTERRUPTIBLE,
}


def own_plain(world: World, reservation_id: str) -> CapacityReservation:
    """Return an on-demand reservation of this account.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``, ``OperationNotPermitted``, ``UnauthorizedOperation``.
    """
    reservation = world.reservation(reservation_id)
    if reservation.owner_id != world.account_id:
        raise Ec2Error(
            "UnauthorizedOperation",
            "You are not the owner of this capacity reservation.",
            403,
        )
    if reservation.kind is not ReservationKind.ON_DEMAND:
        raise Ec2Error(
            "OperationNotPermitted",
            f"A capacity reservation of the kind {reservation.kind} cannot be changed this way.",
        )
    return reservation


def _check_count(count: int) -> None:
    if not 1 <= count <= COUNT_LIMIT:
        raise invalid_value(f"The instance count must be between 1 and {COUNT_LIMIT}.")


def _end_date(world: World, parameters: Parameters) -> datetime | None:
    end_at: datetime | None = parameters.get("EndDate")
    limited = (
        parameters.get("EndDateType", "limited" if end_at else "unlimited") == "limited"
    )
    if limited != (end_at is not None):
        raise invalid_combination(
            "An end date belongs to the end date type 'limited', and to that only."
        )
    if end_at is not None and end_at <= world.now():
        raise invalid_value("The end date must be in the future.")
    return end_at


def _check_future_dated(
    world: World, reservation: CapacityReservation, parameters: Parameters
) -> None:
    lead = reservation.start_at - world.now()
    if not timedelta(days=5) <= lead <= timedelta(days=120):
        raise invalid_value(
            "A future-dated capacity reservation starts between 5 and 120 days from now."
        )
    if "CommitmentDuration" not in parameters:
        raise Ec2Error(
            "MissingParameter",
            "A future-dated capacity reservation requires a commitment duration.",
        )
    if reservation.match_criteria != "targeted":
        raise invalid_value("A future-dated capacity reservation must be targeted.")
    vcpus = instance_types()[reservation.instance_type]["VCpuInfo"]["DefaultVCpus"]
    if vcpus * reservation.planned_count < 32:
        raise invalid_value(
            "A future-dated capacity reservation must cover at least 32 vCPUs."
        )
    reservation.commitment_end_at = reservation.start_at + timedelta(
        seconds=parameters["CommitmentDuration"]
    )


def _refuse_without_hardware(
    world: World, reservation: CapacityReservation, count: int
) -> None:
    own = [r for r in world.reservations.values() if r.owner_id == world.account_id]
    key = (reservation.instance_type, reservation.zone.name, Market.ON_DEMAND)
    free = world.pools.free(key, world.instances.values(), own)
    if free is not None and count > free:
        raise insufficient_capacity(reservation.instance_type, reservation.zone.name)


def _resize(world: World, reservation: CapacityReservation, count: int) -> None:
    if not count >= 1:
        raise invalid_value("The instance count must be at least 1.")
    grown = count - reservation.total_count
    if abs(grown) > COUNT_LIMIT:
        raise invalid_value(
            f"The instance count can change by at most {COUNT_LIMIT} in one request."
        )
    if grown > 0:
        _refuse_without_hardware(world, reservation, grown)
    if (
        reservation.commitment_end_at
        and grown < 0
        and world.now() < reservation.commitment_end_at
    ):
        raise invalid_value(
            "The instance count cannot decrease during the commitment duration."
        )
    reservation.total_count = count
    newest_first = sorted(
        reservation.occupants, key=lambda i: (reservation.occupants[i], i), reverse=True
    )
    for instance_id in newest_first[: max(0, len(reservation.occupants) - count)]:
        slots.release(world, reservation, world.instances[instance_id])
    slots.absorb(world, reservation)
