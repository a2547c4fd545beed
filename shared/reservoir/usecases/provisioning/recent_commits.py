"""What this process has just committed: an index of the claims may not show it for a while."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.sharing.planning_groups import PlanningTurn
from reservoir.ports.state import PlannedCommit

# An index has copies, which lag by fractions of a second each: what one showed, the next may not show yet.
_REMEMBERED_S: Final = 60.0
# How long indexes may lag behind a write; usually they lag a tenth of it.
INDEX_LAG: Final = timedelta(seconds=1)
# What is launched before anything waits for it can wait until an index surely shows what another process launched:
# counted as missing, it would be launched twice. AWS bounds no index's lag.
_SHOWN_AFTER: Final = timedelta(seconds=30)


class RecentCommits:
    """Claims and the revisions that they were committed at, each until listings show it, and for a minute at least.

    Without them, a pass that follows at once would not count the nodes of the pass before against limits of NodePools,
    nor its replicas against quotas of Teams. Passes of one planner come one after the other, nearly always in one
    process. Where several planners work side by side, the pass before was often in another process; the turn shows
    that. AWS does not bound how long an index lags, so no clock says when to forget.
    """

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._revisions: dict[str, int] = {}
        self._at_s: dict[str, float] = {}
        self._turns: dict[str, int] = {}

    def add(self, commit: PlannedCommit) -> None:
        """Remember a commit before it is made: if its answer is lost, the claims are looked up later."""
        added = {claim.id: claim.revision for claim in commit.claims}
        added |= {before.id: before.revision + 1 for before, _ in commit.existing}
        self._revisions |= added
        self._at_s |= dict.fromkeys(added, self._monotonic_s())

    def took(self, turns: Mapping[str, int]) -> None:
        """Remember the last turns that commits took, by group."""
        self._turns |= turns

    def not_in(self, listed: Mapping[str, NodeClaim]) -> list[str]:
        """Return the ids of the claims that the listing, by id, does not show as they were committed, sorted."""
        since_s = self._monotonic_s() - _REMEMBERED_S
        shown = [
            key
            for key, revision in self._revisions.items()
            if key in listed and listed[key].revision >= revision
        ]
        for key in shown:
            if self._at_s[key] < since_s:
                self._forget(key)
        return sorted(self._revisions.keys() - shown)

    def forget_ended(self, asked: list[str], stored: Mapping[str, NodeClaim]) -> None:
        """Forget, of the claims that were looked up, those that have ended and those that were not committed after all.

        Only live claims are listed, so every claim that is remembered for long is live and not shown yet.
        """
        for key in asked:
            claim = stored.get(key)
            if claim is None or not claim.is_live or claim.revision < self._revisions[key]:
                self._forget(key)

    def lag_s(self, turns: Mapping[str, PlanningTurn], now: datetime) -> float:
        """Return for how long listings may still lack what other processes committed on these turns."""
        taken_at = self._last_turn_of_others(turns)
        if taken_at is None:
            return 0.0
        left = taken_at + INDEX_LAG - now
        return min(max(left, timedelta()), INDEX_LAG).total_seconds()

    def are_surely_shown(self, turns: Mapping[str, PlanningTurn], now: datetime) -> bool:
        """Whether listings have had ample time to show what other processes committed on these turns."""
        taken_at = self._last_turn_of_others(turns)
        return taken_at is None or now >= taken_at + _SHOWN_AFTER

    def _last_turn_of_others(self, turns: Mapping[str, PlanningTurn]) -> datetime | None:
        """Return when another process last committed on these turns."""
        taken_at = [
            turn.taken_at
            for key, turn in turns.items()
            if turn.number != self._turns.get(key, 0) and turn.taken_at is not None
        ]
        return max(taken_at, default=None)

    def _forget(self, key: str) -> None:
        del self._revisions[key], self._at_s[key]
