"""Whether the reason of a refusal can be true at all: a reason names something, and that must exist."""

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Final

from reservoir.core.checking.final_state.facts import Facts
from reservoir.core.model.capacity_reservation import ACTIVE, CapacityReservation
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.plan import ReasonCode, UnplacedReplicas
from reservoir.core.model.policy import NoDurationPolicy
from reservoir.core.model.workload import Workload

_Test = Callable[[Facts, Workload], bool]


def _no_pool(facts: Facts, _: Workload) -> bool:
    return all(pool.is_static for pool in facts.snapshot.node_pools)


def _has_reservation(facts: Facts, _: Workload) -> bool:
    return any(item.state == ACTIVE for item in facts.snapshot.reservations)


def _is_upcoming(facts: Facts, _: Workload) -> bool:
    return any(item.is_upcoming(facts.now) for item in facts.snapshot.reservations)


def _has_too_little_time(facts: Facts, workload: Workload) -> bool:
    """Whether the work has, or must have, a duration that does not fit, or a reservation ends too soon for any."""
    asks = workload.duration_s is not None or workload.checkpoint_period_s is not None
    if asks or facts.policy.no_duration_policy is NoDurationPolicy.AVOID:
        return True
    return any(_takes_nothing(facts, item) for item in facts.snapshot.reservations)


def _takes_nothing(facts: Facts, reservation: CapacityReservation) -> bool:
    """Whether what a reservation launches would drain at once, now or when it begins."""
    if not reservation.is_upcoming(facts.now):
        return reservation.state == ACTIVE and not reservation.is_active(facts.now)
    drain_at, start_at = reservation.drain_at(), reservation.start_at
    return (
        drain_at is not None
        and start_at is not None
        and drain_at <= max(facts.now, start_at)
    )


def _has_later_fallback(facts: Facts, workload: Workload) -> bool:
    return any(
        step.capacity_type not in facts.markets(workload) for step in workload.fallback
    )


def _is_unavailable(facts: Facts, _: Workload) -> bool:
    statuses = [node_class.status for node_class in facts.snapshot.node_classes]
    if any(status.zones_full_until or status.resting_markets for status in statuses):
        return True
    if any(item.refusal is not None for item in facts.snapshot.reservations):
        return True
    offerings = chain.from_iterable(
        item.offerings for item in facts.snapshot.instance_types
    )
    return any(not offering.is_available(facts.now) for offering in offerings)


def _has_price(_: Facts, workload: Workload) -> bool:
    return workload.max_price_micro_usd_per_hour is not None


def _has_limits(facts: Facts, _: Workload) -> bool:
    return any(pool.limits is not None for pool in facts.snapshot.node_pools)


def _is_gang(_: Facts, workload: Workload) -> bool:
    return workload.gang is not None


def _class_not_ready(facts: Facts, _: Workload) -> bool:
    found = [facts.classes.get(pool.node_class_name) for pool in facts.snapshot.node_pools]
    return any(
        item is None
        or item.status.launch_blocked_reason is not None
        or not item.status.subnets
        or not item.status.machine_images
        for item in found
    )


def _has_quotas(facts: Facts, _: Workload) -> bool:
    return any(team.quotas or team.resource_quotas for team in facts.snapshot.teams)


def _is_paused(facts: Facts, _: Workload) -> bool:
    return any(pool.paused is not None for pool in facts.snapshot.node_pools)


def _has_budgets(facts: Facts, _: Workload) -> bool:
    has_ceiling = facts.snapshot.ceiling_micro_usd_per_hour is not None
    return has_ceiling or any(
        team.budget_micro_usd_per_hour is not None for team in facts.snapshot.teams
    )


def _has_min_values(facts: Facts, _: Workload) -> bool:
    requirements = chain.from_iterable(
        pool.requirements.values() for pool in facts.snapshot.node_pools
    )
    return any(requirement.min_values for requirement in requirements)


def _has_spot_share(facts: Facts, workload: Workload) -> bool:
    return (
        facts.policy.spot_pool_share_percent < 100
        and CapacityType.SPOT in facts.markets(workload)
    )


# Reasons without an entry are judged by whether the replicas could have been placed.
_CONDITIONS: Final[Mapping[ReasonCode, _Test]] = {
    ReasonCode.NO_NODE_POOL: _no_pool,
    ReasonCode.RESERVATION_FULL: _has_reservation,
    ReasonCode.TEAM_QUOTA: _has_quotas,
    ReasonCode.TEAM_BUDGET: _has_budgets,
    ReasonCode.RESERVATION_NOT_STARTED: _is_upcoming,
    ReasonCode.DURATION_DOES_NOT_FIT: _has_too_little_time,
    ReasonCode.FALLBACK_NOT_YET: _has_later_fallback,
    ReasonCode.OFFERING_UNAVAILABLE: _is_unavailable,
    ReasonCode.MAX_PRICE: _has_price,
    ReasonCode.LIMIT_EXCEEDED: _has_limits,
    ReasonCode.GANG_INCOMPLETE: _is_gang,
    ReasonCode.NODE_CLASS_NOT_READY: _class_not_ready,
    ReasonCode.NODE_POOL_PAUSED: _is_paused,
    ReasonCode.MIN_VALUES: _has_min_values,
    ReasonCode.SPOT_SHARE: _has_spot_share,
}


def reason_problem(
    facts: Facts, refusal: UnplacedReplicas, workload: Workload, *, is_bound: bool
) -> str | None:
    """Say why the reason cannot be true, or None."""
    if not refusal.message:
        return f"refused with {refusal.code} and no message"
    if refusal.earliest_at is not None and refusal.earliest_at <= facts.now:
        return f"could change at {refusal.earliest_at}, which is not in the future"
    if refusal.code is ReasonCode.TOPOLOGY:
        has_rule = is_bound or workload.single_topology_key is not None
        return (
            None if has_rule else "refused for topology, but no topology rule concerns it"
        )
    condition = _CONDITIONS.get(refusal.code)
    if condition is not None and not condition(facts, workload):
        return f"refused with {refusal.code}, for which nothing in the snapshot gives cause"
    return None
