"""Who gets how many of the free units: progressive filling, unit by unit.

1. Demand within nominal quotas, evenly in proportion to them where there is not enough for all.
2. What is left is lent, unit by unit, to whoever then has the smallest weighted dominant share of what they borrow
   (Ghodsi et al., Dominant Resource Fairness, NSDI 2011; Kueue's fair sharing), as long as their borrowing limit allows
   it and what others do not lend stays free for them.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from shared.core.model.team import Team
from shared.core.sharing.quota_groups import QuotaGroup

Units = Mapping[tuple[str, str], int]  # by team and group
_Order = Callable[[str, str], Fraction]
_May = Callable[[str, str], bool]


def shared_out(groups: Sequence[QuotaGroup], teams: Mapping[str, Team], wanted: Units) -> Units:
    """Return how many of the free units each team gets of each group; never more than it wants."""
    filling = _Filling(groups, teams, wanted)
    filling.fill(filling.nominal_order, filling.is_nominal)
    filling.fill(filling.borrowing_order, filling.may_borrow)
    return {pair: count for pair, count in filling.given.items() if count}


class _Filling:
    def __init__(self, groups: Sequence[QuotaGroup], teams: Mapping[str, Team], wanted: Units) -> None:
        self._groups = {group.key: group for group in groups}
        self._teams = teams
        self._free = {group.key: group.free_units for group in groups}
        self._used = {(name, group.key): group.used.get(name, 0) for group in groups for name in teams}
        self._left = {pair: count for pair, count in sorted(wanted.items()) if count > 0}
        self._kept: dict[tuple[str, str], int] = {}
        self.given = dict.fromkeys(self._left, 0)

    def fill(self, order: _Order, may: _May) -> None:
        """Give units one by one, by the order, to those who want one and may have it."""
        heap = [(order(*pair), pair) for pair in self._left if may(*pair)]
        heapq.heapify(heap)
        while heap:
            share, pair = heapq.heappop(heap)
            now = order(*pair)
            if now != share:  # it was given units of another group meanwhile
                heapq.heappush(heap, (now, pair))
                continue
            if not (self._left[pair] and self._free[pair[1]] > 0 and may(*pair)):
                continue
            self._left[pair] -= 1
            self._free[pair[1]] -= 1
            self._used[pair] += 1
            self.given[pair] += 1
            heapq.heappush(heap, (order(*pair), pair))

    def is_nominal(self, team_name: str, key: str) -> bool:
        """Whether the next unit is one that the team owns."""
        return self._used[team_name, key] < self._groups[key].nominal(team_name)

    def nominal_order(self, team_name: str, key: str) -> Fraction:
        """Return how much of what it owns the team would have with one unit more."""
        return Fraction(self._used[team_name, key] + 1, self._groups[key].nominal(team_name) or 1)

    def may_borrow(self, team_name: str, key: str) -> bool:
        """Whether the team may have one unit more than it owns."""
        group = self._groups[key]
        borrowed = self._used[team_name, key] - group.nominal(team_name)
        quota = group.quotas.get(team_name)
        limit = None if quota is None else quota.borrowing_limit_units
        if limit is not None and borrowed >= limit:
            return False
        # While loans are made nobody who is below what they own takes any: what is kept for them stays the same.
        cohort = self._teams[team_name].cohort
        if (cohort, key) not in self._kept:
            self._kept[cohort, key] = sum(self._kept_by(name, key, cohort) for name in group.quotas)
        own = 0 if quota is None else self._kept_by(team_name, key, cohort)
        return self._free[key] > self._kept[cohort, key] - own

    def borrowing_order(self, team_name: str, key: str) -> Fraction:
        """Return the team's weighted dominant share with one unit more: the largest part of a group that it borrows."""
        shares = (
            Fraction(
                max(0, self._used[team_name, group.key] + (group.key == key) - group.nominal(team_name)),
                max(1, group.total_units),
            )
            for group in self._groups.values()
        )
        return max(shares) / self._teams[team_name].weight

    def _kept_by(self, owner: str, key: str, cohort: str) -> int:
        """Return how many free units stay for an owner who does not lend them to teams of the cohort."""
        quota = self._groups[key].quotas[owner]
        lent = quota.lending_limit_units if self._teams[owner].cohort == cohort else 0
        own = 0 if lent is None else max(0, quota.nominal_units - lent)
        return max(0, own - self._used[owner, key])
