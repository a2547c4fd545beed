"""The intake function."""

from reservoir.core.model.team import by_namespace
from reservoir.ports.policy import PolicyKind
from reservoir.runtime.composition.parts.draining import marking_from
from reservoir.runtime.composition.parts.outside import once, process_outside
from reservoir.runtime.outside import Outside
from reservoir.usecases.demand.authorise_demand import DemandRules
from reservoir.usecases.demand.describe import Describe
from reservoir.usecases.demand.intake import Intake
from reservoir.usecases.demand.reject_demand import RejectDemand
from reservoir.usecases.demand.sending_bounds import SendingBounds
from reservoir.usecases.policy.policy_objects import policy_of


@once
def intake() -> Intake:
    """Return the intake."""
    return intake_from(process_outside())


def intake_from(outside: Outside) -> Intake:
    """Wire the intake."""
    release = marking_from(outside).release
    bounds = SendingBounds(outside.demand_census, outside.clock)
    return Intake(
        outside.workloads, release, outside.queue, outside.publisher, outside.clock, bounds
    )


@once
def describe() -> Describe:
    """Return the use case that answers questions."""
    outside = process_outside()
    return Describe(outside.workloads, outside.node_claims, outside.publisher)


@once
def rejections() -> RejectDemand:
    """Return what handles messages that cannot be understood."""
    outside = process_outside()
    return RejectDemand(outside.dead_letters, outside.publisher, outside.demand_census)


def demand_rules() -> DemandRules:
    """Return the stored policy's rules about demand."""
    objects = process_outside().policy.list_all()
    teams = policy_of(item for item in objects if item.kind is PolicyKind.TEAM)
    return DemandRules(
        frozenset(item.name for item in objects if item.kind is PolicyKind.NODE_POOL),
        by_namespace(teams.teams),
        tuple(sorted(f"{kind}/{name}" for kind, name in teams.unreadable)),
    )
