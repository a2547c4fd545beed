"""The things that the emulation keeps: reservations, instances, fleets, launch templates."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final


class Market(StrEnum):
    """How an instance is bought; the values are EC2's lifecycle names."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    CAPACITY_BLOCK = "capacity-block"
    INTERRUPTIBLE = "interruptible-capacity-reservation"


class ReservationKind(StrEnum):
    """The kinds of capacity reservation; the values are CreateFleet's reservation types."""

    ON_DEMAND = "on-demand-capacity-reservation"
    CAPACITY_BLOCK = "capacity-block"
    INTERRUPTIBLE = "interruptible-capacity-reservation"

    @property
    def market(self) -> Market:
        """The market through which instances enter a reservation of this kind."""
        return _MARKETS[self]


_MARKETS: Final = {
    ReservationKind.ON_DEMAND: Market.ON_DEMAND,
    ReservationKind.CAPACITY_BLOCK: Market.CAPACITY_BLOCK,
    ReservationKind.INTERRUPTIBLE: Market.INTERRUPTIBLE,
}

# States in which a reservation holds hardware that nobody else can have.
HOLDING_STATES: Final = frozenset({"active", "pending"})
NOT_STARTED_STATES: Final = frozenset(
    {"scheduled", "payment-pending", "assessing", "delayed"}
)
ENDED_STATES: Final = frozenset(
    {"expired", "cancelled", "failed", "payment-failed", "unsupported"}
)

LINUX: Final = "Linux/UNIX"


@dataclass(frozen=True, order=True)
class Zone:
    """An availability zone: the name differs between accounts, the id does not."""

    name: str
    zone_id: str


UNLAUNCHABLE: Final = "unlaunchable"


@dataclass
class Quote:
    """What both kinds of quote have: they are for a reservation as it was, for a while, and once."""

    quote_id: str
    reservation_id: str
    created_at: datetime
    expires_at: datetime
    instance_count: int
    reservation_state: str
    start_at: datetime
    is_used: bool = False


@dataclass
class CancellationQuote(Quote):
    """The terms on which a reservation can be cancelled that its owner has committed to."""

    active_at: datetime = field(kw_only=True)
    charged_hours: int = field(kw_only=True)
    charge_end_at: datetime = field(kw_only=True)


@dataclass
class DateChangeQuote(Quote):
    """The terms on which the start of a scheduled reservation can be put off."""

    original_start_at: datetime = field(kw_only=True)
    new_start_at: datetime = field(kw_only=True)
    new_commitment_s: int = field(kw_only=True)

    @property
    def new_commitment_end_at(self) -> datetime:
        """When the commitment ends after the change."""
        return self.new_start_at + timedelta(seconds=self.new_commitment_s)


