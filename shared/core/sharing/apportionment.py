"""Free units as shares of teams, for one solve: where teams want more than is free, each sees its own share alone.

A share is decided from what demand could use at the most, so a solve may leave some of it. Then it is shared out again:
nothing idles that anybody may use (but what is held for a gang, for a while).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from shared.core.model.capacity_reservation import CapacityReservation, TeamShare
from shared.core.model.instance_type import CapacityType
from shared.core.model.plan import Plan
from shared.core.model.snapshot import Snapshot
from shared.core.model.team import ReclaimWithinCohort, Team, by_namespace
from shared.core.model.workload import Demand
from shared.core.sharing.quota_groups import NOBODY, QuotaGroup, loan_ends, quota_groups, users_of, words_of_reclaim
from shared.core.sharing.unit_wants import UnitWants
from shared.core.sharing.water_filling import Units, shared_out

# Units that a team owns wait for its gang to be whole so long, then go to others so long, and so on.
RESERVE_AHEAD: Final = timedelta(hours=1)
# The next pass of disruption comes within a minute, and gives the usual notice.
RECLAIMED_WITHIN: Final = timedelta(minutes=16)


def is_shared(snapshot: Snapshot) -> bool:
    """Whether any team owns units: without that nobody's demand is held back for anybody."""
    return any(team.quotas for team in snapshot.teams)


