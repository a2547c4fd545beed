"""Free units for nodes that run on demand, without a restart (EC2: CreateCapacityReservationBySplitting).

An on-demand instance that was launched at a resource group of reservations is moved into a matching reservation that
joins the group. So for each such node, one unit that is free and not waited for is split off and joins the node's
group. EC2 chooses which instance of the group moves in among those of one class, type and zone, so each of them must be
allowed to. AWS does not document how long that takes: until it is over, or given up, no more units are split off for
nodes of that kind.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from reservoir.core.capacity.offerings import pool_admits
from reservoir.core.disruption.candidate import Candidate, blocked_reason
from reservoir.core.disruption.methods.unit_moves import is_tagged_movable, spare_units
from reservoir.core.disruption.simulation import PassState
from reservoir.core.disruption.unit_split import UnitSplit
from reservoir.core.model.capacity_reservation import (
    ACTIVE,
    CapacityReservation,
    ReservationKind,
)
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.snapshot import Snapshot
from reservoir.names import SPLIT_GROUP_TAG

# Of one pass; the next goes on.
SPLITS_MAX: Final = 20
_LOOKS_MAX: Final = 40

UNDER_WAY: Final = "a unit was split off for it or an equal node: EC2 moves one of them in without a restart"


@dataclass(frozen=True, slots=True)
class MovePlace:
    """Where nodes are alike to EC2: it moves any of them into what joins the group."""

    group_arn: str
    instance_type: str
    zone_id: str


def place_of(claim: NodeClaim) -> MovePlace | None:
    """Return where EC2 could move the claim's node into a reservation, or None where it would not."""
    is_paid = claim.offering.capacity_type is CapacityType.ON_DEMAND
    if claim.reclaim_group_arn is None or not is_paid:
        return None
    offering = claim.offering
    return MovePlace(claim.reclaim_group_arn, offering.instance_type, offering.zone_id)


def places_under_way(
    reservations: Iterable[CapacityReservation],
    claims: Iterable[NodeClaim],
    leases: Iterable[NodeClaim],
) -> frozenset[MovePlace]:
    """Return where a unit was split off, or is about to be, that no node of ``claims`` is known to have moved into.

    ``leases``: units on their way into groups.
    """
    node_counts = Counter(claim.offering.reservation_id for claim in claims)
    split_off: set[MovePlace] = set()
    for it in reservations:
        group_arn = it.tags.get(SPLIT_GROUP_TAG)
        if group_arn is None:
            continue
        # EC2 shows that an instance has moved in before it shows which: its node still counts as one on demand.
        has_unknown_node = it.state == ACTIVE and it.total_count > node_counts[it.id]
        if it.available_count > 0 or has_unknown_node:
            split_off.add(MovePlace(group_arn, it.instance_type, it.zone_id))
    begun = {
        MovePlace(it.moves_to, it.offering.instance_type, it.offering.zone_id)
        for it in leases
        if it.moves_to is not None
    }
    return frozenset(split_off | begun)


def sources_for(
    place: MovePlace,
    selected: Set[str],
    reservations: Iterable[CapacityReservation],
    now: datetime,
) -> Iterator[CapacityReservation]:
    """Yield reservations of which a unit could be split off for nodes at a place, the fullest first, then by id."""
    fitting = [
        it
        for it in reservations
        if (it.instance_type, it.zone_id) == (place.instance_type, place.zone_id)
        and it.id in selected
        and _is_splittable(it, now)
    ]
    yield from sorted(fitting, key=lambda it: (it.free_units, it.id))


def _is_splittable(it: CapacityReservation, now: datetime) -> bool:
    # A new reservation in a placement group is not tried: the guide does not say which instances join it.
    return (
        is_tagged_movable(it)
        and it.split_from is None
        and it.kind is ReservationKind.DEFAULT
        and it.placement_group_arn is None
        and it.is_active(now)
        and not it.stale
        and spare_units(it) > 0
    )


