"""What running nodes cost today, which need not be what they cost when they were launched (R-27, R-170, R-201)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reservoir.core.capacity.offerings import ReservedPrices, price_atto_usd
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.plan import OfferingKey


@dataclass(frozen=True, slots=True)
class NodePrices:
    """Today's prices in atto-USD an hour: of spot and on-demand offerings, and of a reserved unit of each type.

    Spot prices move, and reserved prices with them, because their ratio to on-demand prices depends on the cheapest
    spot price. Compared nodes must be priced at one moment: by the price of its launch, a reserved node may seem more
    expensive than an equal free unit.
    """

    bought: Mapping[OfferingKey, int]
    reserved: Mapping[str, int]

    @classmethod
    def of(cls, instance_types: Iterable[InstanceType]) -> "NodePrices":
        """Read the catalogue, with the offerings that are short of capacity just now: nodes may run on them."""
        known = tuple(instance_types)
        units = ReservedPrices.of(known)
        bought: dict[OfferingKey, int] = {}
        for each in known:
            for offering in each.offerings:
                key = OfferingKey(
                    each.name, offering.zone, offering.zone_id, offering.capacity_type
                )
                bought[key] = price_atto_usd(offering.price_micro_usd_per_hour)
        return cls(bought, {each.name: units.atto_usd_per_hour(each) for each in known})

    def today(self, offering: OfferingKey, at_launch: int) -> int:
        """Return what a node on the offering costs an hour; ``at_launch`` where the offering is unknown by now."""
        if offering.capacity_type is CapacityType.RESERVED:
            return self.reserved.get(offering.instance_type, at_launch)
        return self.bought.get(offering, at_launch)
