"""What Capacity Blocks and extensions are on sale, by rules of our own, since nobody knows AWS's stock; and their sale.

Purchases have no client token: a call that is sent again buys again, whether or not its answer was lost.
"""

import hashlib
import re
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from lab.embedded.ec2.account.state import (
    BlockExtension,
    BlockOffering,
    CapacityReservation,
    ReservationKind,
)
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import Ec2Error, invalid_value
from lab.embedded.ec2.api.filters import Readers, page, select, without_empty
from lab.embedded.ec2.api.tags import from_specifications
from lab.embedded.ec2.market.catalogue import instance_types, offered_zones
from lab.embedded.ec2.market.prices import on_demand_micro_usd_per_hour, usd
from lab.embedded.ec2.reservations.block_operations import block_of
from lab.embedded.ec2.reservations.life import begin, end_on_time
from lab.embedded.ec2.reservations.view import reservation_of

Parameters = dict[str, Any]

COUNTS: Final = (1, 2, 4, 8, 16, 32, 64)
_DAY_HOURS: Final = 24
_DAILY_UP_TO_DAYS: Final = 14
_WEEKLY_UP_TO_DAYS: Final = 182
_WEEK_DAYS: Final = 7
_PERCENT_OF_ON_DEMAND: Final = 40
# UTC, when AWS's blocks end and the next ones start
_STARTS_AT: Final = timedelta(hours=11, minutes=30)
_SOONEST: Final = timedelta(minutes=30)
PLATFORMS: Final = frozenset(
    {"Linux/UNIX", "Red Hat Enterprise Linux", "RHEL with HA", "SUSE Linux", "Ubuntu Pro"}
)
_OFFERING_ID: Final = re.compile(r"cb[a-z]?-0[0-9a-f]{16}")
# An extension is bought between 57 days and an hour before the block ends, and has failed if it is not paid by then.
_EXTENDED_FROM: Final = timedelta(days=57)
_EXTENDED_UNTIL: Final = timedelta(hours=1)
_PAID_UNTIL: Final = timedelta(minutes=35)


def describe_capacity_block_offerings(
    world: World, parameters: Parameters
) -> dict[str, Any]:
    """Answer DescribeCapacityBlockOfferings: in each zone that has the type, the first block that could be had.

    Raises
    ------
    Ec2Error
        ``InvalidParameterCombination``, ``InvalidParameterValue``, ``UnsupportedOperation``.
    """
    if "UltraserverType" in parameters:
        raise Ec2Error(
            "UnsupportedOperation", "Offerings of whole UltraServers are not emulated."
        )
    name, count, hours = _asked(parameters)
    start_at = _first_start(
        max(world.now() + _SOONEST, parameters.get("StartDateRange", world.now()))
    )
    end_at = start_at + timedelta(hours=hours)
    latest = parameters.get("EndDateRange")
    zones = (
        sorted(offered_zones(world.region).get(name, ()))
        if latest is None or end_at <= latest
        else []
    )
    fee = on_demand_micro_usd_per_hour(name) * _PERCENT_OF_ON_DEMAND // 100 * count * hours
    found = [
        _offering(world, BlockOffering("", name, zone, count, start_at, end_at, fee))
        for zone in zones
    ]
    offerings, token = page(found, parameters, default=1000, maximum=1000)
    shown = [_shown(offering) for offering in offerings]
    return without_empty({"CapacityBlockOfferings": shown, "NextToken": token})


