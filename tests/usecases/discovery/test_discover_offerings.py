"""The catalogue: a missing price never makes anything free, and never hides it silently."""

from datetime import timedelta

import pytest

from lab.worlds.planning_world import ON_DEMAND, SPOT, PlanningWorld
from reservoir.core.capacity.offerings import ReservedPrices
from reservoir.core.capacity.unavailable_offerings import Market
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.ports.discovery import ZoneOfferings
from reservoir.ports.errors import ThrottledError


def catalogue(world: PlanningWorld) -> dict[str, InstanceType]:
    return {
        instance_type.name: instance_type
        for instance_type in world.state.offerings.load_catalogue()
    }


def markets(instance_type: InstanceType) -> dict[tuple[str, str], int]:
    return {
        (str(offering.capacity_type), offering.zone): offering.price_micro_usd_per_hour
        for offering in instance_type.offerings
    }


def test_every_zone_and_market_with_a_price_is_an_offering() -> None:
    world = PlanningWorld()
    found = world.offerings().run()

    assert (found.type_count, found.written_count, found.unpriced, found.failures) == (
        3,
        3,
        (),
        (),
    )
    assert markets(catalogue(world)["m5.large"]) == {
        (market, f"us-east-1{letter}"): price
        for letter in "abc"
        for market, price in (("on-demand", 96_000), ("spot", 28_800))
    }
    assert world.queue.wake_ups == ["offerings changed"]


def test_an_unchanged_catalogue_wakes_nobody() -> None:
    world = PlanningWorld()
    world.offerings().run()
    world.queue.wake_ups.clear()

    assert world.offerings().run().written_count == 0
    assert world.queue.wake_ups == []


