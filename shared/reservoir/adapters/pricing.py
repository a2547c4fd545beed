"""On-demand prices (Price List API) and spot prices."""

import json
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.ports.system import Clock

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_pricing import PricingClient

_MICRO: Final = 10**6
# Linux without extra software, bought on demand; "Used" leaves out what reservations cost while idle.
_COMMON_FILTERS: Final = {
    "serviceCode": "AmazonEC2",
    "preInstalledSw": "NA",
    "operatingSystem": "Linux",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
# Bare metal is listed under dedicated tenancy.
_PRODUCTS: Final = (
    {"tenancy": "Shared", "productFamily": "Compute Instance"},
    {"tenancy": "Dedicated", "productFamily": "Compute Instance (bare metal)"},
)
_SPOT_PRODUCTS: Final = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"]


class AwsPriceReader:
    """Implements ``reservoir.ports.discovery.PriceReader``."""

    def __init__(
        self, pricing: "PricingClient", ec2: "EC2Client", *, region: str, clock: Clock
    ) -> None:
        self._pricing = pricing
        self._ec2 = ec2
        self._region = region
        self._clock = clock

    def on_demand(self) -> Mapping[str, int]:
        """Return Linux on-demand prices by type, micro-USD per hour; types without a price are left out."""
        prices: dict[str, int] = {}
        for product in _PRODUCTS:
            filters: list[Any] = [
                {"Type": "TERM_MATCH", "Field": name, "Value": value}
                for name, value in {
                    **_COMMON_FILTERS,
                    **product,
                    "regionCode": self._region,
                }.items()
            ]
            with map_client_errors():
                pages = self._pricing.get_paginator("get_products").paginate(
                    ServiceCode="AmazonEC2", Filters=filters
                )
                for page in pages:
                    for item in page["PriceList"]:
                        prices.update(parse_product(json.loads(item)))
        return prices

    def spot(self) -> Mapping[tuple[str, str], int]:
        """Return the latest Linux spot prices: (type, zone name) -> micro-USD per hour."""
        prices: dict[tuple[str, str], int] = {}
        with map_client_errors():
            pages = self._ec2.get_paginator("describe_spot_price_history").paginate(
                StartTime=self._clock.now(), ProductDescriptions=_SPOT_PRODUCTS
            )
            for page in pages:
                for entry in page["SpotPriceHistory"]:
                    key = (entry["InstanceType"], entry["AvailabilityZone"])
                    price = micro_usd(entry["SpotPrice"])
                    if price > 0:
                        # Two product descriptions of one pool: the higher price is what it may cost.
                        prices[key] = max(price, prices.get(key, 0))
        return prices


def parse_product(product: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Read one product of the price list; a price of zero is a placeholder, not a gift."""
    instance_type = product["product"]["attributes"].get("instanceType")
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            price = dimension["pricePerUnit"].get("USD")
            if instance_type and price and micro_usd(price) > 0:
                yield instance_type, micro_usd(price)


def micro_usd(usd: str) -> int:
    """Convert a decimal in USD, rounding up: a price is never understated."""
    return -(-(Fraction(usd) * _MICRO).numerator // (Fraction(usd) * _MICRO).denominator)
