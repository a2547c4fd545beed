"""The tally of one kind of endings: those that were admitted within the window, those held back, and who lifted it.

All or nothing: a request beyond the bound gets nothing, rather than as much as there is room for. A caller who asks in
batches gives the whole number, so that the first batch is measured by the whole.

Ids are remembered for the window, and an id that was admitted once is not counted again: a caller who dies between the
tally and the ending, or is refused by EC2, may repeat.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

from reservoir.core.safety.endings import WINDOW, Bound, EndingKind

# Something counts as held for as long after it was last asked for: sweeps that ask are a minute apart, collectors five.
HOLDING: Final = timedelta(minutes=12)
# Whatever a row has: a permission of today is none for next week.
LONGEST_LIFT: Final = timedelta(hours=24)
_PAST_LIFTS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Passed:
    """Ids that were let pass together; those under a lift do not count against the bound."""

    at: datetime
    ids: tuple[str, ...]
    lifted: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """The last request that was held back, and since when without a pause."""

    since: datetime
    at: datetime
    wanted_count: int
    limit: int
    passed_count: int  # within the window before
    fleet_count: int


@dataclass(frozen=True, slots=True)
class Lift:
    """A person's permission to go beyond the bound, once: so many, until then."""

    count: int
    until: datetime
    by: str
    reason: str
    made_at: datetime
    used_count: int = 0

    @property
    def ends_at(self) -> datetime:
        """Return when it is void at the latest."""
        return min(self.until, self.made_at + LONGEST_LIFT)

    def covers(self, more_count: int, now: datetime) -> bool:
        """Whether the lift allows that many more endings."""
        return self.used_count + more_count <= self.count and now < self.ends_at


@dataclass(frozen=True, slots=True)
class Tally:
    """The stored tally. ``is_shut``: too much was asked for, and nothing passes before a person lifts it."""

    kind: EndingKind
    passed: tuple[Passed, ...] = ()
    held: Held | None = None
    is_shut: bool = False
    lift: Lift | None = None
    past_lifts: tuple[Lift, ...] = ()

    def recent_ids(self, now: datetime) -> frozenset[str]:
        """Return the ids that were let pass within the window."""
        recent = [each for each in self.passed if now - each.at < WINDOW]
        return frozenset(chain.from_iterable(each.ids for each in recent))

    def is_holding(self, now: datetime) -> bool:
        """Whether requests are held back, and a person should look."""
        return self.is_shut or (self.held is not None and now - self.held.at <= HOLDING)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What may go now; ``tally`` is to be stored before anything goes. ``began``: nothing was held before."""

    tally: Tally
    admitted: frozenset[str]
    why: str = ""
    began: bool = False


# Branches: one verdict after the other: nothing new, within the bound, lifted, held.
def admit(
    tally: Tally,
    bound: Bound,
    ids: Collection[str],
    wanted_count: int,
    fleet: Collection[str],
    now: datetime,
) -> Verdict:
    """Decide whether ``ids`` may end.

    ``wanted_count`` is how many shall end in all, if these are only a batch; ``fleet`` the ids of everything that there
    is. What ended within the window belongs to the fleet still, so that a bound does not shrink as it is used.
    """
    recent = tuple(each for each in tally.passed if now - each.at < WINDOW)
    known = tally.recent_ids(now)
    fresh = sorted(frozenset(ids) - known)
    tally = replace(tally, passed=recent)
    if not fresh:
        return Verdict(tally, frozenset(ids))
    fleet_count = len(known.union(fleet))
    passed_count = sum(len(each.ids) for each in recent if not each.lifted)
    limit = bound.limit(fleet_count)
    wanted = max(len(fresh), wanted_count)
    if not tally.is_shut and passed_count + wanted <= limit:
        return Verdict(
            replace(tally, passed=_with(recent, Passed(now, tuple(fresh)))), frozenset(ids)
        )
    if tally.lift is not None and tally.lift.covers(len(fresh), now):
        used = replace(tally.lift, used_count=tally.lift.used_count + len(fresh))
        passed = _with(recent, Passed(now, tuple(fresh), lifted=True))
        return Verdict(replace(tally, passed=passed, lift=used, held=None), frozenset(ids))
    held = Held(_holds_since(tally, now), now, wanted, limit, passed_count, fleet_count)
    shut = tally.is_shut or bound.latches
    stored = replace(tally, held=held, is_shut=shut)
    why = _why(tally.kind, held, is_shut=shut)
    return Verdict(stored, known.intersection(ids), why, began=not tally.is_holding(now))


def _holds_since(tally: Tally, now: datetime) -> datetime:
    return now if tally.held is None or not tally.is_holding(now) else tally.held.since


def lifted(tally: Tally, lift: Lift) -> Tally:
    """Return the tally with a new lift; the previous one ends. A person has looked, so the tally is no longer shut."""
    past = (
        tally.past_lifts
        if tally.lift is None
        else (*tally.past_lifts, tally.lift)[-_PAST_LIFTS_MAX:]
    )
    return replace(tally, lift=lift, past_lifts=past, is_shut=False)


def _with(recent: tuple[Passed, ...], new: Passed) -> tuple[Passed, ...]:
    """Add ids, to those of the same instant if there are any: a pass asks many times."""
    if recent and recent[-1].at == new.at and recent[-1].lifted == new.lifted:
        return (*recent[:-1], replace(new, ids=(*recent[-1].ids, *new.ids)))
    return (*recent, new)


def _why(kind: EndingKind, held: Held, *, is_shut: bool) -> str:
    return (
        f"the safety envelope holds it: {held.wanted_count} would end ({kind}), {held.limit} of {held.fleet_count} may"
        f" within {WINDOW // timedelta(minutes=1)} minutes and {held.passed_count} have"
        + ("; no more may end until a person lifts the bound" if is_shut else "")
    )
