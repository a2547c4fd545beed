"""Reads from the accounts what instances cost each namespace."""

from reservoir.cli.report.money import Days, Metered, metered
from reservoir.core.model.team import by_namespace
from reservoir.core.sharing.accounts import NOBODY
from reservoir.runtime.outside import Outside
from reservoir.usecases.policy.policy_objects import policy_of
from reservoir.usecases.policy.team_spending import spent_between


def read_money(outside: Outside, days: Days) -> Metered | None:
    """Return what instances cost each namespace on some days; None where the accounts have none of them."""
    owners = by_namespace(policy_of(outside.policy.list_all()).teams)

    def team_of(namespace: str) -> str:
        return owners[namespace].name if namespace in owners else NOBODY

    now = outside.clock.now()
    return metered(
        days, spent_between(outside.accounts, days.first, days.last, now, team_of), now
    )
