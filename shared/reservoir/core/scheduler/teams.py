"""Solve for all teams: no team's plan exceeds what it owns, may borrow or may spend.

From the top: `solve` takes up what a pass can look at and keeps passes going when time is short, `_solve_within_limits`
holds teams to quotas of resources and budgets, `_solve_with_shared_units` shares out the units that teams own. Each of
them asks the next for a plan and examines it; `placement.place`, which knows no teams, makes the plan.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from reservoir.core.model.plan import Plan, ReasonCode, UnplacedReplicas
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import Demand
from reservoir.core.scheduler.part_of_demand import with_zones_kept
from reservoir.core.scheduler.placement import place
from reservoir.core.scheduler.taking_up import taken_up
from reservoir.core.sharing.apportionment import Apportionment, is_shared, waiting_count
from reservoir.core.sharing.budgets import has_budgets, within_budgets
from reservoir.core.sharing.pools import within_pools
from reservoir.core.sharing.resource_pools import exceeds_quotas, has_resource_quotas
from reservoir.core.sharing.resource_shares import ResourceShares, leaves_idle, settled

# How often the units that a solve left of the teams' shares are shared out again.
_SHARING_ROUNDS_MAX = 3
# A team that is held to a budget or a quota leaves capacity to others, which may then exceed theirs, so the demand is
# solved again. Each solve stops early enough for the next one: a plan that exceeds a limit cannot be committed.
_FIRST_SOLVE_UNTIL_PERCENT = 40
_LATER_SOLVES_UNTIL_PERCENT = (60, 80, 100)
# In each second minute one workload for which time was short may have all of it, if it uses more than passes leave for
# one.
_MINUTES_A_WHOLE_PASS = 2
# Where all of the demand is too much for any pass, one workload is served in what this leaves of the time; or in a
# little time of its own, if there was not even time to begin.
_ALL_UNTIL_PERCENT = 80
_ONE_AT_LEAST_PERCENT = 10


def solve(snapshot: Snapshot, *, now: datetime, policy: SchedulingPolicy) -> Plan:
    """Return a complete plan for the snapshot's demand.

    Pure and deterministic: the same arguments give the same plan, byte for byte, under any hash seed, as long as
    ``policy.expired`` answers the same. ``now`` is aware UTC.
    """
    if (alone := _whole_pass_for_one(snapshot, now, policy)) is not None:
        return alone
    taken = taken_up(snapshot, now)
    # A bound for a part of the demand would say nothing of all of it.
    with_certificate = policy.with_certificate and not taken.left
    plan = _solve_within_limits(
        taken.snapshot,
        now,
        replace(policy.until(_ALL_UNTIL_PERCENT), with_certificate=with_certificate),
    )
    if taken.left:
        plan = _beside_others(plan, taken.unplaced(), policy)
    if _is_stuck(plan):
        return _serve_one_workload(snapshot, plan, now, policy)
    return plan


# Branches: whether it is anybody's turn, whose, and whether it was needed.
def _whole_pass_for_one(
    snapshot: Snapshot, now: datetime, policy: SchedulingPolicy
) -> Plan | None:
    """Plan for one late workload alone, if none is new; None: all should be planned for in the remaining time.

    A workload that comes after all others has a fifth of a pass; a gang that needs more would never be placed.
    """
    used_percent = policy.used_percent
    minute = int(now.timestamp()) // 60
    if (
        used_percent is None
        or minute % _MINUTES_A_WHOLE_PASS
        or not _waits_for_time(snapshot)
    ):
        return None
    late = sorted([each for each in snapshot.demands if each.was_late], key=_urgency)
    chosen = late[minute // _MINUTES_A_WHOLE_PASS % len(late)]
    plan = _alone(snapshot, chosen, now, policy)
    is_placed = bool(plan.launches or plan.existing)
    if not is_placed or used_percent() < 100 - _ALL_UNTIL_PERCENT:
        return None
    message = f"not looked at: {chosen.workload.key} needed this pass for itself"
    others = [
        UnplacedReplicas(
            each.workload.key, each.pending_count, ReasonCode.OUT_OF_TIME, message
        )
        for each in snapshot.demands
        if each is not chosen
    ]
    return _beside_others(plan, others, policy)


def _waits_for_time(snapshot: Snapshot) -> bool:
    """Whether time was short for some workloads, and none is new: new ones are considered with all others first."""
    looks = [each.was_late for each in snapshot.demands]
    return True in looks and None not in looks


def _is_stuck(plan: Plan) -> bool:
    """Whether time ended before anything was placed: the next pass would meet the same deadline at the same step."""
    is_late = any(item.code is ReasonCode.OUT_OF_TIME for item in plan.unplaced)
    return is_late and not (plan.launches or plan.existing)


def _serve_one_workload(
    snapshot: Snapshot, plan: Plan, now: datetime, policy: SchedulingPolicy
) -> Plan:
    """Plan for one workload as if no other waited, in the time that is left; the others wait as in ``plan``.

    Workloads take turns by the minute: one that is too large for any pass, or fits nowhere, delays the others little.
    """
    in_order = sorted(snapshot.demands, key=_urgency)
    minute = int(now.timestamp()) // 60
    chosen = in_order[minute % len(in_order)]
    alone = _alone(snapshot, chosen, now, _rest(policy))
    waiting = [item for item in plan.unplaced if item.workload_key != chosen.workload.key]
    return _beside_others(alone, waiting, policy)


def _alone(
    snapshot: Snapshot, chosen: Demand, now: datetime, policy: SchedulingPolicy
) -> Plan:
    """Plan for one; a bound for it would say nothing of the demand, and the time is for placing it."""
    return _solve_within_limits(
        replace(snapshot, demands=(chosen,)), now, replace(policy, with_certificate=False)
    )


def _beside_others(
    plan: Plan, waiting: Iterable[UnplacedReplicas], policy: SchedulingPolicy
) -> Plan:
    """Add the workloads that a plan did not consider; it keeps any rules that they may have about its nodes."""
    late = ("no certificate: out of time",) if policy.with_certificate else ()
    return replace(
        with_zones_kept(plan),
        unplaced=(*plan.unplaced, *waiting),
        notes=(*plan.notes, *late),
    )


def _rest(policy: SchedulingPolicy) -> SchedulingPolicy:
    """Return the policy of the last part of a pass; without a measure of the time, its deadline is ignored."""
    if policy.used_percent is None:
        return policy.without_deadline()
    return policy.until(max(100, policy.used_percent() + _ONE_AT_LEAST_PERCENT))


def _urgency(demand: Demand) -> tuple[int, datetime, str]:
    return -demand.workload.priority, demand.pending_since, demand.workload.key


# Branches: which demand the next solve is given depends on all that the last one exceeded.
def _solve_within_limits(
    snapshot: Snapshot, now: datetime, policy: SchedulingPolicy
) -> Plan:
    """Solve, and solve again with less demand, until no team exceeds its quotas of resources or its budget."""
    snapshot = within_pools(snapshot)
    if not (has_budgets(snapshot) or has_resource_quotas(snapshot)):
        return _solve_with_shared_units(snapshot, now, policy)
    plan = _solve_with_shared_units(snapshot, now, policy.until(_FIRST_SOLVE_UNTIL_PERCENT))
    quota_shares: ResourceShares | None = None
    for until_percent in _LATER_SOLVES_UNTIL_PERCENT:
        breaks_quotas = quota_shares is None and exceeds_quotas(snapshot, plan)
        # Demand beyond a quota will not run, so it is not charged: budgets are held to a plan that keeps quotas.
        within_budget = None if breaks_quotas else within_budgets(snapshot, plan)
        must_change = breaks_quotas or within_budget is not None
        shares_quotas_out = (
            must_change if quota_shares is None else leaves_idle(snapshot, plan)
        )
        if not (must_change or shares_quotas_out):
            break
        if shares_quotas_out:
            quota_shares = ResourceShares(snapshot, plan, now)
        if within_budget is not None:
            snapshot = within_budget
        held = snapshot if quota_shares is None else quota_shares.within(snapshot)
        found = _solve_with_shared_units(held, now, policy.until(until_percent))
        if not must_change and waiting_count(found) >= waiting_count(plan):
            break
        plan = found
    return settled(snapshot, plan) if has_resource_quotas(snapshot) else plan


def _solve_with_shared_units(
    snapshot: Snapshot, now: datetime, policy: SchedulingPolicy
) -> Plan:
    """Show each team its own share of the units; what a plan leaves of the shares is shared out again."""
    if not is_shared(snapshot):
        return place(snapshot, now, policy)
    apportionment = Apportionment(snapshot, now)
    best = place(apportionment.shares(), now, policy)
    for _ in range(_SHARING_ROUNDS_MAX - 1):
        if not best.unplaced or policy.expired() or not apportionment.again(best):
            break
        plan = place(apportionment.shares(), now, policy)
        if waiting_count(plan) >= waiting_count(best):
            break
        best = plan
    return best
