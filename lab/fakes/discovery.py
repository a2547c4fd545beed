"""EC2 as discovery reads it, in memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from reservoir.core.capacity.catalogue import DiscoveredType
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.node_class import MachineImage, SelectorTerm, Subnet
from reservoir.ports.discovery import ZoneOfferings
from reservoir.ports.errors import AwsError, NotFoundError, ThrottledError


@dataclass
class MemoryReservationReader:
    """Implements ``ReservationReader``; ``failing`` makes every call raise, ``broken_groups`` some."""

    reservations: dict[str, CapacityReservation] = field(default_factory=dict)
    groups: dict[str, frozenset[str]] = field(default_factory=dict)
    failing: bool = False
    broken_groups: set[str] = field(default_factory=set)
    missing_groups: set[str] = field(default_factory=set)
    call_count: int = 0
    # happens while the next reading of reservations is under way
    meanwhile: Callable[[], object] | None = None

    def put(self, *reservations: CapacityReservation) -> None:
        self.reservations.update(
            {reservation.id: reservation for reservation in reservations}
        )

    def list_visible(self) -> tuple[CapacityReservation, ...]:
        self.call_count += 1
        if self.failing:
            raise ThrottledError("RequestLimitExceeded", "DescribeCapacityReservations")
        seen = tuple(self.reservations[key] for key in sorted(self.reservations))
        happening, self.meanwhile = self.meanwhile, None
        if happening is not None:
            happening()
        return seen

    def list_group(self, group_arn: str) -> frozenset[str]:
        self.call_count += 1
        if self.failing or group_arn in self.broken_groups:
            raise ThrottledError("ThrottlingException", "ListGroupResources")
        if group_arn in self.missing_groups:
            raise NotFoundError("NotFoundException", "ListGroupResources")
        return self.groups.get(group_arn, frozenset())


@dataclass
class MemoryNetwork:
    """Implements ``NetworkReader``: ``nodes`` by reservation id."""

    nodes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    error: AwsError | None = None
    asked: list[Mapping[str, str]] = field(default_factory=list)

    def of_reservations(self, types: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
        self.asked.append(types)
        if self.error is not None:
            raise self.error
        return {key: self.nodes[key] for key in types if key in self.nodes}


SUBNETS = tuple(
    Subnet(f"subnet-{letter}", f"us-east-1{letter}", f"use1-az{number}", 4000)
    for number, letter in enumerate("abc", start=1)
)
IMAGES = (
    MachineImage("ami-amd", "amd64", "al2023"),
    MachineImage("ami-arm", "arm64", "al2023"),
)


@dataclass
class MemoryLaunchEnvironment:
    """Implements ``LaunchEnvironmentReader``: every term selects the same things."""

    found_subnets: tuple[Subnet, ...] = SUBNETS
    found_groups: tuple[str, ...] = ("sg-1",)
    found_images: tuple[MachineImage, ...] = IMAGES
    found_profiles: bool = True
    error: AwsError | None = None

    def _check(self) -> None:
        if self.error is not None:
            raise self.error

    def subnets(self, terms: Sequence[SelectorTerm]) -> tuple[Subnet, ...]:
        self._check()
        return self.found_subnets if terms else ()

    def security_group_ids(self, terms: Sequence[SelectorTerm]) -> tuple[str, ...]:
        return self.found_groups if terms else ()

    def machine_images(self, terms: Sequence[SelectorTerm]) -> tuple[MachineImage, ...]:
        return self.found_images if terms else ()

    def instance_profile(self, role: str) -> str | None:
        return f"{role}-profile" if self.found_profiles else None


@dataclass
class MemoryInstanceTypes:
    """Implements ``InstanceTypeReader``."""

    types: tuple[DiscoveredType, ...] = ()
    zones: ZoneOfferings = field(default_factory=lambda: ZoneOfferings({}, {}))
    error: AwsError | None = None

    def list_types(self) -> tuple[DiscoveredType, ...]:
        if self.error is not None:
            raise self.error
        return self.types

    def list_zones(self) -> ZoneOfferings:
        return self.zones


@dataclass
class MemoryPrices:
    """Implements ``PriceReader``; None makes the call fail."""

    on_demand_prices: Mapping[str, int] | None = field(default_factory=dict)
    spot_prices: Mapping[tuple[str, str], int] | None = field(default_factory=dict)

    def on_demand(self) -> Mapping[str, int]:
        if self.on_demand_prices is None:
            raise ThrottledError("ThrottlingException", "GetProducts")
        return self.on_demand_prices

    def spot(self) -> Mapping[tuple[str, str], int]:
        if self.spot_prices is None:
            raise ThrottledError("RequestLimitExceeded", "DescribeSpotPriceHistory")
        return self.spot_prices