@dataclass(slots=True)
class Apportionment:
    """The shares of one snapshot, round by round."""

    snapshot: Snapshot
    now: datetime
    _groups: tuple[QuotaGroup, ...] = ()
    _group_of: Mapping[str, str] = field(default_factory=dict)  # by reservation
    _teams: Mapping[str, Team] = field(default_factory=dict)
    _owners: Mapping[str, Team] = field(default_factory=dict)  # by namespace
    _asked: Mapping[tuple[str, str], Counter[str]] = field(default_factory=dict)  # units by reservation
    _users: Mapping[str, str] = field(default_factory=dict)  # teams by claim
    _waits_since: dict[tuple[str, str], datetime] = field(default_factory=dict)  # the oldest demand of each
    _gangs: dict[tuple[str, str], list[int]] = field(default_factory=dict)  # units of each whose turn it is
    _wanted: Units = field(default_factory=dict)
    _given: Units = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Find out what is owned, used and wanted."""
        self._groups = quota_groups(self.snapshot)
        self._group_of = {item.id: group.key for group in self._groups for item in group.reservations}
        self._owners = by_namespace(self.snapshot.teams)
        self._users = users_of(self.snapshot)
        self._teams = {team.name: team for team in (*self.snapshot.teams, NOBODY)}
        self._asked, self._wanted = self._wants()
        self._given = shared_out(self._groups, self._teams, self._wanted)

    def shares(self) -> Snapshot:
        """Return the snapshot in which each team sees its own share of what more want than there is."""
        contended = [group for group in self._groups if self._is_contended(group)]
        if not contended:
            return self.snapshot
        asking = sorted({team_name for team_name, _ in self._wanted})
        sliced = {name: found for group in contended for name, found in self._slices(group, asking).items()}
        reservations = [
            share for reservation in self.snapshot.reservations for share in sliced.get(reservation.id, [reservation])
        ]
        return replace(self.snapshot, reservations=tuple(reservations))

    def again(self, plan: Plan) -> bool:
        """Share out anew what the plan left of shares; False when nobody else would get any of it."""
        used, waiting = self._used_by(plan), {self._team_of(item.workload_key) for item in plan.unplaced}
        wanted = {}
        for pair, count in self._wanted.items():
            could_use_more = pair[0] in waiting and used[pair] >= self._given.get(pair, 0)
            wanted[pair] = count if could_use_more else self._kept(pair, used[pair])
        given = shared_out(self._groups, self._teams, wanted)
        grew = any(count > self._given.get(pair, 0) for pair, count in given.items())
        self._given = given
        return grew

    def _wants(self) -> tuple[Mapping[tuple[str, str], Counter[str]], Units]:
        wants = UnitWants(self.snapshot)
        asked: dict[tuple[str, str], Counter[str]] = {}
        wanted: Counter[tuple[str, str]] = Counter()
        for demand in self.snapshot.demands:
            if any(CapacityType.RESERVED in withheld.capacity_types for withheld in demand.withheld):
                continue
            team_name = self._owners.get(demand.workload.namespace, NOBODY).name
            least: dict[str, int] = {}
            for reservation_id, units in wants.units(demand.workload, demand.pending_count).items():
                key = self._group_of.get(reservation_id)
                if key is not None:
                    asked.setdefault((team_name, key), Counter())[reservation_id] += units
                    least[key] = min(units, least.get(key, units))
            for key, units in least.items():
                wanted[team_name, key] += units
                since = self._waits_since.get((team_name, key), demand.pending_since)
                self._waits_since[team_name, key] = min(since, demand.pending_since)
                if demand.workload.gang is not None and _is_turn(demand, self.now):
                    self._gangs.setdefault((team_name, key), []).append(units)
        return asked, wanted

    def _is_contended(self, group: QuotaGroup) -> bool:
        return any(count > self._given.get(pair, 0) for pair, count in self._wanted.items() if pair[1] == group.key)

    def _slices(self, group: QuotaGroup, asking: Sequence[str]) -> Mapping[str, list[CapacityReservation]]:
        """Deal what each team gets of the group out over its reservations; those with the least choice first."""
        free = {reservation.id: max(0, reservation.free_units) for reservation in group.reservations}
        rivals = {reservation_id: self._rivals(reservation_id, group) for reservation_id in free}
        dealt: Counter[tuple[str, str]] = Counter()
        for name in sorted(asking, key=lambda name: (len(self._asked.get((name, group.key), ())), name)):
            left = self._given.get((name, group.key), 0)
            asked = self._asked.get((name, group.key), Counter())
            for reservation_id in sorted(asked, key=lambda each: (rivals[each], -free[each], each)):
                units = min(left, free[reservation_id], asked[reservation_id])
                dealt[name, reservation_id] += units
                free[reservation_id] -= units
                left -= units
        return {
            reservation.id: [
                replace(
                    reservation,
                    free_units=dealt[name, reservation.id],
                    share=self._share(name, group, reservation, dealt[name, reservation.id]),
                )
                for name in asking
            ]
            for reservation in group.reservations
        }

    def _rivals(self, reservation_id: str, group: QuotaGroup) -> int:
        """Count the teams that could use the reservation."""
        return sum(reservation_id in asked for (_, key), asked in self._asked.items() if key == group.key)

    def _share(self, name: str, group: QuotaGroup, reservation: CapacityReservation, units: int) -> TeamShare:
        """Say why the team has no more of the reservation."""
        used, nominal = group.used.get(name, 0), group.nominal(name)
        who = f"Team {name}" if name else "whoever belongs to no team"
        parts = [f"{who} uses {used} units of {group.key} and owns {nominal}"]
        told = ", ".join(f"{other or 'nobody'} {count}" for other, count in group.borrowers if other != name)
        if told:
            parts.append(f"borrowed by others: {told}")
        if used < nominal:
            parts.append(words_of_reclaim(self._teams[name]))
        is_withheld = used < nominal or reservation.free_units > units
        return TeamShare(name, "; ".join(parts), is_withheld, self._back_at(name, group) if used < nominal else None)

    def _back_at(self, name: str, group: QuotaGroup) -> datetime | None:
        """Return when the first unit that the team owns should come back from those who borrow it."""
        times = list(loan_ends(name, group, self.snapshot.nodes, self._users))
        since = self._waits_since.get((name, group.key))
        if since is not None and self._teams[name].reclaim_within_cohort is ReclaimWithinCohort.ANY:
            cohort = self._teams[name].cohort
            if any(other != name and self._teams[other].cohort == cohort for other, _ in group.borrowers):
                # From when it began to wait, so that the time does not move on with each plan.
                times.append(since + RECLAIMED_WITHIN)
        return min((at for at in times if at > self.now), default=None)

    def _used_by(self, plan: Plan) -> Counter[tuple[str, str]]:
        used: Counter[tuple[str, str]] = Counter()
        for launch in plan.launches:
            key = self._group_of.get(launch.offering.reservation_id or "")
            if key is not None:
                used[self._team_of(launch.placements[0].workload_key), key] += launch.count
        return used

    def _team_of(self, workload_key: str) -> str:
        return self._owners.get(workload_key.partition("/")[0], NOBODY).name

    def _kept(self, pair: tuple[str, str], used: int) -> int:
        """Return what a team still wants that left some of its share: what it used, and what is held for a gang."""
        group = next(group for group in self._groups if group.key == pair[1])
        own = group.nominal(pair[0]) - group.used.get(pair[0], 0)
        held = min(self._given.get(pair, 0), own) if self._holds(pair, own) else 0
        return max(used, held)

    def _holds(self, pair: tuple[str, str], own_units: int) -> bool:
        """Whether a gang of the team waits that what it owns would serve, in its turn to have units held for it."""
        return any(units <= own_units for units in self._gangs.get(pair, ()))


def _is_turn(demand: Demand, now: datetime) -> bool:
    return (now - demand.pending_since) // RESERVE_AHEAD % 2 == 0


def waiting_count(plan: Plan) -> int:
    """Return how many replicas a plan leaves over."""
    return sum(item.count for item in plan.unplaced)
