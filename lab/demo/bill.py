"""What the nodes cost, and what they would have cost on demand: EC2's own record of them, at EC2's own prices.

What reserved capacity costs is left out on both sides: it is paid for whether it is used or not. Instead the bill says
how much of it was used.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from lab.demo.history import Curve, Stay
from lab.embedded.client import EmbeddedAws

MICRO: Final = 1_000_000
HOUR: Final = timedelta(hours=1)
Pool = tuple[str, str]  # instance type and zone


@dataclass(frozen=True, slots=True)
class Prices:
    """Micro-USD an hour."""

    on_demand: Mapping[str, int]  # by instance type
    spot: Mapping[Pool, int]


@dataclass(frozen=True, slots=True)
class Bill:
    """Micro-USD, and unit-time of reservations."""

    all_on_demand_micro_usd: int
    paid_micro_usd: Mapping[str, int]  # by market; what is reserved is not paid for again
    reserved_used: timedelta
    reserved_available: timedelta

    @property
    def total_paid_micro_usd(self) -> int:
        """What was paid beside the reservations."""
        return sum(self.paid_micro_usd.values())

    @property
    def saved_micro_usd(self) -> int:
        """What reservations and spot saved."""
        return self.all_on_demand_micro_usd - self.total_paid_micro_usd

    @property
    def saved_percent(self) -> int:
        """The saving in whole percent of the bill on demand, rounded down; 0 when nothing ran."""
        if self.all_on_demand_micro_usd:
            return 100 * self.saved_micro_usd // self.all_on_demand_micro_usd
        return 0

    @property
    def used_percent(self) -> int:
        """How much of the reserved unit-time was used, in whole percent, rounded down."""
        if self.reserved_available:
            return int(100 * self.reserved_used / self.reserved_available)
        return 0


def make_bill(
    stays: Iterable[Stay],
    prices: Prices,
    curves: Iterable[Curve],
    since: datetime,
    until: datetime,
) -> Bill:
    """Add up what ran, by the second as EC2 charges it."""
    everything, paid = 0, {"spot": 0, "on-demand": 0}
    for stay in stays:
        on_demand = _charge(prices.on_demand[stay.instance_type], stay.lasted)
        everything += on_demand
        if stay.market == "spot":
            paid["spot"] += _charge(prices.spot[stay.instance_type, stay.zone], stay.lasted)
        elif stay.market == "on-demand":
            paid["on-demand"] += on_demand
    seen = list(curves)
    return Bill(
        all_on_demand_micro_usd=everything,
        paid_micro_usd=paid,
        reserved_used=sum((curve.used(since, until) for curve in seen), timedelta()),
        reserved_available=sum(
            (curve.available(since, until) for curve in seen), timedelta()
        ),
    )


def _charge(micro_usd_per_hour: int, lasted: timedelta) -> int:
    return micro_usd_per_hour * (lasted // timedelta(seconds=1)) // 3600


def read_prices(aws: EmbeddedAws, stays: Iterable[Stay]) -> Prices:
    """Ask the price list and the history of spot prices for what ran."""
    types = sorted({stay.instance_type for stay in stays})
    pricing, ec2 = aws.client("pricing"), aws.client("ec2")
    return Prices(
        {name: _on_demand_price(pricing, name, aws.region) for name in types},
        _spot_prices(ec2, types),
    )


def _on_demand_price(pricing: Any, instance_type: str, region: str) -> int:
    wanted = {
        "instanceType": instance_type,
        "regionCode": region,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
    }
    filters = [
        {"Type": "TERM_MATCH", "Field": field, "Value": value}
        for field, value in wanted.items()
    ]
    answer = pricing.get_products(ServiceCode="AmazonEC2", Filters=filters)
    (product,) = answer["PriceList"]
    (term,) = json.loads(product)["terms"]["OnDemand"].values()
    (dimension,) = term["priceDimensions"].values()
    return _micro_usd(dimension["pricePerUnit"]["USD"])


def _spot_prices(ec2: Any, types: list[str]) -> dict[Pool, int]:
    if not types:
        return {}
    pages = ec2.get_paginator("describe_spot_price_history").paginate(
        InstanceTypes=types, ProductDescriptions=["Linux/UNIX"]
    )
    return {
        (it["InstanceType"], it["AvailabilityZone"]): _micro_usd(it["SpotPrice"])
        for page in pages
        for it in page["SpotPriceHistory"]
    }


def _micro_usd(usd: str) -> int:
    return round(float(usd) * MICRO)
