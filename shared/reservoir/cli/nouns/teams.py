"""Teams."""

from collections.abc import Callable
from datetime import datetime
from itertools import chain
from typing import Final

from reservoir.cli.nouns import policy_rows
from reservoir.cli.nouns.noun import Noun, Selector
from reservoir.cli.nouns.policy_rows import Row
from reservoir.cli.output import Column, Listing
from reservoir.ports.policy import PolicyKind


def _principals(row: Row) -> str:
    count = len(row["spec"].get("principals") or ())
    return str(count) if count else "anybody"


def _units(name: str) -> Callable[[Row], str]:
    """Return what adds units up over the team's quotas."""

    def total(row: Row) -> str:
        quotas = row["status"]["quotas"]
        return str(sum(quota[name] for quota in quotas)) if quotas else "-"

    return total


def _borrowers(row: Row) -> str:
    """Return the teams that use units of others in the groups in which the team has lent."""
    lenders = [quota for quota in row["status"]["quotas"] if quota["lentUnits"]]
    borrowers = chain.from_iterable(quota.get("borrowers", ()) for quota in lenders)
    names = {each["team"] or "nobody" for each in borrowers}
    return ", ".join(sorted(names)) or "-"


def _back_at(row: Row) -> str:
    """Return when the first of what the team has lent should come back."""
    quotas = [*row["status"]["quotas"], *row["status"].get("resourceQuotas", ())]
    return min((quota["backAt"] for quota in quotas if "backAt" in quota), default="-")


def _resources(row: Row) -> str:
    """Return what the team requests of each resource that it has a quota of."""
    amounts = (
        f"{quota['used']}/{quota['nominal']} {quota['resource']} ({', '.join(quota['capacityTypes'])})"
        for quota in row["status"].get("resourceQuotas", ())
    )
    return "; ".join(amounts) or "-"


def _listing(now: datetime) -> Listing[Row]:
    del now
    return Listing(
        (
            Column("NAME", lambda row: row["metadata"]["name"]),
            Column(
                "READY", policy_rows.ready, gives_way=True, style=policy_rows.ready_style
            ),
            Column(
                "NAMESPACES",
                lambda row: ", ".join(row["spec"]["namespaces"]),
                gives_way=True,
            ),
            Column("PRINCIPALS", _principals, leaves=1),
            Column("OWNED", _units("nominalUnits")),
            Column("USED", _units("usedUnits")),
            Column("BORROWED", _units("borrowedUnits"), leaves=5),
            Column("LENT", _units("lentUnits"), leaves=4),
            Column("LENT TO", _borrowers, gives_way=True, leaves=7),
            Column("BACK AT", _back_at, leaves=2),
            Column("RESOURCES", _resources, gives_way=True, leaves=6),
            Column(
                "SPENT",
                lambda row: str(row["status"].get("spending", {}).get("spent", "-")),
            ),
            Column(
                "FORECAST",
                lambda row: str(row["status"].get("spending", {}).get("forecast", "-")),
                leaves=3,
            ),
        ),
        lambda row: f"team/{row['metadata']['name']}",
        lambda row: row,
    )


NOUN: Final = Noun(
    "teams",
    "team",
    frozenset({Selector.LABEL, Selector.STATE}),
    policy_rows.reader(PolicyKind.TEAM),
    policy_rows.facts,
    _listing,
    states=(policy_rows.READY, policy_rows.NOT_READY),
)
