"""The checker beside the plain one, on random plans: good ones, and ones that a change of plan or world makes bad.

    python -m lab.oracle.agreement --plans 100000 --seed 1

Each small world is planned once. Then the plan is broken, or the world is changed under it, so that some workload,
pool, type, class or reservation no longer is what the plan takes it for, while those beside it still are. Whatever
forbids to commit such a plan must be found by both.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any

from lab.oracle.instances import Features, instance
from lab.oracle.plain_checker import broken_rules
from lab.oracle.world import GIB, NOW, ON_DEMAND, POLICY, RESERVED, SPOT
from reservoir.core.checker import ViolationCode, check
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.node_class import MarketRest
from reservoir.core.model.plan import ExistingPlacement, Plan, PlannedNodes
from reservoir.core.model.policy import MinValuesPolicy, NoDurationPolicy, SchedulingPolicy
from reservoir.core.model.snapshot import PlacedReplicas, Snapshot
from reservoir.core.model.team import Team
from reservoir.core.model.workload import (
    AffinityTerm,
    Demand,
    FallbackStep,
    Gang,
    LabelSelector,
    TopologySpreadConstraint,
)
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.scheduling_terms.taint import Taint

VARIANTS = 40  # plans of one world
_ALL = Features(
    topology=True,
    gangs=True,
    priorities=True,
    ladders=True,
    taints=True,
    limits=True,
    nodes=True,
)
_PLAIN = Features(limits=True, nodes=True)


@dataclass(frozen=True)
class Judged:
    """A plan in a world."""

    snapshot: Snapshot
    plan: Plan
    policy: SchedulingPolicy

    def rules_found(self) -> tuple[frozenset[ViolationCode], frozenset[ViolationCode]]:
        """Return what forbids the plan by the checker and by the plain one."""
        found = check(self.snapshot, self.plan, now=NOW, policy=self.policy)
        hard = frozenset(violation.code for violation in found if violation.forbids_commit)
        return hard, broken_rules(self.snapshot, self.plan, now=NOW, policy=self.policy)


Change = Callable[[Random, Judged], Judged]


def _any(
    random: Random, items: Sequence[Any], change: Callable[[Any], Any]
) -> tuple[Any, ...]:
    """Change one of the items."""
    chosen = random.randrange(len(items)) if items else -1
    return tuple([change(item) if at == chosen else item for at, item in enumerate(items)])


# -- the plan is another


def _launch(
    random: Random, it: Judged, change: Callable[[PlannedNodes], PlannedNodes]
) -> Judged:
    return replace(
        it, plan=replace(it.plan, launches=_any(random, it.plan.launches, change))
    )


def _more_of_one(
    random: Random, placements: tuple[PlacedReplicas, ...]
) -> tuple[PlacedReplicas, ...]:
    return _any(
        random,
        placements,
        lambda placed: replace(placed, count=placed.count + random.choice((-1, 1, 1000))),
    )


def _with_offering(launch: PlannedNodes, **changes: Any) -> PlannedNodes:
    return replace(launch, offering=replace(launch.offering, **changes))


def _to_another(random: Random, it: Judged, launch: PlannedNodes) -> PlannedNodes:
    """Launch on what another launch is on, or an alternative of it."""
    others = [
        other for each in it.plan.launches for other in (each.offering, *each.alternatives)
    ]
    return replace(launch, offering=random.choice(others))


def _onto_a_node(random: Random, it: Judged) -> Judged:
    """Put a launch's replicas onto a node that is there, or nowhere."""
    if not it.plan.launches:
        return it
    launch = random.choice(it.plan.launches)
    rest = tuple(each for each in it.plan.launches if each is not launch)
    name = random.choice([*(node.claim_id for node in it.snapshot.nodes), "nobody"])
    existing = (*it.plan.existing, ExistingPlacement(name, launch.placements))
    return replace(it, plan=replace(it.plan, launches=rest, existing=existing))


