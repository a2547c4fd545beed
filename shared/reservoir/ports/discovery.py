"""What discovery reads from AWS. Every method raises AwsError when it cannot read everything it was asked for."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from reservoir.core.capacity.catalogue import DiscoveredType
from reservoir.core.model.capacity_reservation import ObservedReservation
from reservoir.core.model.node_class import MachineImage, SelectorTerm, Subnet


class ReservationReader(Protocol):
    """Capacity reservations that this account owns or that others share with it."""

    def list_visible(self) -> tuple[ObservedReservation, ...]:
        """Return all of them in every state, by id.

        Zone names are those of this account, even where the owner's account has other names for the zones.
        """
        ...

    def list_group(self, group_arn: str) -> frozenset[str]:
        """Return the ids of the reservations in a resource group."""
        ...


class NetworkReader(Protocol):
    """Where capacity is in the network of its zone."""

    def of_reservations(self, types: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
        """Return the network nodes over reservations, from the top, by id; ``types`` are their instance types.

        Of many types EC2 tells none, and before a launch not all of the others.
        """
        ...


class LaunchEnvironmentReader(Protocol):
    """What a NodeClass selects besides reservations. Terms are ORed, the fields of a term ANDed."""

    def subnets(self, terms: Sequence[SelectorTerm]) -> tuple[Subnet, ...]:
        """Return the selected subnets, by id."""
        ...

    def security_group_ids(self, terms: Sequence[SelectorTerm]) -> tuple[str, ...]:
        """Return the selected security groups, sorted."""
        ...

    def machine_images(self, terms: Sequence[SelectorTerm]) -> tuple[MachineImage, ...]:
        """Return the newest selected image of each architecture, by architecture."""
        ...

    def instance_profile(self, role: str) -> str | None:
        """Return the name of an instance profile that carries the role, None when there is none."""
        ...


@dataclass(frozen=True, slots=True)
class ZoneOfferings:
    """Where instance types are sold: zone ids by type name, and zone names by zone id."""

    zone_ids: Mapping[str, Collection[str]]
    zone_names: Mapping[str, str]


class InstanceTypeReader(Protocol):
    """Instance types and where they are sold."""

    def list_types(self) -> tuple[DiscoveredType, ...]:
        """Return all types of the region without offerings and prices, by name."""
        ...

    def list_zones(self) -> ZoneOfferings:
        """Return where each type is sold."""
        ...


class PriceReader(Protocol):
    """Prices of the region."""

    def on_demand(self) -> Mapping[str, int]:
        """Return Linux on-demand prices by type, micro-USD per hour; types without a price are left out."""
        ...

    def spot(self) -> Mapping[tuple[str, str], int]:
        """Return the latest Linux spot prices: (type, zone name) -> micro-USD per hour."""
        ...
