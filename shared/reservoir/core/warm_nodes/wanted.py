"""How many warm nodes a pool wants, where, and which of those that it has are too many.

Only units that cost the same whether or not a node runs in them are kept warm: those of reservations that this account
owns and pays for, and that no instance enters by itself. An instance is billed to who runs it, also in a reservation
that another account shares or whose unused units another account pays for. In an open reservation a warm node would
turn instances of others away, which would then be bought.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.schedule import ScheduleError, is_active
from reservoir.core.static_pools.units import ReservedCapacity
from reservoir.names import MOVABLE_TAG, MOVABLE_VALUE

# A node outlives the end of an on-demand reservation, on demand. Passes come every minute, and ending takes some.
_GOES_BEFORE_END: Final = timedelta(minutes=10)
_TARGETED: Final = "targeted"
# why disruption leaves such a node alone
KEPT_WARM: Final = "it keeps a free unit warm: whoever needs the unit gets it"


@dataclass(frozen=True, slots=True)
class WarmCount:
    """The warm nodes of one pool: those that stay, units that should get one, and nodes that should go, with why."""

    kept: tuple[NodeClaim, ...] = ()
    missing: Mapping[str, int] = field(default_factory=dict)  # by reservation
    surplus: Mapping[str, str] = field(default_factory=dict)  # by claim

    @property
    def missing_count(self) -> int:
        """Units that should get a node."""
        return sum(self.missing.values())


@dataclass(frozen=True, slots=True)
class WarmWishes:
    """What all pools want. ``claims`` are the live ones, by id; ``reserved`` shows units of warm nodes as used."""

    pools: Sequence[NodePool]
    claims: Mapping[str, NodeClaim]
    reserved: ReservedCapacity
    account_id: str

    # Branches: each node is asked in turn why it should go, and the first answer counts.
    def of(self, pool: NodePool) -> WarmCount:
        """Count the warm nodes of a pool."""
        nodes = self._nodes(pool)
        if not nodes and pool.warm_reserved is None:
            return WarmCount()
        most = self._most(pool)
        bought = self._units_for_bought(pool)
        free = self.reserved.units_of(pool).free
        lacking = {key: count - free.get(key, 0) for key, count in bought.items()}
        kept: list[NodeClaim] = []
        surplus: dict[str, str] = {}
        for node in nodes:
            reservation_id = node.offering.reservation_id or ""
            why = self._cold(reservation_id)
            if why is None and len(kept) >= most:
                why = f"NodePool {pool.name} keeps {most} nodes warm now"
            elif why is None and lacking.get(reservation_id, 0) > 0:
                lacking[reservation_id] -= 1
                why = "nodes that are bought could move into its unit"
            if why is None:
                kept.append(node)
            else:
                surplus[node.id] = why
        missing = dict(self._missing(pool, most - len(kept), free, bought))
        return WarmCount(tuple(kept), missing, surplus)

    def _nodes(self, pool: NodePool) -> list[NodeClaim]:
        """Return the pool's warm nodes, oldest first."""
        return sorted(
            (
                claim
                for claim in self.claims.values()
                if claim.is_kept_warm and claim.node_pool_name == pool.name
            ),
            key=lambda claim: (claim.created_at, claim.id),
        )

    def _most(self, pool: NodePool) -> int:
        """Return how many nodes the pool may keep warm now; a schedule that cannot be read keeps none."""
        wish = pool.warm_reserved
        if wish is None:
            return 0
        try:
            is_open = is_active(wish, self.reserved.now)
        except ScheduleError:
            is_open = False
        units = sum(each.total_count for each in self.reserved.reservations.values())
        most = units if wish.nodes is None else wish.nodes
        return most if is_open else 0

    def _missing(
        self,
        pool: NodePool,
        most: int,
        free: Mapping[str, int],
        bought: Mapping[str, int],
    ) -> Iterator[tuple[str, int]]:
        """Yield units that should get a node, by reservation."""
        if pool.paused is not None:
            return
        left = most
        for reservation_id in sorted(free):
            if self._cold(reservation_id) is not None:
                continue
            spare = free[reservation_id] - bought.get(reservation_id, 0)
            count = min(left, spare)
            if count > 0:
                left -= count
                yield reservation_id, count

    def _cold(self, reservation_id: str) -> str | None:
        """Return why units of a reservation are not kept warm, or None; of one that is not known nothing is said.

        A node whose reservation has ended has no id of one.
        """
        if not reservation_id:
            return "its reservation has ended: the node would be paid for"
        found = self.reserved.reservations.get(reservation_id)
        if found is None:
            return None
        if not is_free_of_charge(found, self.account_id):
            return f"a node in {found.id} may cost what an unused unit does not"
        if _ends_soon(found, self.reserved.now):
            return f"{found.id} ends soon"
        if found.tags.get(MOVABLE_TAG) == MOVABLE_VALUE and any(
            pool.disruption.move_reserved_units for pool in self.pools
        ):
            return f"units of {found.id} may move to other reservations"
        return None

    def _units_for_bought(self, pool: NodePool) -> Mapping[str, int]:
        """Count, by reservation, the bought nodes that may move into one of its units once it is empty.

        Work on nodes of the pool itself moves onto its warm nodes, unless EC2 can move the node as it is.
        """
        counts: dict[str, int] = {}
        for other in self.pools:
            if not other.moves_work:
                continue
            types = [
                claim.offering.instance_type
                for claim in self.claims.values()
                if claim.node_pool_name == other.name
                and _is_bought(claim)
                and (other != pool or claim.reclaim_group_arn is not None)
            ]
            for reservation_id in self.reserved.units_of(other).total if types else ():
                wanted = self.reserved.reservations[reservation_id].instance_type
                counts[reservation_id] = counts.get(reservation_id, 0) + types.count(wanted)
        return counts


def warming_pools(node_pools: Iterable[NodePool]) -> list[NodePool]:
    """Return the pools that may keep nodes warm, by name."""
    return sorted(
        (pool for pool in node_pools if pool.warm_reserved and pool.paused is None),
        key=lambda pool: pool.name,
    )


def is_free_of_charge(reservation: CapacityReservation, account_id: str) -> bool:
    """Whether a node in a free unit costs what the free unit costs, for everybody."""
    return (
        reservation.owner_id == account_id
        and reservation.unused_billing_owner_id in (None, account_id)
        and reservation.kind is not ReservationKind.INTERRUPTIBLE
        and reservation.instance_match_criteria == _TARGETED
    )


def _ends_soon(reservation: CapacityReservation, now: datetime) -> bool:
    """Whether nodes should be gone before its end. Those of a Capacity Block drain like any node of it."""
    return (
        reservation.kind is not ReservationKind.CAPACITY_BLOCK
        and reservation.end_at is not None
        and now >= reservation.end_at - _GOES_BEFORE_END
    )


def _is_bought(claim: NodeClaim) -> bool:
    return (
        claim.offering.capacity_type is not CapacityType.RESERVED
        and claim.state is ClaimState.RUNNING
        and bool(claim.placements)
        and claim.drain is None
        and claim.disruption is None
    )
