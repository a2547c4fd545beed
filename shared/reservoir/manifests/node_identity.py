"""What a node may know of itself: the JSON that its instance, and no other, reads.

Within a version fields are only added; readers ignore fields that they do not know.
"""

from datetime import datetime
from typing import Literal

from pydantic import AwareDatetime, Field

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import (
    ClaimState,
    Drain,
    DrainReason,
    GangSeat,
    NodeClaim,
)
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.node_life.succession import (
    held_count,
    held_until,
    of_workload,
    predecessor_ids,
)
from reservoir.manifests.event_parts import Part, PlacedWorkload


class NodeDrain(Part):
    """The node must go: why, and until when."""

    drain_id: str = Field(description="The drainId of the Node Draining event.")
    reason: DrainReason
    notified_at: AwareDatetime
    deadline: AwareDatetime


class NodeBlockDrain(Part):
    """The node is in a Capacity Block, which will drain then, unless it is extended."""

    starts_at: AwareDatetime
    deadline: AwareDatetime


class GangPart(Part):
    """The node's place among the nodes of the workload; there once all of them have arrived."""

    node_rank: int = Field(description="The node's, from 0.")
    first_rank: int = Field(
        description="Of the first replica on the node, from 0; the others follow it."
    )
    world_size: int = Field(description="Replicas of all nodes.")
    addresses: list[str] = Field(description="Of all nodes, by node rank.")


class HostedWorkload(PlacedWorkload):
    """Replicas of a workload that belong on the node, beside those that have finished there."""

    gang: GangPart | None = None
    finished: int | None = Field(
        default=None, description="How many have finished on this node; absent for none."
    )
    held: int | None = Field(
        default=None,
        description="Beside `replicas`: how many have their place here, and may start only once they are among"
        " `replicas`, or at `heldUntil`; absent for none.",
    )
    held_until: AwareDatetime | None = None
    predecessors: list[str] | None = Field(
        default=None,
        description="NodeClaims whose nodes drain and still run replicas that these follow; absent for none.",
    )


class NodeIdentity(Part):
    """Which claim a node is for, what belongs on it, and whether it must go."""

    version: Literal[1] = 1
    node_claim: str
    node_pool: str
    node_class: str
    capacity_type: CapacityType
    capacity_reservation_id: str | None = None
    state: ClaimState
    workloads: list[HostedWorkload] = Field(
        description="Replicas that belong on the node; while it drains, those that have not been released."
    )
    drain: NodeDrain | None = Field(
        default=None, description="Absent while the node may stay."
    )
    block_drain: NodeBlockDrain | None = Field(
        default=None,
        description="When it must end, even if it gets no message; absent outside of blocks.",
    )

    def text(self) -> str:
        """Return the JSON; absent fields are left out."""
        return self.model_dump_json(exclude_none=True)


def node_identity(claim: NodeClaim) -> NodeIdentity:
    """Return what the claim's node may know."""
    drain = claim.drain
    return NodeIdentity(
        node_claim=claim.id,
        node_pool=claim.node_pool_name,
        node_class=claim.node_class_name,
        capacity_type=claim.offering.capacity_type,
        capacity_reservation_id=claim.offering.reservation_id,
        state=claim.state,
        workloads=[
            _hosted(placed, claim)
            for placed in (claim.placements if drain is None else drain.awaiting)
        ],
        drain=None if drain is None else _drain(drain),
        block_drain=_block_drain(claim.drain_at, claim.drain_deadline),
    )


def _hosted(placed: PlacedReplicas, claim: NodeClaim) -> HostedWorkload:
    key = placed.workload_key
    namespace, _, name = key.partition("/")
    finished = {it.workload_key: it.count for it in claim.finished}.get(key)
    gang = {it.workload_key: _gang(it) for it in claim.seats}.get(key)
    followed = of_workload(claim, key)
    held = held_count(claim, placed)
    return HostedWorkload(
        namespace=namespace,
        name=name,
        correlation_id=claim.correlation_ids.get(key),
        replicas=placed.count - held,
        finished=finished,
        gang=gang,
        held=held or None,
        held_until=held_until(followed) if followed is not None and held else None,
        predecessors=predecessor_ids(claim, key) or None,
    )


def _gang(seat: GangSeat) -> GangPart:
    return GangPart(
        node_rank=seat.node_rank,
        first_rank=seat.first_rank,
        world_size=seat.world_size,
        addresses=list(seat.addresses),
    )


def _block_drain(
    starts_at: datetime | None, deadline: datetime | None
) -> NodeBlockDrain | None:
    if starts_at is None or deadline is None:
        return None
    return NodeBlockDrain(starts_at=starts_at, deadline=deadline)


def _drain(drain: Drain) -> NodeDrain:
    return NodeDrain(
        drain_id=drain.id,
        reason=drain.reason,
        notified_at=drain.notified_at,
        deadline=drain.deadline,
    )
