"""What this process has just committed: an index of the claims may not list it for a while."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from shared.core.sharing.planning_groups import PlanningTurn

# DynamoDB's indexes lag by fractions of a second and promise nothing. Too long costs reads of claims that have ended.
_REMEMBERED: Final = timedelta(minutes=1)
# What they may lag what was just written; usually a tenth of it.
INDEX_LAG: Final = timedelta(seconds=1)


class RecentCommits:
    """Ids of claims, each for a while. Passes of one planner come one after the other, nearly always in one process.

    Without them a pass that follows at once would not count the nodes of the one before against limits of NodePools,
    nor its replicas against quotas of Teams. Where several planners work side by side, the pass before was often in
    another process: whose turn it was says so.
    """

    def __init__(self) -> None:
        self._at: dict[str, datetime] = {}
        self._turns: dict[str, int] = {}

    def add(self, claim_ids: Iterable[str], now: datetime, turns: Mapping[str, int]) -> None:
        """Remember claims that were committed at ``now``, and the last turns that this took, by group."""
        self._at |= dict.fromkeys(claim_ids, now)
        self._turns |= turns

    def ids(self, now: datetime) -> list[str]:
        """Return the ids that may not be listed yet, sorted."""
        self._at = {claim_id: at for claim_id, at in self._at.items() if now - at <= _REMEMBERED}
        return sorted(self._at)

    def lag_s(self, turns: Mapping[str, PlanningTurn], now: datetime) -> float:
        """Return for how long listings may still lack what other processes committed on these turns."""
        others = [turn.taken_at for key, turn in turns.items() if turn.number != self._turns.get(key, 0)]
        ends = [taken_at + INDEX_LAG for taken_at in others if taken_at is not None]
        left = max(ends, default=now) - now
        return min(max(left, timedelta()), INDEX_LAG).total_seconds()