def purchase_capacity_block(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer PurchaseCapacityBlock: each call buys, and an offering that was bought is gone.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityBlockOfferingIdExpired``, ``InvalidCapacityBlockOfferingIdMalformed``,
        ``InvalidCapacityBlockOfferingIdNotFound``, ``InvalidParameterValue``, ``TagLimitExceeded``.
    """
    offering = _known(world, parameters["CapacityBlockOfferingId"])
    if offering.is_extension:
        raise _not_found(offering.offering_id)
    if parameters["InstancePlatform"] not in PLATFORMS:
        raise invalid_value(
            f"Capacity Blocks do not support the platform '{parameters['InstancePlatform']}'"
        )
    if offering.is_sold or world.now() + _SOONEST > offering.start_at:
        raise _expired(offering.offering_id)
    tags = from_specifications(
        parameters.get("TagSpecifications"), ["capacity-reservation", "capacity-block"]
    )
    block = CapacityReservation(
        reservation_id=world.ids.resource("cr"),
        owner_id=world.account_id,
        kind=ReservationKind.CAPACITY_BLOCK,
        instance_type=offering.instance_type,
        zone=world.zones[offering.zone],
        total_count=0,
        planned_count=offering.count,
        created_at=world.now(),
        start_at=offering.start_at,
        end_at=offering.end_at,
        platform=parameters["InstancePlatform"],
        match_criteria="targeted",
        state="payment-pending",
        block_id=world.ids.resource("cb"),
    )
    world.tags.put(block.reservation_id, tags.get("capacity-reservation", {}))
    world.tags.put(block.block_id or "", tags.get("capacity-block", {}))
    offering.is_sold = True
    begin(world, block)
    block.visible = world.settings.block_shown_after_s <= 0
    world.after(world.settings.block_shown_after_s, partial(_show, block))
    return {
        "CapacityReservation": reservation_of(world, block),
        "CapacityBlocks": [block_of(world, block)],
    }


def describe_capacity_block_extension_offerings(
    world: World, parameters: Parameters
) -> dict[str, Any]:
    """Answer DescribeCapacityBlockExtensionOfferings: a block can be had for longer, at the price of a new one.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``, ``InvalidParameterCombination``, ``InvalidParameterValue``,
        ``OperationNotPermitted``, ``UnauthorizedOperation``.
    """
    block, hours = (
        _extendable(world, parameters),
        parameters["CapacityBlockExtensionDurationHours"],
    )
    _check_hours(hours)
    begins_at = block.end_at or world.now()
    count = max(block.total_count, block.planned_count)
    fee = (
        on_demand_micro_usd_per_hour(block.instance_type)
        * _PERCENT_OF_ON_DEMAND
        // 100
        * count
        * hours
    )
    wanted = BlockOffering(
        "",
        block.instance_type,
        block.zone.name,
        count,
        begins_at,
        begins_at + timedelta(hours=hours),
        fee,
        block.reservation_id,
    )
    _check_whole_length(block, wanted.end_at)
    found = [_offering(world, wanted)]
    offerings, token = page(found, parameters, default=1000, maximum=1000)
    shown = [_shown_extension(block, offering) for offering in offerings]
    return without_empty({"CapacityBlockExtensionOfferings": shown, "NextToken": token})


def purchase_capacity_block_extension(
    world: World, parameters: Parameters
) -> dict[str, Any]:
    """Answer PurchaseCapacityBlockExtension: the end moves when the extension is paid, without an event.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityBlockOfferingIdExpired``, ``InvalidCapacityBlockOfferingIdMalformed``,
        ``InvalidCapacityBlockOfferingIdNotFound``, ``InvalidCapacityReservationId.NotFound``,
        ``InvalidParameterValue``, ``OperationNotPermitted``, ``UnauthorizedOperation``.
    """
    block = _extendable(world, parameters)
    offering = _known(world, parameters["CapacityBlockExtensionOfferingId"])
    if offering.extends != block.reservation_id:
        raise _not_found(offering.offering_id)
    if offering.is_sold or offering.start_at != block.end_at:
        raise _expired(offering.offering_id)
    offering.is_sold = True
    extension = BlockExtension(offering, world.now())
    world.block_extensions.append(extension)
    world.after(world.settings.block_payment_s, partial(_pay, world, block, extension))
    return {"CapacityBlockExtensions": [_shown_purchase(block, extension)]}


def describe_capacity_block_extension_history(
    world: World, parameters: Parameters
) -> dict[str, Any]:
    """Answer DescribeCapacityBlockExtensionHistory: what was ever bought to extend blocks, and whether it is paid.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``, ``InvalidParameterCombination``, ``InvalidParameterValue``.
    """
    ids = parameters.get("CapacityReservationIds", [])
    for reservation_id in ids:
        world.reservation(reservation_id)
    readers: Readers[BlockExtension] = {
        "availability-zone": lambda e: e.offering.zone,
        "availability-zone-id": lambda e: world.zones[e.offering.zone].zone_id,
        "capacity-block-extension-offering-id": lambda e: e.offering.offering_id,
        "capacity-block-extension-status": lambda e: e.status,
        "instance-type": lambda e: e.offering.instance_type,
    }
    chosen = [
        each for each in world.block_extensions if not ids or each.offering.extends in ids
    ]
    found = select(chosen, parameters.get("Filters"), readers, lambda _: {})
    extensions, token = page(found, parameters, default=1000, maximum=1000)
    shown = [
        _shown_purchase(world.reservations[each.offering.extends or ""], each)
        for each in extensions
    ]
    return without_empty({"CapacityBlockExtensions": shown, "NextToken": token})


def _asked(parameters: Parameters) -> tuple[str, int, int]:
    name, count, hours = (
        parameters.get(each)
        for each in ("InstanceType", "InstanceCount", "CapacityDurationHours")
    )
    if not isinstance(name, str) or "capacity-block" not in instance_types().get(
        name, {}
    ).get("SupportedUsageClasses", ()):
        raise invalid_value(
            f"The instance type '{name}' is not supported for Capacity Blocks"
        )
    if count not in COUNTS:
        raise invalid_value(
            f"The instance count must be one of {', '.join(map(str, COUNTS))}"
        )
    _check_hours(hours or 0)
    return name, count, hours or 0


def _check_hours(hours: int) -> None:
    days, rest = divmod(hours, _DAY_HOURS)
    is_daily = 1 <= days <= _DAILY_UP_TO_DAYS
    is_weekly = _DAILY_UP_TO_DAYS < days <= _WEEKLY_UP_TO_DAYS and days % _WEEK_DAYS == 0
    if rest or not (is_daily or is_weekly):
        raise invalid_value(
            "The duration must be 1 to 14 days, or up to 182 days in steps of 7"
        )


def _check_whole_length(block: CapacityReservation, end_at: datetime) -> None:
    """Refuse a block that would be longer than AWS sells any."""
    if end_at - block.start_at > timedelta(days=_WEEKLY_UP_TO_DAYS + 1):
        raise invalid_value("A Capacity Block lasts at most 182 days, extensions included")


def _extendable(world: World, parameters: Parameters) -> CapacityReservation:
    block = world.reservation(parameters["CapacityReservationId"])
    if block.owner_id != world.account_id:
        raise Ec2Error(
            "UnauthorizedOperation",
            "You are not the owner of this capacity reservation.",
            403,
        )
    if block.kind is not ReservationKind.CAPACITY_BLOCK or block.state not in {
        "active",
        "scheduled",
    }:
        raise invalid_value(
            f"{block.reservation_id} is not a Capacity Block that is active or scheduled"
        )
    left = (block.end_at or world.now()) - world.now()
    if not _EXTENDED_UNTIL <= left <= _EXTENDED_FROM:
        raise invalid_value(
            "A Capacity Block can be extended between 57 days and one hour before it ends"
        )
    pending = [
        each
        for each in world.block_extensions
        if each.offering.extends == block.reservation_id
    ]
    if any(each.status == "payment-pending" for each in pending):
        raise Ec2Error(
            "OperationNotPermitted",
            "An extension of the Capacity Block is still to be paid.",
        )
    return block


def _show(block: CapacityReservation) -> None:
    block.visible = True


def _pay(world: World, block: CapacityReservation, extension: BlockExtension) -> None:
    is_late = block.end_at is None or world.now() > block.end_at - _PAID_UNTIL
    if (
        is_late
        or not world.settings.block_payments_succeed
        or block.state not in {"active", "scheduled"}
    ):
        extension.status = "payment-failed"
        return
    extension.status = "payment-succeeded"
    block.end_at = extension.offering.end_at
    end_on_time(world, block)


def _offering(world: World, wanted: BlockOffering) -> BlockOffering:
    """Return what is on sale by these facts, under an id that it keeps until it is sold."""
    facts = (
        wanted.instance_type,
        wanted.zone,
        wanted.count,
        wanted.start_at,
        wanted.end_at,
        wanted.extends,
    )
    prefix = "cbe" if wanted.is_extension else "cb"
    sold_count = 0
    while True:
        known = world.block_offerings.get(_id(prefix, *facts, sold_count))
        if known is None or not known.is_sold:
            break
        sold_count += 1
    if known is None:
        wanted.offering_id = _id(prefix, *facts, sold_count)
        world.block_offerings[wanted.offering_id] = known = wanted
    return known


def _known(world: World, offering_id: str) -> BlockOffering:
    if _OFFERING_ID.fullmatch(offering_id) is None:
        raise Ec2Error(
            "InvalidCapacityBlockOfferingIdMalformed",
            f"The offering id '{offering_id}' is malformed",
        )
    if offering_id not in world.block_offerings:
        raise _not_found(offering_id)
    return world.block_offerings[offering_id]


def _not_found(offering_id: str) -> Ec2Error:
    return Ec2Error(
        "InvalidCapacityBlockOfferingIdNotFound",
        f"The offering '{offering_id}' cannot be found",
    )


def _expired(offering_id: str) -> Ec2Error:
    return Ec2Error(
        "InvalidCapacityBlockOfferingIdExpired",
        f"The offering '{offering_id}' is no longer available",
    )


def _shown(offering: BlockOffering) -> dict[str, Any]:
    return {
        "CapacityBlockOfferingId": offering.offering_id,
        "InstanceType": offering.instance_type,
        "AvailabilityZone": offering.zone,
        "InstanceCount": offering.count,
        "StartDate": offering.start_at,
        "EndDate": offering.end_at,
        "CapacityBlockDurationHours": _hours(offering),
        "UpfrontFee": usd(offering.fee_micro_usd),
        "CurrencyCode": "USD",
        "Tenancy": "default",
    }


def _shown_extension(block: CapacityReservation, offering: BlockOffering) -> dict[str, Any]:
    return {
        "CapacityBlockExtensionOfferingId": offering.offering_id,
        "InstanceType": offering.instance_type,
        "InstanceCount": offering.count,
        "AvailabilityZone": offering.zone,
        "AvailabilityZoneId": block.zone.zone_id,
        "StartDate": block.start_at,
        "CapacityBlockExtensionStartDate": offering.start_at,
        "CapacityBlockExtensionEndDate": offering.end_at,
        "CapacityBlockExtensionDurationHours": _hours(offering),
        "UpfrontFee": usd(offering.fee_micro_usd),
        "CurrencyCode": "USD",
        "Tenancy": "default",
    }


def _shown_purchase(
    block: CapacityReservation, extension: BlockExtension
) -> dict[str, Any]:
    offering = extension.offering
    return {
        "CapacityReservationId": block.reservation_id,
        "InstanceType": offering.instance_type,
        "InstanceCount": offering.count,
        "AvailabilityZone": offering.zone,
        "AvailabilityZoneId": block.zone.zone_id,
        "CapacityBlockExtensionOfferingId": offering.offering_id,
        "CapacityBlockExtensionDurationHours": _hours(offering),
        "CapacityBlockExtensionStatus": extension.status,
        "CapacityBlockExtensionPurchaseDate": extension.bought_at,
        "CapacityBlockExtensionStartDate": offering.start_at,
        "CapacityBlockExtensionEndDate": offering.end_at,
        "UpfrontFee": usd(offering.fee_micro_usd),
        "CurrencyCode": "USD",
    }


def _hours(offering: BlockOffering) -> int:
    return int((offering.end_at - offering.start_at) / timedelta(hours=1))


def _first_start(after: datetime) -> datetime:
    today = after.replace(hour=0, minute=0, second=0, microsecond=0) + _STARTS_AT
    return today if today >= after else today + timedelta(days=1)


def _id(prefix: str, *about: object) -> str:
    digest = hashlib.sha256("/".join(str(each) for each in about).encode()).hexdigest()
    return f"{prefix}-0{digest[:16]}"
