"""Units on loan go back to the team that owns them, once it has work that waits for them (docs/teams.md).

No more than is owed, less what is on its way already; from whoever borrows most for their weight; what loses the least
work first. A team never loses a unit that it owns, so what was taken back is not taken again.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from shared.core.capacity.ledger import UNIT_BACK_WITHIN
from shared.core.disruption.candidate import Candidate
from shared.core.disruption.methods.work_lost import WorkLost
from shared.core.disruption.simulation import PassState
from shared.core.model.node_claim import DrainReason, NodeClaim
from shared.core.model.plan import Plan
from shared.core.model.snapshot import Snapshot
from shared.core.model.team import ReclaimWithinCohort, Team, by_namespace
from shared.core.sharing.quota_groups import NOBODY, QuotaGroup, quota_groups, users_of
from shared.core.sharing.unit_wants import UnitWants


@dataclass(frozen=True, slots=True)
class Owed:
    """Units of a group that a team owns, wants now, and does not get while others borrow them."""

    team: Team
    group: QuotaGroup
    units: int
    priority: int  # the highest that waits


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """Nodes that go together for a team: one, or all of a gang."""

    candidates: tuple[Candidate, ...]
    owner: str
    borrower: str
    loan: str = "its unit"  # what was lent, as a sentence begins

    @property
    def explanation(self) -> str:
        """Say why the nodes go."""
        borrower = self.borrower or "whoever belongs to no team"
        return f"{self.loan} was lent to {borrower}, and Team {self.owner}, which owns it, has work that waits"


# Branches: comprehensions and loops of a line each over two lists in step.
def units_returning(ended: Iterable[NodeClaim], live: Iterable[NodeClaim], now: datetime) -> Mapping[str, int]:
    """Count by reservation the units that were taken back and that nobody has yet.

    EC2 shows a unit only once it is scrubbed, and we see it only once we look. ``ended`` are claims that are no more,
    whatever for. A unit whose node ended has been given out again if a claim on its reservation is younger than that
    end. Who is given another unit meanwhile makes this count one too few: then one may be asked for twice. One that
    went to an outsider counts as returning for ``UNIT_BACK_WITHIN``.
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
    for ended_at, reservation_id in sorted((at, key) for at, key in gone if at is not None and key is not None):
        times = given_out.get(reservation_id, [])
        next_given = bisect_left(times, ended_at)
        if next_given < len(times):
            del times[next_given]
        elif now - ended_at <= UNIT_BACK_WITHIN:
            returning[reservation_id] += 1
    return returning


def reclaimed(
    world: PassState, waiting: Plan, candidates: Sequence[Candidate], returning: Mapping[str, int]
) -> Iterator[Reclaimed]:
    """Yield what to take back, the least loss first; ``waiting`` is the plan for the demand of ``world``.

    ``returning`` are the units, by reservation, that were taken back and that nobody has yet. What is yielded is
    confirmed by a plan: with these units free, the owner gets them.
    """
    snapshot = world.snapshot
    search = _Victims(snapshot, candidates, world.now)
    for owed in units_owed(snapshot, waiting, returning):
        chosen = list(search.victims(owed))
        if not chosen:
            continue
        plan = world.freed([candidate for each in chosen for candidate in each.candidates]).pending()
        gained = _units_of(owed, plan, snapshot) - _units_of(owed, waiting, snapshot)
        for each in chosen:
            if gained <= 0:
                break
            gained -= len(each.candidates)
            yield each


# Branches: each team takes from what is on its way, so the sums go through all loops.
def units_owed(snapshot: Snapshot, waiting: Plan, returning: Mapping[str, int]) -> Iterator[Owed]:
    """Yield what teams that reclaim are short of, by group and team."""
    wants, owners = UnitWants(snapshot), by_namespace(snapshot.teams)
    left = [(item.workload_key, item.count) for item in waiting.unplaced]
    workloads = {demand.workload.key: demand.workload for demand in snapshot.demands}
    for group in quota_groups(snapshot):
        ids = {reservation.id for reservation in group.reservations}
        coming = sum(node.deleting and node.reservation_id in ids for node in snapshot.nodes)
        coming += sum(returning.get(key, 0) for key in ids)
        for team in sorted(snapshot.teams, key=lambda team: team.name):
            if team.reclaim_within_cohort is ReclaimWithinCohort.NEVER or team.name not in group.quotas:
                continue
            planned = _units(team.name, ids, waiting, owners)
            own = group.nominal(team.name) - group.used.get(team.name, 0) - planned
            wanted, priorities = 0, []
            for key, count in left:
                if owners.get(key.partition("/")[0], NOBODY).name != team.name:
                    continue
                units = _least(wants.units(workloads[key], count), ids)
                if units and (workloads[key].gang is None or units <= own):
                    wanted += units
                    priorities.append(workloads[key].priority)
            short = min(own, wanted)
            owed = max(0, short - coming)
            coming -= min(coming, max(0, short))
            if owed:
                yield Owed(team, group, owed, max(priorities))


