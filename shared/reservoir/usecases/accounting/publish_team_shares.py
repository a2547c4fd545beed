"""Publishes what teams use and spend, and which budgets are, or will be, used up."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.team import Ceiling, Team
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.core.sharing.accounts import NOBODY, month_of, owners
from reservoir.core.sharing.reading_turns import COUNTED_AT_ONCE, ReadingTurns
from reservoir.manifests.answers.status import QuotaUse, ResourceUse
from reservoir.manifests.event_parts import Event
from reservoir.manifests.team_events import (
    BudgetPeriod,
    QuotaShare,
    ResourceShare,
    TeamOverBudget,
    TeamShareReported,
)
from reservoir.ports.accounts import AccountStore
from reservoir.ports.messaging import EventPublisher
from reservoir.ports.policy import PolicyKind, PolicyStore
from reservoir.ports.state import NodeClaimStore, ReservationStore, WorkloadStore
from reservoir.ports.system import Clock
from reservoir.usecases.accounting.keep_accounts import teams_of
from reservoir.usecases.policy.policy_objects import policy_of
from reservoir.usecases.policy.team_quotas import as_placed, quota_uses, resource_uses
from reservoir.usecases.policy.team_spending import Spending, spending


@dataclass(frozen=True, slots=True)
class PublishTeamShares:
    """Publishes shares and budgets. Without teams and without a ceiling there is nothing to publish or to read."""

    accounts: AccountStore
    policy: PolicyStore
    reservations: ReservationStore
    claims: NodeClaimStore
    workloads: WorkloadStore
    publisher: EventPublisher
    clock: Clock
    ceiling: Ceiling = field(default_factory=Ceiling)
    turns: ReadingTurns = field(default_factory=lambda: ReadingTurns(COUNTED_AT_ONCE))

    def publish(self) -> int:
        """Publish what there is to say; return how many events that were."""
        rows = [row for row in self.policy.list_all() if row.kind is PolicyKind.TEAM]
        teams = policy_of(rows).teams
        if not teams and self.ceiling == Ceiling():
            return 0
        now = self.clock.now()
        spent = spending(self.accounts, now, teams_of(self.policy))
        uses: Mapping[str, Sequence[QuotaUse]] = {}
        amounts: Mapping[str, Sequence[ResourceUse]] = {}
        if any(team.quotas or team.resource_quotas for team in teams):
            reservations = [
                record.reservation for record in self.reservations.list_current()
            ]
            claims, known = as_placed(self.claims.list_live(), self.workloads)
            uses = quota_uses(teams, reservations, claims, known)
            amounts = resource_uses(teams, claims, known)
        events: list[Event] = [
            _share(team, uses.get(team.name, ()), amounts.get(team.name, ()), spent, now)
            for team in teams
        ]
        events += _over(teams, self.ceiling, spent, self._waiting(teams, now), now)
        self.publisher.publish(events)
        return len(events)

    def _waiting(self, teams: Sequence[Team], now: datetime) -> Counter[str]:
        """Count by team the replicas for which a budget lets nothing be bought, of as many as there is room to read."""
        team_of = owners(teams)
        found: Counter[str] = Counter()
        self.turns.begin(now)
        for record in self.workloads.read_waiting(
            lambda keys: self.turns.reading(keys, (), lambda: team_of)
        ):
            held = sum(
                item.count
                for item in record.unplaced
                if item.code is ReasonCode.TEAM_BUDGET
            )
            found[team_of(record.key.partition("/")[0])] += min(held, record.pending_count)
        return found


def _share(
    team: Team,
    uses: Sequence[QuotaUse],
    amounts: Sequence[ResourceUse],
    spent: Spending,
    now: datetime,
) -> TeamShareReported:
    return TeamShareReported(
        team=team.name,
        quotas=[
            QuotaShare(
                reservations=use.group,
                nominal=use.nominal,
                used=use.used,
                borrowed=use.borrowed,
                lent=use.lent,
                total=use.total,
            )
            for use in uses
        ],
        resources=[_resource_share(use) for use in amounts],
        month=month_of(now),
        spent_micro_usd=_micro_usd(spent.by_team().get(team.name, 0)),
        forecast_micro_usd=_micro_usd(spent.forecast(now).get(team.name, 0)),
        micro_usd_per_hour=_micro_usd(spent.rates.get(team.name, 0)),
    )


def _resource_share(use: ResourceUse) -> ResourceShare:
    return ResourceShare(
        capacity_types=list(use.capacity_types),
        resource=use.resource,
        nominal=use.formatted(use.nominal),
        used=use.formatted(use.used),
        borrowed=use.formatted(use.borrowed),
        borrowers={name: use.formatted(amount) for name, amount in use.borrowers.items()},
    )


def _over(
    teams: Sequence[Team],
    ceiling: Ceiling,
    spent: Spending,
    waiting: Mapping[str, int],
    now: datetime,
) -> Iterator[TeamOverBudget]:
    """Yield the budgets that workloads wait for, and those that will be exceeded."""
    by_team, forecast = spent.by_team(), spent.forecast(now)
    # A workload that waits for its team's budget does not wait for the ceiling, as far as its reason says.
    unbounded = waiting.get(NOBODY, 0) + sum(
        waiting.get(team.name, 0) for team in teams if not _has_budget(team)
    )
    everybody = (
        sum(spent.rates.values()),
        sum(by_team.values()),
        sum(forecast.values()),
        unbounded,
    )
    limits: list[tuple[str | None, int | None, int | None, tuple[int, int, int, int]]] = [
        (
            team.name,
            team.budget_micro_usd_per_hour,
            team.budget_micro_usd_per_month,
            (
                spent.rates.get(team.name, 0),
                by_team.get(team.name, 0),
                forecast.get(team.name, 0),
                waiting.get(team.name, 0),
            ),
        )
        for team in teams
    ]
    limits.append(
        (None, ceiling.micro_usd_per_hour, ceiling.micro_usd_per_month, everybody)
    )
    for name, per_hour, per_month, (rate, so_far, by_end, replicas) in limits:
        if per_hour is not None and (replicas or _micro_usd(rate) > per_hour):
            yield _told(name, BudgetPeriod.HOUR, per_hour, (rate, rate), replicas)
        if per_month is not None and (replicas or _micro_usd(by_end) > per_month):
            yield _told(name, BudgetPeriod.MONTH, per_month, (so_far, by_end), replicas)


def _has_budget(team: Team) -> bool:
    return (
        team.budget_micro_usd_per_hour is not None
        or team.budget_micro_usd_per_month is not None
    )


def _told(
    name: str | None,
    period: BudgetPeriod,
    limit: int,
    spent_and_forecast: tuple[int, int],
    replicas: int,
) -> TeamOverBudget:
    so_far, by_end = spent_and_forecast
    return TeamOverBudget(
        team=name,
        period=period,
        limit_micro_usd=limit,
        spent_micro_usd=_micro_usd(so_far),
        forecast_micro_usd=_micro_usd(by_end),
        waiting_replicas=replicas,
    )


def _micro_usd(atto_usd: int) -> int:
    return -(-atto_usd // ATTO_USD_PER_MICRO_USD)
