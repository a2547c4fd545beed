"""An EC2 instance of ours, as DescribeInstances shows it, and how it was bought."""

from collections.abc import Set
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from reservoir.core.model.instance_type import CapacityType

RUNNING: Final = "running"
TERMINATED: Final = "terminated"
GONE_STATES: Final = frozenset({"shutting-down", "terminated"})
STOPPED_STATES: Final = frozenset({"stopping", "stopped"})
SPOT_LIFECYCLE: Final = "spot"


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance. ``owner`` is the deployment that its owner tag names; only our own are ever acted on.

    ``capacity_reservation_id`` is the reservation that it runs in now, which EC2 may change without an event (the
    reservation ends, shrinks, or the instance slides within a group): it is re-read, never assumed from the launch.
    """

    id: str
    state: str
    instance_type: str
    zone: str
    zone_id: str
    launched_at: datetime
    owner: str | None = None
    batch_id: str | None = None
    claim_id: str | None = None
    lifecycle: str = ""  # "", spot, capacity-block, interruptible-capacity-reservation
    capacity_reservation_id: str | None = None
    image_id: str | None = None
    subnet_id: str | None = None
    security_group_ids: tuple[str, ...] = ()
    launch_template_id: str | None = None  # from a tag that only EC2 itself can write
    state_reason: str | None = None  # EC2's code for why it ended or stopped
    ended_at: datetime | None = None  # where EC2 says when it was ended or stopped

    @property
    def is_gone(self) -> bool:
        """Whether it has ended or is ending."""
        return self.state in GONE_STATES

    @property
    def is_stopped(self) -> bool:
        """Whether it has stopped or is stopping: nothing runs on it, and it comes back at best as another launch."""
        return self.state in STOPPED_STATES

    def capacity_type(self, selected_reservation_ids: Set[str]) -> CapacityType:
        """Return how the instance is bought now (R-130).

        It counts as reserved only in a reservation that its class selects. An instance that only matched another open
        reservation is an on-demand instance.
        """
        if self.lifecycle == SPOT_LIFECYCLE:
            return CapacityType.SPOT
        if (
            self.capacity_reservation_id is not None
            and self.capacity_reservation_id in selected_reservation_ids
        ):
            return CapacityType.RESERVED
        return CapacityType.ON_DEMAND