class _Victims:
    """Looks for the nodes whose work loses least."""

    def __init__(self, snapshot: Snapshot, candidates: Sequence[Candidate], now: datetime) -> None:
        self._work = WorkLost(snapshot, now)
        self._teams = {team.name: team for team in (*snapshot.teams, NOBODY)}
        self._users = users_of(snapshot)
        self._left = {candidate.id: candidate for candidate in candidates}
        self._borrowed: dict[str, Counter[str]] = {}  # of each group, as nodes are taken

    def victims(self, owed: Owed) -> Iterator[Reclaimed]:
        """Yield nodes until what is owed is covered: single nodes, and gangs, which go whole, if these are too few."""
        left, group = owed.units, owed.group
        borrowed = self._borrowed.setdefault(
            group.key, Counter({name: group.borrowed(name) for name in self._teams if group.borrowed(name)})
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
        lenders = [name for name, count in borrowed.items() if count > 0 and self._lends_to(owed.team, name)]
        by_share = sorted(lenders, key=lambda name: (-Fraction(borrowed[name], self._teams[name].weight), name))
        for is_gang in (False, True):
            for name in by_share:
                options = [
                    each
                    for each in self._options(owed, name, is_gang=is_gang)
                    if len(each) <= borrowed[name]  # else the borrower would lose units that it owns
                ]
                if options:
                    return Reclaimed(min(options, key=self._loss), owed.team.name, name)
        return None

    def _lends_to(self, owner: Team, borrower: str) -> bool:
        return borrower != owner.name and (not borrower or self._teams[borrower].cohort == owner.cohort)

    # Branches: one filter after the other over the candidates.
    def _options(self, owed: Owed, borrower: str, *, is_gang: bool) -> Iterator[tuple[Candidate, ...]]:
        ids = {reservation.id for reservation in owed.group.reservations}
        seen: set[frozenset[str]] = set()
        for candidate in self._left.values():
            if self._users.get(candidate.id) != borrower or candidate.node.reservation_id not in ids:
                continue
            together = self._work.together(candidate)
            if self._work.has_gang(candidate) is not is_gang or together in seen or not together <= self._left.keys():
                continue
            seen.add(together)
            nodes = tuple(self._left[key] for key in sorted(together))
            if all(self._may_go(owed, node, borrower, ids) for node in nodes):
                yield nodes

    def _may_go(self, owed: Owed, node: Candidate, borrower: str, ids: set[str]) -> bool:
        if self._users.get(node.id) != borrower or node.node.reservation_id not in ids:
            return False
        if owed.team.reclaim_within_cohort is ReclaimWithinCohort.ANY:
            return True
        return self._work.priority(node) < owed.priority

    def _loss(self, nodes: tuple[Candidate, ...]) -> tuple[int, int, int, tuple[str, ...]]:
        """Sort key: how many go, seconds of work since the last checkpoint times replicas, replicas, ids."""
        return len(nodes), *self._work.lost(nodes), tuple(node.id for node in nodes)


def _least(units: Mapping[str, int], ids: set[str]) -> int:
    return min((count for reservation_id, count in units.items() if reservation_id in ids), default=0)


def _units_of(owed: Owed, plan: Plan, snapshot: Snapshot) -> int:
    ids = {reservation.id for reservation in owed.group.reservations}
    return _units(owed.team.name, ids, plan, by_namespace(snapshot.teams))


def _units(team_name: str, ids: set[str], plan: Plan, owners: Mapping[str, Team]) -> int:
    """Count the units that a plan gives to a team."""
    return sum(
        launch.count
        for launch in plan.launches
        if launch.offering.reservation_id in ids
        and owners.get(launch.placements[0].workload_key.partition("/")[0], NOBODY).name == team_name
    )
