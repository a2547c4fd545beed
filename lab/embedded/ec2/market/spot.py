"""Spot prices and bids."""

from lab.embedded.ec2.account.state import LaunchSpec
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import Ec2Error
from lab.embedded.ec2.market.prices import spot_micro_usd_per_hour


def price_micro_usd_per_hour(world: World, instance_type: str, zone: str) -> int:
    """Return the Spot price of a type in a zone: the one a test has set, or the formula's."""
    return world.spot_prices.get((instance_type, zone)) or spot_micro_usd_per_hour(
        instance_type, zone
    )


def refuse_low_bid(world: World, spec: LaunchSpec) -> None:
    """Refuse a launch whose maximum price is below the Spot price.

    Raises
    ------
    Ec2Error
        ``SpotMaxPriceTooLow``.
    """
    price = price_micro_usd_per_hour(world, spec.instance_type, spec.zone.name)
    if (
        spec.max_price_micro_usd_per_hour is not None
        and spec.max_price_micro_usd_per_hour < price
    ):
        raise Ec2Error(
            "SpotMaxPriceTooLow",
            "Your Spot request price is lower than the minimum required Spot request fulfillment price.",
        )
