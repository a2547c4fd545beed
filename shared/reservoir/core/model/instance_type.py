"""Instance types and their offerings: what can be bought, where, on which market, for how much."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from reservoir.core.scheduling_terms.efa import EfaCard
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources


class CapacityType(StrEnum):
    """How capacity is bought; the value of the label ``karpenter.sh/capacity-type``."""

    RESERVED = "reserved"
    SPOT = "spot"
    ON_DEMAND = "on-demand"


# Types that are sold as parts of an UltraServer, by the part of the name before the dot.
_ULTRA_SERVER_FAMILIES: Final = frozenset({"p6e-gb200", "p6e-gb300", "trn2u", "trn3u"})


def is_ultra_server(instance_type_name: str) -> bool:
    """Whether the type is part of an UltraServer, whose Capacity Blocks EC2 reclaims 60 minutes before their end."""
    return instance_type_name.partition(".")[0] in _ULTRA_SERVER_FAMILIES


@dataclass(frozen=True, slots=True)
class Offering:
    """One spot or on-demand variant of an instance type: a zone and a market.

    Reserved offerings are not listed here: they follow from the reservations that a NodeClass selects and their free
    units (``reservoir.core.capacity.offerings``).
    """

    zone: str
    zone_id: str
    capacity_type: CapacityType
    price_micro_usd_per_hour: int
    # it rests; may be probed again at this instant
    unavailable_until: datetime | None = None
    # why, where it was something else than insufficient capacity
    unavailable_reason: str = ""

    def is_available(self, now: datetime) -> bool:
        """Whether the offering may be asked for at ``now``."""
        return self.unavailable_until is None or self.unavailable_until <= now


@dataclass(frozen=True, slots=True)
class InstanceType:
    """An EC2 instance type with its allocatable resources.

    ``requirements`` hold what is true of every instance of it (arch, os, family, size, cpu, memory, gpu ... labels),
    without zone and capacity type, which belong to offerings. ``on_demand_price_micro_usd_per_hour`` orders
    reservations even where the type cannot be bought on demand; None when no price was ever discovered.
    """

    name: str
    requirements: Requirements
    capacity: Resources
    overhead: Resources
    offerings: tuple[Offering, ...] = ()
    on_demand_price_micro_usd_per_hour: int | None = None
    # sold in Capacity Blocks as part of an UltraServer: EC2 reclaims 60 min before the end
    ultra_server: bool = False
    efa_cards: tuple[EfaCard, ...] = ()  # sorted by index; as many as the type has EFAs
    allocatable: Resources = field(init=False)

    def __post_init__(self) -> None:
        """Derive allocatable = capacity - overhead, floored at 0 (R-24)."""
        reduced = {
            name: max(0, count - self.overhead[name])
            for name, count in self.capacity.items()
        }
        object.__setattr__(self, "allocatable", Resources.of(reduced))