OF_PLANS: dict[str, Change] = {
    "a node more": lambda r, it: _launch(r, it, lambda x: replace(x, count=x.count + 1)),
    "no node": lambda r, it: _launch(r, it, lambda x: replace(x, count=0)),
    "other counts": lambda r, it: _launch(
        r, it, lambda x: replace(x, placements=_more_of_one(r, x.placements))
    ),
    "named twice": lambda r, it: _launch(
        r, it, lambda x: replace(x, placements=(*x.placements, *x.placements[:1]))
    ),
    "a stranger": lambda r, it: _launch(
        r,
        it,
        lambda x: replace(x, placements=(*x.placements, PlacedReplicas("ns/nobody", 1))),
    ),
    "another price": lambda r, it: _launch(
        r,
        it,
        lambda x: replace(
            x, price_atto_usd_per_hour=x.price_atto_usd_per_hour + r.choice((-1, 1))
        ),
    ),
    "another type": lambda r, it: _launch(
        r, it, lambda x: _with_offering(x, instance_type=r.choice(("x9", "t2", "t8")))
    ),
    "another zone": lambda r, it: _launch(
        r, it, lambda x: _with_offering(x, zone="zone-2", zone_id="az2")
    ),
    "another market": lambda r, it: _launch(
        r, it, lambda x: _with_offering(x, capacity_type=r.choice((SPOT, ON_DEMAND)))
    ),
    "another offering": lambda r, it: _launch(r, it, lambda x: _to_another(r, it, x)),
    "another pool": lambda r, it: _launch(
        r, it, lambda x: replace(x, node_pool_name=r.choice("abz"))
    ),
    "another class": lambda r, it: _launch(
        r, it, lambda x: replace(x, node_class_name="another")
    ),
    "fewer alternatives": lambda r, it: _launch(
        r, it, lambda x: replace(x, alternatives=x.alternatives[1:])
    ),
    "itself as an alternative": lambda r, it: _launch(
        r, it, lambda x: replace(x, alternatives=(*x.alternatives, x.offering))
    ),
    "another cost": lambda _, it: replace(
        it, plan=replace(it.plan, cost_atto_usd_per_hour=1)
    ),
    "onto a node": _onto_a_node,
}

# -- the world is another


def _world(it: Judged, **changes: Any) -> Judged:
    return replace(it, snapshot=replace(it.snapshot, **changes))


def _workload(random: Random, it: Judged, **changes: Any) -> Judged:
    def changed(demand: Demand) -> Demand:
        return replace(demand, workload=replace(demand.workload, **changes))

    return _world(it, demands=_any(random, it.snapshot.demands, changed))


def _pool(random: Random, it: Judged, **changes: Any) -> Judged:
    return _world(
        it,
        node_pools=_any(
            random, it.snapshot.node_pools, lambda pool: replace(pool, **changes)
        ),
    )


def _type(random: Random, it: Judged, **changes: Any) -> Judged:
    return _world(
        it,
        instance_types=_any(
            random, it.snapshot.instance_types, lambda item: replace(item, **changes)
        ),
    )


def _unit(random: Random, it: Judged, **changes: Any) -> Judged:
    return _world(
        it,
        reservations=_any(
            random, it.snapshot.reservations, lambda unit: replace(unit, **changes)
        ),
    )


def _node(random: Random, it: Judged, **changes: Any) -> Judged:
    return _world(
        it, nodes=_any(random, it.snapshot.nodes, lambda node: replace(node, **changes))
    )


def _class(it: Judged, **changes: Any) -> Judged:
    classes = [
        replace(each, status=replace(each.status, **changes))
        for each in it.snapshot.node_classes
    ]
    return _world(it, node_classes=tuple(classes))


def _running(random: Random, it: Judged) -> Judged:
    """Let something run on a node already, which rules about others may count."""
    old = replace(
        it.snapshot.demands[0].workload, name="old", labels={"app": random.choice("pq")}
    )
    workloads = {**it.snapshot.workloads, old.key: old}
    changed = _node(
        random, it, placements=(PlacedReplicas(old.key, random.choice((1, 2))),)
    )
    return _world(changed, workloads=workloads)


def _selector(random: Random) -> LabelSelector:
    return LabelSelector((("app", random.choice("pq")),))


def _by(random: Random) -> str:
    return random.choice((labels.HOSTNAME, labels.ZONE, labels.CAPACITY_TYPE, labels.ARCH))


def _ends(random: Random) -> dict[str, Any]:
    return {
        "kind": ReservationKind.CAPACITY_BLOCK,
        "end_at": NOW + timedelta(minutes=random.choice((30, 100, 101, 300))),
    }


