"""Static pools: never a node beyond what they want, nor beyond the units that there are."""

from collections import Counter
from typing import Final

from lab.simulation.invariants.base import STEADY, WAITING, Invariant
from lab.simulation.standing_pool import STANDING
from lab.simulation.world import World
from reservoir.core.model.node_claim import NodeClaim

_STAYS: Final = WAITING | STEADY


class StaticPoolsAreNeverTooLarge(Invariant):
    """A static pool never has more nodes that stay than it ever wanted; one that follows reservations, than units."""

    @classmethod
    def concerns(cls, world: World) -> bool:
        return world.standing.exists

    def holds(self) -> None:
        claims = self.world.state.claim_rows
        staying = [claim for claim in claims.values() if self._stays(claim)]
        if not self.world.standing.follows:
            most = self.world.standing.most_wanted
            if len(staying) > most:
                self.refute(
                    f"{most} nodes were wanted at most, and there are {sorted(each.id for each in staying)}"
                )
            return
        counts = Counter(
            each.offering.reservation_id for each in staying if each.lease is not None
        )
        for reservation_id, count in counts.items():
            found = self.world.ec2.reservations.get(reservation_id or "")
            if (
                found is not None
                and found.id not in self.world.ec2.touched
                and count > found.total_count
            ):
                self.refute(
                    f"{found.id} has {found.total_count} units, and {count} nodes shall stand in it"
                )

    def _stays(self, claim: NodeClaim) -> bool:
        """Whether it is a node of the pool that goes on, or comes; of a node and its replacement one counts.

        A node whose instance has ended stands in no unit any more, whether or not its claim says so yet.
        """
        if claim.node_pool_name != STANDING or claim.state not in _STAYS:
            return False
        if claim.drain is not None or claim.disruption is not None:
            return False
        instance = self.world.instance(claim.instance_id)
        if instance is not None and instance.is_gone:
            return False
        replaced = [self.world.state.claim_rows.get(key) for key in claim.replaces]
        return not any(
            old is not None and old.state in STEADY and old.disruption is None
            for old in replaced
        )
