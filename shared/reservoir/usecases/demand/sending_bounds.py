"""How much one may send: messages a minute, workloads that wait, new ones a day. Counted by team; a refusal names each.

Without a bound one sender spends what everybody shares: a planner reads all that waits in each pass, intake's batches
are of everybody, and what happened is kept a fortnight.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.model.team import WAITING_OF_ALL, TeamLimits
from reservoir.core.serialisation.json_codec import dumps
from reservoir.manifests.messages import AnyMessage, ReleaseMessage, WithdrawMessage
from reservoir.manifests.parsing.problems import ManifestError, Problem
from reservoir.ports.messaging import DAY, MINUTE, DemandCensus
from reservoir.ports.state import WorkloadRecord
from reservoir.ports.system import Clock
from reservoir.usecases.demand.authorise_demand import DemandRules

# The waiting workloads are listed again after this time. Until then this process adds what it has accepted itself, so
# the bound is exceeded at most by what other processes accept meanwhile.
_LISTED_FOR: Final = timedelta(seconds=5)
# A sender who is at the bound may still withdraw demand and answer drains.
_ROOM_FOR_LESS: Final = 2


@dataclass(slots=True)
class SendingBounds:
    """Counts the demand that senders send, and refuses what exceeds the bounds. One instance a process."""

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
                "messages per minute", f"{whose} has sent its {most} for this minute"
            )

    def count_workload(
        self,
        before: WorkloadRecord | None,
        after: WorkloadRecord,
        whose: str,
        limits: TeamLimits,
        rules: DemandRules,
    ) -> None:
        """Count a workload that begins to be, or to wait. Raises ManifestError when there are too many."""
        waited = before is not None and before.pending_count > 0
        begins_to_wait = after.pending_count > 0 and not waited
        if begins_to_wait:
            self._refuse_number(self._waiting(rules.counted_as), whose, limits, rules)
        if after.pending_count > 0:
            self._refuse_size(before, after, whose, limits, rules)
        most = limits.new_workloads_per_day
        if (
            before is None
            and most is not None
            and self.census.add(f"{whose} new", DAY) > most
        ):
            raise _refused(
                "new workloads per day", f"{whose} has sent its {most} for this day (UTC)"
            )
        if begins_to_wait:
            self._taken.add(after.key)

    def _refuse_number(
        self,
        waiting: Mapping[str, int],
        whose: str,
        limits: TeamLimits,
        rules: DemandRules,
    ) -> None:
        most = limits.waiting_workloads
        if most is not None and waiting[whose] >= most:
            raise _refused(
                "waiting workloads",
                f"{waiting[whose]} of {whose} wait, and at most {most} may",
            )
        of_all = rules.waiting_of_all(WAITING_OF_ALL)
        part = of_all // rules.sender_count
        if sum(waiting.values()) >= of_all and waiting[whose] >= part:
            raise _refused(
                "waiting workloads of all",
                f"{sum(waiting.values())} wait, which may be {of_all}, and of {whose} more than its part, {part}",
            )

    def _refuse_size(
        self,
        before: WorkloadRecord | None,
        after: WorkloadRecord,
        whose: str,
        limits: TeamLimits,
        rules: DemandRules,
    ) -> None:
        """Refuse a workload that is too large beside everything that waits.

        The n-th waiting workload may have an n-th of the bound. So 20,000 workloads of up to 64 KiB have at most four
        times the bound, in whatever order they came, and no check needs the size of the others.
        """
        bound = limits.waiting_bytes
        if bound is None:
            return
        size = _stored_bytes(after)
        most_waiting = limits.waiting_workloads
        if most_waiting is not None and size * most_waiting <= bound:
            return  # however many wait
        if before is not None and before.pending_count > 0:
            if size <= _stored_bytes(before):
                return
            count = max(1, self._waiting(rules.counted_as)[whose])
        else:
            count = self._waiting(rules.counted_as)[whose] + 1
        if size * count > bound:
            raise _refused(
                "waiting bytes",
                f"{count} of {whose} would wait, each of which may have {bound // count} bytes as stored, not {size}",
            )

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


def _stored_bytes(record: WorkloadRecord) -> int:
    """Return the size of what the sender asked for; what planners add to it has its own bounds."""
    return len(dumps(record.workload).encode())


def _refused(bound: str, why: str) -> ManifestError:
    return ManifestError([Problem("", "bound", f"{bound}: {why}; send it again later")])
