"""What ``reservoir status`` prints for programs. Fields are added to it, never renamed and never taken away."""

from pydantic import AwareDatetime, Field

from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance_type import CapacityType
from reservoir.manifests.event_parts import Part
from reservoir.manifests.events import ReadinessProblem


class NotKnown(Part):
    """A source that did not answer. Its part is not known, and never shown as zero."""

    unknown: str = Field(description="Why.")


class ReservationNow(Part):
    """One reservation. While it is active, its units are ours, others' or free."""

    id: str
    instance_type: str
    zone: str
    kind: ReservationKind
    state: str
    total: int
    ours: int
    others: int
    free: int
    micro_usd_per_hour: int | None = Field(
        default=None,
        description="What a unit would cost on demand; absent: no price is known.",
    )
    idle_micro_usd_per_hour: int | None = Field(
        default=None, description="What its free units would cost on demand."
    )
    end_at: AwareDatetime | None = None
    drain_at: AwareDatetime | None = None
    stale: bool = False


class MarketNow(Part):
    """The nodes of one market."""

    capacity_type: CapacityType
    nodes: int
    micro_usd_per_hour: int = Field(description="What they cost beside reservations.")
    avoided_micro_usd_per_hour: int | None = Field(
        default=None,
        description="What they would cost on demand beyond that; absent: no price is known.",
    )


class WaitingNow(Part):
    """Replicas that wait for one reason."""

    reason: str
    replicas: int
    workloads: int
    since: AwareDatetime | None = Field(
        default=None, description="Of the one that has waited longest."
    )


class BoughtNow(Part):
    """Capacity that was bought beside reservations for one workload."""

    workload: str
    nodes: int
    micro_usd_per_hour: int


class TeamNow(Part):
    """What one team owns, uses, has bought and waits for; ``owned`` and ``used`` are units of reservations."""

    name: str
    owned: int
    used: int
    micro_usd_per_hour: int
    waiting_replicas: int


class ThereNow(Part):
    """What there is, by the tables.

    ``unreadWorkloads`` wait in addition to those that were read; one replica of each is counted as waiting, without a
    reason.
    """

    taken_at: AwareDatetime
    reservations: list[ReservationNow]
    markets: list[MarketNow]
    waiting: list[WaitingNow]
    unread_workloads: int
    bought: list[BoughtNow]
    teams: list[TeamNow]


class RefusedNow(Part):
    """An event of the last day that reports a refusal."""

    at: AwareDatetime
    type: str
    object: str
    what: str


class DiscoveryNow(Part):
    """How old the knowledge of reservations is."""

    changed_at: AwareDatetime | None = Field(
        default=None, description="When a reading last changed anything."
    )
    read_at: AwareDatetime | None = Field(
        default=None, description="Absent: CloudWatch does not say."
    )
    stale: list[str] = Field(description="Reservations that could not be read again.")


class QueueNow(Part):
    """How full a queue is."""

    messages: int
    oldest_s: int | None = Field(
        default=None, description="Absent: CloudWatch does not say."
    )


class NotLaunchingNow(Part):
    """A class that is not ready, or a pool that is paused: nothing is launched of it."""

    kind: str
    name: str
    why: str


class UnreadyNow(Part):
    """A reservation that begins within a day, and what would make its first launch fail."""

    reservation: str
    start_at: AwareDatetime
    problems: list[ReadinessProblem]


class StatusAnswer(Part):
    """How things are. A part that is not known has ``unknown``, and why, in its place."""

    at: AwareDatetime
    there: ThereNow | NotKnown
    refused: list[RefusedNow] | NotKnown
    discovery: DiscoveryNow | NotKnown
    queues: dict[str, QueueNow] | NotKnown
    alarms: list[str] | NotKnown
    not_launching: list[NotLaunchingNow] | NotKnown = Field(
        default=[], description="Classes and pools of which nothing is launched now."
    )
    refused_dry_runs: list[NotLaunchingNow] | NotKnown = Field(
        default=[],
        description="Classes whose launches EC2 would refuse, as it said to a dry run; launches go on.",
    )
    unready: list[UnreadyNow] | NotKnown = Field(
        default=[],
        description="Reservations that begin within a day and could not be launched into.",
    )
