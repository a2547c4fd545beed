"""What this process has just committed: an index of the claims may not list it for a while."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

# DynamoDB's indexes lag by fractions of a second and promise nothing. Too long costs reads of claims that have ended.
_REMEMBERED: Final = timedelta(minutes=1)


class RecentCommits:
    """Ids of claims, each for a while. Passes of one planner come one after the other, nearly always in one process.

    Without them a pass that follows at once would not count the nodes of the one before against limits of NodePools,
    nor its replicas against quotas of Teams.
    """

    def __init__(self) -> None:
        self._at: dict[str, datetime] = {}

    def add(self, claim_ids: Iterable[str], now: datetime) -> None:
        """Remember claims that were committed at ``now``."""
        self._at |= dict.fromkeys(claim_ids, now)

    def ids(self, now: datetime) -> list[str]:
        """Return the ids that may not be listed yet, sorted."""
        self._at = {claim_id: at for claim_id, at in self._at.items() if now - at <= _REMEMBERED}
        return sorted(self._at)
