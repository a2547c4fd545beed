"""What an account does with its on-demand reservations: create, modify, move, split, cancel, describe."""

import re
from datetime import datetime
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
    wrong_reservation_state,
)
from lab.embedded.ec2.api.filters import Readers, page, select, without_empty
from lab.embedded.ec2.api.tags import from_specifications
from lab.embedded.ec2.instances.launch_specs import resolve_zone
from lab.embedded.ec2.market.catalogue import check_offered
from lab.embedded.ec2.reservations import future_dated
from lab.embedded.ec2.reservations.life import begin, end_on_time
from lab.embedded.ec2.reservations.ownership import own_plain
from lab.embedded.ec2.reservations.quotes import (
    accept_date_change,
    accepted_cancellation,
    wind_down,
)
from lab.embedded.ec2.reservations.view import reservation_of

Parameters = dict[str, Any]
COUNT_LIMIT = 1000
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservations-release.html; not `pending`, which it shows
# for up to five minutes.
_CANCELLABLE = frozenset({"assessing", "scheduled", "active", "delayed"})
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
    check_offered(world.region, instance_type, zone.name)
    _check_count(count)
    future_dated.check_request(world, parameters)
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
        future_dated.commit(reservation, parameters["CommitmentDuration"])
        future_dated.check_end(reservation, end_at)
    else:
        _refuse_without_hardware(world, reservation, count)
    world.tags.put(reservation.reservation_id, tags.get("capacity-reservation", {}))
    begin(world, reservation)
    return {"CapacityReservation": reservation_of(world, reservation)}


def modify_capacity_reservation(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer ModifyCapacityReservation: size, end and match criteria of an active one, the dates of a scheduled one.

    Raises
    ------
    Ec2Error
        ``InsufficientInstanceCapacity``, ``InvalidCapacityReservationId.NotFound``,
        ``InvalidCapacityReservationState``, ``InvalidParameterCombination``, ``InvalidParameterValue``,
        ``OperationNotPermitted``, ``UnauthorizedOperation``.
    """
    reservation = own_plain(world, parameters["CapacityReservationId"])
    _check_modifiable(reservation, parameters)
    if "QuoteId" in parameters:
        return accept_date_change(world, reservation, parameters)
    changes_end = "EndDateType" in parameters or "EndDate" in parameters
    end_at = _end_date(world, parameters) if changes_end else reservation.end_at
    if changes_end and future_dated.is_committed(world, reservation):
        future_dated.check_end(reservation, end_at)
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
    if changes_end:
        reservation.end_at = end_at
        end_on_time(world, reservation)
    return {"Return": True}


def cancel_capacity_reservation(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer CancelCapacityReservation: its instances run on as plain on-demand; what is committed needs a quote.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``, ``InvalidCapacityReservationState``,
        ``InvalidParameterCombination``, ``InvalidParameterValue``, ``OperationNotPermitted``,
        ``UnauthorizedOperation``.
    """
    reservation = own_plain(world, parameters["CapacityReservationId"])
    if reservation.state not in _CANCELLABLE:
        raise wrong_reservation_state(
            f"A capacity reservation that is {reservation.state} cannot be cancelled."
        )
    quote = accepted_cancellation(world, reservation, parameters)
    if quote is not None and quote.charge_end_at > world.now():
        wind_down(world, reservation, quote)
        return {"Return": True}
    reservation.state = "cancelled"
    slots.release_all(world, reservation)
    if reservation.is_future_dated:
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


def _check_modifiable(reservation: CapacityReservation, parameters: Parameters) -> None:
    """Refuse what the state allows no change of; a scheduled reservation has dates alone."""
    state = reservation.state
    if state not in {"active", "scheduled"}:
        raise wrong_reservation_state(
            f"The capacity reservation is {state} and cannot be modified."
        )
    if reservation.adjustment_status == "requested":
        raise wrong_reservation_state(
            "A modification of the capacity reservation is in progress."
        )
    asked = {"InstanceCount", "InstanceMatchCriteria", "EndDate", "EndDateType"} & set(
        parameters
    )
    if state == "scheduled" and asked & {"InstanceCount", "InstanceMatchCriteria"}:
        raise wrong_reservation_state(
            "Of a scheduled capacity reservation the dates alone can be modified."
        )
    if "QuoteId" in parameters and asked:
        raise invalid_combination("A quote is applied by itself.")
    if "QuoteId" not in parameters and "StartDate" in parameters:
        raise invalid_combination(
            "To change the start date, pass a quote of CreateCapacityReservationDateChangeQuote."
        )


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
    future_dated.check_count(world, reservation, count)
    grown = count - reservation.total_count
    if abs(grown) > COUNT_LIMIT:
        raise invalid_value(
            f"The instance count can change by at most {COUNT_LIMIT} in one request."
        )
    if grown > 0:
        _refuse_without_hardware(world, reservation, grown)
    reservation.total_count = count
    newest_first = sorted(
        reservation.occupants, key=lambda i: (reservation.occupants[i], i), reverse=True
    )
    for instance_id in newest_first[: max(0, len(reservation.occupants) - count)]:
        slots.release(world, reservation, world.instances[instance_id])
    slots.absorb(world, reservation)
