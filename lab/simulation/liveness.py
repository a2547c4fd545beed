"""What must come about when mishaps stop, and how quiet it must be then."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

from lab.simulation.invariants.base import Violation
from lab.simulation.kernel import HOUR, MINUTE
from lab.simulation.people.teams import spent_atto_usd
from lab.simulation.people.users import Wanted
from lab.simulation.process import SETTINGS
from lab.simulation.world import World
from reservoir.core.capacity.unavailable_offerings import NodeClassKey
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState, DrainReason, NodeClaim
from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.team import by_namespace
from reservoir.core.scheduling_terms.labels import CAPACITY_TYPE
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.core.static_pools.census import census
from reservoir.core.static_pools.units import ReservedCapacity
from reservoir.core.warm_nodes.wanted import WarmWishes
from reservoir.names import Function
from reservoir.ports.state import WorkloadRecord
from reservoir.usecases.policy.policy_objects import policy_of

# An offering that was short rests for up to an hour, and so does a class; everything else comes within minutes.
SETTLED_WITHIN: Final = 100 * MINUTE
QUIET_FOR: Final = 3 * MINUTE
# Schedules alone make some thirty calls a minute: sweeps, discovery, disruption, and the collector's every fifth.
CALLS_PER_HOUR_MAX: Final = 3600
# What a mishap left goes on for long: an instance that never runs for 15 minutes, a block until it has ended.
_WINDOWS: Final = SETTLED_WITHIN // QUIET_FOR
# From the end of a node that is too old until what came in its place runs, and is told.
_RENEWED_WITHIN: Final = timedelta(minutes=3)
# They run because something has happened, not because a schedule asks.
_ON_EVENTS: Final = frozenset(
    {Function.INTAKE, Function.LAUNCH, Function.REACT, Function.FOLLOW}
)
# A pass waits two seconds for a burst and two for its indexes, and one may run when another is asked for.
_AT_ONCE: Final = timedelta(seconds=30)
_STEADY: Final = frozenset({ClaimState.LAUNCHED, ClaimState.RUNNING})


def unsettled(world: World) -> Iterator[str]:
    """Yield what is still to come about."""
    for key, wanted in world.users.wanted.items():
        record = world.state.workload_rows.get(key)
        if (
            record is None
            or record.generation < wanted.generation
            or record.withdrawn != wanted.withdrawn
        ):
            yield f"demand for {key} is not as its users want it: {record}"
        elif record.surplus_count:
            yield f"{key} has {record.surplus_count} replicas too many"
        elif (
            record.surge_count
            and not record.pending_count
            and not _waits_for_neighbour(world, key)
        ):
            # else the surge itself waits, which is judged below as any demand that does
            yield f"{key} is being updated still: {record.rollout}"
        elif (
            record.pending_count
            and not wanted.reserved_only
            and not world.limits
            and not _waits_for_budget(world, wanted, record)
        ):
            yield f"{key} has {record.pending_count} replicas waiting: {[str(u.code) for u in record.unplaced]}"
    missing = world.events_out.count - world.kept_count() if world.keeps_history else 0
    if missing:
        yield f"{missing} events are not in the history"
    yield from _nodes(world)
    yield from _standing(world)
    yield from _warm(world)
    yield from _lent(world)
    for stored in world.state.reservation_rows.values():
        if stored.balance.outstanding_count:
            yield f"{stored.reservation.id} has {stored.balance.outstanding_count} open leases"


def _waits_for_neighbour(world: World, key: str) -> bool:
    """Whether another workload on one of its nodes is updated too, and has fewer replicas than it may be without."""
    for claim in world.state.claim_rows.values():
        keys = {placed.workload_key for placed in claim.placements}
        if key not in keys:
            continue
        for neighbour in keys - {key}:
            record = world.state.workload_rows.get(neighbour)
            if record is not None and record.rollout is not None and record.pending_count:
                return True
    return False


def _waits_for_budget(world: World, wanted: Wanted, record: WorkloadRecord) -> bool:
    """Whether its team's budget leaves too little: for all that wait of a gang, else for a node for one replica."""
    team = by_namespace(world.teams).get(wanted.namespace)
    if team is None or team.budget_micro_usd_per_hour is None:
        return False
    count = record.pending_count if "gang" in wanted.spec else 1
    spent = spent_atto_usd(world.state.claim_rows.values(), team)
    needed = world.price_micro_usd(wanted, count) * ATTO_USD_PER_MICRO_USD
    return spent + needed > team.budget_micro_usd_per_hour * ATTO_USD_PER_MICRO_USD


