"""Pricing GetProducts for EC2 instances: a list of JSON documents in strings, selected by attribute filters.

Like the real list it holds more than on-demand Linux: Windows, Dedicated tenancy, and the two reservation rows that a
filter on ``capacitystatus`` must leave out. A caller that filters badly gets wrong prices here too.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from lab.embedded.ec2.api.errors import Ec2Error
from lab.embedded.ec2.api.filters import page
from lab.embedded.ec2.api.protocol import Reply
from lab.embedded.ec2.market.catalogue import instance_types, offered_zones
from lab.embedded.ec2.market.prices import on_demand_micro_usd_per_hour, usd

PAGE_SIZE: Final = 100
# copied into answers: MiniStack adds to them
_HEADERS: Final = {"Content-Type": "application/x-amz-json-1.1"}
_WINDOWS_PERCENT: Final = 145
_DEDICATED_PERCENT: Final = 106

# What one type is listed as: operating system, tenancy, capacity status, percent of the on-demand price.
_VARIANTS: Final = (
    ("Linux", "Shared", "Used", 100),
    ("Linux", "Shared", "UnusedCapacityReservation", 100),
    ("Linux", "Shared", "AllocatedCapacityReservation", 0),
    ("Linux", "Dedicated", "Used", _DEDICATED_PERCENT),
    ("Windows", "Shared", "Used", _WINDOWS_PERCENT),
)


@dataclass(frozen=True)
class Product:
    """One row of the list."""

    attributes: Mapping[str, str]
    family: str
    micro_usd_per_hour: int


class PricingService:
    """Answers the Pricing service for the instance types of one region."""

    def __init__(self, region: str) -> None:
        self._region = region

    def answer(self, body: bytes, target: str) -> Reply:
        """Answer one request; only GetProducts is emulated, anything else is answered with status 400."""
        try:
            if target.rpartition(".")[2] != "GetProducts":
                raise Ec2Error("InvalidParameterException", f"{target} is not emulated.")
            return (
                200,
                dict(_HEADERS),
                json.dumps(self._get_products(json.loads(body or b"{}"))).encode(),
            )
        except json.JSONDecodeError:
            return 400, dict(_HEADERS), b'{"__type":"SerializationException"}'
        except Ec2Error as error:
            return (
                400,
                dict(_HEADERS),
                json.dumps({"__type": error.code, "message": error.message}).encode(),
            )

    def _get_products(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if request.get("ServiceCode") != "AmazonEC2":
            raise Ec2Error("NotFoundException", "Only AmazonEC2 is emulated.")
        filters = request.get("Filters", [])
        found: list[Product] = []
        for product in _products(self._region):
            if all(_matches(product, each) for each in filters):
                found.append(product)
        products, token = page(found, request, default=PAGE_SIZE, maximum=PAGE_SIZE)
        answer: dict[str, Any] = {
            "FormatVersion": "aws_v1",
            "PriceList": [_document(p) for p in products],
        }
        return answer | ({"NextToken": token} if token else {})


@cache
def _products(region: str) -> tuple[Product, ...]:
    products: list[Product] = []
    for name in sorted(offered_zones(region)):
        products += _products_of(region, name)
    return tuple(products)


def _products_of(region: str, name: str) -> Iterator[Product]:
    info = instance_types().get(name)
    if info is None:
        return
    bare_metal = bool(info.get("BareMetal"))
    for system, tenancy, status, percent in _VARIANTS:
        if bare_metal and tenancy == "Shared":
            continue
        attributes = {
            "regionCode": region,
            "servicecode": "AmazonEC2",
            "instanceType": name,
            "operatingSystem": system,
            "tenancy": tenancy,
            "capacitystatus": status,
            "preInstalledSw": "NA",
            "licenseModel": "No License required",
            "marketoption": "OnDemand",
            "vcpu": str(info["VCpuInfo"]["DefaultVCpus"]),
            "memory": f"{info['MemoryInfo']['SizeInMiB'] / 1024:g} GiB",
            "locationType": "AWS Region",
        }
        family = "Compute Instance (bare metal)" if bare_metal else "Compute Instance"
        price = on_demand_micro_usd_per_hour(name) * (100 if bare_metal else percent) // 100
        yield Product(attributes, family, price)


def _matches(product: Product, product_filter: Mapping[str, str]) -> bool:
    kind, value = product_filter.get("Type"), product_filter.get("Value", "")
    have = _attribute(product, product_filter.get("Field", ""))
    if have is None:
        return False
    if kind in {"TERM_MATCH", "EQUALS"}:
        return have == value
    if kind == "CONTAINS":
        return value in have
    if kind == "ANY_OF":
        return have in value.split(",")
    if kind == "NONE_OF":
        return have not in value.split(",")
    raise Ec2Error("InvalidParameterException", f"Invalid filter type: {kind}")


def _attribute(product: Product, name: str) -> str | None:
    """Return an attribute; the service compares the names of attributes without regard to case."""
    if name.lower() == "productfamily":
        return product.family
    wanted = name.lower()
    return next(
        (value for key, value in product.attributes.items() if key.lower() == wanted), None
    )


def _document(product: Product) -> str:
    sku = "-".join(
        product.attributes[name]
        for name in ("instanceType", "operatingSystem", "tenancy", "capacitystatus")
    )
    rate = f"{sku}.HOURLY.1"
    return json.dumps(
        {
            "product": {
                "productFamily": product.family,
                "attributes": dict(product.attributes),
                "sku": sku,
            },
            "serviceCode": "AmazonEC2",
            "terms": {
                "OnDemand": {
                    f"{sku}.HOURLY": {
                        "sku": sku,
                        "priceDimensions": {
                            rate: {
                                "rateCode": rate,
                                "unit": "Hrs",
                                "pricePerUnit": {"USD": usd(product.micro_usd_per_hour)},
                            }
                        },
                    }
                }
            },
            "version": "1",
        }
    )
