"""Capacity reservations: as EC2 describes them, and with the units that the ledger says may still be promised."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from reservoir.names import SPLIT_FROM_TAG

ACTIVE: Final = "active"
CANCELLING: Final = "cancelling"
CANCELLED: Final = "cancelled"
# ours, not EC2's: EC2 lists the reservation no more (cancelled long ago, or no longer shared)
GONE: Final = "gone"


@dataclass(frozen=True, slots=True)
class StateMeaning:
    """What a state of a reservation means. Only an active one takes launches."""

    is_upcoming: bool = False  # expected to become active
    is_over: bool = False  # nothing follows; EC2 shows such a reservation for a while
    is_billed: bool = False  # its units cost money whether or not they are used


_UPCOMING: Final = StateMeaning(is_upcoming=True)
_OVER: Final = StateMeaning(is_over=True)
_BILLED: Final = StateMeaning(is_billed=True)
# States of EC2's CapacityReservationState. EC2 may add others, so states stay strings.
STATES: Final[Mapping[str, StateMeaning]] = {
    ACTIVE: _BILLED,
    "assessing": _UPCOMING,
    "scheduled": _UPCOMING,
    "pending": _UPCOMING,
    "delayed": _UPCOMING,
    "payment-pending": _UPCOMING,
    # EC2 has taken the units back, and bills the rest of the commitment.
    CANCELLING: _BILLED,
    # of Capacity Blocks, which were paid for at once; EC2 does not say what may follow
    "unavailable": _BILLED,
    "expired": _OVER,
    CANCELLED: _OVER,
    "failed": _OVER,
    "payment-failed": _OVER,
    "unsupported": _OVER,
    GONE: _OVER,
}
# An unknown state: the reservation exists, and may cost money.
_UNKNOWN_STATE: Final = StateMeaning(is_billed=True)
UPCOMING_STATES: Final = frozenset(name for name, it in STATES.items() if it.is_upcoming)
ENDED_STATES: Final = frozenset(name for name, it in STATES.items() if it.is_over)

SPLIT_OFF: Final = "it was split off for nodes that run already: EC2 moves one of them in"
UNLAUNCHABLE: Final = "EC2 says that nothing can be launched into it now (unlaunchable)"
_PLANNED_SIZE_TAG: Final = "aws:ec2capacityreservation:incrementalRequestedQuantity"

# EC2 begins to terminate a Capacity Block's instances this long before the block ends ...
RECLAIM_LEAD: Final = timedelta(minutes=30)
RECLAIM_LEAD_ULTRA_SERVER: Final = timedelta(minutes=60)
# Between a drain's deadline and EC2's own reclaim: a sweep that finds the deadline passed, and the call itself.
RECLAIM_MARGIN: Final = timedelta(minutes=2)
# How long before that deadline a node starts to drain, unless work on it wants more notice.
USUAL_NOTICE: Final = timedelta(minutes=8)


class ReservationKind(StrEnum):
    """What a reservation is; default and capacity-block are also the values of the reservation-type label."""

    DEFAULT = "default"
    CAPACITY_BLOCK = "capacity-block"
    INTERRUPTIBLE = "interruptible"


@dataclass(frozen=True, slots=True)
class BlockDrain:
    """When a node in a Capacity Block starts to drain, and its deadline."""

    starts_at: datetime
    deadline: datetime

    def for_notice(self, notice_s: int) -> "BlockDrain":
        """Return the drain of the same node when its work wants so many seconds of notice before the deadline.

        Everything that depends on when a node of a block drains asks this: the drain itself, the planner, its reasons
        and the checker. The start only moves if the notice is longer than the usual one.
        """
        return replace(
            self, starts_at=min(self.starts_at, self.deadline - timedelta(seconds=notice_s))
        )


@dataclass(frozen=True, slots=True)
class LentUnits:
    """Units of a reservation that its owner lends as an interruptible reservation; they are not among its own units.

    ``lent_by``: the deployment that made the interruptible reservation; None: a person did, or EC2 does not show it.
    """

    reservation_id: str  # the interruptible one
    count: int
    target_count: int  # less than ``count`` while units come back
    lent_by: str | None = None

    @property
    def is_changing(self) -> bool:
        """Whether units are on their way, in either direction."""
        return self.count != self.target_count

    @property
    def returning_count(self) -> int:
        """Units that are being taken back."""
        return max(0, self.count - self.target_count)

    def __str__(self) -> str:
        """Return what a sentence about the reservation says."""
        back = f", {self.returning_count} being taken back" if self.returning_count else ""
        return f"{self.count} more lent as {self.reservation_id}{back}"


@dataclass(frozen=True, slots=True)
class ObservedReservation:
    """One reservation as EC2 shows it. Its ``available_count`` may not know yet of instances launched just before."""

    id: str
    owner_id: str
    instance_type: str
    zone: str
    zone_id: str
    kind: ReservationKind
    state: str
    total_count: int
    available_count: int
    instance_match_criteria: str = "targeted"  # targeted | open
    platform: str = "Linux/UNIX"
    tenancy: str = "default"
    start_at: datetime | None = None
    end_at: datetime | None = None
    ultra_server: bool = False
    # EC2 may say that nothing can be launched into an UltraServer's, whatever its count
    is_launchable: bool = True
    placement_group_arn: str | None = None
    capacity_block_id: str | None = None
    # the account that pays for its unused units, where its owner has assigned their bill to another
    unused_billing_owner_id: str | None = None
    # in its zone's network, from the top, as far down as EC2 tells; empty: not known
    network_nodes: tuple[str, ...] = ()
    resource_group_arns: tuple[str, ...] = ()
    lent: LentUnits | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many units it has, or will have.

        Before it begins, EC2 shows none but has their number in a tag of its own.
        """
        planned = self.tags.get(_PLANNED_SIZE_TAG, "")
        return max(
            self.total_count,
            int(planned) if self.state in UPCOMING_STATES and planned.isdecimal() else 0,
        )

    @property
    def placement_group_name(self) -> str | None:
        """Return the name of the cluster placement group that the reservation lies in."""
        if self.placement_group_arn is None:
            return None
        return self.placement_group_arn.rpartition("/")[2]

    @property
    def ultra_server_id(self) -> str | None:
        """Return the block that is its UltraServer, as EC2 names one; None where it is in none."""
        return self.capacity_block_id if self.ultra_server else None

    @property
    def split_from(self) -> str | None:
        """The reservation that Reservoir split it off, for nodes that run already; None for every other one."""
        return self.tags.get(SPLIT_FROM_TAG)

    @property
    def is_billed(self) -> bool:
        """Whether its units cost money whether or not they are used."""
        return STATES.get(self.state, _UNKNOWN_STATE).is_billed

    def is_active(self, now: datetime) -> bool:
        """Whether instances can be launched into it at ``now``: active, started, and not yet draining."""
        if self.state != ACTIVE or (self.end_at is not None and self.end_at <= now):
            return False
        drain_at = self.drain_at()
        return drain_at is None or now < drain_at

    def is_upcoming(self, now: datetime) -> bool:
        """Whether it will be usable later, as far as is known: demand that only it can serve is held for it.

        After its start it still counts for as long as EC2 shows it as scheduled. EC2 may be late by seconds or, for a
        delayed reservation, by days, and discovery sees the beginning some seconds after it.
        """
        if self.state not in UPCOMING_STATES or self.start_at is None:
            return False
        return self.end_at is None or now < self.end_at

    def reclaim_at(self) -> datetime | None:
        """When EC2 begins to terminate the instances; None for kinds whose end leaves instances running."""
        if self.kind is not ReservationKind.CAPACITY_BLOCK or self.end_at is None:
            return None
        return self.end_at - (
            RECLAIM_LEAD_ULTRA_SERVER if self.ultra_server else RECLAIM_LEAD
        )

    def block_drain(self) -> BlockDrain | None:
        """Return the drain of a node whose work wants no notice; None for kinds whose end leaves instances running."""
        reclaim_at = self.reclaim_at()
        if reclaim_at is None:
            return None
        deadline = reclaim_at - RECLAIM_MARGIN
        return BlockDrain(deadline - USUAL_NOTICE, deadline)

    def drain_at(self) -> datetime | None:
        """When draining starts, and nothing more is launched into it: 10 minutes before EC2 reclaims."""
        drain = self.block_drain()
        return None if drain is None else drain.starts_at


