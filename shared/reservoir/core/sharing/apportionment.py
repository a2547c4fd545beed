"""Free units as shares of teams, for one solve: where teams want more than is free, each sees its own share alone.

A share is decided from what demand would use alone, so a solve may leave some of it. Then it is shared out again:
nothing idles that anybody may use (but what is held for a gang, for a while).

What demand would use, if all of it were on the reservation that serves it with the fewest units, is the least that it
wants. A solve may use more: small units beside large ones, or one for each replica. Where that could break a limit of
borrowing or lending, the group is shared out although there is enough for all, and its teams get of what is left then
up to a unit for each replica.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.model.capacity_reservation import CapacityReservation, TeamShare
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.plan import Plan
from reservoir.core.model.snapshot import Node, Snapshot
from reservoir.core.model.team import ReclaimWithinCohort, Team, by_namespace
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.scheduling_terms.taint import tolerates_all
from reservoir.core.sharing.quota_groups import (
    NOBODY,
    QuotaGroup,
    loan_ends,
    quota_groups,
    users_of,
    words_of_reclaim,
)
from reservoir.core.sharing.unit_wants import UnitWants, copies
from reservoir.core.sharing.water_filling import Units, shared_out

# Units that a team owns wait for its gang to be whole so long, then go to others so long, and so on.
RESERVE_AHEAD: Final = timedelta(hours=1)
# The next pass of disruption comes within a minute, and gives the usual notice.
RECLAIMED_WITHIN: Final = timedelta(minutes=16)


def is_shared(snapshot: Snapshot) -> bool:
    """Whether any team owns units: without that, no demand is held back for another team."""
    return any(team.quotas for team in snapshot.teams)


@dataclass(slots=True)
class Apportionment:
    """The shares of one snapshot, round by round."""

    snapshot: Snapshot
    now: datetime
    _groups: tuple[QuotaGroup, ...] = ()
    _group_of: dict[str, str] = field(default_factory=dict)  # by reservation
    _teams: Mapping[str, Team] = field(default_factory=dict)
    _owners: Mapping[str, Team] = field(default_factory=dict)  # by namespace
    # units by reservation
    _asked: Mapping[tuple[str, str], Counter[str]] = field(default_factory=dict)
    _users: Mapping[str, str] = field(default_factory=dict)  # teams by claim
    # the oldest demand of each
    _waits_since: dict[tuple[str, str], datetime] = field(default_factory=dict)
    # units of each whose turn it is
    _gangs: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    # that could use units
    _replicas: Counter[tuple[str, str]] = field(default_factory=Counter)
    _wanted: Units = field(default_factory=dict)  # the least
    # the most, where limits may forbid that; else the same
    _usable: Units = field(default_factory=dict)
    # nodes with nothing on them that each may join
    _joined: Units = field(default_factory=dict)
    _given: Units = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Find out what each team owns, uses and wants."""
        self._groups = quota_groups(self.snapshot)
        for group in self._groups:
            self._group_of.update(
                {reservation.id: group.key for reservation in group.reservations}
            )
        self._owners = by_namespace(self.snapshot.teams)
        self._users = users_of(self.snapshot)
        self._teams = {team.name: team for team in (*self.snapshot.teams, NOBODY)}
        self._asked, self._wanted = self._wants()
        self._usable, self._joined = self._most()
        self._given = self._shared_out(self._wanted, self._usable)

    def shares(self) -> Snapshot:
        """Return the snapshot in which each team sees its own share of what more want than there is."""
        contended = [group for group in self._groups if self._is_contended(group)]
        if not contended:
            return self.snapshot
        asking = sorted({team_name for team_name, _ in self._wanted})
        slices: dict[str, list[CapacityReservation]] = {}
        for group in contended:
            slices.update(self._slices(group, asking))
        reservations: list[CapacityReservation] = []
        for reservation in self.snapshot.reservations:
            reservations.extend(slices.get(reservation.id, [reservation]))
        return replace(self.snapshot, reservations=tuple(reservations))

    def again(self, plan: Plan) -> bool:
        """Share out again what the plan left of the shares; False when no other team would get any of it."""
        used = self._used_by(plan)
        waiting = {self._team_of(item.workload_key) for item in plan.unplaced}
        wanted, usable = dict(self._wanted), dict(self._usable)
        for pair in self._wanted:
            could_use_more = pair[0] in waiting and used[pair] >= self._given.get(pair, 0)
            if not could_use_more:
                wanted[pair] = usable[pair] = self._kept(pair, used[pair])
        given = self._shared_out(wanted, usable)
        grew = any(count > self._given.get(pair, 0) for pair, count in given.items())
        self._given = given
        return grew

    def _shared_out(self, wanted: Units, usable: Units) -> Units:
        return shared_out(self._groups, self._teams, wanted, usable, joined=self._joined)

    def _wants(self) -> tuple[Mapping[tuple[str, str], Counter[str]], Units]:
        wants = UnitWants(self.snapshot)
        asked: dict[tuple[str, str], Counter[str]] = {}
        wanted: Counter[tuple[str, str]] = Counter()
        for demand in self.snapshot.demands:
            if any(
                CapacityType.RESERVED in withheld.capacity_types
                for withheld in demand.withheld
            ):
                continue
            team_name = self._owners.get(demand.workload.namespace, NOBODY).name
            least: dict[str, int] = {}
            for reservation_id, units in wants.units(
                demand.workload, demand.pending_count
            ).items():
                key = self._group_of.get(reservation_id)
                if key is not None:
                    asked.setdefault((team_name, key), Counter())[reservation_id] += units
                    least[key] = min(units, least.get(key, units))
            for key, units in least.items():
                wanted[team_name, key] += units
                self._replicas[team_name, key] += demand.pending_count
                since = self._waits_since.get((team_name, key), demand.pending_since)
                self._waits_since[team_name, key] = min(since, demand.pending_since)
                if demand.workload.gang is not None and _is_turn(demand, self.now):
                    self._gangs.setdefault((team_name, key), []).append(units)
        return asked, wanted

    def _most(self) -> tuple[Units, Units]:
        """Return how many units may be used of groups with a limit that might be broken, and their empty nodes.

        Empty nodes take units of the team that joins them. Of other groups it is what the teams want.
        """
        usable, joined = dict(self._wanted), dict[tuple[str, str], int]()
        for group in self._groups:
            most = {
                name: count
                for (name, key), count in self._replicas.items()
                if key == group.key
            }
            if not self._may_break_a_limit(group, most):
                continue
            for name, count in most.items():
                usable[name, group.key] = count
            for name, count in self._joinable(group).items():
                joined[name, group.key] = count
        return usable, joined

    def _may_break_a_limit(self, group: QuotaGroup, most: Mapping[str, int]) -> bool:
        return any(
            group.may_be_too_many(self._teams[name], count, self._teams)
            for name, count in most.items()
        )

    def _joinable(self, group: QuotaGroup) -> Mapping[str, int]:
        """Count the group's nodes with nothing on them that some replica of each team may join."""
        ids = {reservation.id for reservation in group.reservations}
        found: Counter[str] = Counter()
        for node in self.snapshot.nodes:
            if node.reservation_id in ids and not (node.placements or node.deleting):
                demands = (
                    it for it in self.snapshot.demands if _may_join(it.workload, node)
                )
                found.update({self._team_of(demand.workload.key) for demand in demands})
        return found

    def _is_contended(self, group: QuotaGroup) -> bool:
        return any(
            count > self._given.get(pair, 0)
            for pair, count in self._usable.items()
            if pair[1] == group.key
        )

    def _slices(
        self, group: QuotaGroup, asking: Sequence[str]
    ) -> Mapping[str, list[CapacityReservation]]:
        """Return each reservation as its shares: one for each team, with the units of it that the team gets."""
        dealt = self._dealt(group, asking)
        slices: dict[str, list[CapacityReservation]] = {}
        for reservation in group.reservations:
            slices[reservation.id] = []
            for name in asking:
                units = dealt[name, reservation.id]
                share = self._share(name, group, reservation, units)
                slices[reservation.id].append(
                    replace(reservation, free_units=units, share=share)
                )
        return slices

    # Branches: two ways to deal, one after the other.
    def _dealt(
        self, group: QuotaGroup, asking: Sequence[str]
    ) -> Mapping[tuple[str, str], int]:
        """Divide each team's part of the group among its reservations; teams with the least choice first.

        The least that a team wants comes from the reservations that serve it with the fewest units. The rest of its
        part comes from all of them evenly: zones and hosts may be why it can use more.
        """
        free = {
            reservation.id: max(0, reservation.free_units)
            for reservation in group.reservations
        }
        names = sorted(
            asking, key=lambda name: (len(self._asked.get((name, group.key), ())), name)
        )
        choices = {name: self._by_preference(name, group, free) for name in names}
        dealt: Counter[tuple[str, str]] = Counter()

        def deal(name: str, reservation_id: str, units: int) -> None:
            dealt[name, reservation_id] += units
            free[reservation_id] -= units

        given = {name: self._given.get((name, group.key), 0) for name in names}
        left = dict(given)
        for name in names:
            least = min(given[name], self._wanted.get((name, group.key), 0))
            for reservation_id in choices[name]:
                units = min(
                    least,
                    free[reservation_id],
                    self._asked[name, group.key][reservation_id],
                )
                deal(name, reservation_id, units)
                least -= units
                left[name] -= units
        for name in names:
            for _ in range(left[name]):
                with_room = [each for each in choices[name] if free[each]]
                if not with_room:
                    break
                deal(name, min(with_room, key=lambda each: dealt[name, each]), 1)
        return dealt

    def _by_preference(
        self, name: str, group: QuotaGroup, free: Mapping[str, int]
    ) -> list[str]:
        """Return the reservations that serve the team: with the fewest units, fewest rivals and most room first."""
        asked = self._asked.get((name, group.key), Counter())
        rivals = {
            reservation_id: self._rivals(reservation_id, group) for reservation_id in asked
        }
        return sorted(
            asked, key=lambda each: (asked[each], rivals[each], -free[each], each)
        )

    def _rivals(self, reservation_id: str, group: QuotaGroup) -> int:
        """Count the teams that could use the reservation."""
        return sum(
            reservation_id in asked
            for (_, key), asked in self._asked.items()
            if key == group.key
        )

    def _share(
        self, name: str, group: QuotaGroup, reservation: CapacityReservation, units: int
    ) -> TeamShare:
        """Say why the team has no more of the reservation."""
        used, nominal = group.used.get(name, 0), group.nominal(name)
        who = f"Team {name}" if name else "work that belongs to no team"
        parts = [f"{who} uses {used} units of {group.key} and owns {nominal}"]
        told = ", ".join(
            f"{other or 'nobody'} {count}"
            for other, count in group.borrowers
            if other != name
        )
        if told:
            parts.append(f"borrowed by others: {told}")
        if used < nominal:
            parts.append(words_of_reclaim(self._teams[name]))
        is_withheld = used < nominal or reservation.free_units > units
        return TeamShare(
            name,
            "; ".join(parts),
            is_withheld,
            self._back_at(name, group) if used < nominal else None,
        )

    def _back_at(self, name: str, group: QuotaGroup) -> datetime | None:
        """Return when the first unit that the team owns should come back from its borrowers."""
        times = list(loan_ends(name, group, self.snapshot.nodes, self._users))
        since = self._waits_since.get((name, group.key))
        if (
            since is not None
            and self._teams[name].reclaim_within_cohort is ReclaimWithinCohort.ANY
        ):
            cohort = self._teams[name].cohort
            if any(
                other != name and self._teams[other].cohort == cohort
                for other, _ in group.borrowers
            ):
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
        """Whether a gang of the team waits that its own units could serve, in its turn to have units held for it."""
        return any(units <= own_units for units in self._gangs.get(pair, ()))


def _may_join(workload: Workload, node: Node) -> bool:
    is_tolerated = tolerates_all(node.taints, workload.tolerations) is None
    return is_tolerated and copies(workload.requests, node.allocatable - node.used) > 0


def _is_turn(demand: Demand, now: datetime) -> bool:
    return (now - demand.pending_since) // RESERVE_AHEAD % 2 == 0


def waiting_count(plan: Plan) -> int:
    """Return how many replicas a plan leaves over."""
    return sum(item.count for item in plan.unplaced)
