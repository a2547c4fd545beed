"""Which reservations quotas are about, and what each team owns and uses of them.

Quotas that select by the same terms are about one group. A reservation belongs to one group: of several that select it,
the first by their terms.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from reservoir.core.capacity.reservation_selection import matches
from reservoir.core.model.capacity_reservation import CapacityReservation, by_resource_group
from reservoir.core.model.node_class import CapacityReservationSelectorTerm
from reservoir.core.model.snapshot import Node, Snapshot
from reservoir.core.model.team import (
    DEFAULT_COHORT,
    Quota,
    ReclaimWithinCohort,
    Team,
    by_namespace,
)
from reservoir.core.model.workload import Workload

# work without a team: it owns nothing, and may borrow
NOBODY = Team("", cohort=DEFAULT_COHORT)


@dataclass(frozen=True)
class QuotaGroup:
    """Reservations under one selection. ``used`` counts whole units by team.

    A node that is ending counts for no team, but one that withdrawn replicas have not left yet still counts for theirs.
    """

    key: str
    reservations: tuple[CapacityReservation, ...]  # by id
    quotas: Mapping[str, Quota]  # by team
    used: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def total_units(self) -> int:
        """All units, free or not."""
        return sum(reservation.total_count for reservation in self.reservations)

    @property
    def free_units(self) -> int:
        """Units that may still be promised."""
        return sum(max(0, reservation.free_units) for reservation in self.reservations)

    def nominal(self, team_name: str) -> int:
        """Return how many units the team owns."""
        return self.quotas[team_name].nominal_units if team_name in self.quotas else 0

    def borrowed(self, team_name: str) -> int:
        """Return how many units the team uses beyond those that it owns."""
        return max(0, self.used.get(team_name, 0) - self.nominal(team_name))

    def unlent(self, owner: Team) -> int:
        """Return how many units of its own an owner lends to no team."""
        quota = self.quotas[owner.name]
        if quota.lending_limit_units is None:
            return 0
        return max(0, quota.nominal_units - quota.lending_limit_units)

    def may_be_too_many(
        self, borrower: Team, units: int, teams: Mapping[str, Team]
    ) -> bool:
        """Whether a limit may forbid that many more units: what the team may borrow, or what owners lend to it."""
        quota = self.quotas.get(borrower.name)
        used = self.used.get(borrower.name, 0) + units
        borrowed = used - self.nominal(borrower.name)
        if borrowed <= 0:
            return False
        if (
            quota is not None
            and quota.borrowing_limit_units is not None
            and borrowed > quota.borrowing_limit_units
        ):
            return True
        owners = (teams[name] for name in self.quotas if name != borrower.name)
        return any(
            (
                self.unlent(owner)
                if owner.cohort == borrower.cohort
                else self.nominal(owner.name)
            )
            > self.used.get(owner.name, 0)
            for owner in owners
        )

    @cached_property
    def borrowers(self) -> Sequence[tuple[str, int]]:
        """Return the borrowers, and how many units each borrows, by name."""
        return [
            (name, count) for name in sorted(self.used) if (count := self.borrowed(name))
        ]


def quota_groups(snapshot: Snapshot) -> tuple[QuotaGroup, ...]:
    """Return the groups of the snapshot's teams, by key."""
    quotas: dict[str, dict[str, Quota]] = {}
    for team in sorted(snapshot.teams, key=lambda team: team.name):
        for quota in team.quotas:
            quotas.setdefault(_key(quota.reservation_terms), {})[team.name] = quota
    resource_groups = by_resource_group(snapshot.reservations)
    members: dict[str, list[CapacityReservation]] = {key: [] for key in sorted(quotas)}
    for reservation in sorted(
        snapshot.reservations, key=lambda reservation: reservation.id
    ):
        for key in members:
            terms = next(iter(quotas[key].values())).reservation_terms
            if any(matches(term, reservation, resource_groups) for term in terms):
                members[key].append(reservation)
                break
    users = users_of(snapshot)
    return tuple(
        QuotaGroup(key, tuple(found), quotas[key], _used(found, snapshot.nodes, users))
        for key, found in members.items()
        if found
    )


def users_of(snapshot: Snapshot) -> Mapping[str, str]:
    """Return the team of each reserved node by claim: a unit counts whole, for the team that uses most of it."""
    teams = by_namespace(snapshot.teams)
    found = {}
    for node in snapshot.nodes:
        if node.reservation_id is not None and (node.leaving or not node.deleting):
            user = user_of(node, snapshot.workloads, teams)
            if user is not None:
                found[node.claim_id] = user
    return found


def loan_ends(
    name: str, group: QuotaGroup, nodes: Iterable[Node], users: Mapping[str, str]
) -> Iterator[datetime]:
    """Yield when units that other teams borrow should come back, and those that are draining already.

    ``users`` are the teams of nodes by claim, as of :func:`users_of`.
    """
    ids = {reservation.id for reservation in group.reservations}
    for node in nodes:
        if node.reservation_id in ids and node.leaves_at is not None:
            user = users.get(node.claim_id)
            if node.deleting or (
                user is not None and user != name and group.borrowed(user) > 0
            ):
                yield node.leaves_at


def user_of(
    node: Node, workloads: Mapping[str, Workload], teams: Mapping[str, Team]
) -> str | None:
    """Return the team whose replicas have the largest dominant share of a node; None when it is empty."""
    parts: Counter[str] = Counter()
    for placed in (*node.placements, *node.leaving):
        team = teams.get(placed.workload_key.partition("/")[0], NOBODY)
        workload = workloads.get(placed.workload_key)
        requests = {} if workload is None else dict(workload.requests.items())
        shares = [
            amount * placed.count * 10**6 // node.allocatable[name]
            for name, amount in requests.items()
            if node.allocatable[name] > 0
        ]
        parts[team.name] += max(shares, default=0)
    return min(parts, key=lambda name: (-parts[name], name), default=None)


def _used(
    reservations: Iterable[CapacityReservation],
    nodes: Sequence[Node],
    users: Mapping[str, str],
) -> Mapping[str, int]:
    ids = {reservation.id for reservation in reservations}
    return Counter(
        users[node.claim_id]
        for node in nodes
        if node.reservation_id in ids and node.claim_id in users
    )


def _key(terms: Iterable[CapacityReservationSelectorTerm]) -> str:
    return " or ".join(sorted(map(words, terms)))


def words(term: CapacityReservationSelectorTerm) -> str:
    """Return a term as a sentence names it."""
    parts = [
        ("id", term.id),
        ("owner", term.owner_id),
        *((f"tag {key}", value) for key, value in sorted(term.tags.items())),
        ("match", term.instance_match_criteria),
        ("group", term.reservation_group_arn),
    ]
    return ", ".join(f"{name} {value}" for name, value in parts if value is not None)


def words_of_reclaim(team: Team) -> str:
    """Say how a team gets back what others borrow."""
    is_left = team.reclaim_within_cohort is ReclaimWithinCohort.NEVER
    return "it gets its own as their work ends" if is_left else "it takes its own back"
