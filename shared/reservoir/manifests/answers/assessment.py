"""What ``reservoir assess`` prints for programs. Money in micro-USD an hour, at on-demand prices."""

from typing import Literal

from pydantic import AwareDatetime, Field

from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.manifests.event_parts import Part


class AssessedHolder(Part):
    """An owner of instances, by their tags."""

    holder: str
    instances: int


class AssessedReservation(Part):
    """A reservation and its users."""

    id: str
    account: str = Field(description="Whose it is.")
    kind: ReservationKind
    state: str
    instance_type: str
    zone: str
    total: int
    free: int
    idle_micro_usd_per_hour: int | None = Field(
        default=None, description="Absent: the price is not known."
    )
    end_at: AwareDatetime | None = None
    ends_soon: bool
    holders: list[AssessedHolder]


class AssessedBeside(Part):
    """Instances on demand that would fit free units."""

    instance_type: str
    zone: str
    platform: str
    instances: int
    free: int
    fit: int = Field(description="The smaller of both.")
    micro_usd_per_hour: int | None = Field(
        default=None, description="Of those that fit. Absent: not known."
    )
    holders: list[AssessedHolder]


class AssessedRegion(Part):
    """An account in one region, as one profile sees it."""

    profile: str | None = None
    region: str
    unknown: str | None = Field(
        default=None, description="Why it could not be read; then all else is empty."
    )
    reservations: list[AssessedReservation] = Field(default_factory=list)
    beside: list[AssessedBeside] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)


class AssessmentAnswer(Part):
    """All that was looked at."""

    version: Literal[1] = 1
    at: AwareDatetime
    regions: list[AssessedRegion]