@dataclass
class CapacityReservation:
    """One capacity reservation; ``occupants`` and ``scrubbing`` hold instance ids, each taking one slot."""

    reservation_id: str
    owner_id: str
    kind: ReservationKind
    instance_type: str
    zone: Zone
    total_count: int
    created_at: datetime
    start_at: datetime
    platform: str = LINUX
    tenancy: str = "default"
    match_criteria: str = "open"
    state: str = "active"
    end_at: datetime | None = None
    planned_count: int = 0
    """Size that a reservation will have once it starts; EC2 shows it as a system tag only."""
    block_id: str | None = None
    ultraserver_type: str | None = None
    network_nodes: tuple[str, ...] = ()
    """The way down to it in its zone's network, where a test has said it; else it is drawn from its id."""
    source_reservation_id: str | None = None
    is_retained: bool = False
    """Whether an interruptible reservation stays active when its owner has reclaimed all of it."""
    warned: set[str] = field(default_factory=set)
    """Occupants of an interruptible reservation that were told that they will be terminated."""
    reclaimed_count: int = 0
    """Units of an interruptible reservation that its owner has asked for since it was last at rest."""
    placement_group_arn: str | None = None
    ebs_optimized: bool = False
    delivery_preference: str | None = None
    original_start_at: datetime | None = None
    """When a future-dated reservation was first asked to start; None of all others."""
    commitment_s: int = 0
    """How long a future-dated reservation has to stay once it is delivered."""
    unused_billing_owner_id: str | None = None
    """The account that has accepted to pay for what nobody uses of it; None: its owner pays."""
    commitment_end_at: datetime | None = None
    """None also once EC2 waives the commitment, because the reservation is delayed."""
    committed_count: int = 0
    adjustment: DateChangeQuote | None = None
    """The last change of the start date that was asked for, by the quote that was accepted."""
    adjustment_status: str | None = None
    reclaiming: bool = False
    """A block past the moment from which EC2 takes its instances back: still active, no longer launchable."""
    visible: bool = True
    occupants: dict[str, datetime] = field(default_factory=dict)
    scrubbing: set[str] = field(default_factory=set)
    broken_count: int = 0
    """Units of a block whose instances never boot; launches get them when the others are taken."""
    admitted_count: int = 0
    """How many units DescribeCapacityBlockStatus calls unavailable, whatever is true."""
    interconnect_status: str = "ok"
    launch_status: str | None = None
    """Of an UltraServer's: whether anything can be launched into it; None: EC2 does not say, and it can."""
    stuck: set[str] = field(default_factory=set)
    """Occupants of broken units."""
    available_history: list[tuple[datetime, int]] = field(default_factory=list)

    @property
    def is_future_dated(self) -> bool:
        """Whether it was asked for ahead of its start."""
        return self.original_start_at is not None

    @property
    def used_count(self) -> int:
        """Slots that cannot be given out: occupied, or being scrubbed."""
        return len(self.occupants) + len(self.scrubbing)

    @property
    def available_count(self) -> int:
        """Slots that are free now."""
        if self.state not in HOLDING_STATES or self.reclaiming:
            return 0
        # lent units that their owner reclaims are given to nobody
        size = (
            min(self.total_count, self.planned_count)
            if self.kind is ReservationKind.INTERRUPTIBLE
            else self.total_count
        )
        return max(0, size - self.used_count)

    @property
    def launchable_count(self) -> int:
        """Slots that a launch could take now."""
        return 0 if self.launch_status == UNLAUNCHABLE else self.available_count


@dataclass
class BlockOffering:
    """A Capacity Block on sale, or an extension of one: ``extends`` is then the reservation's id."""

    offering_id: str
    instance_type: str
    zone: str
    count: int
    start_at: datetime
    end_at: datetime
    fee_micro_usd: int
    extends: str | None = None
    is_sold: bool = False

    @property
    def is_extension(self) -> bool:
        """Whether it only makes a block longer."""
        return self.extends is not None


@dataclass
class BlockExtension:
    """An extension that was bought; the status is EC2's."""

    offering: BlockOffering
    bought_at: datetime
    status: str = "payment-pending"


@dataclass(frozen=True)
class ReservationTarget:
    """A CapacityReservationSpecification: preference (None when not given) and at most one target."""

    preference: str | None = None
    reservation_id: str | None = None
    group_arn: str | None = None

    @property
    def is_targeted(self) -> bool:
        """Whether a reservation or a group is named."""
        return self.reservation_id is not None or self.group_arn is not None


@dataclass(frozen=True)
class BlockDevice:
    """One EBS volume to create at launch."""

    device: str
    size_gib: int
    volume_type: str | None = None
    iops: int | None = None
    encrypted: bool = False
    delete_on_termination: bool = True
    refused: tuple[str, str] | None = None
    """Why the volume cannot be made, which EC2 finds out after it has answered; the code and the text of a state."""


@dataclass(frozen=True)
class LaunchSpec:
    """Everything that decides where one instance goes and what it looks like."""

    instance_type: str
    image_id: str
    zone: Zone
    subnet_id: str
    market: Market = Market.ON_DEMAND
    platform: str = LINUX
    tenancy: str = "default"
    target: ReservationTarget = ReservationTarget()
    max_price_micro_usd_per_hour: int | None = None
    security_group_ids: tuple[str, ...] = ()
    user_data: str | None = None
    key_name: str | None = None
    instance_profile: dict[str, str] | None = None
    block_devices: tuple[BlockDevice, ...] = ()
    metadata_options: dict[str, Any] | None = None
    placement_group: str | None = None
    ebs_optimized: bool = False
    monitoring: bool = False
    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    """Tags by EC2 resource type: instance, volume, network-interface."""


