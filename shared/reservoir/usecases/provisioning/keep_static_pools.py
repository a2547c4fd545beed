"""Static pools get the nodes that they are short of, before demand is planned: it then fills them.

That two passes at once do not both launch what one pool lacks, its turn sees to, which each commit takes. What a pass
leaves undone (it died, or lost a race) the next one finds.
"""

from dataclasses import dataclass
from typing import Final

from reservoir.core.model.node_pool import NodePool
from reservoir.core.static_pools.census import census, growing_pools
from reservoir.core.static_pools.units import ReservedCapacity
from reservoir.core.warm_nodes.free_units import offered, warm_nodes
from reservoir.ports.state import NodeClaimStore
from reservoir.ports.system import Clock
from reservoir.usecases.provisioning.gather_snapshot import PolicyReading, SnapshotGatherer
from reservoir.usecases.provisioning.launch_ahead import Ahead, LaunchAhead
from reservoir.usecases.provisioning.recent_commits import RecentCommits

# what loses twice is left to the next wake-up: discovery looks each minute
_ATTEMPTS_MAX: Final = 2


@dataclass(frozen=True, slots=True)
class KeepStaticPools:
    """Brings static pools up to their size."""

    gatherer: SnapshotGatherer
    node_claims: NodeClaimStore
    clock: Clock
    ahead: LaunchAhead

    def run(self, reading: PolicyReading, recent: RecentCommits) -> int:
        """Launch what static pools are short of; return how many nodes that is.

        Raises UnreadableRowsError, and ConflictError when a claim that is given back is fought over.
        """
        pools = growing_pools(reading.policy.node_pools)
        if not pools:
            return 0
        live = {claim.id: claim for claim in self.node_claims.list_live()}
        shown, _ = offered(
            warm_nodes(live.values()),
            [record.reservation for record in reading.reservations.result()],
        )
        reserved = ReservedCapacity.of(
            shown, reading.policy.node_classes, None, self.clock.now()
        )
        launched = 0
        for pool in pools:
            if not census(pool, live, reserved).missing:
                continue
            for _ in range(_ATTEMPTS_MAX):
                grown = self._grow(pool, reading, recent)
                launched += grown.count
                if not grown.is_lost:
                    break
                reading = self.gatherer.read_policy()
        return launched

    def _grow(self, pool: NodePool, reading: PolicyReading, recent: RecentCommits) -> Ahead:
        """Launch what one pool is short of."""
        turns = self.node_claims.planning_turns([turn_key(pool)])
        now = self.clock.now()
        if not recent.are_surely_shown(turns, now):
            return Ahead()
        gathered = self.gatherer.gather(now, reading=reading, needing=(), recent=recent)
        snapshot = gathered.snapshot
        reserved = ReservedCapacity.of(
            snapshot.reservations, snapshot.node_classes, snapshot.instance_types, now
        )
        missing = census(pool, gathered.claims, reserved).missing
        if not missing:
            return Ahead()
        return self.ahead.run(pool, missing, gathered, now, turns, recent)


def turn_key(pool: NodePool) -> str:
    """Return the key of the turn by which a pool grows; it differs from the keys of planning's turns."""
    return f"static/{pool.name}"
