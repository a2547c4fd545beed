"""What budgets of a month leave for an hour of now."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from reservoir.core.model.team import Ceiling, Team
from reservoir.core.sharing.accounts import owners
from reservoir.core.sharing.budgets import hourly_bound
from reservoir.ports.accounts import AccountStore
from reservoir.usecases.policy.team_spending import Spending, spending


@dataclass(frozen=True, slots=True)
class MonthlyBudgets:
    """Turns budgets of months into bounds of an hour. Accounts are read only if there is a budget of a month."""

    accounts: AccountStore | None = None  # None: of a world that keeps none
    ceiling: Ceiling = field(default_factory=Ceiling)

    def bounds(
        self, teams: Sequence[Team], now: datetime
    ) -> tuple[tuple[Team, ...], int | None]:
        """Return the teams with what each may pay an hour, and what everybody together may, in micro-USD."""
        monthly = [team.budget_micro_usd_per_month for team in teams] + [
            self.ceiling.micro_usd_per_month
        ]
        spent = Spending()
        if self.accounts is not None and any(each is not None for each in monthly):
            spent = spending(self.accounts, now, owners(teams))
        by_team = spent.by_team()
        held = tuple(
            replace(
                team,
                budget_micro_usd_per_hour=hourly_bound(
                    team.budget_micro_usd_per_hour,
                    team.budget_micro_usd_per_month,
                    by_team.get(team.name, 0),
                ),
            )
            for team in teams
        )
        everything = sum(by_team.values())
        return held, hourly_bound(
            self.ceiling.micro_usd_per_hour, self.ceiling.micro_usd_per_month, everything
        )
