"""What teams may use and spend."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from lab.simulation.aws.lambdas import Environment
from lab.simulation.invariants.base import OfCommits
from lab.simulation.invariants.placed import PlacedSpecs
from lab.simulation.kernel import MINUTE, SECOND
from lab.simulation.people.teams import spent_atto_usd
from lab.simulation.world import World
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.team import Team, by_namespace
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.ports.state import ReservationRecord

_PLANNED: Final = 3 * MINUTE  # a plan, with what its planner read when it began


class _OfTeams(OfCommits):
    """Looks at what a commit has brought about, once it is whole."""

    of_this_release = True
    # what was written before another call than a commit is not of that commit
    points = None

    @classmethod
    def concerns(cls, world: World) -> bool:
        return bool(world.teams)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._teams = by_namespace(world.teams)
        self._new: list[NodeClaim] = []
        # when what is on a claim changed last, by no function's clock
        self._placed_us: dict[str, int] = {}
        self._placed_by: dict[str, int] = {}  # the environment that committed this
        self._written: list[str] = []

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if not isinstance(after, NodeClaim):
            return
        if before is None:
            self._new.append(after)
        if before is None or before.placements != after.placements:
            self._placed_us[key] = self.world.kernel.now_us
            self._placed_by.pop(key, None)
            self._written.append(key)

    def called(self, environment: Environment, point: str, answer: Any) -> None:
        super().called(environment, point, answer)
        if point == "node_claims.commit":
            self._placed_by.update(dict.fromkeys(self._written, environment.number))
        self._written.clear()

    def holds(self) -> None:
        new, self._new = self._new, []
        if new:
            self.look(new)

    def look(self, new: list[NodeClaim]) -> None:
        """Look at new claims beside those that there are."""

    def shown(self) -> Iterator[NodeClaim]:
        """Yield the claims that stay and that listings can show, with those that the same process just committed."""
        shown_since_us = self.shown_since_us()
        since_us = self.world.kernel.now_us - 2 * SECOND
        for claim in self.world.state.claim_rows.values():
            if not claim.is_live or claim.disruption is not None or claim.drain is not None:
                continue
            placed_us = self._placed_us.get(claim.id, 0)
            is_own = (
                placed_us > since_us and self._placed_by.get(claim.id) == self.committer
            )
            if placed_us < shown_since_us or is_own:
                yield claim

    def team_of(self, key: str) -> str:
        """Return the team of a workload; "" for nobody's."""
        team = self._teams.get(key.partition("/")[0])
        return "" if team is None else team.name

    def each_of(self, names: Iterable[str]) -> Iterator[Team]:
        """Yield the teams of these names, each once."""
        return (team for team in self.world.teams if team.name in set(names))


class BorrowingLimitsAreKept(_OfTeams):
    """No team gets a unit beyond those that it owns and may borrow; a node of several teams counts for nobody here."""

    def look(self, new: list[NodeClaim]) -> None:
        for team in self.each_of([self._only_user(claim) for claim in new]):
            (quota,) = team.quotas
            used = [
                claim.id for claim in self.shown() if self._only_user(claim) == team.name
            ]
            limit = quota.borrowing_limit_units
            if limit is not None and len(used) > quota.nominal_units + limit:
                self.refute(
                    f"{team.name} owns {quota.nominal_units}, may borrow {limit} and has {sorted(used)}"
                )

    def _only_user(self, claim: NodeClaim) -> str:
        users = {self.team_of(placed.workload_key) for placed in claim.placements}
        return users.pop() if _has_unit(claim) and len(users) == 1 else ""