def _drains(random: Random) -> dict[str, Any]:
    start = NOW + timedelta(minutes=random.choice((0, 30, 60)))
    leaves = random.choice(
        (None, start - timedelta(minutes=5), start + timedelta(minutes=5))
    )
    return {
        "drain_at": start,
        "drain_deadline": start + timedelta(minutes=8),
        "leaves_at": leaves,
    }


def _team(random: Random) -> tuple[Team, ...]:
    bounds = random.choice(
        (
            {"node_pools": ("a",)},
            {"node_pools": ("z",)},
            {"budget_micro_usd_per_hour": 150_000},
        )
    )
    return (Team("ours", namespaces=("ns",), **bounds),)


def _require(key: str, *values: str) -> Requirements:
    return Requirements.of(Requirement.new(key, Operator.IN, values))


OF_WORLDS: dict[str, Change] = {
    "requires another zone": lambda r, it: _workload(
        r, it, node_selector=_require(labels.ZONE, "zone-2")
    ),
    "requires another market": lambda r, it: _workload(
        r, it, required_node_terms=(_require(labels.CAPACITY_TYPE, "spot"),)
    ),
    "requires a label": lambda r, it: _workload(r, it, node_selector=_require("rack", "1")),
    "needs more": lambda r, it: _workload(
        r, it, requests=Resources.of({"cpu": 3000, "memory": 9 * GIB})
    ),
    "tolerates nothing": lambda r, it: _workload(r, it, tolerations=()),
    "a ladder": lambda r, it: _workload(
        r,
        it,
        fallback=(
            FallbackStep(r.choice((RESERVED, SPOT, ON_DEMAND)), 90),
            FallbackStep(SPOT),
        ),
    ),
    "a duration": lambda r, it: _workload(
        r, it, duration_s=r.choice((600, 3600, 9 * 3600))
    ),
    "a notice": lambda r, it: _workload(
        r, it, checkpoint_period_s=r.choice((300, 1200, 9 * 3600))
    ),
    "a price": lambda r, it: _workload(
        r, it, max_price_micro_usd_per_hour=r.choice((1, 200_000))
    ),
    "a gang": lambda r, it: _workload(
        r, it, gang=Gang(r.choice((None, labels.ZONE, labels.CAPACITY_TYPE)))
    ),
    "a spread": lambda r, it: _workload(
        r,
        it,
        topology_spread=(
            TopologySpreadConstraint(
                _by(r),
                1,
                _selector(r),
                min_domains=r.choice((None, 3)),
                node_affinity_policy_honor=r.random() < 0.5,
                node_taints_policy_honor=r.random() < 0.5,
                match_label_keys=r.choice(((), ("app",))),
            ),
        ),
    ),
    "an affinity": lambda r, it: _workload(
        r, it, affinity=(AffinityTerm(_by(r), _selector(r)),)
    ),
    "an anti-affinity": lambda r, it: _workload(
        r, it, anti_affinity=(AffinityTerm(_by(r), _selector(r)),)
    ),
    "another namespace": lambda r, it: _workload(r, it, namespace="other"),
    "other labels": lambda r, it: _workload(r, it, labels={"app": r.choice("pq")}),
    "something runs": _running,
    "a taint": lambda r, it: _pool(r, it, taints=(Taint("new"),)),
    "a start-up taint": lambda r, it: _pool(
        r, it, startup_taints=(Taint("dedicated", "yes"),)
    ),
    "a limit": lambda r, it: _pool(
        r, it, limits=Resources.of(r.choice(({"cpu": 4000}, {"nodes": 1})))
    ),
    "a static pool": lambda r, it: _pool(r, it, replicas=1),
    "a choosy pool": lambda r, it: _pool(
        r, it, requirements=_require(labels.ZONE, "zone-1")
    ),
    "variety": lambda r, it: _pool(
        r,
        it,
        requirements=Requirements.of(
            Requirement.new(labels.INSTANCE_TYPE, Operator.EXISTS, (), r.choice((1, 2, 3)))
        ),
    ),
    "smaller types": lambda r, it: _type(r, it, overhead=Resources.of({"cpu": 1000})),
    "nothing sold": lambda r, it: _type(r, it, offerings=()),
    "a type rests": lambda r, it: _world(
        it,
        instance_types=_any(
            r,
            it.snapshot.instance_types,
            lambda item: replace(
                item,
                offerings=_any(
                    r,
                    item.offerings,
                    lambda x: replace(x, unavailable_until=NOW + timedelta(hours=1)),
                ),
            ),
        ),
    ),
    "a unit fewer": lambda r, it: _unit(r, it, free_units=0),
    "an end": lambda r, it: _unit(r, it, **_ends(r)),
    "another state": lambda r, it: _unit(r, it, state="expired"),
    "an end of a node": lambda r, it: _node(r, it, **_drains(r)),
    "a full node": lambda r, it: _node(r, it, allocatable=Resources.of({"cpu": 1000})),
    "a tainted node": lambda r, it: _node(
        r, it, taints=(Taint("dedicated", "yes"),), initialized=r.random() < 0.5
    ),
    "a node that goes": lambda r, it: _node(r, it, deleting=True),
    "a blocked class": lambda _, it: _class(it, launch_blocked_reason="why"),
    "a full zone": lambda _, it: _class(
        it, zones_full_until={"az1": NOW + timedelta(hours=1)}
    ),
    "a market that rests": lambda r, it: _class(
        it,
        resting_markets={
            r.choice(("spot", "on-demand")): MarketRest("why", NOW + timedelta(hours=1))
        },
    ),
    "no reservation selected": lambda _, it: _class(it, reservation_ids=()),
    "teams": lambda r, it: _world(it, teams=_team(r)),
    "a ceiling": lambda r, it: _world(
        it, ceiling_micro_usd_per_hour=r.choice((1, 200_000))
    ),
    "another policy": lambda r, it: replace(
        it,
        policy=replace(
            it.policy,
            no_duration_policy=NoDurationPolicy.AVOID,
            min_values_policy=r.choice(tuple(MinValuesPolicy)),
            spot_pool_share_percent=50,
            spot_share_from_nodes=2,
            alternatives_max=r.choice((0, 1, 60)),
        ),
    ),
}
CHANGES = {**OF_PLANS, **OF_WORLDS}


