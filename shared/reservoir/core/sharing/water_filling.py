"""How many of the free units each team gets: progressive filling, unit by unit.

1. Demand within nominal quotas, evenly in proportion to them where there is not enough for all.
2. What is left is lent, unit by unit, to the team that then has the smallest weighted dominant share of its loans
   (Ghodsi et al., Dominant Resource Fairness, NSDI 2011; Kueue's fair sharing), as long as its borrowing limit allows
   it and what others do not lend stays free for them.

Where that leaves units, those who could use more than they want in any case get them by the same rules.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from reservoir.core.model.team import Team
from reservoir.core.sharing.quota_groups import QuotaGroup

Units = Mapping[tuple[str, str], int]  # by team and group
_Order = Callable[[str, str], Fraction]
_May = Callable[[str, str], bool]


def shared_out(
    groups: Sequence[QuotaGroup],
    teams: Mapping[str, Team],
    *turns: Units,
    joined: Units | None = None,
) -> Units:
    """Return how many of the free units each team gets of each group; never more than it wants in the last turn.

    Every team gets what it wants in one turn, as far as units suffice, before any gets more in the next. ``joined``:
    units with empty nodes that a team may use beside those that it gets.
    """
    filling = _Filling(groups, teams, joined or {})
    for number, wanted in enumerate(turns):
        filling.turn(wanted)
        filling.fill(
            filling.nominal_order,
            filling.is_nominal if number == 0 else filling.is_nominal_and_free,
        )
        filling.fill(filling.borrowing_order, filling.may_borrow)
    return {pair: count for pair, count in filling.given.items() if count}


class _Filling:
    def __init__(
        self, groups: Sequence[QuotaGroup], teams: Mapping[str, Team], joined: Units
    ) -> None:
        self._groups = {group.key: group for group in groups}
        self._teams = teams
        self._free = {group.key: group.free_units for group in groups}
        self._used: dict[tuple[str, str], int] = {}
        for group in groups:
            self._used.update(
                {(name, group.key): group.used.get(name, 0) for name in teams}
            )
        self._joined = joined
        self._left: dict[tuple[str, str], int] = {}
        self._owned: dict[str, Mapping[str, _Owned]] = {}  # by group, of each cohort
        self._borrowed: Counter[tuple[str, str]] = Counter()  # by cohort and group
        for name, key in self._used:
            self._borrowed[teams[name].cohort, key] += self._groups[key].borrowed(name)
        self.given: Counter[tuple[str, str]] = Counter()

    def turn(self, wanted: Units) -> None:
        """Begin to give so much in all."""
        self._left = {
            pair: left
            for pair, count in sorted(wanted.items())
            if (left := count - self.given[pair]) > 0
        }
        self._owned.clear()

    def fill(self, order: _Order, may: _May) -> None:
        """Give units one by one, by the order, to teams that want one and may have it."""
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
            if self._used[pair] > self._groups[pair[1]].nominal(pair[0]):
                self._borrowed[self._teams[pair[0]].cohort, pair[1]] += 1
            else:
                self._owned.pop(pair[1], None)
            heapq.heappush(heap, (order(*pair), pair))

    def is_nominal(self, team_name: str, key: str) -> bool:
        """Whether the next unit is one that the team owns."""
        return self._in_use(team_name, key) < self._groups[key].nominal(team_name)

    def is_nominal_and_free(self, team_name: str, key: str) -> bool:
        """Whether the next unit is one that the team owns, and was not lent before it wanted it."""
        return self.is_nominal(team_name, key) and self._has_room(team_name, key)

    def nominal_order(self, team_name: str, key: str) -> Fraction:
        """Return how much of what it owns the team would have with one unit more."""
        return Fraction(
            self._used[team_name, key] + 1, self._groups[key].nominal(team_name) or 1
        )

    def may_borrow(self, team_name: str, key: str) -> bool:
        """Whether the team may have one unit more than it owns."""
        group = self._groups[key]
        borrowed = self._in_use(team_name, key) - group.nominal(team_name)
        quota = group.quotas.get(team_name)
        limit = None if quota is None else quota.borrowing_limit_units
        return (limit is None or borrowed < limit) and self._has_room(team_name, key)

    def _has_room(self, team_name: str, key: str) -> bool:
        """Whether a unit is free that no other team keeps for itself."""
        group, team = self._groups[key], self._teams[team_name]
        # No team below what it owns takes a loan, so while loans are made, what such teams do not lend stays the same.
        if key not in self._owned:
            self._owned[key] = self._owned_in(group)
        kept = sum(
            owned.unlent
            + (
                0
                if each == team.cohort
                else max(0, owned.lendable - self._borrowed[each, key])
            )
            for each, owned in self._owned[key].items()
        )
        return self._free[key] > kept - (
            self._unlent(team, group) if team_name in group.quotas else 0
        )

    def borrowing_order(self, team_name: str, key: str) -> Fraction:
        """Return the team's weighted dominant share with one unit more: the largest part of a group that it borrows."""
        shares = (
            Fraction(
                max(
                    0,
                    self._used[team_name, group.key]
                    + (group.key == key)
                    - group.nominal(team_name),
                ),
                max(1, group.total_units),
            )
            for group in self._groups.values()
        )
        return max(shares) / self._teams[team_name].weight

    def _in_use(self, team_name: str, key: str) -> int:
        return self._used[team_name, key] + self._joined.get((team_name, key), 0)

    def _owned_in(self, group: QuotaGroup) -> Mapping[str, "_Owned"]:
        """Return what owners of each cohort leave unused. A cohort borrows from what it lends, at first."""
        found: dict[str, _Owned] = {}
        for name in group.quotas:
            team = self._teams[name]
            owned = found.setdefault(team.cohort, _Owned())
            unused = max(0, group.nominal(name) - self._used[name, group.key])
            unlent = self._unlent(team, group)
            owned.unlent += unlent
            owned.lendable += unused - unlent
        return found

    def _unlent(self, owner: Team, group: QuotaGroup) -> int:
        return max(0, group.unlent(owner) - self._used[owner.name, group.key])


@dataclass(slots=True)
class _Owned:
    """Units that owners of one cohort do not use: those that they never lend, and those that they lend within it."""

    unlent: int = 0
    lendable: int = 0