@dataclass
class ScheduledEvent:
    """A maintenance event that DescribeInstanceStatus shows."""

    event_id: str
    code: str
    description: str
    not_before: datetime
    not_after: datetime | None = None


@dataclass
class Instance:
    """One instance; ``market`` and ``reservation_id`` may change during its life, the spec does not."""

    instance_id: str
    owner_id: str
    spec: LaunchSpec
    launched_at: datetime
    market: Market
    run_id: str
    """The ``r-`` id under which DescribeInstances groups the instances of one launch."""
    state: str = "pending"
    reservation_id: str | None = None
    block_id: str | None = None
    network_nodes: tuple[str, ...] = ()
    """The way down to its host in its zone's network; empty for types of which EC2 shows none."""
    fleet_id: str | None = None
    client_token: str | None = None
    launch_index: int = 0
    private_ip: str | None = None
    network_interface_id: str | None = None
    volume_ids: tuple[str, ...] = ()
    state_reason: tuple[str, str] | None = None
    transition_reason: str = ""
    terminated_at: datetime | None = None
    termination_protected: bool = False
    system_status: str = "ok"
    instance_status: str = "ok"
    impaired_since: datetime | None = None
    scheduled_events: list[ScheduledEvent] = field(default_factory=list)
    interrupted_at: datetime | None = None
    """When a Spot Instance that was warned ends, as its own metadata say."""

    @property
    def is_live(self) -> bool:
        """Whether the instance holds hardware."""
        return self.state in {"pending", "running", "stopping", "shutting-down"}


@dataclass
class Fleet:
    """One instant fleet: kept so that DescribeFleets and DeleteFleets find its instances."""

    fleet_id: str
    created_at: datetime
    request: dict[str, Any]
    result: dict[str, Any]
    instance_ids: tuple[str, ...]
    state: str = "active"


@dataclass
class LaunchTemplateVersion:
    """One immutable version of a launch template."""

    number: int
    data: dict[str, Any]
    description: str | None
    created_at: datetime


@dataclass
class LaunchTemplate:
    """A launch template with its versions, oldest first; deleted versions leave gaps in the numbers."""

    template_id: str
    name: str
    created_at: datetime
    versions: dict[int, LaunchTemplateVersion]
    default_version: int = 1

    @property
    def latest_version(self) -> int:
        """The highest number among the versions that exist."""
        return max(self.versions)


@dataclass
class Settings:
    """Latencies and habits of the emulated EC2, all in seconds of emulated time; changed through the control API."""

    pending_s: float = 5.0
    shutting_down_s: float = 10.0
    terminated_visible_s: float = 3600.0
    terminated_tags_s: float = 300.0
    """How long a terminated instance keeps its tags; EC2 promises "a short while" and no figure."""
    block_scrub_s: float = 300.0
    block_payment_s: float = 300.0
    block_shown_after_s: float = 0.0
    """How long a block that was bought is not described yet."""
    block_payments_succeed: bool = True
    """Whether what is bought of blocks is paid in the end."""
    block_warning_s: float = 120.0
    """How long before EC2 terminates an instance of a block its interruption warning is sent; AWS states no figure."""
    interruption_notice_s: float = 120.0
    assessment_s: float = 60.0
    quote_pending_s: float = 0.0
    """How long a cancellation quote is pending before it can be used."""
    adjustment_s: float = 60.0
    """How long EC2 looks at a change of the start date that was asked for."""
    adjustments_succeed: bool = True
    reservation_pending_s: float = 0.0
    expiry_delay_s: float = 0.0
    """How long after its end date an on-demand reservation expires; EC2 promises no more than "within an hour"."""
    group_move_s: float = 120.0
    """How long after a reservation joins a group EC2 moves instances that target the group into it; AWS says not how
    long."""
    count_lag_s: float = 0.0
    describe_lag_s: float = 0.0
    template_lag_s: float = 0.0
    """How long a new launch template is not there yet for who launches or lists; its name is taken at once."""
    network_children: int = 2
    """How many network nodes are below each one of a zone's network, and at its top."""
    block_id_lag_s: float = 0.0
    """How long after a launch DescribeInstanceTopology lacks the id of an UltraServer's block."""
    older_block_event_names: bool = False
