"""The record function."""

from collections.abc import Sequence
from dataclasses import replace

from reservoir.core.model.team import Team
from reservoir.ports.policy import PolicyKind
from reservoir.runtime.composition.parts.outside import once, process_outside
from reservoir.runtime.outside import Outside
from reservoir.usecases.accounting.keep_accounts import KeepAccounts
from reservoir.usecases.accounting.publish_team_shares import PublishTeamShares
from reservoir.usecases.history.keep_events import KeepEvents
from reservoir.usecases.history.push_figures import PushFigures
from reservoir.usecases.history.take_sample import CountWhatIsThere, TakeSample
from reservoir.usecases.policy.policy_objects import policy_of


@once
def keep_events() -> KeepEvents:
    """Return what keeps events."""
    outside = process_outside()
    return KeepEvents(outside.history, outside.workloads)


@once
def keep_accounts() -> KeepAccounts:
    """Return what writes down what instances cost."""
    outside = process_outside()
    return KeepAccounts(
        outside.accounts, outside.node_claims, outside.policy, outside.clock
    )


@once
def publish_team_shares() -> PublishTeamShares:
    """Return the use case that publishes what teams use and spend."""
    outside = process_outside()
    return PublishTeamShares(
        outside.accounts,
        outside.policy,
        outside.reservations,
        outside.node_claims,
        outside.workloads,
        outside.publisher,
        outside.clock,
        outside.settings.ceiling,
    )


@once
def take_sample() -> TakeSample:
    """Return what counts and keeps what there is."""
    outside = process_outside()
    return take_sample_from(outside)


def take_sample_from(outside: Outside) -> TakeSample:
    """Wire what counts and keeps what there is."""

    def teams() -> Sequence[Team]:
        return policy_of(
            row for row in outside.policy.list_all() if row.kind is PolicyKind.TEAM
        ).teams

    return TakeSample(replace(count_from(outside), teams=teams), outside.history)


@once
def push_figures() -> PushFigures | None:
    """Return what pushes figures; None where the deployment names no receiver."""
    telemetry = process_outside().telemetry
    return None if telemetry is None else PushFigures(telemetry)


def publishes_metrics() -> bool:
    """Whether figures become metrics of CloudWatch too."""
    return process_outside().settings.publishes_metrics


def count_from(outside: Outside) -> CountWhatIsThere:
    """Wire what counts."""
    return CountWhatIsThere(
        outside.reservations,
        outside.node_claims,
        outside.workloads,
        outside.offerings,
        outside.clock,
    )
