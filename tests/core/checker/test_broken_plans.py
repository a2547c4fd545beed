"""Good plans, broken at random: whatever breaks a rule is found, and found alike however the plan is held in memory."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from lab.oracle.instances import Features, instance
from lab.oracle.world import (
    NOW,
    POLICY,
    Case,
    demand,
    found,
    launch,
    offering,
    pool,
    reservation,
    reserved,
    workload,
)
from lab.oracle.world import plan as plan_of
from lab.oracle.world import snapshot as world_of
from reservoir.core.checker import Violation, ViolationCode, check
from reservoir.core.model.plan import Plan, PlannedNodes
from reservoir.core.model.policy import MinValuesPolicy, NoDurationPolicy, SchedulingPolicy
from reservoir.core.model.snapshot import PlacedReplicas, Snapshot
from reservoir.core.model.team import Team
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.serialisation.json_codec import dumps, loads

_SEEDS = range(120)
_ALL = Features(
    topology=True,
    gangs=True,
    priorities=True,
    ladders=True,
    taints=True,
    limits=True,
    nodes=True,
)
Break = Callable[[Random, PlannedNodes], PlannedNodes]


def _one_node_more(_: Random, launch: PlannedNodes) -> PlannedNodes:
    return replace(launch, count=launch.count + 1)


def _one_replica_more(random: Random, launch: PlannedNodes) -> PlannedNodes:
    chosen = random.randrange(len(launch.placements))
    more = [
        replace(item, count=item.count + (at == chosen))
        for at, item in enumerate(launch.placements)
    ]
    return replace(launch, placements=tuple(more))


def _one_named_twice(random: Random, launch: PlannedNodes) -> PlannedNodes:
    return replace(
        launch, placements=(*launch.placements, random.choice(launch.placements))
    )


def _a_stranger(_: Random, launch: PlannedNodes) -> PlannedNodes:
    return replace(launch, placements=(*launch.placements, PlacedReplicas("ns/nobody", 1)))


def _far_too_many(_: Random, launch: PlannedNodes) -> PlannedNodes:
    return replace(
        launch,
        placements=tuple(
            replace(item, count=item.count * 1000) for item in launch.placements
        ),
    )


def _another_price(random: Random, launch: PlannedNodes) -> PlannedNodes:
    return replace(
        launch,
        price_atto_usd_per_hour=launch.price_atto_usd_per_hour + random.choice((-1, 1)),
    )


def _no_such_type(_: Random, launch: PlannedNodes) -> PlannedNodes:
    return replace(launch, offering=replace(launch.offering, instance_type="x9.large"))


def _no_such_zone(_: Random, launch: PlannedNodes) -> PlannedNodes:
    return replace(launch, offering=replace(launch.offering, zone="zone-9", zone_id="az9"))


def _no_such_pool(_: Random, launch: PlannedNodes) -> PlannedNodes:
    return replace(launch, node_pool_name="nobody's")


def _itself_among_alternatives(_: Random, launch: PlannedNodes) -> PlannedNodes:
    return replace(launch, alternatives=(*launch.alternatives, launch.offering))


BREAKS: dict[Break, set[ViolationCode]] = {
    _one_node_more: {ViolationCode.REPLICA_COUNT, ViolationCode.COST},
    _one_replica_more: {ViolationCode.REPLICA_COUNT},
    _one_named_twice: {ViolationCode.REPLICA_COUNT},
    _a_stranger: {ViolationCode.UNKNOWN_NAME},
    _far_too_many: {ViolationCode.RESOURCES, ViolationCode.REPLICA_COUNT},
    _another_price: {ViolationCode.COST},
    _no_such_type: {ViolationCode.UNKNOWN_NAME},
    _no_such_zone: set(),  # an offering that is not there, or a reservation elsewhere
    _no_such_pool: {ViolationCode.UNKNOWN_NAME},
    _itself_among_alternatives: {ViolationCode.ALTERNATIVE},
}


def decided(seed: int) -> tuple[Snapshot, SchedulingPolicy, Plan]:
    snapshot, random = instance(seed, _ALL), Random(seed)  # noqa: S311 - reproducible, not secret
    policy = replace(
        POLICY,
        no_duration_policy=random.choice(tuple(NoDurationPolicy)),
        min_values_policy=random.choice(tuple(MinValuesPolicy)),
        spot_pool_share_percent=random.choice((100, 40)),
    )
    return snapshot, policy, solve(snapshot, now=NOW, policy=policy)


def broken(random: Random, plan: Plan, how: Break) -> Plan:
    chosen = random.randrange(len(plan.launches))
    launches = [
        how(random, it) if at == chosen else it for at, it in enumerate(plan.launches)
    ]
    return replace(plan, launches=tuple(launches))


def checked(
    snapshot: Snapshot, policy: SchedulingPolicy, plan: Plan
) -> tuple[Violation, ...]:
    return check(snapshot, plan, now=NOW, policy=policy)


WORLDS = [world for world in map(decided, _SEEDS) if world[2].launches]


@pytest.mark.parametrize("how", BREAKS, ids=lambda how: how.__name__.strip("_"))
def test_what_is_broken_is_found(how: Break) -> None:
    for at, (snapshot, policy, plan) in enumerate(WORLDS):
        found = checked(snapshot, policy, broken(Random(at), plan, how))  # noqa: S311 - reproducible, not secret
        codes = {violation.code for violation in found}
        assert codes >= BREAKS[how], (at, found)
        assert any(violation.forbids_commit for violation in found), at


def test_what_is_found_does_not_depend_on_what_the_plan_shares_in_memory() -> None:
    """The checker knows lists, offerings and labels by identity; a plan that was read back shares none of them."""
    random = Random(1)  # noqa: S311 - reproducible, not secret
    for snapshot, policy, plan in WORLDS:
        worse = plan
        for how in random.sample(tuple(BREAKS), 2):
            worse = broken(random, worse, how)
        for one in (plan, worse):
            assert checked(snapshot, policy, loads(Plan, dumps(one))) == checked(
                snapshot, policy, one
            )


def test_equal_launches_are_judged_alike_wherever_they_stand() -> None:
    """Whoever comes first is looked at for all that are like it, and must not speak for those that are not."""
    random = Random(2)  # noqa: S311 - reproducible, not secret
    for snapshot, policy, plan in WORLDS:
        worse = broken(random, plan, random.choice(tuple(BREAKS)))
        turned = replace(worse, launches=worse.launches[::-1])
        told, told_of_turned = (
            sorted(
                (item.code, sorted(item.workload_keys))
                for item in checked(snapshot, policy, one)
            )
            for one in (worse, turned)
        )
        assert told == told_of_turned


def test_a_stranger_on_a_unit_of_a_pool_that_wants_variety_is_named() -> None:
    wanted = Requirement.new(labels.INSTANCE_TYPE, Operator.EXISTS, (), 2)
    world = world_of(
        demand(workload()), node_pools=(pool(wanted),), reservations=(reservation(),)
    )
    carrying_a_stranger = launch(reserved(), {"job": 1, "nobody": 1})

    assert ViolationCode.UNKNOWN_NAME in found(
        Case("", world, plan_of(carrying_a_stranger))
    )


def test_a_node_of_no_replicas_costs_no_budget_anything() -> None:
    team = Team("ours", namespaces=("ns",), budget_micro_usd_per_hour=1)
    of_none = launch(offering(), {"job": 0})

    assert ViolationCode.REPLICA_COUNT in found(
        Case("", world_of(demand(workload()), teams=(team,)), plan_of(of_none))
    )
