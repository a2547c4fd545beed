"""Amounts of a resource that teams own, use and lend each other: vCPUs on spot, GPUs on anything that is bought.

Quotas with the same capacity types and resource are about one pool for the teams of a cohort, of what is requested by
replicas, wherever they run. Together they use no more of it than they own together.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import product

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.plan import Plan
from reservoir.core.model.snapshot import PlacedReplicas, Snapshot
from reservoir.core.model.team import ResourceQuota, by_namespace
from reservoir.core.scheduling_terms.resources import Resources

# Kueue's word for a kind of capacity that quotas are about
Flavor = tuple[CapacityType, ...]
PoolKey = tuple[str, Flavor, str]  # cohort, flavor, resource


@dataclass(frozen=True, slots=True)
class ResourcePool:
    """What teams of one cohort own of a resource on some capacity types. ``used`` is by team."""

    cohort: str
    flavor: Flavor
    resource: str
    quotas: Mapping[str, ResourceQuota] = field(default_factory=dict)  # by team
    used: Counter[str] = field(default_factory=Counter)

    @property
    def key(self) -> PoolKey:
        """The key by which pools differ."""
        return self.cohort, self.flavor, self.resource

    @property
    def total(self) -> int:
        """What the teams own together."""
        return sum(quota.nominal for quota in self.quotas.values())

    def nominal(self, team_name: str) -> int:
        """Return what the team owns."""
        return self.quotas[team_name].nominal

    def borrowed(self, team_name: str) -> int:
        """Return how much the team uses beyond what it owns."""
        return max(0, self.used[team_name] - self.nominal(team_name))

    def room(self, team_name: str) -> int:
        """Return how much more the team may use: its own, and what others lend and neither use nor borrow."""
        quota = self.quotas[team_name]
        others = sum(
            max(self.used[name], _unlent(each))
            for name, each in self.quotas.items()
            if name != team_name
        )
        room = self.total - others - self.used[team_name]
        if quota.borrowing_limit is not None:
            room = min(room, quota.nominal + quota.borrowing_limit - self.used[team_name])
        return room

    def words(self, amount: int | None = None) -> str:
        """Return the pool, or an amount of it, as a sentence names it."""
        where = f"{self.resource} on {' and '.join(self.flavor)}"
        return where if amount is None else f"{self.formatted(amount)} {where}"

    def formatted(self, amount: int) -> str:
        """Return an amount as manifests write it."""
        return Resources.of({self.resource: amount}).formatted()[self.resource]


def has_resource_quotas(snapshot: Snapshot) -> bool:
    """Whether any team has a quota of a resource."""
    return any(team.resource_quotas for team in snapshot.teams)


def resource_pools(
    snapshot: Snapshot, plan: Plan | None = None
) -> tuple[ResourcePool, ...]:
    """Return the pools of the snapshot's teams with what runs or is about to, and with what a plan adds to that."""
    quotas: dict[PoolKey, dict[str, ResourceQuota]] = {}
    for team in sorted(snapshot.teams, key=lambda team: team.name):
        for quota in team.resource_quotas:
            quotas.setdefault((team.cohort, quota.capacity_types, quota.resource), {})[
                team.name
            ] = quota
    pools = tuple(ResourcePool(*key, quotas[key]) for key in sorted(quotas))
    tally = RequestTally(snapshot, pools)
    # also nodes that are ending: the replicas that are placed there have not left
    for node in snapshot.nodes if pools else ():
        tally.add(node.capacity_type, (*node.placements, *node.leaving))
    for capacity_type, placements, nodes in (
        placed_by(snapshot, plan) if plan is not None else ()
    ):
        tally.add(capacity_type, placements, nodes)
    return pools


def exceeds_quotas(snapshot: Snapshot, plan: Plan) -> bool:
    """Whether the plan gives a team more than its quotas leave it."""
    for before, after in zip(
        resource_pools(snapshot), resource_pools(snapshot, plan), strict=True
    ):
        if any(
            after.room(name) < 0 and after.used[name] > before.used[name]
            for name in after.quotas
        ):
            return True
    return False


def placed_by(
    snapshot: Snapshot, plan: Plan
) -> Iterator[tuple[CapacityType, tuple[PlacedReplicas, ...], int]]:
    """Yield what the plan places on which capacity type, and on how many equal nodes."""
    types = {node.claim_id: node.capacity_type for node in snapshot.nodes}
    for existing in plan.existing:
        yield types[existing.claim_id], existing.placements, 1
    for launch in plan.launches:
        yield launch.offering.capacity_type, launch.placements, launch.count


def loan_ends(pool: ResourcePool, team_name: str, snapshot: Snapshot) -> Iterator[datetime]:
    """Yield when nodes should be gone on which others use what they borrow."""
    owners = by_namespace(snapshot.teams)
    for node in snapshot.nodes:
        if node.leaves_at is not None and node.capacity_type in pool.flavor:
            users = {
                owners[name].name
                for placed in node.placements
                if (name := _namespace(placed)) in owners
            }
            if any(
                name in pool.quotas and pool.borrowed(name) for name in users - {team_name}
            ):
                yield node.leaves_at


class RequestTally:
    """Counts what replicas request of which pools."""

    def __init__(self, snapshot: Snapshot, pools: Iterable[ResourcePool]) -> None:
        self._owners = by_namespace(snapshot.teams)
        self._workloads = {
            **snapshot.workloads,
            **{demand.workload.key: demand.workload for demand in snapshot.demands},
        }
        self._pools: dict[tuple[str, CapacityType], list[ResourcePool]] = {}
        for pool in pools:
            for name, capacity_type in product(pool.quotas, pool.flavor):
                self._pools.setdefault((name, capacity_type), []).append(pool)

    def amounts(
        self, capacity_type: CapacityType, placements: Iterable[PlacedReplicas]
    ) -> Iterator[tuple[ResourcePool, str, int]]:
        """Yield how much of a pool a team requests, where so much is placed."""
        for placed in placements:
            owner = self._owners.get(_namespace(placed))
            workload = self._workloads.get(placed.workload_key)
            if owner is None or workload is None:
                continue
            for pool in self._pools.get((owner.name, capacity_type), ()):
                amount = workload.requests[pool.resource] * placed.count
                if amount:
                    yield pool, owner.name, amount

    def add(
        self,
        capacity_type: CapacityType,
        placements: Iterable[PlacedReplicas],
        nodes: int = 1,
    ) -> None:
        """Add the replicas that are placed on each of so many equal nodes."""
        for pool, name, amount in self.amounts(capacity_type, placements):
            pool.used[name] += amount * nodes


def _unlent(quota: ResourceQuota) -> int:
    return 0 if quota.lending_limit is None else max(0, quota.nominal - quota.lending_limit)


def _namespace(placed: PlacedReplicas) -> str:
    return placed.workload_key.partition("/")[0]
