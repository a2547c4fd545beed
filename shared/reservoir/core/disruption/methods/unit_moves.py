"""Free units of one reservation for work that only an equal one can hold (EC2: MoveCapacityReservationInstances).

EC2 moves units between reservations of one owner that are alike in type, platform, zone, tenancy, placement group and
end; free ones first. Units in use it moves only with instances that were launched with the preference ``open``, and it
chooses which, so only free units are moved here. That pays where they would idle: for demand that waits, and for nodes
that are paid for although a unit, once moved, would hold their replicas.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from typing import Final

from reservoir.core.disruption.candidate import Candidate
from reservoir.core.disruption.effort import rotated
from reservoir.core.disruption.headroom import Headroom
from reservoir.core.disruption.saving.price_rule import PriceRule
from reservoir.core.disruption.simulation import PassState
from reservoir.core.disruption.unit_move import UnitMove
from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from reservoir.core.model.node_pool import DisruptionReason
from reservoir.core.model.plan import Plan
from reservoir.names import MOVABLE_TAG, MOVABLE_VALUE

# Of one pass; the rest has its turn once other nodes have moved in.
_GLIMPSES_MAX: Final = 40
_GLIMPSES_MIN: Final = 4  # however much of the effort is used up


def equal_groups(
    reservations: Iterable[CapacityReservation], now: datetime
) -> Iterator[tuple[CapacityReservation, ...]]:
    """Yield reservations among which EC2 would move units and whose owner allows it by a tag, each group by ids."""
    movable = (it for it in reservations if _is_movable(it, now))
    for _, alike in groupby(
        sorted(movable, key=lambda it: (_likeness(it), it.id)), key=_likeness
    ):
        yield tuple(alike)


def _is_movable(it: CapacityReservation, now: datetime) -> bool:
    return (
        is_tagged_movable(it)
        and it.split_from is None
        and it.kind is ReservationKind.DEFAULT
        and it.is_active(now)
        and not it.stale
    )


def is_tagged_movable(it: CapacityReservation) -> bool:
    """Whether the owner lets units move; not while some are lent: EC2 cancels a reservation that is emptied.

    EC2 shows tags to the owner only, so a reservation that is shared with us never qualifies.
    """
    return it.tags.get(MOVABLE_TAG) == MOVABLE_VALUE and it.lent is None


def _likeness(it: CapacityReservation) -> tuple[str, ...]:
    end = "" if it.end_at is None else it.end_at.isoformat()
    return (
        it.owner_id,
        it.instance_type,
        it.platform,
        it.tenancy,
        it.zone_id,
        it.placement_group_arn or "",
        end,
    )


def spare_units(source: CapacityReservation) -> int:
    """Return the free units that may move; one always stays, because EC2 cancels a reservation that it has emptied.

    Units that are leased beside EC2's count may be on their way out already.
    """
    leased = source.available_count - source.free_units
    return min(source.free_units, source.total_count - leased - 1)


def shifted(world: PassState, move: UnitMove) -> PassState:
    """Return the world as it will be once EC2 has moved the units."""
    change = {move.source_id: -move.count, move.destination_id: move.count}
    reservations = tuple(
        replace(
            it,
            total_count=it.total_count + change.get(it.id, 0),
            available_count=it.available_count + change.get(it.id, 0),
            free_units=it.free_units + change.get(it.id, 0),
        )
        for it in world.snapshot.reservations
    )
    return replace(world, snapshot=replace(world.snapshot, reservations=reservations))


class UnitMoves:
    """Looks for moves on behalf of the pools that want them.

    Each is glimpsed at first, with nothing on offer but the units that would move, which is cheap; only then it is
    simulated in the whole world. One move is tried in every pass, however much of its effort is used up by then, and
    each minute begins with another.
    """

    def __init__(self, pools: Iterable[str], rule: PriceRule) -> None:
        """``pools``: names of those with ``moveReservedUnits``."""
        self._pools = frozenset(pools)
        self._rule = rule
        self._glimpses_left = _GLIMPSES_MAX
        self._tried = False

    def for_demand(
        self, before: PassState, had: Plan, after: PassState
    ) -> tuple[tuple[UnitMove, ...], PassState]:
        """Return moves that give waiting demand reserved units, and the world with them.

        ``before``: the world in which the demand waits; ``had``: what it gets there; ``after``: the world after this
        pass.
        """
        moves: list[UnitMove] = []
        for move in rotated(list(_possible(after)), after.now):
            if not self._may_glimpse(after) or not self._units_in(
                move.destination_id, self._glimpse(before, move).pending()
            ):
                continue
            if not self._may_try(after):
                break
            plan = shifted(before, move).pending()
            gained = min(
                move.count,
                self._units_in(move.destination_id, plan),
                _units(plan) - _units(had),
            )
            if gained > 0:
                why = f"{gained} of its units lie idle, and demand waits that {move.destination_id} can hold"
                found = replace(move, count=gained, explanation=why)
                moves.append(found)
                before, after, had = shifted(before, found), shifted(after, found), plan
        return tuple(moves), after

    # Branches: one trial after the other, and each may end the search for a node or for all.
    def for_nodes(
        self, world: PassState, candidates: Sequence[Candidate], headroom: Headroom
    ) -> tuple[tuple[UnitMove, ...], PassState]:
        """Return moves into which paid nodes can be consolidated by the next pass, and the world after both.

        That pass will find no more than ``headroom`` in its budgets.
        """
        moves: dict[tuple[str, str], UnitMove] = {}
        moving: list[Candidate] = []
        for candidate in rotated(candidates, world.now):
            if (
                candidate.pool.name not in self._pools
                or candidate.is_reserved
                or candidate.is_empty
            ):
                continue
            with_it = [*moving, candidate]
            if headroom.together(with_it, DisruptionReason.UNDERUTILIZED) < len(with_it):
                continue
            for move in _possible(world):
                one = replace(move, count=1)
                if not self._may_glimpse(world) or not self._moves_in(
                    candidate, one, self._glimpse(world, one)
                ):
                    continue
                if not self._may_try(world):
                    return tuple(moves.values()), world
                plan = self._improved(shifted(world, one), candidate)
                if plan is None or not self._units_in(one.destination_id, plan):
                    continue
                if self._improved(world, candidate) is not None:
                    break  # it needs no unit: a later pass will judge it
                world = shifted(world, one).after((candidate,), plan)
                moving = with_it
                key = (one.source_id, one.destination_id)
                moves[key] = _grown(moves.get(key), one, candidate)
                break
        return tuple(moves.values()), world

    def _may_glimpse(self, world: PassState) -> bool:
        self._glimpses_left -= 1
        return self._glimpses_left >= (
            0 if world.effort.left > 0 else _GLIMPSES_MAX - _GLIMPSES_MIN
        )

    def _may_try(self, world: PassState) -> bool:
        may, self._tried = not self._tried or world.effort.left > 0, True
        return may

    def _glimpse(self, world: PassState, move: UnitMove) -> PassState:
        """Return a world in which only the units that would move can be launched into, by these pools."""
        snapshot = shifted(world, move).snapshot
        (destination,) = (
            it for it in snapshot.reservations if it.id == move.destination_id
        )
        small = replace(
            snapshot,
            node_pools=tuple(
                pool for pool in snapshot.node_pools if pool.name in self._pools
            ),
            instance_types=tuple(
                each
                for each in snapshot.instance_types
                if each.name == destination.instance_type
            ),
            reservations=(destination,),
        )
        return world.seeing(small)

    def _moves_in(self, candidate: Candidate, move: UnitMove, glimpse: PassState) -> bool:
        plan = glimpse.without((candidate,))
        return not plan.unplaced and self._units_in(move.destination_id, plan) > 0

    def _units_in(self, reservation_id: str, plan: Plan) -> int:
        """Count what a plan launches into the reservation for pools that want moves."""
        mine = (it for it in plan.launches if it.node_pool_name in self._pools)
        return sum(it.count for it in mine if it.offering.reservation_id == reservation_id)

    def _improved(self, world: PassState, candidate: Candidate) -> Plan | None:
        plan = world.without((candidate,))
        if plan.unplaced:
            return None
        judgement = self._rule.judged((candidate,), plan)
        return None if judgement.refusals else judgement.plan


def _possible(world: PassState) -> Iterator[UnitMove]:
    """Yield moves of all spare units into reservations that are full, by ids."""
    for equal in equal_groups(world.snapshot.reservations, world.now):
        for destination in equal:
            for source in equal:
                count = spare_units(source)
                if destination.free_units <= 0 < count:
                    yield UnitMove(source.id, destination.id, count, "")


def _units(plan: Plan) -> int:
    """Count the reserved units that a plan launches into."""
    return sum(it.count for it in plan.launches if it.offering.reservation_id is not None)


def _grown(known: UnitMove | None, move: UnitMove, candidate: Candidate) -> UnitMove:
    nodes = (candidate.id,) if known is None else (*known.for_nodes, candidate.id)
    why = f"{len(nodes)} of its units lie idle, and {move.destination_id} can hold nodes that are paid for"
    return replace(move, count=len(nodes), explanation=why, for_nodes=nodes)
