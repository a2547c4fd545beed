"""A change of on-demand reservations, and what a reservation was when the change was agreed to."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class ChangeKind(StrEnum):
    """A kind of change; the values are the commands' names."""

    CREATE = "create"
    RESIZE = "resize"
    SPLIT = "split"
    MOVE = "move"
    CANCEL = "cancel"
    PUSH_OUT = "push-out"


@dataclass(frozen=True, slots=True)
class OrderedChange:
    """What changes beside the count of the order; fields that a kind does not use have their defaults.

    With the counts before, EC2's listing shows whether a change was made whose answer was lost.
    """

    kind: ChangeKind
    reservation_id: str = ""  # empty: a new one
    into: str = ""  # where units move to
    count_before: int = 0
    into_count_before: int = 0
    quote_id: str = ""  # EC2's terms that were agreed to
    match_criteria: str = "targeted"
    starts_at: datetime | None = None  # None: at once
    ends_at: datetime | None = None  # None: when it is cancelled
    commitment_s: int = 0


@dataclass(frozen=True, slots=True)
class HeldReservation:
    """An on-demand reservation as EC2 shows it to a caller who may change it."""

    id: str
    owner_id: str
    kind: str  # default, capacity-block or interruptible
    instance_type: str
    zone: str
    platform: str
    tenancy: str
    state: str
    total_count: int
    used_count: int
    match_criteria: str
    placement_group_arn: str = ""
    start_at: datetime | None = None
    end_at: datetime | None = None
    original_start_at: datetime | None = None
    commitment_s: int = 0
    commitment_end_at: datetime | None = None
    committed_count: int = 0
    adjustment_status: str = ""
    adjusted_start_at: datetime | None = None

    @property
    def size(self) -> int:
        """How many units it has, or will have once it begins."""
        return max(self.total_count, self.committed_count)

    def is_committed(self, now: datetime) -> bool:
        """Whether its owner has to keep it, or to pay for not doing so."""
        return (
            self.state in ("scheduled", "active")
            and self.commitment_end_at is not None
            and now < self.commitment_end_at
        )


@dataclass(frozen=True, slots=True)
class CancellationTerms:
    """EC2's quote for a cancellation."""

    quote_id: str
    expires_at: datetime
    state_after: str
    count: int
    charged_hours: int
    charge_end_at: datetime | None


@dataclass(frozen=True, slots=True)
class DateChangeTerms:
    """EC2's quote for a later start."""

    quote_id: str
    expires_at: datetime
    new_start_at: datetime
    new_commitment_s: int
    new_commitment_end_at: datetime | None
