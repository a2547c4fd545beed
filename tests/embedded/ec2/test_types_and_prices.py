"""Instance types, where they are offered, and what they cost."""

import json
from typing import Any

import pytest

from lab.embedded.ec2.market.prices import (
    on_demand_micro_usd_per_hour,
    spot_micro_usd_per_hour,
)
from lab.worlds.cloud import REGION, TYPE, ZONE_A, ZONE_B, Cloud, refused

ON_DEMAND_FILTERS = {
    "regionCode": REGION,
    "serviceCode": "AmazonEC2",
    "preInstalledSw": "NA",
    "operatingSystem": "Linux",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
VIRTUAL = {"tenancy": "Shared", "productFamily": "Compute Instance"}
BARE_METAL = {"tenancy": "Dedicated", "productFamily": "Compute Instance (bare metal)"}


def price_list(cloud: Cloud, **attributes: str) -> dict[str, str]:
    """Return USD per hour by instance type, read as a scheduler reads it."""
    filters = [
        {"Type": "TERM_MATCH", "Field": name, "Value": value}
        for name, value in attributes.items()
    ]
    pages = (
        cloud.emulation.client("pricing")
        .get_paginator("get_products")
        .paginate(ServiceCode="AmazonEC2", Filters=filters)
    )
    prices: dict[str, str] = {}
    for document in (json.loads(text) for page in pages for text in page["PriceList"]):
        for term in document["terms"]["OnDemand"].values():
            for dimension in term["priceDimensions"].values():
                name = document["product"]["attributes"]["instanceType"]
                assert name not in prices, "two on-demand prices for one type"
                prices[name] = dimension["pricePerUnit"]["USD"]
    return prices


def test_types_come_in_pages_of_100_and_all_are_offered(cloud: Cloud) -> None:
    pages = list(cloud.ec2.get_paginator("describe_instance_types").paginate())
    assert {len(page["InstanceTypes"]) for page in pages[:-1]} == {100}
    names = [t["InstanceType"] for page in pages for t in page["InstanceTypes"]]
    assert len(names) == len(set(names)) > 1000
    offerings = cloud.ec2.get_paginator("describe_instance_type_offerings").paginate()
    assert {
        o["InstanceType"] for page in offerings for o in page["InstanceTypeOfferings"]
    } == set(names)


def test_types_can_be_named_and_filtered(cloud: Cloud) -> None:
    described = cloud.ec2.describe_instance_types(InstanceTypes=["p5.48xlarge"])[
        "InstanceTypes"
    ][0]
    assert described["GpuInfo"]["Gpus"][0]["Count"] == 8
    trainium = cloud.ec2.describe_instance_types(
        Filters=[{"Name": "instance-type", "Values": ["trn2u.*"]}]
    )
    assert [each["InstanceType"] for each in trainium["InstanceTypes"]] == [
        "trn2u.48xlarge"
    ]
    arm = [
        {"Name": "processor-info.supported-architecture", "Values": ["arm64"]},
        {"Name": "vcpu-info.default-vcpus", "Values": ["2"]},
        {"Name": "bare-metal", "Values": ["false"]},
    ]
    found = cloud.ec2.describe_instance_types(Filters=arm)["InstanceTypes"]
    assert found
    assert {t["VCpuInfo"]["DefaultVCpus"] for t in found} == {2}
    with refused("InvalidInstanceType"):
        cloud.ec2.describe_instance_types(InstanceTypes=["zz9.huge"])
    with refused("InvalidParameterValue"):
        cloud.ec2.describe_instance_types(Filters=[{"Name": "colour", "Values": ["red"]}])


@pytest.mark.parametrize(
    ("kind", "location"),
    [("availability-zone", ZONE_B), ("availability-zone-id", "use1-az1")],
)
def test_offerings_name_zones_as_asked(cloud: Cloud, kind: str, location: str) -> None:
    filters = [
        {"Name": "instance-type", "Values": [TYPE]},
        {"Name": "location", "Values": [location]},
    ]
    answer = cloud.ec2.describe_instance_type_offerings(LocationType=kind, Filters=filters)
    assert answer["InstanceTypeOfferings"] == [
        {"InstanceType": TYPE, "LocationType": kind, "Location": location}
    ]


def test_every_offered_type_has_one_on_demand_price(cloud: Cloud) -> None:
    virtual = price_list(cloud, **ON_DEMAND_FILTERS, **VIRTUAL)
    metal = price_list(cloud, **ON_DEMAND_FILTERS, **BARE_METAL)
    names = {
        o["InstanceType"]
        for page in cloud.ec2.get_paginator("describe_instance_type_offerings").paginate()
        for o in page["InstanceTypeOfferings"]
    }
    assert virtual.keys() | metal.keys() == names
    assert not virtual.keys() & metal.keys()
    assert all(float(price) > 0 for price in (virtual | metal).values())
    assert round(float(virtual[TYPE]) * 1_000_000) == on_demand_micro_usd_per_hour(TYPE)


def test_a_missing_filter_mixes_in_the_rows_that_it_would_remove(cloud: Cloud) -> None:
    careless = {
        name: value for name, value in ON_DEMAND_FILTERS.items() if name != "capacitystatus"
    }
    with pytest.raises(AssertionError, match="two on-demand prices"):
        price_list(cloud, **careless, **VIRTUAL)


@pytest.mark.parametrize(
    ("product_filter", "expected"),
    [
        ({"Type": "EQUALS", "Field": "instanceType", "Value": TYPE}, {TYPE}),
        ({"Type": "CONTAINS", "Field": "instanceType", "Value": "m5.la"}, {TYPE}),
        (
            {"Type": "ANY_OF", "Field": "instanceType", "Value": "m5.large,c5.large"},
            {TYPE, "c5.large"},
        ),
    ],
)
def test_filter_types(
    cloud: Cloud, product_filter: dict[str, str], expected: set[str]
) -> None:
    answer = cloud.emulation.client("pricing").get_products(
        ServiceCode="AmazonEC2", Filters=[product_filter]
    )
    assert {
        json.loads(p)["product"]["attributes"]["instanceType"] for p in answer["PriceList"]
    } == expected


@pytest.mark.parametrize(
    ("cheap", "dear"),
    [
        ("m5.large", "m5.xlarge"),
        ("m6g.large", "m6i.large"),
        ("m6a.large", "m6i.large"),
        ("c5.large", "r5.large"),
        ("c5.large", "c5d.large"),
        ("p4d.24xlarge", "p5.48xlarge"),
        ("g5.xlarge", "p5.4xlarge"),
    ],
)
def test_prices_are_plausible(cheap: str, dear: str) -> None:
    assert 0 < on_demand_micro_usd_per_hour(cheap) < on_demand_micro_usd_per_hour(dear)


def test_spot_is_cheaper_and_differs_by_zone(cloud: Cloud) -> None:
    history = cloud.ec2.describe_spot_price_history(
        InstanceTypes=[TYPE, "c5.large"],
        ProductDescriptions=["Linux/UNIX", "Linux/UNIX (Amazon VPC)"],
    )["SpotPriceHistory"]
    by_type: dict[str, dict[str, float]] = {}
    for row in history:
        by_type.setdefault(row["InstanceType"], {})[row["AvailabilityZone"]] = float(
            row["SpotPrice"]
        )
    for name, prices in by_type.items():
        on_demand = on_demand_micro_usd_per_hour(name) / 1_000_000
        assert all(0.29 * on_demand < price < 0.61 * on_demand for price in prices.values())
        assert len(set(prices.values())) > 1
    assert by_type[TYPE][ZONE_A] == spot_micro_usd_per_hour(TYPE, ZONE_A) / 1_000_000


def test_a_set_spot_price_is_shown(cloud: Cloud) -> None:
    cloud.control(
        "set_spot_price", instance_type=TYPE, zone=ZONE_A, micro_usd_per_hour=12_345
    )
    rows = cloud.ec2.describe_spot_price_history(
        InstanceTypes=[TYPE], AvailabilityZone=ZONE_A
    )["SpotPriceHistory"]
    assert [row["SpotPrice"] for row in rows] == ["0.012345"]


def test_spot_history_covers_all_pools_in_pages(cloud: Cloud) -> None:
    rows: list[dict[str, Any]] = [
        row
        for page in cloud.ec2.get_paginator("describe_spot_price_history").paginate()
        for row in page["SpotPriceHistory"]
    ]
    pools = {(row["InstanceType"], row["AvailabilityZone"]) for row in rows}
    assert len(pools) == len(rows) > 1000
