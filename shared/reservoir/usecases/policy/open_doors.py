"""Rules that let more senders in than most deployments mean to: reported by ``deploy`` and ``doctor``."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reservoir.core.model.team import Team, by_namespace
from reservoir.manifests.kinds.team import is_unique_id

_NAMED_MAX: Final = 5  # of what a sentence names
_SENDS: Final = frozenset({"*", "sqs:*", "sqs:sendmessage"})


@dataclass(frozen=True, slots=True)
class OpenDoor:
    """One of them, and what to do about it."""

    message: str
    advice: str


def open_doors(
    teams: Collection[Team],
    in_use: Iterable[str],
    account_id: str,
    demand_policy: str | None,
) -> Iterator[OpenDoor]:
    """Yield the rules that let others in.

    ``in_use``: namespaces with work that runs or waits; ``demand_policy``: the policy of the demand queue.
    """
    yield from _namespaces(teams, in_use)
    for team in sorted(teams, key=lambda each: each.name):
        yield from _principals(team, account_id)
    outside = sorted(set(_senders(demand_policy, account_id)))
    if outside:
        yield OpenDoor(
            f"the demand queue takes messages of other accounts: {_some(outside)}",
            "give their namespaces to a Team, or take them out of the queue's policy",
        )


def _namespaces(teams: Collection[Team], in_use: Iterable[str]) -> Iterator[OpenDoor]:
    owned = by_namespace(teams)
    open_ = sorted({namespace for namespace in in_use if namespace not in owned})
    if len(open_) < 2:
        return
    which = f"all {len(open_)} namespaces" if not teams else f"{len(open_)} namespaces"
    whose = "there is no Team" if not teams else "they belong to no Team"
    yield OpenDoor(
        f"{whose}: any sender may withdraw the work of {which} ({_some(open_)})",
        "give namespaces to principals, see docs/teams.md",
    )


def _principals(team: Team, account_id: str) -> Iterator[OpenDoor]:
    others = sorted(
        each
        for each in team.principals
        if not is_unique_id(each) and each.split(":")[4] != account_id
    )
    if others:
        yield OpenDoor(
            f"Team/{team.name} names principals of other accounts: {_some(others)}",
            "make sure that they are meant; IAM of this account does not know them",
        )
    unnamed = sorted(each for each in team.principals if is_unique_id(each))
    if unnamed:
        yield OpenDoor(
            f"Team/{team.name} names principals by id, which may be of any account: {_some(unnamed)}",
            "make sure that they are meant; those of this account can be named by ARN",
        )


def _senders(policy: str | None, account_id: str) -> Iterator[str]:
    """Yield the principals of other accounts that a queue's policy lets send; those under a condition are left out."""
    for statement in json.loads(policy)["Statement"] if policy else ():
        if statement["Effect"] != "Allow" or statement.get("Condition"):
            continue
        actions = {each.lower() for each in _listed(statement.get("Action", []))}
        if not actions & _SENDS:
            continue
        for who in _listed(_aws(statement.get("Principal", {}))):
            if who == "*" or account_id not in (who, *who.split(":")[4:5]):
                yield who


def _aws(principal: Mapping[str, Any] | str) -> Any:
    return principal if isinstance(principal, str) else principal.get("AWS", [])


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _some(names: Collection[str]) -> str:
    more = len(names) - _NAMED_MAX
    return ", ".join(list(names)[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
