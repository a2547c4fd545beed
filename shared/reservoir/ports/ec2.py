"""The parts of EC2 that launches and the life of instances need. Errors are those of :mod:`reservoir.ports.errors`."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from reservoir.core.launching.launch_outcome import LaunchOutcome
from reservoir.core.launching.launch_request import LaunchRequest
from reservoir.core.launching.launch_template import LaunchTemplate, StoredTemplate
from reservoir.core.model.capacity_reservation import LentUnits
from reservoir.core.model.instance import Instance
from reservoir.core.purchasing.change import (
    CancellationTerms,
    DateChangeTerms,
    HeldReservation,
)


class FleetLauncher(Protocol):
    """CreateFleet, type instant."""

    def launch(self, request: LaunchRequest, client_token: str) -> LaunchOutcome:
        """Launch; refusals, of the whole call too, are errors of the outcome.

        The same request with the same token again gives the same answer and launches nothing more, for as long as EC2
        remembers the token (undocumented). Raises TransientError when the call was throttled or its answer lost, and
        IdempotencyMismatchError.
        """
        ...


class DryRuns(Protocol):
    """EC2's answer to the calls of a launch, without making, launching or counting anything.

    Each raises AwsError when EC2 refuses or cannot be asked, with EC2's explanation for people in ``detail``.
    """

    def make_template(self, template: LaunchTemplate) -> None:
        """CreateLaunchTemplate; a template that exists is no refusal."""
        ...

    def ask_for_fleet(self, request: LaunchRequest) -> None:
        """CreateFleet; its launch templates exist."""
        ...

    def run_instance(self, request: LaunchRequest) -> None:
        """RunInstances, as the fleet's first pool would; its launch template exists."""
        ...


class LaunchTemplateStore(Protocol):
    """Launch templates that carry our owner tag."""

    def ensure(self, template: LaunchTemplate) -> None:
        """Make the template exist; its name is derived from its content. Raises AwsError."""
        ...

    def forget(self, names: Collection[str]) -> None:
        """Forget templates that turned out to be missing."""
        ...

    def list_owned(self) -> tuple[StoredTemplate, ...]:
        """Return our templates."""
        ...

    def delete(self, names: Collection[str]) -> None:
        """Delete templates; templates that do not exist are passed over."""
        ...


class InstanceReader(Protocol):
    """DescribeInstances, for instances that carry our owner tag.

    Others are never returned, but for one that has terminated, lost its tags, and is asked for by id.
    """

    def get_many(self, instance_ids: Collection[str]) -> Mapping[str, Instance]:
        """Return the instances that EC2 shows, by id; one that it does not show yet (or any more) is left out."""
        ...

    def list_batch(self, batch_id: str) -> tuple[Instance, ...]:
        """Return the instances tagged with the launch batch, in any state, by id."""
        ...

    def list_owned(self) -> tuple[Instance, ...]:
        """Return all instances that have not terminated, by id."""
        ...


@dataclass(frozen=True, slots=True)
class TerminationReceipt:
    """The result of a request to terminate. ``refused`` maps ids to EC2's code (termination protection ...)."""

    accepted: frozenset[str]
    missing: frozenset[str] = frozenset()
    refused: Mapping[str, str] | None = None


class InstanceTerminator(Protocol):
    """TerminateInstances."""

    def terminate(self, instance_ids: Collection[str]) -> TerminationReceipt:
        """Terminate in as few calls as EC2 allows; one bad id does not save the others."""
        ...


class UnitMover(Protocol):
    """MoveCapacityReservationInstances."""

    def move(
        self, source_id: str, destination_id: str, count: int, client_token: str
    ) -> None:
        """Move units of a reservation, the free ones first; the same again with the same token moves nothing more.

        Raises TransientError when the call was throttled or its answer lost, and AwsError when EC2 refuses.
        """
        ...