def _standing(world: World) -> Iterator[str]:
    """Yield what a static pool has too few or too many of; of what EC2 has none of, it may have fewer.

    A gang, or what says do-not-disrupt, keeps a node that is too many for as long as it likes.
    """
    policy = policy_of(world.policy.list_all())
    reservations = [record.reservation for record in world.state.reservation_rows.values()]
    reserved = ReservedCapacity.of(
        reservations, policy.node_classes, None, world.kernel.now()
    )
    live = {key: claim for key, claim in world.state.claim_rows.items() if claim.is_live}
    for pool in policy.node_pools:
        if pool.is_static:
            found = census(pool, live, reserved)
            can_buy = pool.requirements[CAPACITY_TYPE].has(CapacityType.ON_DEMAND)
            surplus = chain.from_iterable(each.claim_ids for each in found.surplus)
            empty = any(not live[claim_id].placements for claim_id in surplus)
            if empty or (found.missing and (can_buy or pool.all_reserved)):
                yield f"{pool.name} has too few or too many nodes: {found}"


def _warm(world: World) -> Iterator[str]:
    """Yield what a pool has too few or too many warm nodes of."""
    policy = policy_of(world.policy.list_all())
    reservations = [record.reservation for record in world.state.reservation_rows.values()]
    reserved = ReservedCapacity.of(
        reservations, policy.node_classes, None, world.kernel.now()
    )
    live = {key: claim for key, claim in world.state.claim_rows.items() if claim.is_live}
    wishes = WarmWishes(policy.node_pools, live, reserved, SETTINGS.account_id)
    for pool in policy.node_pools:
        found = wishes.of(pool)
        if found.missing_count or found.surplus:
            yield f"{pool.name} has too few or too many warm nodes: {found}"


def _lent(world: World) -> Iterator[str]:
    """Yield units that are on their way still, and work that waits for units of a reservation that lends some."""
    for source in world.ec2.reservations.values():
        lent = source.lent
        if lent is None:
            continue
        if lent.is_changing:
            yield f"{source.id} lends {lent.count} units, and {lent.target_count} are wanted"
        if not lent.target_count:
            continue
        full = f"of {source.id} has no free unit"
        for key, record in world.state.workload_rows.items():
            if any(full in each.message for each in record.unplaced):
                yield f"{key} waits for units of {source.id}, which lends {lent}"


def _nodes(world: World) -> Iterator[str]:
    claims = {
        claim.instance_id: claim
        for claim in world.state.claim_rows.values()
        if claim.is_live
    }
    for claim in claims.values():
        if claim.state not in _STEADY and not _is_renewed(claim):
            yield f"{claim.id} is {claim.state}"
        instance = world.instance(claim.instance_id)
        if instance is None or instance.is_gone:
            yield f"{claim.id} is {claim.state} and its instance {claim.instance_id} is gone"
    for instance in world.ec2.live():
        if (
            instance.owner is not None
            and instance.id not in claims
            and not world.is_forgotten(instance)
        ):
            yield f"{instance.id} has no claim"


def _is_renewed(claim: NodeClaim) -> bool:
    """Whether it drains for its age: a fleet whose nodes expire never ends to renew itself."""
    return claim.drain is not None and claim.drain.reason is DrainReason.EXPIRED


