"""How much one may send: messages a minute, workloads that wait, new ones a day. Counted by team; a refusal names each.

Without a bound one sender spends what everybody shares: a planner reads all that waits in each pass, intake's batches
are of everybody, and what happened is kept a fortnight.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.model.team import TeamLimits
from reservoir.manifests.messages import AnyMessage, ReleaseMessage, WithdrawMessage
from reservoir.manifests.parsing.problems import ManifestError, Problem
from reservoir.ports.messaging import DAY, MINUTE, DemandCensus
from reservoir.ports.state import WorkloadRecord
from reservoir.ports.system import Clock

# What waits is listed anew after so long; until then this process adds what it has taken itself, so that the bound is
# passed by what others take meanwhile at the most.
_LISTED_FOR: Final = timedelta(seconds=5)
# Who is at the bound takes demand back, and answers drains, all the same.
_ROOM_FOR_LESS: Final = 2


@dataclass(slots=True)
class SendingBounds:
    """Counts what is sent, and refuses what is too much. One instance a process."""

    census: DemandCensus
    clock: Clock
    _listed_at: datetime | None = None
    _listed: frozenset[str] = frozenset()
    _taken: set[str] = field(default_factory=set)

    def count_message(self, message: AnyMessage, whose: str, limits: TeamLimits) -> None:
        """Count a message. Raises ManifestError when there were too many in its minute."""
        most = limits.messages_per_minute
        if most is None:
            return
        takes_back = isinstance(message, ReleaseMessage | WithdrawMessage)
        if self.census.add(whose, MINUTE) > most * (_ROOM_FOR_LESS if takes_back else 1):
            raise _refused(
                "messages per minute", f"{whose} has sent the {most} of this minute"
            )

    def count_workload(
        self,
        before: WorkloadRecord | None,
        after: WorkloadRecord,
        whose: str,
        limits: TeamLimits,
        counted_as: Callable[[str], str],
    ) -> None:
        """Count a workload that begins to be, or to wait. Raises ManifestError when there are too many.

        ``counted_as`` says whose the workloads of a namespace are.
        """
        begins_to_wait = after.pending_count > 0 and (
            before is None or before.pending_count == 0
        )
        most = limits.waiting_workloads
        if begins_to_wait and most is not None:
            waiting = self._waiting(counted_as)[whose]
            if waiting >= most:
                raise _refused(
                    "waiting workloads", f"{waiting} of {whose} wait, which may be {most}"
                )
        most = limits.new_workloads_per_day
        if (
            before is None
            and most is not None
            and self.census.add(f"{whose} new", DAY) > most
        ):
            raise _refused(
                "new workloads per day", f"{whose} has sent the {most} of this day (UTC)"
            )
        if begins_to_wait:
            self._taken.add(after.key)

    def _waiting(self, counted_as: Callable[[str], str]) -> Counter[str]:
        now = self.clock.now()
        if self._listed_at is None or now - self._listed_at >= _LISTED_FOR:
            self._listed, self._listed_at = frozenset(self.census.waiting_keys()), now
            self._taken.clear()
        by_namespace = Counter(key.partition("/")[0] for key in self._listed | self._taken)
        found: Counter[str] = Counter()
        for namespace, count in by_namespace.items():
            found[counted_as(namespace)] += count
        return found


def _refused(bound: str, why: str) -> ManifestError:
    return ManifestError([Problem("", "bound", f"{bound}: {why}; send it again later")])
