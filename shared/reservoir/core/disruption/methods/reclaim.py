"""Lent units are returned to the team that owns them, when its work waits for them (docs/teams.md).

No more than is owed to each team, less what is on its way to that team; from the team that borrows most for its weight;
nodes whose end loses the least work first. A team never loses a unit that it owns, so a reclaimed unit is not reclaimed
again.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from itertools import chain
from typing import Final

from reservoir.core.capacity.ledger import UNIT_BACK_WITHIN
from reservoir.core.disruption.candidate import Candidate, grace_is_over, undisturbed
from reservoir.core.disruption.methods.work_lost import WorkLost
from reservoir.core.disruption.simulation import PassState
from reservoir.core.model.node_claim import DrainReason, NodeClaim
from reservoir.core.model.plan import Plan
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.team import ReclaimWithinCohort, Team, by_namespace
from reservoir.core.model.workload import Workload
from reservoir.core.sharing.quota_groups import NOBODY, QuotaGroup, quota_groups, users_of
from reservoir.core.sharing.unit_wants import UnitWants

# The units to reclaim are planned with this often; mostly every owner gains all of its units the first time.
_CONFIRMATIONS_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Owed:
    """Units of a group that a team owns, wants now, and does not get while others borrow them."""

    team: Team
    group: QuotaGroup
    units: int
    priority: int  # the highest that waits
    reservation_ids: frozenset[str]  # of the group, those whose units what waits could use


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """Nodes that are drained together for a team: one, or all of a gang."""

    candidates: tuple[Candidate, ...]
    owner: str
    borrower: str
    loan: str = "its unit"  # what was lent, as the beginning of a sentence

    @property
    def explanation(self) -> str:
        """Say why the nodes are drained."""
        borrower = self.borrower or "work that belongs to no team"
        return f"{self.loan} was lent to {borrower}, and Team {self.owner}, which owns it, has work that waits"


# Branches: comprehensions and loops of a line each over two lists in step.
def units_returning(
    ended: Iterable[NodeClaim], live: Iterable[NodeClaim], now: datetime
) -> Mapping[str, int]:
    """Count by reservation the units that were reclaimed and not given out yet.

    EC2 shows a unit only once it is scrubbed, and we see it only at the next discovery. ``ended`` are claims that have
    ended, for whatever reason. A unit whose node ended has been given out again if a claim on its reservation is
    younger than that end. A claim that gets another unit meanwhile makes this count one too low: then a unit may be
    reclaimed twice. A unit that went to an outsider counts as returning for ``UNIT_BACK_WITHIN``.
    """
    given_out: dict[str, list[datetime]] = {}
    for claim in live:
        if claim.offering.reservation_id is not None:
            given_out.setdefault(claim.offering.reservation_id, []).append(claim.created_at)
    for times in given_out.values():
        times.sort()
    gone = [
        (claim.terminated_at, claim.offering.reservation_id)
        for claim in ended
        if claim.drain is not None and claim.drain.reason is DrainReason.RECLAIMED
    ]
    returning: Counter[str] = Counter()
    for ended_at, reservation_id in sorted(
        (at, key) for at, key in gone if at is not None and key is not None
    ):
        times = given_out.get(reservation_id, [])
        next_given = bisect_left(times, ended_at)
        if next_given < len(times):
            del times[next_given]
        elif now - ended_at <= UNIT_BACK_WITHIN:
            returning[reservation_id] += 1
    return returning


def reclaimed(
    world: PassState,
    waiting: Plan,
    candidates: Sequence[Candidate],
    returning: Mapping[str, int],
) -> Iterator[Reclaimed]:
    """Yield the nodes to reclaim, the least loss first; ``waiting`` is the plan for the demand of ``world``.

    ``returning`` are the units, by reservation, that were reclaimed and not given out yet. Several owners may be owed
    units at once, and the scheduler decides which of them gets a free unit. So all of them are considered together: a
    unit on its way counts for the owner that a plan gives it to, and the yielded nodes are confirmed by a plan in which
    all of their units are free.
    """
    coming = units_coming(world.snapshot, returning)
    expected = waiting
    if coming:
        world = world.with_units(coming)
        expected = world.pending()
    search = _Victims(world.snapshot, candidates, world.now)
    loans = [
        _Loan(owed, tuple(search.victims(owed)))
        for owed in units_owed(world.snapshot, expected)
    ]
    for loan in _confirmed(loans, world, expected):
        yield from loan.taken


def units_coming(snapshot: Snapshot, returning: Mapping[str, int]) -> Mapping[str, int]:
    """Count by reservation the units that come back anyhow: of draining nodes, and of ended ones until given out."""
    coming = Counter(returning)
    for node in snapshot.nodes:
        if node.deleting and node.reservation_id is not None:
            coming[node.reservation_id] += 1
    return coming


def units_owed(snapshot: Snapshot, plan: Plan) -> Iterator[Owed]:
    """Yield what teams that reclaim are short of, by group and team, after all that the plan gives to each."""
    wants, owners = UnitWants(snapshot), by_namespace(snapshot.teams)
    waiting = _waiting_by_team(snapshot, plan, owners)
    for group in quota_groups(snapshot):
        ids = {reservation.id for reservation in group.reservations}
        for team in sorted(snapshot.teams, key=lambda team: team.name):
            if (
                team.reclaim_within_cohort is ReclaimWithinCohort.NEVER
                or team.name not in group.quotas
            ):
                continue
            planned = _units(team.name, ids, plan, owners)
            left_to_own = group.nominal(team.name) - group.used.get(team.name, 0) - planned
            owed = _owed(team, group, left_to_own, waiting.get(team.name, ()), wants)
            if owed is not None:
                yield owed


def _waiting_by_team(
    snapshot: Snapshot, plan: Plan, owners: Mapping[str, Team]
) -> Mapping[str, Sequence[tuple[Workload, int]]]:
    """Return the workloads that the plan leaves waiting and how many replicas of each, by their team's name."""
    workloads = {demand.workload.key: demand.workload for demand in snapshot.demands}
    waiting: dict[str, list[tuple[Workload, int]]] = {}
    for item in plan.unplaced:
        owner = owners.get(item.workload_key.partition("/")[0], NOBODY)
        waiting.setdefault(owner.name, []).append(
            (workloads[item.workload_key], item.count)
        )
    return waiting


