"""NodeClass: the AWS side of a pool (karpenter.k8s.aws/v1 EC2NodeClass), with what discovery found for it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from reservoir.core.model.capacity_reservation import ObservedReservation


class FleetTargetingMode(StrEnum):
    """How CreateFleet gets the reservation to use."""

    LAUNCH_TEMPLATE = "template-per-reservation"
    RESERVED_CAPACITY = "reserved-capacity"


class OpenReservationPreference(StrEnum):
    """Whether plain on-demand and spot launches may fall into open reservations that were not selected."""

    NONE = "none"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class CapacityReservationSelectorTerm:
    """One term; the fields of a term are ANDed, terms are ORed (R-87). ``tags`` value "*" means the key exists."""

    id: str | None = None
    owner_id: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    instance_match_criteria: str | None = None
    reservation_group_arn: str | None = None


@dataclass(frozen=True, slots=True)
class SelectorTerm:
    """One subnet, security-group or AMI selector term; ``alias``, ``owner`` and ``ssm_parameter`` are for AMIs only."""

    id: str | None = None
    name: str | None = None
    owner: str | None = None
    alias: str | None = None
    ssm_parameter: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Subnet:
    """A subnet that the class may launch into."""

    id: str
    zone: str
    zone_id: str
    available_ip_count: int  # by EC2's last answer; an instance takes one


@dataclass(frozen=True, slots=True)
class MachineImage:
    """An AMI that the class may launch, for one architecture (amd64 | arm64)."""

    id: str
    architecture: str
    name: str = ""
    created_at: str = ""


class ValidationOutcome(StrEnum):
    """EC2's answer whether the launching role may launch the class, from a dry run."""

    SUCCEEDED = "Succeeded"
    # refused once: the dry run is repeated soon, because a resource that was just made may not be visible yet
    SUSPECTED = "Suspected"
    REFUSED = "Refused"
    UNKNOWN = "Unknown"  # it could not be asked


@dataclass(frozen=True, slots=True)
class Validation:
    """The last dry run of a class. ``of`` names what was tried; ``reason`` is a condition's, for programs."""

    of: str
    at: datetime
    outcome: ValidationOutcome
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class MarketRest:
    """EC2 refuses the class's launches in pools of every kind on one market; none is tried there until ``until``."""

    reason: str
    until: datetime


@dataclass(frozen=True, slots=True)
class NodeClassStatus:
    """What discovery found for the class. Reservations are ids into the snapshot's reservations, sorted."""

    reservation_ids: tuple[str, ...] = ()
    subnets: tuple[Subnet, ...] = ()
    security_group_ids: tuple[str, ...] = ()
    machine_images: tuple[MachineImage, ...] = ()
    instance_profile: str | None = None
    # By zone id, where all subnets are without a free address. Made for a plan, never stored.
    zones_full_until: Mapping[str, datetime] = field(default_factory=dict)
    # the group of ``NodeClass.reclaim_group_arn``, once it was found: only then launches name it
    reclaim_group_arn: str | None = None
    # No launches until it changes or a rest is over: an error of configuration or permission, or subnets are missing.
    launch_blocked_reason: str | None = None
    launch_blocked_at: datetime | None = None
    launch_blocked_generation: int | None = None  # of the class that could not be launched
    # when it is looked at again. Made for a plan, never stored.
    launch_blocked_until: datetime | None = None
    # by capacity type; never stored either
    resting_markets: Mapping[str, MarketRest] = field(default_factory=dict)
    # EC2's answer to a dry run; plans do not depend on it
    validation: Validation | None = None

    def is_closed(self, zone_id: str, capacity_type: str) -> bool:
        """Whether no launch of the class can succeed there now, by EC2's answers about its zones and markets."""
        return zone_id in self.zones_full_until or capacity_type in self.resting_markets


@dataclass(frozen=True, slots=True)
class KubeletAmounts:
    """What a class keeps from replicas on each node, in the terms of kubelet's configuration."""

    max_pods: int | None = None
    pods_per_core: int | None = None
    reserved_cpu_millis: int = 0
    reserved_memory_bytes: int = 0
    # the larger of the two counts
    evicted_memory_bytes: int = 0
    evicted_memory_ppm: int = 0  # of the memory that a node has


@dataclass(frozen=True, slots=True)
class LendingWindow:
    """When units are lent: for so long after each start of a cron schedule."""

    schedule: str
    duration_s: int
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Lending:
    """How idle units of a class's own on-demand reservations are lent."""

    keep_free: int = 0  # units of each reservation that are not lent
    after_s: int = 600  # for how long units have been idle before any is lent
    windows: tuple[LendingWindow, ...] = ()  # none: at any time
    tags: Mapping[str, str] = field(default_factory=dict)  # of what is lent


@dataclass(frozen=True, slots=True)
class NodeClass:
    """A class: what to select and how to launch. ``spec`` keeps the launch-only fields in EC2's own shape."""

    name: str
    capacity_reservation_selector_terms: tuple[CapacityReservationSelectorTerm, ...] = ()
    subnet_selector_terms: tuple[SelectorTerm, ...] = ()
    security_group_selector_terms: tuple[SelectorTerm, ...] = ()
    ami_selector_terms: tuple[SelectorTerm, ...] = ()
    role: str | None = None
    instance_profile: str | None = None
    user_data: str | None = None
    block_device_mappings: tuple[Mapping[str, object], ...] = ()
    metadata_options: Mapping[str, object] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    placement_group: str | None = None
    detailed_monitoring: bool = False
    associate_public_ip_address: bool | None = None
    # in EC2's own shape
    connection_tracking: Mapping[str, object] = field(default_factory=dict)
    open_reservation_preference: OpenReservationPreference = OpenReservationPreference.NONE
    fleet_targeting_mode: FleetTargetingMode = FleetTargetingMode.LAUNCH_TEMPLATE
    platform: str = "Linux/UNIX"
    tenancy: str = "default"
    # what replicas have for files; None: as much as Karpenter assumes
    root_volume_bytes: int | None = None
    # of types that have any: all of them together, in place of the volume
    local_disks_are_storage: bool = False
    # a resource group of reservations at which on-demand nodes are launched, so that EC2 can move them into one
    reclaim_group_arn: str | None = None
    # None: its units are not lent
    lending: Lending | None = None
    kubelet: KubeletAmounts | None = None
    static_hash: str = ""
    status: NodeClassStatus = NodeClassStatus()

    def missing_reservations(self, found: Collection[str]) -> list[str]:
        """Return the ids of reservations that its terms name, without those that were found."""
        named = {term.id for term in self.capacity_reservation_selector_terms if term.id}
        return sorted(named.difference(found))

    def has_subnet_in(self, zone: str) -> bool:
        """Whether it may launch in the zone; where no subnet was looked up, it may."""
        return not self.status.subnets or any(
            subnet.zone == zone for subnet in self.status.subnets
        )

    def may_use(self, reservation: ObservedReservation) -> bool:
        """Whether its instances can count against the reservation: its own platform and tenancy, a zone with a subnet.

        EC2 counts only instances that match in both.
        """
        is_alike = (reservation.platform, reservation.tenancy) == (
            self.platform,
            self.tenancy,
        )
        return is_alike and self.has_subnet_in(reservation.zone)
