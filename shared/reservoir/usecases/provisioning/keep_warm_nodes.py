"""Free reserved units get a booted node where their pool wants one, after all demand was planned.

A turn of the pool keeps two passes from launching the same nodes twice, as for static pools.
"""

from dataclasses import dataclass, replace

from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.static_pools.units import ReservedCapacity
from reservoir.core.warm_nodes.wanted import WarmCount, WarmWishes, warming_pools
from reservoir.ports.state import NodeClaimStore
from reservoir.ports.system import Clock
from reservoir.usecases.provisioning.gather_snapshot import PolicyReading, SnapshotGatherer
from reservoir.usecases.provisioning.launch_ahead import LaunchAhead
from reservoir.usecases.provisioning.recent_commits import RecentCommits


@dataclass(frozen=True, slots=True)
class KeepWarmNodes:
    """Boots free reserved units ahead."""

    gatherer: SnapshotGatherer
    node_claims: NodeClaimStore
    clock: Clock
    ahead: LaunchAhead
    account_id: str

    def run(self, recent: RecentCommits) -> int:
        """Launch the warm nodes that pools want; return how many. What loses a race is left to the next wake-up.

        Raises UnreadableRowsError, and ConflictError when a claim that is given back is fought over.
        """
        reading = self.gatherer.read_policy()
        pools = warming_pools(reading.policy.node_pools)
        if not pools:
            return 0
        live = {claim.id: claim for claim in self.node_claims.list_live()}
        shown = [record.reservation for record in reading.reservations.result()]
        wishes = WarmWishes(
            reading.policy.node_pools,
            live,
            ReservedCapacity.of(shown, reading.policy.node_classes, None, self.clock.now()),
            self.account_id,
        )
        return sum(
            self._warm(pool, reading, recent)
            for pool in pools
            if wishes.of(pool).missing_count
        )

    def _warm(self, pool: NodePool, reading: PolicyReading, recent: RecentCommits) -> int:
        """Launch the warm nodes of one pool, and return how many."""
        turns = self.node_claims.planning_turns([f"warm/{pool.name}"])
        now = self.clock.now()
        if not recent.are_surely_shown(turns, now):
            return 0
        gathered = self.gatherer.gather(
            now, reading=reading, needing=(), recent=recent, shows_warm_nodes=True
        )
        snapshot = gathered.snapshot
        reserved = ReservedCapacity.of(
            snapshot.reservations, snapshot.node_classes, snapshot.instance_types, now
        )
        wishes = WarmWishes(snapshot.node_pools, gathered.claims, reserved, self.account_id)
        counted = wishes.of(pool)
        if not counted.missing_count:
            return 0
        alone = replace(gathered, snapshot=_with_units_of(snapshot, counted))
        # as a static pool with a node on every unit would launch them: in reservations alone
        following = replace(pool, all_reserved=True)
        return self.ahead.run(
            following, counted.missing_count, alone, now, turns, recent
        ).count


def _with_units_of(snapshot: Snapshot, counted: WarmCount) -> Snapshot:
    """Return the world with no units but those that should get a node."""
    reservations = tuple(
        replace(each, free_units=counted.missing.get(each.id, 0))
        for each in snapshot.reservations
    )
    return replace(snapshot, reservations=reservations)