def test_spot_prices_that_wobble_write_nothing_and_never_drift_away() -> None:
    world = PlanningWorld()
    world.offerings().run()
    prices, written = dict(SPOT), 0
    for _ in range(30):  # by 0.1 % each time
        prices = {key: price * 1001 // 1000 for key, price in prices.items()}
        world.prices.spot_prices = prices
        written += world.offerings().run().written_count
        for (name, zone), price in prices.items():
            stored = markets(catalogue(world)[name])["spot", zone]
            assert abs(stored - price) * 100 <= stored * 2
    assert written == len(catalogue(world))  # each type once in 3 %


def test_a_price_that_moves_brings_the_others_of_its_type_along() -> None:
    world = PlanningWorld()
    world.offerings().run()
    prices = {key: price * 101 // 100 for key, price in SPOT.items()}
    prices["m5.large", "us-east-1a"] *= 2
    world.prices.spot_prices = prices

    assert world.offerings().run().written_count == 1
    assert (
        markets(catalogue(world)["m5.large"])["spot", "us-east-1b"] == 28_800 * 101 // 100
    )


def test_an_on_demand_price_is_never_rounded() -> None:
    world = PlanningWorld()
    world.offerings().run()
    world.prices.on_demand_prices = {**ON_DEMAND, "m5.large": ON_DEMAND["m5.large"] + 1}

    assert world.offerings().run().written_count == 1
    assert (
        catalogue(world)["m5.large"].on_demand_price_micro_usd_per_hour
        == ON_DEMAND["m5.large"] + 1
    )


def test_a_shortage_and_its_reason_do_not_get_into_the_catalogue() -> None:
    world = PlanningWorld()
    world.offerings().run()
    until = world.clock.now() + timedelta(minutes=5)
    world.state.offerings.mark_unavailable(
        [Market(CapacityType.SPOT)], until=until, reason="no role"
    )
    assert any(
        offering.unavailable_reason for offering in catalogue(world)["m5.large"].offerings
    )

    assert world.offerings().run().written_count == 0
    world.clock.advance(minutes=6)
    assert not any(
        offering.unavailable_reason for offering in catalogue(world)["m5.large"].offerings
    )


def test_a_type_without_a_price_is_reported_and_cannot_be_bought() -> None:
    world = PlanningWorld()
    world.prices.on_demand_prices = {
        name: price for name, price in ON_DEMAND.items() if name != "m5.large"
    }

    found = world.offerings().run()

    assert found.unpriced == ("m5.large",)
    known = catalogue(world)["m5.large"]
    assert known.on_demand_price_micro_usd_per_hour is None
    assert {offering.capacity_type for offering in known.offerings} == {CapacityType.SPOT}
    # In a reservation it counts as the dearest, not as free.
    prices = ReservedPrices.of(world.state.offerings.load_catalogue())
    assert prices.atto_usd_per_hour(known) == prices.atto_usd_per_hour(
        catalogue(world)["p5.48xlarge"]
    )
    assert 0 < prices.atto_usd_per_hour(known) < min(SPOT.values()) * ATTO_USD_PER_MICRO_USD


def test_a_price_that_disappears_stays_as_it_was() -> None:
    world = PlanningWorld()
    world.offerings().run()
    world.prices.on_demand_prices = {
        name: price for name, price in ON_DEMAND.items() if name != "m5.large"
    }

    found = world.offerings().run()

    assert (found.unpriced, found.priced_from_before, found.written_count) == (
        (),
        ("m5.large",),
        0,
    )


def test_a_spot_pool_without_a_price_is_not_offered() -> None:
    world = PlanningWorld()
    world.prices.spot_prices = {
        key: price for key, price in SPOT.items() if key != ("m5.large", "us-east-1b")
    }

    assert world.offerings().run().spot_lost == ()

    assert ("spot", "us-east-1b") not in markets(catalogue(world)["m5.large"])
    assert ("spot", "us-east-1a") in markets(catalogue(world)["m5.large"])


def test_a_spot_pool_that_loses_its_price_is_named() -> None:
    world = PlanningWorld()
    world.offerings().run()
    world.prices.spot_prices = {
        key: price for key, price in SPOT.items() if key != ("m5.large", "us-east-1b")
    }

    assert world.offerings().run().spot_lost == ("m5.large us-east-1b",)
    assert ("spot", "us-east-1b") not in markets(catalogue(world)["m5.large"])
    assert world.offerings().run().spot_lost == ()  # once
    world.prices.spot_prices = None
    assert world.offerings().run().spot_lost == ()


def test_prices_that_cannot_be_read_stay_as_they_were() -> None:
    world = PlanningWorld()
    world.offerings().run()
    before = world.state.offerings.load_catalogue()
    world.prices.on_demand_prices = None
    world.prices.spot_prices = None

    found = world.offerings().run()

    assert found.failures == (
        "on-demand prices: ThrottlingException",
        "spot prices: RequestLimitExceeded",
    )
    assert found.written_count == 0
    assert world.state.offerings.load_catalogue() == before


def test_an_empty_price_list_is_a_failure() -> None:
    world = PlanningWorld()
    world.offerings().run()
    world.prices.on_demand_prices = {}

    assert world.offerings().run().failures == ("on-demand prices: none",)
    assert catalogue(world)["m5.large"].on_demand_price_micro_usd_per_hour == 96_000


def test_types_that_cannot_be_read_change_nothing() -> None:
    world = PlanningWorld()
    world.offerings().run()
    before = world.state.offerings.load_catalogue()
    world.types.error = ThrottledError("RequestLimitExceeded", "DescribeInstanceTypes")

    with pytest.raises(ThrottledError):
        world.offerings().run()
    assert world.state.offerings.load_catalogue() == before


def test_a_zone_that_the_account_has_not_opted_into_is_left_out() -> None:
    world = PlanningWorld()
    zone_ids = {**world.types.zones.zone_ids, "m5.large": ("use1-az1", "use1-bos1-az1")}
    world.types.zones = ZoneOfferings(zone_ids, world.types.zones.zone_names)

    world.offerings().run()

    assert {offering.zone_id for offering in catalogue(world)["m5.large"].offerings} == {
        "use1-az1"
    }
