"""What runs is what was agreed when it was placed, whatever messages have said of it since."""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from lab.simulation.invariants.base import CLOCKS_APART, Invariant, drain_start
from lab.simulation.world import World
from reservoir.core.model.node_claim import DrainReason, NodeClaim
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.resources import Resources

# So much notice every work in a Capacity Block gets: it drains ten minutes before EC2 begins, and ends two before.
_USUAL_NOTICE: Final = timedelta(minutes=8)


class PlacedSpecs:
    """Notes with which spec each replica on a claim was placed; of those that leave, the oldest have left."""

    def __init__(self, world: World) -> None:
        self._world = world
        # by claim and workload, the newest last
        self._specs: dict[str, dict[str, list[Workload]]] = {}
        # with what a replacement was planned
        self._expected: dict[str, Mapping[str, Workload]] = {}

    def row_written(self, key: str, before: Any, after: Any) -> None:
        """Look at a row that was written."""
        if not isinstance(after, NodeClaim):
            return
        if before is None:
            keys = _counts(after, "expected")
            self._expected[key] = {name: spec for name in keys for spec in self._now(name)}
        handed = _counts(before, "expected")
        handed.subtract(_counts(after, "expected"))
        specs, counts = self._specs.setdefault(key, {}), _counts(after, "placements")
        for workload_key in [*specs.keys() - counts.keys()]:
            del specs[workload_key]
        for workload_key, count in counts.items():
            known = specs.setdefault(workload_key, [])
            planned = (
                self._expected.get(key, {}).get(workload_key)
                if handed[workload_key] > 0
                else None
            )
            known += ([planned] if planned else [*self._now(workload_key)]) * (
                count - len(known)
            )
            del known[: len(known) - count]

    def of(self, claim_id: str) -> Iterator[Workload]:
        """Yield the spec of each replica on a claim."""
        for known in self._specs.get(claim_id, {}).values():
            yield from known

    def _now(self, workload_key: str) -> Iterator[Workload]:
        record = self._world.state.workload_rows.get(workload_key)
        if record is not None and record.workload is not None:
            yield record.workload


def _counts(claim: NodeClaim | None, name: str) -> Counter[str]:
    if claim is None:
        return Counter()
    return Counter({it.workload_key: it.count for it in getattr(claim, name)})


class _OfWhatRuns(Invariant):
    """Looks at claims, with what each replica was placed with."""

    of_this_release = True

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.specs = PlacedSpecs(world)
        self.ran: list[Workload] = []  # what ran on the claim before

    def row_written(self, key: str, before: Any, after: Any) -> None:
        self.ran = list(self.specs.of(key))
        self.specs.row_written(key, before, after)
        # A restore puts specs of before beside claims of which nobody saw with what they were placed.
        if isinstance(after, NodeClaim) and self.world.restores.restored_at is None:
            self.look(before, after)

    def look(self, before: NodeClaim | None, after: NodeClaim) -> None:
        """Look at a claim that was written."""


class NodesHoldWhatRuns(_OfWhatRuns):
    """No node gets replicas for which what runs there leaves no room, however small it says that it is by now."""

    def look(self, before: NodeClaim | None, after: NodeClaim) -> None:
        grown = _counts(after, "placements")
        grown.subtract(_counts(before, "placements"))
        if max(grown.values(), default=0) <= 0:
            return
        used = Resources.of({})
        for spec in self.specs.of(after.id):
            used = used + spec.requests
        over = {
            name: amount
            for name, amount in used.items()
            if amount > after.allocatable[name]
        }
        if over:
            self.refute(f"{after.id} has {after.allocatable} and runs {over}")


class NeighboursMoveNoDrain(_OfWhatRuns):
    """No node of a Capacity Block drains earlier than the notice needs with which its work was placed."""

    by_the_clock = True

    def look(self, before: NodeClaim | None, after: NodeClaim) -> None:
        if (
            after.drain is None
            or after.drain.reason is not DrainReason.CAPACITY_BLOCK_ENDING
        ):
            return
        block_id = after.offering.reservation_id
        if block_id is None or (before is not None and before.drain is not None):
            return
        row = self.world.state.reservation_rows.get(block_id)
        shown = self.world.ec2.reservations[block_id]
        known = [shown] if row is None else [shown, row.reservation]
        usual = min((at for at in map(drain_start, known) if at is not None), default=None)
        longest = max((spec.checkpoint_period_s or 0 for spec in self.ran), default=0)
        early = max(timedelta(), timedelta(seconds=longest) - _USUAL_NOTICE)
        if usual is not None and after.drain.notified_at < usual - early - CLOCKS_APART:
            self.refute(
                f"{after.id} drains at {after.drain.notified_at}, its work was placed for {usual - early}"
            )