def planned(seed: int) -> Judged:
    """Return a small world with its plan."""
    random = Random(seed)  # noqa: S311 - reproducible, not secret
    it = Judged(instance(seed, random.choice((_ALL, _ALL, _PLAIN))), Plan(), POLICY)
    if random.random() < 0.4:
        it = _unit(random, it, **_ends(random))
        it = _workload(
            random, it, duration_s=600, checkpoint_period_s=random.choice((None, 300, 1200))
        )
    if random.random() < 0.3 and it.snapshot.nodes:
        it = _running(random, it)
    return replace(it, plan=solve(it.snapshot, now=NOW, policy=it.policy))


def variants(seed: int, count: int = VARIANTS) -> Iterator[tuple[str, Judged]]:
    """Yield the good plan, and plans that one or two changes may have made bad, with what was changed."""
    whole, random = planned(seed), Random(seed)  # noqa: S311 - reproducible, not secret
    yield "nothing", whole
    for _ in range(count - 1):
        names = random.sample(tuple(CHANGES), random.choice((1, 1, 2)))
        it = whole
        for name in names:
            it = CHANGES[name](random, it)
        yield " and ".join(names), it


def disagreement(it: Judged) -> str | None:
    """Say how the two differ, or None.

    Of a plan that names what is not there, or launches no node, only the verdict counts: what is wrong beside that may
    be left out.
    """
    fast, plain = it.rules_found()
    names_nothing = ViolationCode.UNKNOWN_NAME in fast & plain
    launches_nothing = (
        any(launch.count < 1 for launch in it.plan.launches) and bool(fast) and bool(plain)
    )
    if fast == plain or names_nothing or launches_nothing:
        return None
    return f"the checker finds {sorted(fast - plain)} more, the plain one {sorted(plain - fast)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare them, and print what each rule was broken how often."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    broken, failed, good = Counter[str](), 0, 0
    for seed in range(chosen.seed, chosen.seed + -(-chosen.plans // VARIANTS)):
        for changed, it in variants(seed):
            problem = disagreement(it)
            if problem is not None:
                failed += 1
                print(f"seed {seed}, {changed}: {problem}")
            rules = it.rules_found()[1]
            good += not rules
            broken.update(map(str, rules))
    print(f"{chosen.plans} plans, {good} good, {failed} on which they differ")
    print(", ".join(f"{name} {count}" for name, count in sorted(broken.items())))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
