"""How many replicas may be on which capacity types, where a plan would take more than quotas of resources leave.

What teams own comes first, then what they borrow, by weighted dominant share, as with units of reservations; within a
team it goes by priority and age. Of a workload that may have fewer on a capacity type than wait, as many replicas are
kept from it as are too many: they are solved as a demand of their own.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import chain, pairwise, product
from typing import Final

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.plan import (
    ExistingPlacement,
    Plan,
    PlannedNodes,
    ReasonCode,
    UnplacedReplicas,
)
from reservoir.core.model.snapshot import PlacedReplicas, Snapshot
from reservoir.core.model.team import ReclaimWithinCohort, Team, by_namespace
from reservoir.core.model.workload import Demand, Withheld, Workload
from reservoir.core.sharing.quota_groups import words_of_reclaim
from reservoir.core.sharing.resource_pools import (
    Flavor,
    ResourcePool,
    loan_ends,
    placed_by,
    resource_pools,
)

# The next pass of disruption comes within a minute; what it reclaims is free for the next plan.
_RECLAIMED_WITHIN: Final = timedelta(minutes=2)

_Lines = dict[str, list["_Claimant"]]  # by team, in the order of their turn


@dataclass(slots=True)
class _Claimant:
    """Replicas of a workload that want some of the pools: steps of one replica, or of all of a gang.

    ``unserved`` are steps of each workload that have no place yet, whatever the flavour.
    """

    demand: Demand
    pools: Sequence[ResourcePool]
    team: Team
    steps: int
    unserved: Counter[str]

    @property
    def replicas(self) -> int:
        """How many replicas a step has."""
        return 1 if self.demand.workload.gang is None else self.demand.pending_count

    def amount(self, pool: ResourcePool) -> int:
        """Return what a step takes."""
        return self.demand.workload.requests[pool.resource] * self.replicas

    def fits(self, *, nominal: bool) -> bool:
        """Whether the next step has room, of what the team owns or altogether."""
        name = self.team.name
        if not (self.steps and self.unserved[self.demand.workload.key]):
            return False
        return all(
            self.amount(pool) <= pool.room(name)
            and (not nominal or pool.used[name] + self.amount(pool) <= pool.nominal(name))
            for pool in self.pools
        )

    def nominal_order(self) -> Fraction:
        """Return how much of what it owns the team would have with one step more."""
        name = self.team.name
        return max(
            Fraction(pool.used[name] + self.amount(pool), pool.nominal(name) or 1)
            for pool in self.pools
        )

    def borrowing_order(self) -> Fraction:
        """Return the team's weighted dominant share with one step more."""
        name = self.team.name
        borrowed = (
            Fraction(
                max(0, pool.used[name] + self.amount(pool) - pool.nominal(name)),
                pool.total or 1,
            )
            for pool in self.pools
        )
        return max(borrowed) / self.team.weight

    def take(self) -> None:
        """Take a step."""
        self.steps -= 1
        self.unserved[self.demand.workload.key] -= 1
        for pool in self.pools:
            pool.used[self.team.name] += self.amount(pool)