def _owed(
    team: Team,
    group: QuotaGroup,
    left_to_own: int,
    waiting: Iterable[tuple[Workload, int]],
    wants: UnitWants,
) -> Owed | None:
    """Return what a team is short of in a group, or None if it waits for nothing that its quota still covers."""
    ids = {reservation.id for reservation in group.reservations}
    wanted = 0
    priorities: list[int] = []
    usable: set[str] = set()
    for workload, count in waiting:
        found = {
            key: units for key, units in wants.units(workload, count).items() if key in ids
        }
        least = min(found.values(), default=0)
        if least and (workload.gang is None or least <= left_to_own):
            wanted += least
            priorities.append(workload.priority)
            usable.update(found)
    units_short = min(left_to_own, wanted)
    if units_short <= 0:
        return None
    return Owed(team, group, units_short, max(priorities), frozenset(usable))


@dataclass(frozen=True, slots=True)
class _Loan:
    """What an owner is owed of a group, and the nodes to reclaim for it."""

    owed: Owed
    taken: tuple[Reclaimed, ...]

    @property
    def units(self) -> int:
        """How many units are to be taken back."""
        return sum(len(each.candidates) for each in self.taken)

    def no_more_than(self, units: int) -> "_Loan":
        """Return the loan, cut to so many units; a gang that is needed in part is drained as a whole."""
        kept: list[Reclaimed] = []
        for each in self.taken:
            if units <= 0:
                break
            kept.append(each)
            units -= len(each.candidates)
        return _Loan(self.owed, tuple(kept))


def _confirmed(loans: Sequence[_Loan], world: PassState, expected: Plan) -> Sequence[_Loan]:
    """Return the part of the loans by which owners gain once all of it is free.

    One owner may gain by units that another cannot use, so the rest is checked again. After the last time, the
    confirmed part is taken: perhaps a unit too many, which is lent again.
    """
    for _ in range(_CONFIRMATIONS_MAX):
        taken = chain.from_iterable(loan.taken for loan in loans)
        going = list(chain.from_iterable(each.candidates for each in taken))
        if not going:
            return ()
        plan = world.freed(going).pending()
        kept: list[_Loan] = []
        for group in quota_groups(world.snapshot):
            of_group = [loan for loan in loans if loan.owed.group.key == group.key]
            kept += _within(of_group, _gains(group, world.snapshot, expected, plan))
        if kept == loans:
            break
        loans = kept
    return loans


def _gains(
    group: QuotaGroup, snapshot: Snapshot, before: Plan, after: Plan
) -> Counter[str]:
    """Count by team the units of its own that one plan gives it and another does not.

    Owners that never reclaim count too: they are served before others have all of theirs.
    """
    owners = by_namespace(snapshot.teams)
    ids = {reservation.id for reservation in group.reservations}
    gained: Counter[str] = Counter()
    for name in group.quotas:
        own = max(0, group.nominal(name) - group.used.get(name, 0))
        gained[name] = min(own, _units(name, ids, after, owners)) - min(
            own, _units(name, ids, before, owners)
        )
    return +gained


