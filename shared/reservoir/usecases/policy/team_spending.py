"""What was spent in a month so far, and what it will come to if everything that runs goes on."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from reservoir.core.sharing.accounts import (
    AccountLine,
    Amount,
    TeamOf,
    added_up,
    charges,
    left_of_month,
    month_of,
    rates,
)
from reservoir.manifests.answers.status import TeamSpending
from reservoir.ports.accounts import AccountStore


@dataclass(frozen=True, slots=True)
class Spending:
    """A month: amounts until now, and by team what runs costs an hour, in atto-USD."""

    accounts: Mapping[AccountLine, Amount] = field(default_factory=dict)
    rates: Mapping[str, int] = field(default_factory=dict)

    def by_team(self) -> Mapping[str, int]:
        """Return what each team spent, in atto-USD."""
        found: Counter[str] = Counter()
        for account, amount in self.accounts.items():
            found[account.team] += amount.atto_usd
        return found

    def of_team(self, name: str, now: datetime) -> TeamSpending:
        """Return the figures that are shown for a team."""
        parts: dict[tuple[str, str], Amount] = {}
        for account, amount in self.accounts.items():
            if account.team == name:
                key = (account.namespace, account.capacity_type.value)
                parts[key] = parts.get(key, Amount()) + amount
        return TeamSpending(
            month=month_of(now),
            spent_micro_usd=Amount(0, self.by_team().get(name, 0)).micro_usd,
            forecast_micro_usd=Amount(0, self.forecast(now).get(name, 0)).micro_usd,
            micro_usd_per_hour=Amount(0, self.rates.get(name, 0)).micro_usd,
            namespaces={
                key: (amount.seconds, amount.micro_usd) for key, amount in parts.items()
            },
        )

    def forecast(self, now: datetime) -> Mapping[str, int]:
        """Return what each team will have spent by the end of the month if what runs goes on, in atto-USD."""
        hours_left = left_of_month(now).total_seconds() / 3600
        found = Counter(self.by_team())
        for team, rate in self.rates.items():
            found[team] += int(rate * hours_left)
        return found


def spent_between(
    accounts: AccountStore, since: date, until: date, now: datetime, team_of: TeamOf
) -> Mapping[AccountLine, Amount]:
    """Return the cost of these days (UTC), both whole: as recorded, and of running nodes to the second."""
    running = [
        charges(meter, now.replace(microsecond=0), team_of)
        for meter in accounts.meters().values()
    ]
    days = [since + timedelta(days=number) for number in range((until - since).days + 1)]
    months = {f"{day:%Y-%m}" for day in days}
    written = [accounts.accounts(month) for month in sorted(months)]
    known = {day.isoformat() for day in days}
    return {
        account: amount
        for account, amount in added_up([*written, *running]).items()
        if account.day in known
    }


def spending(accounts: AccountStore, now: datetime, team_of: TeamOf) -> Spending:
    """Return the month of ``now``: the recorded cost, and that of running nodes to the second."""
    meters = accounts.meters().values()
    month = month_of(now)
    second = now.replace(microsecond=0)
    running = added_up([charges(meter, second, team_of) for meter in meters])
    of_month = {
        account: amount
        for account, amount in running.items()
        if account.day.startswith(month)
    }
    return Spending(added_up([accounts.accounts(month), of_month]), rates(meters, team_of))
