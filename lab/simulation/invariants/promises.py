"""What was announced, and what may end: whoever must go was told, and no hour sees more endings than its bound."""

from datetime import datetime
from typing import Any, Final

from lab.simulation.aws.bus import Detail
from lab.simulation.aws.lambdas import Environment
from lab.simulation.invariants.base import CLOCKS_APART, Invariant
from lab.simulation.world import World
from reservoir.core.model.node_claim import DrainReason, NodeClaim
from reservoir.core.safety.endings import WINDOW, EndingKind, kind_of

# Nobody but us wants the node to go, so that it stays while nobody can be told.
_CHOSEN: Final = frozenset(
    {
        DrainReason.CONSOLIDATION,
        DrainReason.DRIFT,
        DrainReason.EMPTY,
        DrainReason.EXPIRED,
        DrainReason.NODE_POOL_DELETED,
        DrainReason.RECLAIMED,
        DrainReason.SCALED_DOWN,
        DrainReason.WITHDRAWN,
    }
)


class DrainsAreAnnounced(Invariant):
    """No node drains of which nobody was told, nor with a deadline before the one that was told.

    What the bus refused counts as told while it is kept, but for nodes that nobody forces to go.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        # the earliest deadline that was told, by claim
        self._told: dict[str, datetime] = {}

    def heard(self, detail_type: str, detail: Detail) -> None:
        if detail_type == "Node Draining":
            claim_id = detail["node"]["nodeClaim"]
            deadline = datetime.fromisoformat(detail["deadline"])
            self._told[claim_id] = min(deadline, self._told.get(claim_id, deadline))

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if not isinstance(after, NodeClaim) or after.drain is None:
            return
        known = [self._told[key]] if key in self._told else []
        if after.drain.reason not in _CHOSEN:
            known += [
                datetime.fromisoformat(detail["deadline"])
                for detail in self.world.kept_events("Node Draining")
                if detail["node"]["nodeClaim"] == key
            ]
        told = min(known, default=None)
        if told is None or after.drain.deadline < told - CLOCKS_APART:
            self.refute(f"{key} drains until {after.drain.deadline}, told was {told}")


class EndingsStayWithinBounds(Invariant):
    """No hour sees more endings of a kind pass than its bound, but by somebody's leave."""

    by_the_clock = True
    points = frozenset({"tallies.put"})

    def called(self, environment: Environment, point: str, answer: Any) -> None:
        since = self.world.kernel.now() - WINDOW + CLOCKS_APART
        for kind, (tally, _) in self.world.tallies.rows.items():
            passed: list[str] = []
            for each in tally.passed:
                if each.at > since and not each.lifted:
                    passed += each.ids
            if len(passed) > self.world.bounds.of(EndingKind(kind)).most_count:
                self.refute(f"{sorted(passed)} passed as {kind} within an hour")


class UnknownTablesEndNothing(Invariant):
    """Nothing begins to go by choice while nobody has looked at tables that were restored."""

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if (
            not isinstance(after, NodeClaim)
            or after.drain is None
            or not self.world.restores.is_unknown
        ):
            return
        is_new = before is None or before.drain is None
        if is_new and kind_of(after.drain.reason) is not None:
            self.refute(
                f"{key} drains ({after.drain.reason}); the tables are those of before"
            )
