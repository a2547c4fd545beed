"""What was paid and saved: EC2's own record of each instance, at EC2's own prices."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from lab.demo.bill import Prices, make_bill, read_prices
from lab.demo.history import Stay
from lab.demo.observer import Observed, Observer
from lab.embedded.client import EmbeddedAws
from reservoir.names import OWNER_TAG
from tests.demo.support import at, curve

LARGE, ZONE = "m5.large", "us-east-1a"
LOOKS_MAX = 60
PRICES = Prices({LARGE: 96_000}, {(LARGE, ZONE): 40_000})


def stay(market: str, minutes: float) -> Stay:
    return Stay(LARGE, ZONE, market, at(0), at(minutes))


def test_reservations_and_spot_save_what_on_demand_would_have_cost() -> None:
    stays = [stay("reserved", 60), stay("spot", 60), stay("on-demand", 30)]
    bill = make_bill(stays, PRICES, [curve((0, 1, 2))], at(0), at(60))
    assert bill.all_on_demand_micro_usd == 96_000 + 96_000 + 48_000
    assert bill.paid_micro_usd == {"spot": 40_000, "on-demand": 48_000}
    assert bill.saved_micro_usd == 240_000 - 88_000
    assert bill.saved_percent == 63
    assert bill.used_percent == 50


def test_nothing_is_saved_where_everything_was_bought_on_demand() -> None:
    bill = make_bill([stay("on-demand", 60)], PRICES, [], at(0), at(60))
    assert (bill.saved_micro_usd, bill.saved_percent, bill.used_percent) == (0, 0, 0)


def test_spot_that_is_dearer_than_on_demand_saves_less_than_nothing() -> None:
    dear = Prices({LARGE: 96_000}, {(LARGE, ZONE): 120_000})
    assert make_bill([stay("spot", 60)], dear, [], at(0), at(60)).saved_micro_usd == -24_000


def test_a_demo_in_which_nothing_ran_costs_nothing() -> None:
    bill = make_bill([], PRICES, [], at(0), at(60))
    assert (bill.all_on_demand_micro_usd, bill.saved_percent) == (0, 0)


@pytest.mark.embedded
def test_the_bill_is_what_ec2_says_of_its_instances_and_prices(
    embedded_aws: EmbeddedAws,
) -> None:
    """Three instances for an hour, and for no longer, however late one looks."""
    aws = embedded_aws
    aws.clock.pause()  # time passes as the test says
    aws.ec2("set_spot_price", instance_type=LARGE, zone=ZONE, micro_usd_per_hour=31_000)
    reserved = reserve(aws)
    aws.client("events").create_event_bus(Name="facts")
    observer = Observer(aws, bus_name="facts", titles={reserved: "general"})
    targeted = {"CapacityReservationTarget": {"CapacityReservationId": reserved}}
    run(aws, CapacityReservationSpecification=targeted)
    run(aws, InstanceMarketOptions={"MarketType": "spot"})
    run(aws)
    running = until(
        aws,
        observer,
        lambda seen: sum("running" in it for it in seen.entered.values()) == 3,
    )
    aws.clock.advance(timedelta(hours=1))
    observer.refresh()
    aws.client("ec2").terminate_instances(InstanceIds=[it.id for it in running.live()])
    until(
        aws,
        observer,
        lambda seen: sum("shutting-down" in it for it in seen.entered.values()) == 3,
    )
    aws.clock.advance(timedelta(minutes=30))
    seen = observer.refresh()
    stays = list(seen.stays())
    assert {it.market for it in stays} == {"reserved", "spot", "on-demand"}
    prices = read_prices(aws, stays)
    assert prices.spot[LARGE, ZONE] == 31_000
    assert seen.now is not None
    bill = make_bill(stays, prices, [seen.curves["general"]], stays[0].started_at, seen.now)
    hours = {it.market: it.lasted / timedelta(hours=1) for it in stays}
    # each second of waiting for all to run, and for all to end, is one
    looks = LOOKS_MAX / 3600
    assert all(1 <= lasted < 1 + 2 * looks for lasted in hours.values())
    assert bill.paid_micro_usd["spot"] == pytest.approx(31_000 * hours["spot"], abs=100)
    assert bill.paid_micro_usd["on-demand"] == pytest.approx(
        prices.on_demand[LARGE] * hours["on-demand"], abs=100
    )
    assert bill.all_on_demand_micro_usd == pytest.approx(
        prices.on_demand[LARGE] * sum(hours.values()), abs=300
    )
    assert bill.reserved_available > bill.reserved_used >= timedelta(hours=1)


def reserve(aws: EmbeddedAws) -> str:
    answer = aws.client("ec2").create_capacity_reservation(
        InstanceType=LARGE,
        InstancePlatform="Linux/UNIX",
        AvailabilityZone=ZONE,
        InstanceCount=2,
        InstanceMatchCriteria="targeted",
    )
    return str(answer["CapacityReservation"]["CapacityReservationId"])


def run(aws: EmbeddedAws, **parameters: Any) -> None:
    ec2 = aws.client("ec2")
    images = ec2.describe_images(Filters=[{"Name": "architecture", "Values": ["x86_64"]}])[
        "Images"
    ]
    ec2.run_instances(
        ImageId=next(it["ImageId"] for it in images if it.get("Platform") != "windows"),
        InstanceType=LARGE,
        MinCount=1,
        MaxCount=1,
        Placement={"AvailabilityZone": ZONE},
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": OWNER_TAG, "Value": "test"}]}
        ],
        **parameters,
    )


def until(
    aws: EmbeddedAws, observer: Observer, holds: Callable[[Observed], bool]
) -> Observed:
    for _ in range(LOOKS_MAX):
        if holds(observer.refresh()):
            return observer.seen
        aws.clock.advance(timedelta(seconds=1))
    raise AssertionError(observer.seen)