class UnitSplitter(Protocol):
    """CreateCapacityReservationBySplitting, and GroupResources for what comes of it."""

    def split(self, source_id: str, tags: Mapping[str, str], client_token: str) -> str:
        """Split one unit off into a reservation with the tags; return its id. The same again splits nothing more.

        EC2 takes free units first. Raises TransientError when the call was throttled or its answer lost, and AwsError
        when EC2 refuses.
        """
        ...

    def join(self, reservation_id: str, group_arn: str) -> None:
        """Put a reservation of this account into a resource group; one that is in it stays there. Raises AwsError."""
        ...


class UnitLender(Protocol):
    """Create- and UpdateInterruptibleCapacityReservationAllocation.

    Each raises TransientError when the call was throttled or its answer lost, and AwsError when EC2 refuses.
    """

    def lent(self, source_id: str) -> LentUnits | None:
        """Return what EC2 shows now that a reservation lends; None: it lends nothing, and can begin to."""
        ...

    def begin(
        self, source_id: str, count: int, tags: Mapping[str, str], client_token: str
    ) -> None:
        """Lend free units of a reservation, retained when all come back; the same again lends nothing more."""
        ...

    def change(self, source_id: str, target_count: int) -> None:
        """Lend so many units in all: more out of free ones, or fewer, with two minutes' notice to what runs in them."""
        ...


class InstanceTagger(Protocol):
    """CreateTags on instances."""

    def tag_claims(self, claim_ids: Mapping[str, str], *, patient: bool) -> None:
        """Tag instances (id -> claim id) with their claim; instances that are gone are passed over.

        Each takes a call of its own. ``patient`` waits for EC2's rate; otherwise those beyond it are left out.
        """
        ...


@dataclass(frozen=True, slots=True)
class InstanceHealth:
    """The answer of DescribeInstanceStatus. ``impaired_since`` None: both checks pass or are not known."""

    instance_id: str
    impaired_since: datetime | None = None
    scheduled_event_code: str | None = None
    scheduled_at: datetime | None = None


class InstanceHealthReader(Protocol):
    """DescribeInstanceStatus."""

    def list_unhealthy(self) -> tuple[InstanceHealth, ...]:
        """Return instances of this account and region with failed checks or scheduled events, ours or not."""
        ...


class Instances(
    InstanceReader, InstanceTerminator, InstanceTagger, InstanceHealthReader, Protocol
):
    """All that is asked about instances and done to them."""


@dataclass(frozen=True, slots=True)
class ReservationOrder:
    """One unit to reserve until ``end_at``, for launches that target it. The token makes a repeat the same one."""

    token: str
    instance_type: str
    zone: str
    platform: str
    end_at: datetime
    tags: Mapping[str, str]


class ReservationMaker(Protocol):
    """CreateCapacityReservation and CancelCapacityReservation, with the caller's own credentials."""

    def make(self, order: ReservationOrder) -> str:
        """Make the reservation, at most once; return its id. Raises AwsError."""
        ...

    def living(self, tag: str, value: str) -> tuple[str, ...]:
        """Return the ids of the account's reservations with the tag that have not ended, sorted. Raises AwsError."""
        ...

    def cancel(self, reservation_id: str) -> None:
        """Cancel it; that one has ended already is no error. Raises AwsError."""
        ...


class ReservationChanger(Protocol):
    """Reads and quotes with the credentials of the person who changes; ``BlockSeller`` makes the changes."""

    def held(self, reservation_id: str) -> HeldReservation | None:
        """Return a reservation as EC2 shows it now, None when it shows none. Raises AwsError."""
        ...

    def cancellation_terms(self, reservation_id: str, token: str) -> CancellationTerms:
        """Have EC2 quote a cancellation; the same token gets the same quote. Raises AwsError."""
        ...

    def is_quoted(self, quote_id: str) -> bool:
        """Whether a cancellation quote can be used by now. Raises AwsError."""
        ...

    def date_change_terms(
        self, reservation_id: str, new_start_at: datetime, token: str
    ) -> DateChangeTerms:
        """Have EC2 quote a later start; the same token gets the same quote. Raises AwsError."""
        ...