@dataclass(frozen=True, slots=True)
class TeamShare:
    """The team whose units these are in one solve (an empty name: work without a team), and why it has no more.

    ``is_withheld``: there are more units, which other teams are given; or other teams have units that this team owns.
    """

    team_name: str
    note: str
    is_withheld: bool
    # when the first of what the team owns should come back, where that is known
    back_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RefusedUnits:
    """EC2 launches nothing into a reservation, although it showed ``shown_count`` units as free.

    ``reason`` is EC2's answer; ``until`` is when EC2 is asked again, where that is known.
    """

    reason: str
    shown_count: int
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class CapacityReservation(ObservedReservation):
    """One reservation as plans may use it.

    ``free_units`` may still be promised: ``available_count`` minus the leases that the observation cannot have
    contained. 0 <= free_units <= total_count.
    """

    free_units: int = field(kw_only=True)
    stale: bool = False  # the last discovery failed; these are the last good facts
    # these units are for one team's demand alone, within one solve
    share: TeamShare | None = None
    refusal: RefusedUnits | None = None  # why no unit is free although EC2 shows some

    @property
    def unit_key(self) -> str:
        """Name what its units are counted under: the reservation, or a team's share of it."""
        return self.id if self.share is None else f"{self.id}/{self.share.team_name}"

    def units_of_others(self, ours_count: int) -> int:
        """Return how many units others certainly use, beside so many with our nodes.

        EC2's count may or may not contain a launch of a moment ago; it is taken as contained, so that no other user is
        assumed. Units that EC2 shows as free and refuses to give count as unused.
        """
        shown_count = 0 if self.refusal is None else self.refusal.shown_count
        return max(
            0, self.total_count - max(self.available_count, shown_count) - ours_count
        )

    @classmethod
    def of(cls, observed: ObservedReservation, *, free_units: int) -> "CapacityReservation":
        """Return the observed reservation, with so many units to promise."""
        if isinstance(observed, CapacityReservation):
            made = replace(observed, free_units=free_units)
        else:
            facts = {
                field.name: getattr(observed, field.name) for field in fields(observed)
            }
            made = cls(**facts, free_units=free_units)
        if made.is_launchable and made.split_from is None:
            return made
        why = SPLIT_OFF if made.is_launchable else UNLAUNCHABLE
        return replace(made, free_units=0, refusal=RefusedUnits(why, made.available_count))


def by_resource_group(
    reservations: Iterable[CapacityReservation],
) -> Mapping[str, frozenset[str]]:
    """Return the ids of the reservations in each resource group, by the group's ARN."""
    found: dict[str, set[str]] = {}
    for reservation in reservations:
        for arn in reservation.resource_group_arns:
            found.setdefault(arn, set()).add(reservation.id)
    return {arn: frozenset(ids) for arn, ids in found.items()}
