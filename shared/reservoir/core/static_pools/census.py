"""How many nodes a static pool wants, has, and is about to have."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.node_pool import NodePool
from reservoir.core.static_pools.units import PoolUnits, ReservedCapacity

_COMING: Final = frozenset({ClaimState.PLANNED, ClaimState.LAUNCHING, ClaimState.LAUNCHED})
_STANDING: Final = _COMING | {ClaimState.RUNNING}


@dataclass(frozen=True, slots=True)
class Surplus:
    """Nodes that are surplus, by claim, and how many."""

    claim_ids: frozenset[str]
    count: int


@dataclass(frozen=True, slots=True)
class Census:
    """Nodes of one static pool: ``there`` run and stay, ``coming`` are on their way. What leaves is neither.

    ``missing`` may be launched now: units that others use are wanted, and not to be had.
    """

    wanted: int
    there: int
    coming: int
    missing: int
    surplus: tuple[Surplus, ...]


def growing_pools(node_pools: Iterable[NodePool]) -> list[NodePool]:
    """Return the static pools that may launch, by name."""
    return sorted(
        (pool for pool in node_pools if pool.is_static and pool.paused is None),
        key=lambda pool: pool.name,
    )


def census(
    pool: NodePool, claims: Mapping[str, NodeClaim], reserved: ReservedCapacity
) -> Census:
    """Count the nodes of a static pool; ``claims`` are the live ones of all pools, by id."""
    staying = tuple(_staying(pool.name, claims))
    coming = sum(claim.state in _COMING for claim in staying)
    there = len(staying) - coming
    if not pool.all_reserved:
        wanted = pool.replicas or 0
        missing = max(0, wanted - len(staying))
        return Census(wanted, there, coming, missing, tuple(_too_many(staying, wanted)))
    units = reserved.units_of(pool)
    wanted = sum(units.total.values())
    return Census(
        wanted,
        there,
        coming,
        sum(units.free.values()),
        tuple(_without_unit(staying, units)),
    )


def _too_many(staying: Sequence[NodeClaim], wanted: int) -> Iterator[Surplus]:
    if len(staying) > wanted:
        yield Surplus(frozenset(claim.id for claim in staying), len(staying) - wanted)


def _without_unit(staying: Sequence[NodeClaim], units: PoolUnits) -> Iterator[Surplus]:
    """Yield the nodes beyond the units, reservation by reservation; and nodes that EC2 shows in no reservation.

    The units of a reservation that is not known, or was not read lately, cannot be counted.
    """
    by_reservation: dict[str | None, list[NodeClaim]] = {}
    for claim in staying:
        by_reservation.setdefault(claim.offering.reservation_id, []).append(claim)
    for claim in by_reservation.pop(None, []):
        yield Surplus(frozenset({claim.id}), 1)
    for reservation_id, nodes in by_reservation.items():
        yield from _too_many(nodes, units.known.get(reservation_id or "", len(nodes)))


def _staying(pool_name: str, claims: Mapping[str, NodeClaim]) -> Iterator[NodeClaim]:
    """Yield the claims of a pool that have come or will come, and stay, by id.

    Of a node and its replacement one counts: the replacement once it is there to be seen. A listing may show the mark
    of a node before the claim that replaces it; until then the node counts itself, or another one would be launched.
    """
    replaced = set(chain.from_iterable(claim.replaces for claim in claims.values()))
    for _, claim in sorted(claims.items()):
        mark = claim.disruption
        goes = mark is not None and (mark.replacement_count == 0 or claim.id in replaced)
        if (
            claim.node_pool_name == pool_name
            and claim.state in _STANDING
            and claim.drain is None
            and not goes
        ):
            yield claim