def settle(world: World) -> None:
    """Let mishaps stop and see everything come about."""
    world.calm()
    began = world.kernel.now_us
    left = ["not looked yet"]
    while left:
        if world.kernel.now_us - began > SETTLED_WITHIN:
            raise Violation(
                "EverythingComesAbout",
                f"{SETTLED_WITHIN // MINUTE} minutes after the last mishap {left[0]}",
            )
        _pass(world, MINUTE)
        left = list(unsettled(world))


def stay_quiet(world: World) -> None:
    """See that nothing is done but what schedules ask for, sooner or later.

    Windows in which nodes are renewed for their age say nothing: a large fleet renews one in each, and that is work.
    """
    loud: list[str] = []
    for _ in range(_WINDOWS):
        before, since = Counter(world.lambdas.calls), world.kernel.now() - _RENEWED_WITHIN
        _pass(world, QUIET_FOR)
        made = Counter(world.lambdas.calls)
        made.subtract(before)
        count = sum(made.values())
        busy = any(
            number and function in _ON_EVENTS for (function, _), number in made.items()
        )
        if not busy and count * HOUR // QUIET_FOR <= CALLS_PER_HOUR_MAX:
            return
        if not _renews(world, since):
            most = ", ".join(
                f"{number} {place[0]} {place[1]}" for place, number in made.most_common(5)
            )
            loud.append(
                f"{count} calls in {QUIET_FOR // MINUTE} idle minutes, most of them {most}"
            )
    if len(loud) > _WINDOWS // 2:
        raise Violation("IdlenessIsQuiet", loud[-1])


def _renews(world: World, since: datetime) -> bool:
    """Whether a node went for its age since then, or is about to."""
    old = filter(_is_renewed, world.state.claim_rows.values())
    return any(claim.terminated_at is None or claim.terminated_at > since for claim in old)


def heed_wake_ups(world: World) -> None:
    """See that what is wanted now is planned at once, and not when the minute's schedule looks.

    A pass that came and had too little time leaves the rest to the schedule, by which it has to come about.
    """
    if world.limits:
        return  # it may have to wait
    _await_classes(world)
    world.stop_planning_schedule()
    wanted = world.users.want_one_more()
    _pass(world, MINUTE)
    record = world.state.workload_rows.get(wanted.key)
    if record is not None and _ran_out_of_time(record):
        world.go_on_planning()
        settle(world)
        return
    if record is None or (record.pending_count and not _waits_only_now(world, record)):
        raise Violation(
            "WakeUpsAreNeverLost", f"{wanted.key} has waited for a minute: {record}"
        )


def _await_classes(world: World) -> None:
    """Let every class launch again: nothing can be planned while the only one rests after a refusal."""
    began = world.kernel.now_us
    while resting := sorted(_resting_classes(world)):
        if world.kernel.now_us - began > SETTLED_WITHIN:
            raise Violation(
                "EverythingComesAbout",
                f"{resting[0]} launches nothing {SETTLED_WITHIN // MINUTE} minutes on",
            )
        _pass(world, MINUTE)


def _resting_classes(world: World) -> Iterator[str]:
    for stored in world.policy.list_all():
        if stored.status.node_class.launch_blocked_reason is not None:
            yield stored.name
    for place in world.state.offerings.list_unavailable(world.kernel.now()):
        if isinstance(place, NodeClassKey):
            yield place.name


def _ran_out_of_time(record: WorkloadRecord) -> bool:
    return any(each.code is ReasonCode.OUT_OF_TIME for each in record.unplaced)


def _waits_only_now(world: World, record: WorkloadRecord) -> bool:
    """Whether it was planned, and its node has just been ended for its age, say."""
    return (
        record.pending_since is not None
        and world.kernel.now() - record.pending_since < _AT_ONCE
    )


def _pass(world: World, us: int) -> None:
    until = world.kernel.now_us + us
    while world.kernel.now_us < until:
        world.kernel.step()
