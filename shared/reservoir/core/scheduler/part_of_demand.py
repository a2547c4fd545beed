"""Plans for a part of the demand, where time did not last for all of it."""

from collections.abc import Iterable
from dataclasses import replace

from reservoir.core.model.plan import Plan, PlannedNodes, ReasonCode, UnplacedReplicas
from reservoir.core.model.workload import Demand

_NOT_READ = "not looked at: the time of the pass did not last for all of the demand"


def without_unread(plan: Plan, unread: Iterable[Demand]) -> Plan:
    """Return a plan with unread demand added as waiting."""
    waiting = [
        UnplacedReplicas(
            demand.workload.key, demand.pending_count, ReasonCode.OUT_OF_TIME, _NOT_READ
        )
        for demand in unread
    ]
    plan = with_zones_kept(plan)
    return replace(plan, unplaced=(*plan.unplaced, *waiting))


def with_zones_kept(plan: Plan) -> Plan:
    """Leave out alternatives in other zones: workloads that were not considered may have rules about the zone."""
    return replace(plan, launches=tuple([_in_its_zone(each) for each in plan.launches]))


def _in_its_zone(launch: PlannedNodes) -> PlannedNodes:
    near = [key for key in launch.alternatives if key.zone_id == launch.offering.zone_id]
    return replace(launch, alternatives=tuple(near))