def split_units(
    world: PassState,
    candidates: Sequence[Candidate],
    staying: Set[str],
    under_way: Set[MovePlace],
) -> tuple[tuple[UnitSplit, ...], PassState]:
    """Return what to split off for which nodes, and the world in which these nodes have moved in.

    ``candidates``: all nodes that EC2 could move; nothing else is about to happen to those in ``staying``. A unit goes
    to a node only if the scheduler would place the same replicas, for the same pool, into that very reservation: so
    teams' shares, limits of the pool and what waits are kept as if the node were replaced.
    """
    splits: list[UnitSplit] = []
    looks = _Looks(world)
    for place, nodes in _by_place(candidates).items():
        if place in under_way:
            continue
        wanting = [
            candidate
            for candidate in nodes
            if candidate.id in staying and _may_want(candidate, world.now)
        ]
        for candidate in wanting:
            if len(splits) == SPLITS_MAX:
                return tuple(splits), world
            source = looks.source_for(world, candidate, place, nodes)
            if source is None:
                break  # there is none for its like either
            why = f"a unit of {source.id} is free, and {candidate.id} runs on demand"
            splits.append(UnitSplit(source.id, place.group_arn, candidate.id, why))
            world = _without_unit(world, source.id)
    return tuple(splits), world


def _by_place(candidates: Iterable[Candidate]) -> Mapping[MovePlace, list[Candidate]]:
    """Return the nodes that are alike to EC2, by place."""
    alike: dict[MovePlace, list[Candidate]] = {}
    for candidate in candidates:
        place = place_of(candidate.claim)
        if place is not None:
            alike.setdefault(place, []).append(candidate)
    return alike


def _may_want(candidate: Candidate, now: datetime) -> bool:
    return not candidate.is_empty and blocked_reason(candidate.claim, now) is None


class _Looks:
    """Looks for units, each look a small simulation; a pass has so many."""

    def __init__(self, world: PassState) -> None:
        self._left = _LOOKS_MAX
        self._has_teams = bool(world.snapshot.teams)

    def source_for(
        self,
        world: PassState,
        candidate: Candidate,
        place: MovePlace,
        nodes: Sequence[Candidate],
    ) -> CapacityReservation | None:
        """Return a reservation with a unit that the node, and any of its like, may have, or None."""
        selected = _selected(world, candidate)
        # Where teams share units, what one node may have another may not.
        judged = nodes if self._has_teams else [candidate]
        for source in sources_for(place, selected, world.snapshot.reservations, world.now):
            if not all(pool_admits(node.pool, source) for node in nodes):
                continue
            self._left -= len(judged)
            if self._left < 0:
                return None
            if all(_would_be_launched_into(world, node, source) for node in judged):
                return source
        return None


def _selected(world: PassState, candidate: Candidate) -> frozenset[str]:
    """Return what the node's class selects and may use."""
    classes = {each.name: each for each in world.snapshot.node_classes}
    node_class = classes.get(candidate.claim.node_class_name)
    if node_class is None:
        return frozenset()
    return frozenset(
        it.id
        for it in world.snapshot.reservations
        if it.id in node_class.status.reservation_ids and node_class.may_use(it)
    )


def _would_be_launched_into(
    world: PassState, candidate: Candidate, source: CapacityReservation
) -> bool:
    """Whether the node's replicas would be placed onto one new node in the reservation, if there were nothing else."""
    closed = frozenset(node.claim_id for node in world.snapshot.nodes)
    narrow = _only_in(world.snapshot, candidate.pool.name, source)
    plan = world.seeing(narrow).without((candidate,), closed=closed)
    launches = [(it.offering.reservation_id, it.count) for it in plan.launches]
    return not plan.unplaced and not plan.existing and launches == [(source.id, 1)]


def _only_in(snapshot: Snapshot, pool_name: str, source: CapacityReservation) -> Snapshot:
    """Return a world in which one pool can launch one node, into one reservation."""
    types = [it for it in snapshot.instance_types if it.name == source.instance_type]
    pools = [it for it in snapshot.node_pools if it.name == pool_name]
    return replace(
        snapshot,
        instance_types=tuple(types),
        node_pools=tuple(pools),
        reservations=(replace(source, free_units=1),),
    )


def _without_unit(world: PassState, source_id: str) -> PassState:
    reservations = tuple(
        replace(
            it,
            total_count=it.total_count - 1,
            available_count=it.available_count - 1,
            free_units=it.free_units - 1,
        )
        if it.id == source_id
        else it
        for it in world.snapshot.reservations
    )
    return replace(world, snapshot=replace(world.snapshot, reservations=reservations))
