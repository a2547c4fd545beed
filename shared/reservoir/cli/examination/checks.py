"""All checks, and how they are made."""

from collections.abc import Mapping
from typing import Any, Final

from reservoir.cli.examination import account, deployment
from reservoir.cli.examination.finding import Check, Finding, Severity
from reservoir.cli.examination.permissions import permissions
from reservoir.cli.examination.quotas import quotas
from reservoir.cli.stack.connection import Connection

CHECKS: Final[Mapping[str, Check]] = {
    "tables": deployment.tables,
    "envelope": deployment.envelope,
    "policy": deployment.policy,
    "pools": deployment.pools,
    "reservations": deployment.reservations,
    "starts": deployment.starts,
    "dead-letters": deployment.dead_letters,
    "alarms": deployment.alarms,
    "schedules": deployment.schedules,
    "queues": deployment.queues,
    "versions": deployment.versions,
    "permissions": permissions,
    "quotas": quotas,
    "concurrency": account.concurrency,
    "trail": account.trail,
    "clock": account.clock,
    "spot-role": account.spot_role,
}


def examine(stack: Connection, refusals: tuple[type[Exception], ...]) -> list[Finding]:
    """Return the findings of all checks, the worst first.

    A check that meets one of ``refusals`` is skipped, and says so.
    """
    found: list[Finding] = []
    for name, check in CHECKS.items():
        try:
            found += check(stack)
        except refusals as error:
            found.append(
                Finding(
                    Severity.SKIPPED,
                    name,
                    f"not checked: {error}",
                    "use credentials that may read it",
                )
            )
    order: list[Any] = list(Severity)
    return sorted(
        found,
        key=lambda finding: (order.index(finding.severity), finding.check, finding.message),
    )
