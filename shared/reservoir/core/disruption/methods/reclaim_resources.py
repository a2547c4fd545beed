"""Lent amounts of a resource are returned to the team that owns them, once its work waits for them (docs/teams.md).

The room is the owner's as soon as a node begins to drain. Its replicas are demand again at once, beside the owner's:
the choice is confirmed by a plan for both, so that it need not be undone. Nodes go whole; nodes that carry nothing but
loans go first.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Final

from reservoir.core.disruption.candidate import Candidate, grace_is_over, undisturbed
from reservoir.core.disruption.methods.reclaim import Reclaimed
from reservoir.core.disruption.methods.work_lost import WorkLost
from reservoir.core.disruption.simulation import PassState
from reservoir.core.model.node_claim import placed_keys
from reservoir.core.model.plan import Plan, ReasonCode
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.team import ReclaimWithinCohort, Team, by_namespace
from reservoir.core.model.workload import Demand
from reservoir.core.sharing.resource_pools import (
    PoolKey,
    RequestTally,
    ResourcePool,
    resource_pools,
)

# Reasons of replicas for which a quota leaves no room; a gang of which a part finds room elsewhere is incomplete.
_HELD: Final = frozenset({ReasonCode.TEAM_QUOTA, ReasonCode.GANG_INCOMPLETE})

_Loans = Counter[tuple[PoolKey, str]]  # amounts by pool and team


@dataclass(frozen=True, slots=True)
class OwedResources:
    """Amounts, by pool, that a team owns, wants now, and does not get while others borrow them."""

    team: Team
    amounts: Mapping[PoolKey, int]
    priority: int  # the highest that waits


def resources_reclaimed(
    world: PassState, waiting: Plan, candidates: Sequence[Candidate]
) -> Iterator[Reclaimed]:
    """Yield what to take back, the least loss first; ``waiting`` is the plan for the demand of ``world``."""
    owed_by_team = list(resources_owed(world.snapshot, waiting))
    if owed_by_team and any(
        node.deleting and node.placements for node in world.snapshot.nodes
    ):
        # Amounts that are on their way back go to the team that the scheduler gives them to.
        world = world.without_leaving()
        waiting = world.pending()
        owed_by_team = list(resources_owed(world.snapshot, waiting))
    if not owed_by_team:
        return
    search = _Lenders(world, waiting, candidates)
    chosen = search.chosen(owed_by_team)
    if search.costs_more_than_loans(chosen):
        chosen = search.chosen(owed_by_team, only_loans=True)
        if search.costs_more_than_loans(chosen):
            return
    for owed in owed_by_team:
        yield from search.taken(owed, chosen)


# Branches: what is held, in its order; then each team, and what each claims.
def resources_owed(snapshot: Snapshot, waiting: Plan) -> Iterator[OwedResources]:
    """Yield what teams that reclaim are short of, after all that the plan gives to each."""
    pools, owners = resource_pools(snapshot, waiting), by_namespace(snapshot.teams)
    demands = {demand.workload.key: demand for demand in snapshot.demands}
    held: list[tuple[Demand, int]] = []
    for item in waiting.unplaced:
        if item.code in _HELD:
            held.append((demands[item.workload_key], item.count))
    held.sort(
        key=lambda it: (-it[0].workload.priority, it[0].pending_since, it[0].workload.key)
    )
    for team in sorted(snapshot.teams, key=lambda each: each.name):
        if team.reclaim_within_cohort is ReclaimWithinCohort.NEVER:
            continue
        own = [pool for pool in pools if team.name in pool.quotas]
        wanted: Counter[PoolKey] = Counter()
        priorities: list[int] = []
        for demand, count in held:
            is_own = owners.get(demand.workload.namespace) == team
            if is_own and _claims(team, demand, own, wanted, count):
                priorities.append(demand.workload.priority)
        amounts: dict[PoolKey, int] = {}
        for pool in own:
            short = wanted[pool.key] - max(0, pool.room(team.name))
            if wanted[pool.key] and short > 0:
                amounts[pool.key] = short
        if amounts:
            yield OwedResources(team, amounts, max(priorities))


def _claims(
    team: Team,
    demand: Demand,
    own: Sequence[ResourcePool],
    wanted: Counter[PoolKey],
    count: int,
) -> bool:
    """Add what fits into what the team owns, of one flavor after the other, of a gang all or none; say if any does."""
    left, size = (count, 1) if demand.workload.gang is None else (1, demand.pending_count)
    before, requests = left, demand.workload.requests
    for flavor in sorted({pool.flavor for pool in own}):
        amounts: dict[PoolKey, int] = {}
        fitting: list[int] = []  # as many as what the team owns of each pool still holds
        for pool in own:
            if pool.flavor != flavor:
                continue
            amount = amounts[pool.key] = requests[pool.resource] * size
            if amount:
                owned = pool.nominal(team.name) - pool.used[team.name]
                fitting.append((owned - wanted[pool.key]) // amount)
        steps = min(left, max(0, min(fitting, default=0)))
        wanted.update({key: steps * amount for key, amount in amounts.items()})
        left -= steps
    return left < before


@dataclass(frozen=True, slots=True)
class _Option:
    """Nodes that are drained together, and what each team requests on them of each resource pool."""

    nodes: tuple[Candidate, ...]
    requested: _Loans
    users: frozenset[str]  # of teams; "" for nobody's
    has_gang: bool
    priority: int

    def loans(self, borrowed: _Loans) -> _Loans:
        """Return what of it is on loan."""
        loans: _Loans = Counter()
        for pair, amount in self.requested.items():
            if borrowed[pair] > 0:
                loans[pair] = min(amount, borrowed[pair])
        return loans

    def freed(self, key: PoolKey, borrowed: _Loans) -> int:
        """Return how much of the loans comes back."""
        return sum(
            amount for (each, _), amount in self.loans(borrowed).items() if each == key
        )


class _Lenders:
    """Looks for the nodes with loans whose work loses least."""

    def __init__(
        self, world: PassState, waiting: Plan, candidates: Sequence[Candidate]
    ) -> None:
        self._world, self._waiting = world, waiting
        self._after, self._plan = world, waiting  # without the last choice
        self._work = WorkLost(world.snapshot, world.now)
        self._owners = by_namespace(world.snapshot.teams)
        self._teams = {team.name: team for team in world.snapshot.teams}
        self._pools = {pool.key: pool for pool in resource_pools(world.snapshot, waiting)}
        self._borrowed: _Loans = Counter()
        for key, pool in self._pools.items():
            for name in pool.quotas:
                self._borrowed[key, name] = pool.borrowed(name)
        by_id = {candidate.id: candidate for candidate in candidates}
        groups = {self._work.together(candidate) for candidate in candidates}
        tally = RequestTally(world.snapshot, tuple(self._pools.values()))
        self._options = []
        for group in groups:
            if group <= by_id.keys():
                together = tuple(by_id[key] for key in sorted(group))
                self._options.append(self._option(together, tally))

    def _option(self, nodes: tuple[Candidate, ...], tally: RequestTally) -> _Option:
        requested: _Loans = Counter()
        for each in nodes:
            for pool, name, amount in tally.amounts(
                each.node.capacity_type, each.node.placements
            ):
                requested[pool.key, name] += amount
        users = frozenset(map(self._team_of, placed_keys(each.claim for each in nodes)))
        priority = max(self._work.priority(each) for each in nodes)
        return _Option(
            nodes, requested, users, any(map(self._work.has_gang, nodes)), priority
        )

    def _team_of(self, workload_key: str) -> str:
        team = self._owners.get(workload_key.partition("/")[0])
        return "" if team is None else team.name

    def chosen(
        self, owed_by_team: Sequence[OwedResources], *, only_loans: bool = False
    ) -> Mapping[str, list[_Option]]:
        """Return by owner the nodes that cover its debt, or as much of it as possible."""
        options, borrowed, found = self._options.copy(), self._borrowed.copy(), {}
        for owed in owed_by_team:
            found[owed.team.name] = self._chosen(
                owed, options, borrowed, only_loans=only_loans
            )
        return found

    # Branches: choosing and giving back change the same sums.
    def _chosen(
        self,
        owed: OwedResources,
        options: list[_Option],
        borrowed: _Loans,
        *,
        only_loans: bool,
    ) -> list[_Option]:
        """Choose among the options, which are fewer then; what turns out not to be needed stays."""
        left = Counter(owed.amounts)
        chosen = list[_Option]()
        freed = list[Counter[PoolKey]]()
        while any(amount > 0 for amount in left.values()):
            useful = [it for it in options if self._is_useful(it, owed, left, borrowed)]
            if only_loans:
                useful = [it for it in useful if self._is_loan(it, owed, borrowed)]
            if not useful:
                break
            best = min(useful, key=lambda it: self._loss(it, owed, borrowed))
            chosen.append(best)
            freed.append(Counter({key: best.freed(key, borrowed) for key in left}))
            left.subtract(freed[-1])
            borrowed.subtract(best.loans(borrowed))
            options.remove(best)
        for option, gives in reversed(list(zip(chosen, freed, strict=True))):
            if all(amount + gives[key] <= 0 for key, amount in left.items()):
                left.update(gives)
                chosen.remove(option)
        return chosen

    def _is_useful(
        self,
        option: _Option,
        owed: OwedResources,
        left: Mapping[PoolKey, int],
        borrowed: _Loans,
    ) -> bool:
        is_any = owed.team.reclaim_within_cohort is ReclaimWithinCohort.ANY
        may_go = is_any or option.priority < owed.priority
        if not may_go or not all(
            self._may_be_disturbed(node, owed.team, borrowed) for node in option.nodes
        ):
            return False
        return any(
            amount > 0 and option.freed(key, borrowed) for key, amount in left.items()
        )

    def _may_be_disturbed(self, node: Candidate, owner: Team, borrowed: _Loans) -> bool:
        """Whether all work with do-not-disrupt on a node borrows, and has had the lender's grace."""
        still = {
            self._team_of(f"{name}/")
            for name in undisturbed(node.node.placements, self._world.snapshot.workloads)
        }
        borrowers = {
            name
            for (_, name), amount in borrowed.items()
            if amount > 0 and name != owner.name
        }
        return not still or (
            still <= borrowers and grace_is_over(node, owner, self._world.now)
        )

    def _is_loan(self, option: _Option, owed: OwedResources, borrowed: _Loans) -> bool:
        """Whether only borrowers lose something there."""

        def is_within(key: PoolKey) -> bool:
            return all(
                0 < option.requested[key, name] <= borrowed[key, name]
                for name in option.users
            )

        return any(map(is_within, owed.amounts))

    def _loss(
        self, option: _Option, owed: OwedResources, borrowed: _Loans
    ) -> tuple[bool, bool, Fraction, int, int, int, tuple[str, ...]]:
        """Sort key: single nodes, only loans, the largest borrower; then the least work lost, the fewest replicas."""
        shares = [
            Fraction(
                borrowed[key, name],
                max(1, self._pools[key].total) * self._teams[name].weight,
            )
            for key, name in option.requested
            if key in owed.amounts and name != owed.team.name
        ]
        lost_s, replicas = self._work.lost(option.nodes)
        ids = tuple(node.id for node in option.nodes)
        is_loan = self._is_loan(option, owed, borrowed)
        return (
            option.has_gang,
            not is_loan,
            -max(shares),
            len(option.nodes),
            lost_s,
            replicas,
            ids,
        )

    def costs_more_than_loans(self, chosen: Mapping[str, Sequence[_Option]]) -> bool:
        """Plan without the nodes; say whether work that borrowed nothing stays over, or more than was borrowed.

        Part of the last replica that had to go may have been its team's own.
        """
        options = chain.from_iterable(chosen.values())
        nodes = list(chain.from_iterable(option.nodes for option in options))
        self._after = self._world.drained(nodes)
        self._plan = self._after.pending()
        lost = Counter({item.workload_key: item.count for item in self._plan.unplaced})
        lost.subtract({item.workload_key: item.count for item in self._waiting.unplaced})
        carried = placed_keys(node.claim for node in nodes)
        return any(
            lost[key] > 0 and not self._is_lost_loan(key, lost[key]) for key in carried
        )

    def _is_lost_loan(self, workload_key: str, replicas: int) -> bool:
        name = self._team_of(workload_key)
        requests = self._world.snapshot.workloads[workload_key].requests
        return any(
            requests[pool.resource] * (replicas - 1) < self._borrowed[key, name]
            for key, pool in self._pools.items()
        )

    # Branches: the owner's gain by pool, then nodes as long as some of it is left.
    def taken(
        self, owed: OwedResources, chosen: Mapping[str, Sequence[_Option]]
    ) -> Iterator[Reclaimed]:
        """Yield the nodes that are needed for what the owner gains by the plan."""
        name = owed.team.name
        after = {
            pool.key: pool for pool in resource_pools(self._after.snapshot, self._plan)
        }
        left: dict[PoolKey, int] = {}
        for key in owed.amounts:
            before = self._pools[key]
            gained = after[key].used[name] - before.used[name]
            if gained > 0:
                left[key] = gained - max(0, before.room(name))
        for option in chosen[name]:
            if all(amount <= 0 for amount in left.values()):
                return
            loans = option.loans(self._borrowed)
            lent: list[tuple[str, str]] = []
            for key, lender in loans:
                if key in left:
                    lent.append((self._pools[key].words(), lender))
            lent.sort()
            for key in left:
                left[key] -= option.freed(key, self._borrowed)
            self._borrowed.subtract(loans)
            what = " and ".join(dict.fromkeys(words for words, _ in lent))
            lenders = " and ".join(dict.fromkeys(lender for _, lender in lent))
            yield Reclaimed(option.nodes, name, lenders, what)
