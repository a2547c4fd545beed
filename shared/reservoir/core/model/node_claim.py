"""NodeClaim: one wanted machine, from the plan to its end.

The state machine is one table (``ALLOWED_TRANSITIONS``); late, repeated and reordered events cannot move a claim
backwards, because every move is checked against it and committed under the claim's revision.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from reservoir.core.model.plan import OfferingKey
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.model.unknown_fields import KEEPS_UNKNOWN
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.scheduling_terms.taint import Taint


class ClaimState(StrEnum):
    """Where a claim is in its life."""

    PLANNED = "planned"  # committed with its lease; EC2 knows nothing yet
    # the intent to call CreateFleet is recorded; the call may or may not have happened
    LAUNCHING = "launching"
    LAUNCHED = "launched"  # EC2 answered with an instance
    RUNNING = "running"  # the instance reported running
    DRAINING = "draining"  # its workloads were notified, with a deadline
    TERMINATING = "terminating"  # TerminateInstances was asked for
    TERMINATED = "terminated"  # the instance is gone
    FAILED = "failed"  # it never had an instance


ALLOWED_TRANSITIONS: Final[Mapping[ClaimState, frozenset[ClaimState]]] = {
    ClaimState.PLANNED: frozenset({ClaimState.LAUNCHING, ClaimState.FAILED}),
    ClaimState.LAUNCHING: frozenset({ClaimState.LAUNCHED, ClaimState.FAILED}),
    ClaimState.LAUNCHED: frozenset(
        {
            ClaimState.RUNNING,
            ClaimState.DRAINING,
            ClaimState.TERMINATING,
            ClaimState.TERMINATED,
        }
    ),
    ClaimState.RUNNING: frozenset(
        {ClaimState.DRAINING, ClaimState.TERMINATING, ClaimState.TERMINATED}
    ),
    ClaimState.DRAINING: frozenset({ClaimState.TERMINATING, ClaimState.TERMINATED}),
    ClaimState.TERMINATING: frozenset({ClaimState.TERMINATED}),
    ClaimState.TERMINATED: frozenset(),
    ClaimState.FAILED: frozenset(),
}

LIVE_STATES: Final = frozenset(ClaimState) - {ClaimState.TERMINATED, ClaimState.FAILED}
# No instance yet, as far as we know.
AWAITING_LAUNCH: Final = frozenset({ClaimState.PLANNED, ClaimState.LAUNCHING})
_COMING_OR_THERE: Final = AWAITING_LAUNCH | {ClaimState.LAUNCHED, ClaimState.RUNNING}


class LeaseState(StrEnum):
    """The life of a lease on one reservation unit (docs/architecture.md#the-ledger)."""

    HELD = "held"  # promised; the launch has not settled
    # the instance exists in EC2 since ``settled_at``; no observation has replaced the lease yet
    SETTLED = "settled"
    ABSORBED = "absorbed"  # an observation that began after settling contains it
    RETURNED = "returned"  # the launch is known to have failed: the unit was given back


OPEN_LEASE_STATES: Final = frozenset({LeaseState.HELD, LeaseState.SETTLED})


@dataclass(frozen=True, slots=True)
class Lease:
    """One unit of a reservation promised to one claim."""

    reservation_id: str
    state: LeaseState = LeaseState.HELD
    settled_at: datetime | None = None
    # a newer release's fields
    unknown: Mapping[str, Any] = field(default_factory=dict, metadata=KEEPS_UNKNOWN)


@dataclass(frozen=True, slots=True)
class GangSeat:
    """A node's place among the nodes of a workload.

    ``first_rank`` is the rank of the first of its replicas among all ``world_size``; ``addresses`` are those of all
    nodes, by node rank.
    """

    workload_key: str
    node_rank: int
    first_rank: int
    world_size: int
    addresses: tuple[str, ...]
    # a newer release's fields
    unknown: Mapping[str, Any] = field(default_factory=dict, metadata=KEEPS_UNKNOWN)


class DrainReason(StrEnum):
    """Why a node must go; the reason in ``Node Draining``."""

    CAPACITY_BLOCK_ENDING = "CapacityBlockEnding"
    INTERRUPTION = "Interruption"
    SCHEDULED_CHANGE = "ScheduledChange"
    REBALANCE = "Rebalance"
    WITHDRAWN = "Withdrawn"
    EMPTY = "Empty"
    CONSOLIDATION = "Consolidation"
    DRIFT = "Drift"
    NODE_POOL_DELETED = "NodePoolDeleted"
    EXPIRED = "Expired"
    UNHEALTHY = "Unhealthy"
    RECLAIMED = "Reclaimed"  # its unit was lent, and its owner wants it
    REQUESTED = "Requested"  # an operator asked for it
    # its static pool has more nodes than it wants, or its pool more warm ones; or others need the unit of a warm one
    SCALED_DOWN = "ScaledDown"


@dataclass(frozen=True, slots=True)
class Drain:
    """A started drain. ``id`` is the same in every repeat of the notification.

    The replicas on the node went back to demand when the drain started, so that they are replaced before it is over;
    ``awaiting`` are those that still run there and have not been released.
    """

    id: str
    reason: DrainReason
    notified_at: datetime
    deadline: datetime
    awaiting: tuple[PlacedReplicas, ...] = ()
    # a newer release's fields
    unknown: Mapping[str, Any] = field(default_factory=dict, metadata=KEEPS_UNKNOWN)


@dataclass(frozen=True, slots=True)
class Predecessor:
    """A node that replicas have not left yet; it is gone by the deadline of its drain."""

    claim_id: str
    deadline: datetime


@dataclass(frozen=True, slots=True)
class Succession:
    """Replicas of a workload on a claim that follow others, which have not left their nodes yet.

    ``is_held``: they may start once all predecessors have left, or their deadlines have passed, and not before.
    """

    workload_key: str
    count: int
    predecessors: tuple[Predecessor, ...]  # by deadline
    is_held: bool = False
    # a newer release's fields
    unknown: Mapping[str, Any] = field(default_factory=dict, metadata=KEEPS_UNKNOWN)


@dataclass(frozen=True, slots=True)
class DisruptionMark:
    """A claim chosen for disruption. It takes no new replicas; it drains once its replacements run.

    With ``terminate_first`` it goes before its replacement is launched, because only its own slot can host that one.
    """

    command_id: str
    reason: DrainReason
    started_at: datetime
    replacement_count: int = 0
    terminate_first: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """What a person did to an object by hand: ``verb`` as it was typed, ``by`` the person's ARN."""

    verb: str
    by: str
    reason: str
    at: datetime


OPERATIONS_KEPT: Final = 5  # of an object, the latest


def with_operation(
    operations: tuple[Operation, ...], done: Operation
) -> tuple[Operation, ...]:
    """Return an object's operations with one more, the oldest left out."""
    return (*operations, done)[-OPERATIONS_KEPT:]


@dataclass(frozen=True, slots=True)
class PlacedGeneration:
    """So many replicas on a node were placed with this generation of their workload.

    ``share``: the largest part of any resource of the node that each takes, in millionths; 0: not recorded.
    """

    workload_key: str
    generation: int
    count: int
    share: int = 0


@dataclass(frozen=True, slots=True)
class NodeClaim:
    """The stored claim. ``placements`` count the replicas that are on it and not yet returned to demand."""

    id: str
    state: ClaimState
    revision: int
    node_pool_name: str
    node_class_name: str
    batch_id: str  # claims of one CreateFleet call
    attempt: int
    offering: OfferingKey
    price_atto_usd_per_hour: int
    placements: tuple[PlacedReplicas, ...]
    allocatable: Resources
    created_at: datetime
    alternatives: tuple[OfferingKey, ...] = ()
    # how many values of a label a launch must leave to EC2
    min_values: Mapping[str, int] = field(default_factory=dict)
    # what the plan gave up for it: preferences, or part of the pool's minValues
    relaxed: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    lease: Lease | None = None
    gang_key: str | None = None
    plan_id: str | None = None
    instance_id: str | None = None
    launched_at: datetime | None = None
    running_at: datetime | None = None
    drain: Drain | None = None
    drain_at: datetime | None = None  # when the Capacity Block under it starts to drain ...
    drain_deadline: datetime | None = None  # ... and until when that drain will last
    terminated_at: datetime | None = None  # when we saw that it was gone
    # when EC2 stopped charging for it, by its own word where it gives one
    ended_at: datetime | None = None
    node_pool_hash: str = ""
    node_class_hash: str = ""
    image_id: str | None = None
    subnet_id: str | None = None
    security_group_ids: tuple[str, ...] = ()
    placements_changed_at: datetime | None = None  # consolidateAfter counts from here
    disruption: DisruptionMark | None = None
    # replicas are on their way here: not to be disrupted before
    nominated_until: datetime | None = None
    replaces: tuple[str, ...] = ()  # ids of the claims that this one makes superfluous
    # replicas that move here when the claims in ``replaces`` drain
    expected: tuple[PlacedReplicas, ...] = ()
    # an episode of failed checks that is only reported
    unhealthy_since: datetime | None = None
    # Leased over a unit that the claim in ``replaces`` still uses: launched only once that unit is free.
    waits_for_slot: bool = False
    # Not a machine at all: a unit on its way from the leased reservation to this one. Ended from birth, it only leases.
    moves_to: str | None = None
    # replicas that have done here what they were for
    finished: tuple[PlacedReplicas, ...] = ()
    # the Team for whose work alone it was planned; empty: for several teams, or for work that belongs to no Team
    team: str = ""
    # the address at which its other workloads reach the node; the node reports it
    address: str | None = None
    seats: tuple[GangSeat, ...] = ()  # in workloads whose nodes know each other
    # by key, of the workloads that are named above
    correlation_ids: Mapping[str, str] = field(default_factory=dict)
    # replicas that have run here, including finished ones
    ready: tuple[PlacedReplicas, ...] = ()
    failure: str | None = None
    is_static: bool = False  # a static pool's node: it stays with or without replicas
    # launched into a free unit for nobody yet; no longer once replicas were placed on it
    is_warm: bool = False
    # the resource group of reservations that its instance was launched at: EC2 moves it into one that joins the group
    reclaim_group_arn: str | None = None
    cordoned: bool = False  # takes no new replicas until it is uncordoned
    # operations by hand, the latest last
    operations: tuple[Operation, ...] = ()
    # By key. Of a workload's replicas that are left, the ones that were placed last count
    # (``reservoir.core.launching.placed_terms``).
    placed_with: tuple[PlacedGeneration, ...] = ()
    # by key, of the workloads whose predecessors still run elsewhere
    successions: tuple[Succession, ...] = ()
    # a newer release's fields
    unknown: Mapping[str, Any] = field(default_factory=dict, metadata=KEEPS_UNKNOWN)

    def may_become(self, state: ClaimState) -> bool:
        """Whether the transition table allows the move."""
        return state in ALLOWED_TRANSITIONS[self.state]

    def hosts(self, workload_key: str) -> bool:
        """Whether replicas of the workload are placed on the node."""
        return any(placed.workload_key == workload_key for placed in self.placements)

    @property
    def is_kept_warm(self) -> bool:
        """Whether it only keeps a free unit warm: it stays, and nothing is on it or on its way to it.

        Replicas count whatever ``is_warm`` says: a release that does not know the field places them beside it.
        """
        is_spoken_for = (
            self.placements or self.expected or self.cordoned or self.nominated_until
        )
        stays = self.drain is None and self.disruption is None
        return (
            self.is_warm and self.state in _COMING_OR_THERE and stays and not is_spoken_for
        )

    @property
    def is_live(self) -> bool:
        """Whether the claim still holds or may come to hold an instance."""
        return self.state in LIVE_STATES


def placed_keys(claims: Iterable[NodeClaim]) -> set[str]:
    """Return the keys of the workloads that have replicas on any of the claims."""
    keys: set[str] = set()
    for claim in claims:
        keys.update(placed.workload_key for placed in claim.placements)
    return keys


def correlation_ids_of(claims: Iterable[NodeClaim]) -> list[str]:
    """Return the correlation ids of all workloads that the claims name, sorted."""
    ids: set[str] = set()
    for claim in claims:
        ids.update(claim.correlation_ids.values())
    return sorted(ids)


def generations_of(
    noted: Iterable[PlacedGeneration], placements: Iterable[PlacedReplicas]
) -> tuple[PlacedGeneration, ...]:
    """Return the generations by which some replicas were placed, by key, the newest first.

    Code that takes replicas off a claim leaves these records as they are: the oldest replicas leave first. Generation
    0: not recorded.
    """
    left = {placed.workload_key: placed.count for placed in placements}
    found: list[PlacedGeneration] = []
    for note in sorted(noted, key=lambda note: (note.workload_key, -note.generation)):
        count = min(note.count, left.get(note.workload_key, 0))
        if count > 0:
            left[note.workload_key] -= count
            found.append(replace(note, count=count))
    found += [PlacedGeneration(key, 0, count) for key, count in left.items() if count > 0]
    return tuple(sorted(found, key=lambda note: (note.workload_key, -note.generation)))


def parts_of(
    claim: NodeClaim, placements: Sequence[PlacedReplicas]
) -> list[tuple[str, int]]:
    """Return the parts by which a node is charged to its replicas: workload keys, each with its part.

    A part is the dominant share of the node, as it was when the replicas were placed. Where a share is not known,
    because an earlier release placed the replicas, their number counts.
    """
    notes = generations_of(claim.placed_with, placements)
    are_known = all(note.share for note in notes)
    return [
        (note.workload_key, note.count * note.share if are_known else note.count)
        for note in notes
    ]
