"""Quotas of resources, computed from the state that a plan leads to.

Written from the rules (docs/teams.md) and independent of the code that divides resources.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from reservoir.core.checking.final_state.facts import Facts
from reservoir.core.checking.violation import Violation, ViolationCode
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.model.team import ResourceQuota
from reservoir.core.model.workload import Workload


@dataclass(slots=True)
class _SharedResource:
    """A resource on some capacity types for the teams of a cohort: quotas, final use, and which teams got more."""

    quotas: dict[str, ResourceQuota] = field(default_factory=dict)
    used: Counter[str] = field(default_factory=Counter)
    new: dict[str, set[str]] = field(default_factory=dict)  # workloads by team

    def is_over(self, name: str, more: int = 0) -> bool:
        """Whether the team would have more than it may with so much more."""
        own, used = self.quotas[name], self.used[name] + more
        if own.borrowing_limit is not None and used > own.nominal + own.borrowing_limit:
            return True
        taken = used
        for other, quota in self.quotas.items():
            if other != name:
                lent = (
                    quota.nominal
                    if quota.lending_limit is None
                    else min(quota.nominal, quota.lending_limit)
                )
                taken += max(self.used[other], quota.nominal - lent)
        return taken > sum(quota.nominal for quota in self.quotas.values())

    def beyond(self) -> list[str]:
        """Return the teams to which the plan gives too much: borrowers, or where it gives those nothing, owners."""
        over = [name for name in sorted(self.new) if self.is_over(name)]
        return [
            name for name in over if self.used[name] > self.quotas[name].nominal
        ] or over


class TeamResources:
    """What teams request in the end, of what they have quotas for."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._team_of: dict[str, str] = {}
        for team in sorted(facts.snapshot.teams, key=lambda each: each.name, reverse=True):
            self._team_of.update(dict.fromkeys(team.namespaces, team.name))
        self.pools: dict[tuple[str, frozenset[CapacityType], str], _SharedResource] = {}
        for team in facts.snapshot.teams:
            for quota in team.resource_quotas:
                key = team.cohort, frozenset(quota.capacity_types), quota.resource
                self.pools.setdefault(key, _SharedResource()).quotas[team.name] = quota
        if self.pools:
            self._add_up()

    def violations(self) -> Iterator[Violation]:
        """Report teams that the plan gives more of a resource than their quotas leave them."""
        for (_, capacity_types, resource), pool in self.pools.items():
            for name in pool.beyond():
                where = " and ".join(sorted(capacity_types))
                message = f"uses {pool.used[name]} of {resource} on {where}, which is more than its quota leaves"
                yield Violation(
                    ViolationCode.TEAM_QUOTA,
                    f"team {name}",
                    message,
                    tuple(sorted(pool.new[name])),
                )
        for launch in self._facts.plan.launches if self.pools else ():
            others = {key.capacity_type for key in launch.alternatives}
            for placed in launch.placements:
                workload = self._facts.workloads.get(placed.workload_key)
                if workload is not None and self._leaves(
                    workload, launch.offering.capacity_type, others
                ):
                    message = (
                        "may be launched on what a quota bounds and the plan does not count"
                    )
                    yield Violation(
                        ViolationCode.TEAM_QUOTA, workload.key, message, (workload.key,)
                    )

    def _leaves(
        self, workload: Workload, planned: CapacityType, others: set[CapacityType]
    ) -> bool:
        """Whether some of the other capacity types is under a quota of the workload's that is not about this one."""
        name = self._team(workload.key)
        return any(
            planned not in capacity_types and not capacity_types.isdisjoint(others)
            for (_, capacity_types, resource), pool in self.pools.items()
            if name in pool.quotas and workload.requests[resource] > 0
        )

    def bounds(self, workload: Workload, capacity_type: CapacityType) -> bool:
        """Whether a quota bounds what the workload may have on the capacity type."""
        return any(True for _ in self._about(workload, capacity_type))

    def is_open(self, workload: Workload, capacity_type: CapacityType) -> bool:
        """Whether its team may have one replica more on the capacity type, or all of a gang."""
        replicas = 1 if workload.gang is None else self._facts.pending[workload.key]
        name = self._team(workload.key)
        return not any(
            pool.is_over(name, workload.requests[resource] * replicas)
            for resource, pool in self._about(workload, capacity_type)
        )

    def owes(
        self, borrower_key: str, workload: Workload, capacity_type: CapacityType
    ) -> bool:
        """Whether the borrower was given a loan while the other workload's team waits for its own."""
        if all(
            refusal.workload_key != workload.key for refusal in self._facts.plan.unplaced
        ):
            return False
        owner, borrower = self._team(workload.key), self._team(borrower_key)
        if owner == borrower or self.is_open(workload, capacity_type):
            return False
        pools = list(self._about(workload, capacity_type))
        is_its_own = all(
            pool.used[owner] + workload.requests[resource] <= pool.quotas[owner].nominal
            for resource, pool in pools
        )
        return is_its_own and any(
            borrower in pool.new and pool.used[borrower] > pool.quotas[borrower].nominal
            for _, pool in pools
        )

    def _about(
        self, workload: Workload, capacity_type: CapacityType
    ) -> Iterator[tuple[str, _SharedResource]]:
        name = self._team(workload.key)
        for (_, capacity_types, resource), pool in self.pools.items():
            if (
                capacity_type in capacity_types
                and name in pool.quotas
                and workload.requests[resource] > 0
            ):
                yield resource, pool

    def _team(self, workload_key: str) -> str:
        return self._team_of.get(workload_key.split("/", 1)[0], "")

    def _add_up(self) -> None:
        snapshot, plan = self._facts.snapshot, self._facts.plan
        types = {node.claim_id: node.capacity_type for node in snapshot.nodes}
        for node in snapshot.nodes:
            here = (*node.placements, *node.leaving)
            self._add(node.capacity_type, here, snapshot.workloads, 1, is_new=False)
        for placement in plan.existing:
            self._add(
                types[placement.claim_id],
                placement.placements,
                self._facts.workloads,
                1,
                is_new=True,
            )
        for launch in plan.launches:
            capacity_type = launch.offering.capacity_type
            self._add(
                capacity_type,
                launch.placements,
                self._facts.workloads,
                launch.count,
                is_new=True,
            )

    def _add(
        self,
        capacity_type: CapacityType,
        placements: Iterable[PlacedReplicas],
        workloads: Mapping[str, Workload],
        nodes: int,
        *,
        is_new: bool,
    ) -> None:
        for placed in placements:
            workload = workloads.get(placed.workload_key)
            for resource, pool in (
                () if workload is None else self._about(workload, capacity_type)
            ):
                amount = (
                    0
                    if workload is None
                    else workload.requests[resource] * placed.count * nodes
                )
                name = self._team(placed.workload_key)
                pool.used[name] += amount
                if is_new and amount:
                    pool.new.setdefault(name, set()).add(placed.workload_key)