def _within(loans: Sequence[_Loan], gained: Counter[str]) -> list[_Loan]:
    """Return the part of each loan by which its owner gains; then the rest, as far as others gain more than was chosen.

    A free unit need not go to the owner for whom it was reclaimed: where there are not enough for all, it may go to
    another.
    """
    needed = [loan.no_more_than(gained[loan.owed.team.name]) for loan in loans]
    spare = gained.total() - sum(loan.units for loan in needed)
    kept = []
    for loan, least in zip(loans, needed, strict=True):
        most = loan.no_more_than(least.units + spare)
        spare -= most.units - least.units
        kept.append(most)
    return kept


class _Victims:
    """Looks for the nodes whose work loses least."""

    def __init__(
        self, snapshot: Snapshot, candidates: Sequence[Candidate], now: datetime
    ) -> None:
        self._work, self._now = WorkLost(snapshot, now), now
        self._workloads, self._owners = snapshot.workloads, by_namespace(snapshot.teams)
        self._teams = {team.name: team for team in (*snapshot.teams, NOBODY)}
        self._users = users_of(snapshot)
        self._left = {candidate.id: candidate for candidate in candidates}
        self._borrowed: dict[str, Counter[str]] = {}  # of each group, as nodes are taken

    def victims(self, owed: Owed) -> Iterator[Reclaimed]:
        """Yield nodes until the debt is covered: single nodes, and whole gangs if single nodes are too few."""
        left, group = owed.units, owed.group
        borrowed = self._borrowed.setdefault(
            group.key,
            Counter(
                {name: group.borrowed(name) for name in self._teams if group.borrowed(name)}
            ),
        )
        while left > 0:
            found = self._cheapest(owed, borrowed)
            if found is None:
                return
            borrowed[found.borrower] -= len(found.candidates)
            left -= len(found.candidates)
            for candidate in found.candidates:
                del self._left[candidate.id]
            yield found

    def _cheapest(self, owed: Owed, borrowed: Mapping[str, int]) -> Reclaimed | None:
        lenders = [
            name
            for name, count in borrowed.items()
            if count > 0 and self._lends_to(owed.team, name)
        ]
        by_share = sorted(
            lenders,
            key=lambda name: (-Fraction(borrowed[name], self._teams[name].weight), name),
        )
        for is_gang in (False, True):
            for name in by_share:
                options = [
                    each
                    for each in self._options(owed, name, is_gang=is_gang)
                    # else the borrower would lose units that it owns
                    if len(each) <= borrowed[name]
                ]
                if options:
                    return Reclaimed(min(options, key=self._loss), owed.team.name, name)
        return None

    def _lends_to(self, owner: Team, borrower: str) -> bool:
        return borrower != owner.name and (
            not borrower or self._teams[borrower].cohort == owner.cohort
        )

    # Branches: one filter after the other over the candidates.
    def _options(
        self, owed: Owed, borrower: str, *, is_gang: bool
    ) -> Iterator[tuple[Candidate, ...]]:
        ids = {reservation.id for reservation in owed.group.reservations}
        seen: set[frozenset[str]] = set()
        for candidate in self._left.values():
            if (
                self._users.get(candidate.id) != borrower
                or candidate.node.reservation_id not in owed.reservation_ids
            ):
                continue
            together = self._work.together(candidate)
            if (
                self._work.has_gang(candidate) is not is_gang
                or together in seen
                or not together <= self._left.keys()
            ):
                continue
            seen.add(together)
            nodes = tuple(self._left[key] for key in sorted(together))
            if all(self._may_go(owed, node, borrower, ids) for node in nodes):
                yield nodes

    def _may_go(self, owed: Owed, node: Candidate, borrower: str, ids: set[str]) -> bool:
        if self._users.get(node.id) != borrower or node.node.reservation_id not in ids:
            return False
        still = {
            self._owners.get(name, NOBODY).name
            for name in undisturbed(node.node.placements, self._workloads)
        }
        if still and (
            owed.team.name in still or not grace_is_over(node, owed.team, self._now)
        ):
            return False
        if owed.team.reclaim_within_cohort is ReclaimWithinCohort.ANY:
            return True
        return self._work.priority(node) < owed.priority

    def _loss(self, nodes: tuple[Candidate, ...]) -> tuple[int, int, int, tuple[str, ...]]:
        """Sort key: number of nodes, seconds of work since the last checkpoint times replicas, replicas, ids."""
        return len(nodes), *self._work.lost(nodes), tuple(node.id for node in nodes)


def _units(team_name: str, ids: set[str], plan: Plan, owners: Mapping[str, Team]) -> int:
    """Count the units that a plan gives to a team."""
    return sum(
        launch.count
        for launch in plan.launches
        if launch.offering.reservation_id in ids
        and owners.get(launch.placements[0].workload_key.partition("/")[0], NOBODY).name
        == team_name
    )