class ResourceShares:
    """What quotas of resources leave to each workload, decided once for a snapshot and the plan that exceeds them."""

    def __init__(self, snapshot: Snapshot, plan: Plan, now: datetime) -> None:
        self._snapshot, self._now = snapshot, now
        self._pools = resource_pools(snapshot)
        self._owners = by_namespace(snapshot.teams)
        self._given: Counter[tuple[str, Flavor]] = Counter()  # replicas by workload
        self._share_out(_placed(snapshot, plan))

    def within(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with its demand kept from capacity types on which it would be too much."""
        return replace(
            snapshot, demands=tuple(chain.from_iterable(map(self._parts, snapshot.demands)))
        )

    # Branches: four turns, in the order of the docstring, over the same lines.
    def _share_out(self, placed: Mapping[str, Counter[CapacityType]]) -> None:
        """Give replicas what they took in the plan, then what they could take instead: first what their teams own.

        Demand that found no place in the plan may find none now; it gets a part of the rest, before that is divided
        among all.
        """
        bound = list(self._bound())
        unserved: Counter[str] = Counter()
        there: dict[Flavor, _Lines] = {}
        instead: dict[Flavor, _Lines] = {}
        for demand, team, flavors in bound:
            on = placed.get(demand.workload.key, Counter())
            unserved[demand.workload.key] = every = _steps(
                demand, sum(on[each] for each in chain(*flavors))
            )
            for flavor, pools in flavors.items():
                on_flavor = _steps(demand, sum(on[each] for each in flavor))
                for lines, steps in ((there, on_flavor), (instead, every - on_flavor)):
                    line = lines.setdefault(flavor, {}).setdefault(team.name, [])
                    line.append(_Claimant(demand, pools, team, steps, unserved))
        for nominal, turns in product((True, False), (there, instead)):
            for flavor in sorted(turns):
                self._fill(flavor, turns[flavor], nominal=nominal)
        for everybody in (False, True):
            rest: dict[Flavor, _Lines] = {}
            for demand, team, flavors in bound:
                key, count = demand.workload.key, demand.pending_count
                waiting = count if everybody else count - placed.get(key, Counter()).total()
                for flavor, pools in flavors.items():
                    steps = _steps(demand, min(waiting, count - self._given[key, flavor]))
                    line = rest.setdefault(flavor, {}).setdefault(team.name, [])
                    line.append(
                        _Claimant(demand, pools, team, steps, Counter({key: steps}))
                    )
            for nominal, flavor in product((True, False), sorted(rest)):
                self._fill(flavor, rest[flavor], nominal=nominal)

    def _bound(
        self,
    ) -> Iterator[tuple[Demand, Team, Mapping[Flavor, Sequence[ResourcePool]]]]:
        """Yield the demands that quotas bound, in the order of their turn within a team."""
        for demand in sorted(self._snapshot.demands, key=_order):
            team = self._owners.get(demand.workload.namespace)
            flavors: dict[Flavor, list[ResourcePool]] = {}
            for pool in _pools_of(team, demand.workload, self._pools):
                flavors.setdefault(pool.flavor, []).append(pool)
            if team is not None and flavors:
                yield demand, team, flavors

    def _fill(self, flavor: Flavor, lines: _Lines, *, nominal: bool) -> None:
        """Let teams take steps, by the order, while any has room; a team without room now will have none later."""
        waiting = {name: iter(line) for name, line in lines.items()}
        heap: list[tuple[Fraction, str, _Claimant]] = []

        def enter(name: str, first: _Claimant | None = None) -> None:
            nexts: Iterable[_Claimant] = waiting[name]
            for item in (first, *nexts) if first is not None else nexts:
                if item.fits(nominal=nominal):
                    order = item.nominal_order() if nominal else item.borrowing_order()
                    heapq.heappush(heap, (order, name, item))
                    return

        for name in lines:
            enter(name)
        while heap:
            _, name, item = heapq.heappop(heap)
            if item.fits(nominal=nominal):
                item.take()
                self._given[item.demand.workload.key, flavor] += item.replicas
            enter(name, item)

    # Branches: spans on a circle of replicas: dealt out, then cut at their ends.
    def _parts(self, demand: Demand) -> Iterator[Demand]:
        """Yield the demand, divided by what is withheld of its replicas; each flavour is divided in turn."""
        team = self._owners.get(demand.workload.namespace)
        count, start = demand.pending_count, 0
        spans: dict[Withheld, tuple[int, int]] = {}
        for flavor in sorted({pool.flavor for pool in self._pools}):
            pools = _pools_of(
                team,
                demand.workload,
                [pool for pool in self._pools if pool.flavor == flavor],
            )
            given = min(count, self._given[demand.workload.key, flavor])
            if team is None or not pools or given == count:
                continue
            spans[self._withheld(team, flavor, pools, demand.pending_since)] = start, given
            start = (start + given) % count
        edges = {0, count}
        for start, given in spans.values():
            edges.update((start % count, (start + given) % count))
        for first, end in pairwise(sorted(edges)):
            withheld = tuple(
                each
                for each, (start, given) in spans.items()
                if (first - start) % count >= given
            )
            yield replace(demand, pending_count=end - first, withheld=withheld)

    # Branches: a sentence put together from the parts that are true.
    def _withheld(
        self, team: Team, flavor: Flavor, pools: Sequence[ResourcePool], since: datetime
    ) -> Withheld:
        """Return which teams have what of the scarcest of the pools; ``since``: since when it is waited for."""
        pool = min(
            pools,
            key=lambda each: (
                Fraction(each.room(team.name), each.total or 1),
                each.resource,
            ),
        )
        used, nominal = pool.used[team.name], pool.nominal(team.name)
        parts = [
            f"Team {team.name} has {pool.formatted(used)} {pool.words()} and owns {pool.formatted(nominal)}"
        ]
        borrowers = [
            (name, pool.borrowed(name))
            for name in pool.quotas
            if name != team.name and pool.borrowed(name)
        ]
        if borrowers:
            told = ", ".join(
                f"{name} {pool.formatted(amount)}" for name, amount in borrowers
            )
            parts.append(f"borrowed by others: {told}")
        back_at = None
        if used < nominal and borrowers:
            times = list(loan_ends(pool, team.name, self._snapshot))
            if team.reclaim_within_cohort is ReclaimWithinCohort.ANY:
                times.append(since + _RECLAIMED_WITHIN)
            parts.append(words_of_reclaim(team))
            back_at = min((at for at in times if at > self._now), default=None)
        return Withheld(frozenset(flavor), "; ".join(parts), back_at)


def leaves_idle(snapshot: Snapshot, plan: Plan) -> bool:
    """Whether a quota has room, once the plan is made, for replicas that it left over."""
    pools, owners = resource_pools(snapshot, plan), by_namespace(snapshot.teams)
    demands = {demand.workload.key: demand for demand in snapshot.demands}
    for item in plan.unplaced:
        demand = demands[item.workload_key]
        team = owners.get(demand.workload.namespace)
        own = _pools_of(team, demand.workload, pools)
        if team is None or item.code not in (
            ReasonCode.TEAM_QUOTA,
            ReasonCode.GANG_INCOMPLETE,
        ):
            continue
        for flavor in {pool.flavor for pool in own}:
            of_flavor = [pool for pool in own if pool.flavor == flavor]
            if _Claimant(demand, of_flavor, team, 1, Counter({item.workload_key: 1})).fits(
                nominal=False
            ):
                return True
    return False


def settled(snapshot: Snapshot, plan: Plan) -> Plan:
    """Return the plan with the parts of a workload as one again, and no launch that falls back beyond a quota."""
    unplaced: dict[tuple[str, str], UnplacedReplicas] = {}
    for item in plan.unplaced:
        key = item.workload_key, item.code
        known = unplaced.get(key)
        unplaced[key] = (
            item if known is None else replace(known, count=known.count + item.count)
        )
    owners, pools = by_namespace(snapshot.teams), resource_pools(snapshot)
    workloads = {demand.workload.key: demand.workload for demand in snapshot.demands}

    def settle(launch: PlannedNodes) -> PlannedNodes:
        planned = launch.offering.capacity_type
        closed: set[CapacityType] = set()
        for each in launch.placements:
            workload = workloads[each.workload_key]
            for pool in _pools_of(owners.get(workload.namespace), workload, pools):
                if planned not in pool.flavor:
                    closed.update(pool.flavor)
        alternatives = tuple(
            key for key in launch.alternatives if key.capacity_type not in closed
        )
        return replace(
            launch, placements=_together(launch.placements), alternatives=alternatives
        )

    existing = [
        ExistingPlacement(each.claim_id, _together(each.placements))
        for each in plan.existing
    ]
    launches = tuple(settle(launch) for launch in plan.launches)
    return replace(
        plan, launches=launches, existing=tuple(existing), unplaced=tuple(unplaced.values())
    )


def _together(placements: Iterable[PlacedReplicas]) -> tuple[PlacedReplicas, ...]:
    counts: Counter[str] = Counter()
    for placed in placements:
        counts[placed.workload_key] += placed.count
    return tuple(PlacedReplicas(key, counts[key]) for key in sorted(counts))


def _placed(snapshot: Snapshot, plan: Plan) -> Mapping[str, Counter[CapacityType]]:
    """Count replicas that the plan places, by workload."""
    found: dict[str, Counter[CapacityType]] = {}
    for capacity_type, placements, nodes in placed_by(snapshot, plan):
        for placed in placements:
            found.setdefault(placed.workload_key, Counter())[capacity_type] += (
                placed.count * nodes
            )
    return found


def _steps(demand: Demand, replicas: int) -> int:
    """Return in how many steps replicas are served: a gang in one."""
    return replicas if demand.workload.gang is None else min(1, replicas)


def _pools_of(
    team: Team | None, workload: Workload, pools: Iterable[ResourcePool]
) -> list[ResourcePool]:
    """Return the pools that bound what the workload may have."""
    if team is None:
        return []
    return [
        pool
        for pool in pools
        if team.name in pool.quotas and workload.requests[pool.resource] > 0
    ]


def _order(demand: Demand) -> tuple[int, datetime, str]:
    return -demand.workload.priority, demand.pending_since, demand.workload.key
