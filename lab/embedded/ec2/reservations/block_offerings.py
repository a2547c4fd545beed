"""DescribeCapacityBlockOfferings: what blocks are on sale, by rules of our own, since nobody knows AWS's stock."""

import hashlib
from datetime import datetime, timedelta
from typing import Any, Final

from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import Ec2Error, invalid_value
from lab.embedded.ec2.api.filters import page, without_empty
from lab.embedded.ec2.market.catalogue import instance_types, offered_zones
from lab.embedded.ec2.market.prices import on_demand_micro_usd_per_hour, usd

Parameters = dict[str, Any]

COUNTS: Final = (1, 2, 4, 8, 16, 32, 64)
_DAY_HOURS: Final = 24
_DAILY_UP_TO_DAYS: Final = 14
_WEEKLY_UP_TO_DAYS: Final = 182
_WEEK_DAYS: Final = 7
_PERCENT_OF_ON_DEMAND: Final = 40
_STARTS_AT: Final = timedelta(hours=11, minutes=30)  # UTC, when AWS's blocks end and the next ones start
_SOONEST: Final = timedelta(minutes=30)


def describe_capacity_block_offerings(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer DescribeCapacityBlockOfferings: in each zone that has the type, the first block that could be had.

    Raises
    ------
    Ec2Error
        ``InvalidParameterCombination``, ``InvalidParameterValue``, ``UnsupportedOperation``.
    """
    if "UltraserverType" in parameters:
        raise Ec2Error("UnsupportedOperation", "Offerings of whole UltraServers are not emulated.")
    name, count, hours = _asked(parameters)
    start_at = _first_start(max(world.now() + _SOONEST, parameters.get("StartDateRange", world.now())))
    end_at = start_at + timedelta(hours=hours)
    latest = parameters.get("EndDateRange")
    zones = sorted(offered_zones(world.region).get(name, ())) if latest is None or end_at <= latest else []
    fee = on_demand_micro_usd_per_hour(name) * _PERCENT_OF_ON_DEMAND // 100 * count * hours
    found = [
        {
            "CapacityBlockOfferingId": _id(name, zone, count, start_at, hours),
            "InstanceType": name,
            "AvailabilityZone": zone,
            "InstanceCount": count,
            "StartDate": start_at,
            "EndDate": end_at,
            "CapacityBlockDurationHours": hours,
            "UpfrontFee": usd(fee),
            "CurrencyCode": "USD",
            "Tenancy": "default",
        }
        for zone in zones
    ]
    offerings, token = page(found, parameters, default=1000, maximum=1000)
    return without_empty({"CapacityBlockOfferings": offerings, "NextToken": token})


def _asked(parameters: Parameters) -> tuple[str, int, int]:
    name, count, hours = (parameters.get(each) for each in ("InstanceType", "InstanceCount", "CapacityDurationHours"))
    if not isinstance(name, str) or "capacity-block" not in instance_types().get(name, {}).get(
        "SupportedUsageClasses", ()
    ):
        raise invalid_value(f"The instance type '{name}' is not supported for Capacity Blocks")
    if count not in COUNTS:
        raise invalid_value(f"The instance count must be one of {', '.join(map(str, COUNTS))}")
    days, rest = divmod(hours or 0, _DAY_HOURS)
    is_daily = 1 <= days <= _DAILY_UP_TO_DAYS
    is_weekly = _DAILY_UP_TO_DAYS < days <= _WEEKLY_UP_TO_DAYS and days % _WEEK_DAYS == 0
    if rest or not (is_daily or is_weekly):
        raise invalid_value("The duration must be 1 to 14 days, or up to 182 days in steps of 7")
    return name, count, hours or 0


def _first_start(after: datetime) -> datetime:
    today = after.replace(hour=0, minute=0, second=0, microsecond=0) + _STARTS_AT
    return today if today >= after else today + timedelta(days=1)


def _id(*about: object) -> str:
    digest = hashlib.sha256("/".join(str(each) for each in about).encode()).hexdigest()
    return f"cb-0{digest[:16]}"