class LendingLimitsAreKept(_OfTeams):
    """Who borrows leaves free what owners keep: of their own units as many as they do not lend and do not use."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._free: list[tuple[int, int]] = []  # until when there were how many units
        self._used_until_us: dict[tuple[str, str], int] = {}  # by team and claim

    def row_written(self, key: str, before: Any, after: Any) -> None:
        super().row_written(key, before, after)
        if isinstance(before, NodeClaim) and before.is_live:
            for team in self._users(before):
                self._used_until_us[team, key] = self.world.kernel.now_us
        elif isinstance(after, ReservationRecord):
            # Not those after the write: a restore puts rows there that nobody writes.
            rows = {**self.world.state.reservation_rows, key: before}
            self._free.append((self.world.kernel.now_us, _free_units(rows.values())))

    def look(self, new: list[NodeClaim]) -> None:
        leased = [claim for claim in new if claim.lease is not None]
        names = set[str]().union(*map(self._users, leased))
        for name in sorted(names):
            nominal = 0
            for team in self.each_of([name]):
                nominal += sum(quota.nominal_units for quota in team.quotas)
            own = [claim for claim in self.shown() if self._users(claim) == {name}]
            if len(own) <= nominal:
                continue
            others = [team for team in self.world.teams if team.name != name]
            kept = sum(map(self._kept_by, others))
            # a warm node's unit is free, and what waits for a slot takes one that is in use
            warm = sum(claim.is_kept_warm for claim in self.shown())
            taken = sum(not claim.waits_for_slot for claim in leased)
            left = self._most_free() + warm - taken
            if left < kept:
                self.refute(
                    f"{name or 'no team'} borrows and leaves {left} units free of {kept} that are not lent"
                )

    def _users(self, claim: NodeClaim) -> set[str]:
        if _has_unit(claim):
            return {self.team_of(placed.workload_key) for placed in claim.placements}
        return set()

    def _kept_by(self, owner: Team) -> int:
        """Return how many units an owner keeps for itself beside all that it used while somebody may have planned."""
        (quota,) = owner.quotas
        now, claims = self.world.kernel.now_us, self.world.state.claim_rows.values()
        used = {
            claim.id
            for claim in claims
            if claim.is_live and owner.name in self._users(claim)
        }
        used |= {
            key
            for (name, key), us in self._used_until_us.items()
            if name == owner.name and us > now - _PLANNED
        }
        lent = (
            quota.nominal_units
            if quota.lending_limit_units is None
            else quota.lending_limit_units
        )
        return max(0, quota.nominal_units - lent - len(used))

    def _most_free(self) -> int:
        """Return how many units were free at the most while somebody may have planned."""
        since = self.world.kernel.now_us - _PLANNED
        now = _free_units(self.world.state.reservation_rows.values())
        return max([now, *(count for us, count in self._free if us > since)])


class ResourceQuotasAreKept(_OfTeams):
    """No plan gives teams more vCPUs on spot than those with a quota of them own together.

    What runs counts as it was placed.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._specs = PlacedSpecs(world)

    def row_written(self, key: str, before: Any, after: Any) -> None:
        super().row_written(key, before, after)
        self._specs.row_written(key, before, after)

    def look(self, new: list[NodeClaim]) -> None:
        owned: dict[str, int] = {}
        for team in self.world.teams:
            for quota in team.resource_quotas:
                owned[team.name] = quota.nominal
        asked: set[str] = set()
        for claim in filter(_is_spot, new):
            asked.update(self.team_of(placed.workload_key) for placed in claim.placements)
        if asked.isdisjoint(owned):
            return
        used = 0
        for claim in filter(_is_spot, self.shown()):
            for spec in self._specs.of(claim.id):
                if self.team_of(spec.key) in owned:
                    used += spec.requests["cpu"]
        if used > sum(owned.values()):
            self.refute(
                f"{sorted(owned)} request {used} millicores of spot and own {sum(owned.values())}"
            )


def _is_spot(claim: NodeClaim) -> bool:
    return claim.offering.capacity_type is CapacityType.SPOT


class TeamBudgetsAreKept(_OfTeams):
    """No plan buys a node for a team whose nodes then cost more an hour than its budget."""

    def look(self, new: list[NodeClaim]) -> None:
        buyers: list[str] = []
        for claim in new:
            if claim.lease is None and claim.price_atto_usd_per_hour:
                buyers += [self.team_of(placed.workload_key) for placed in claim.placements]
        for team in self.each_of(buyers):
            budget = team.budget_micro_usd_per_hour
            spent = spent_atto_usd(self.shown(), team)
            if budget is not None and spent > budget * ATTO_USD_PER_MICRO_USD:
                self.refute(
                    f"{team.name} spends {spent // 10**15} m$ an hour of {budget // 1000}"
                )


def _has_unit(claim: NodeClaim) -> bool:
    """Whether a node has a unit still: a lease stays with one that EC2 has let fall out of its reservation."""
    return claim.lease is not None and claim.offering.capacity_type is CapacityType.RESERVED


def _free_units(rows: Iterable[ReservationRecord | None]) -> int:
    return sum(max(0, row.balance.free_units) for row in rows if row is not None)
