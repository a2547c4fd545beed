"""The solver against every possible plan, on small worlds.

What a greedy plan may differ in from the best one is exactly this:

* among plans of which none places more of a workload without placing fewer of another of the same or a higher
  priority, it may pick any;
* where replicas went first may leave no domain for a workload that topology rules concern (Kubernetes has the same
  effect of order), but never when there is still a place for it as things are, and very rarely;
* it may cost more than the least cost for what it places.

How often, and how much, is measured by ``make bench ONLY=brute_force``.
"""

from collections.abc import Mapping
from functools import cache
from itertools import product

import pytest

from lab.oracle.brute_force import BruteForce, Counts
from lab.oracle.comparison import POLICY, could_have_been, placed_vector
from lab.oracle.instances import Features, instance
from lab.oracle.world import NOW
from reservoir.core.checker import check
from reservoir.core.checking.constraints.spread import is_bound as bound
from reservoir.core.checking.constraints.topology import Topology
from reservoir.core.checking.final_state.facts import Facts
from reservoir.core.model.plan import Plan
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import Workload
from reservoir.core.scheduler import solve

PER_FAMILY = 70
FAMILIES = {
    "plain": Features(),
    "reserved-only": Features(bought=False),
    "priorities": Features(priorities=True),
    "priorities-reserved-only": Features(priorities=True, bought=False),
    "topology": Features(topology=True),
    "gangs": Features(gangs=True),
    "ladders-taints": Features(ladders=True, taints=True),
    "limits": Features(limits=True),
    "nodes": Features(nodes=True),
    "everything": Features(True, True, True, True, True, True, True),
}
# Limits on every pool, or three priorities, together with what else decides who may be where; fewer worlds of each.
TIGHT = {
    "tight": Features(tight=True),
    "tight-priorities": Features(tight=True, priorities=True),
    "tight-gangs": Features(tight=True, gangs=True),
    "tight-topology": Features(tight=True, topology=True),
    "tight-gangs-priorities": Features(tight=True, gangs=True, priorities=True),
    "tight-topology-priorities": Features(tight=True, topology=True, priorities=True),
    "tight-nodes": Features(tight=True, nodes=True),
    "limits-priorities": Features(limits=True, priorities=True),
    "limits-gangs": Features(limits=True, gangs=True),
    "limits-gangs-priorities": Features(limits=True, gangs=True, priorities=True),
    "ranks": Features(ranks=True),
    "gangs-ranks": Features(gangs=True, ranks=True),
    "topology-ranks": Features(topology=True, ranks=True),
    "ladders-taints-ranks": Features(ladders=True, taints=True, ranks=True),
    "nodes-ranks": Features(nodes=True, ranks=True),
    "limits-gangs-ranks": Features(limits=True, gangs=True, ranks=True),
    "tight-gangs-ranks": Features(tight=True, gangs=True, ranks=True),
}
SEEDS = range(PER_FAMILY)
# Worlds beyond the first ones in which a plan once refused what another plan would have placed, or broke a rule.
FOUND = (
    *(("gangs", seed) for seed in (409, 440)),
    *(
        ("limits", seed)
        for seed in (175, 237, 287, 387, 389, 477, 482, 494, 635, 1269, 2713, 2949)
    ),
    *(
        ("everything", seed)
        for seed in (228, 807, 1794, 1836, 1946, 2043, 2246, 2362, 2408)
    ),
    ("tight", 377),
    *(
        ("tight-priorities", seed)
        for seed in (108, 115, 282, 338, 550, 579, 633, 718, 857, 935)
    ),
    *(("tight-gangs", seed) for seed in (108, 369, 377)),
    *(("tight-topology-priorities", seed) for seed in (437, 460, 504, 636)),
    *(("tight-gangs-priorities", seed) for seed in (17, 134, 215, 249, 2273)),
    *(("tight-nodes", seed) for seed in (50, 287, 350, 363)),
    *(("limits-priorities", seed) for seed in (325, 972)),
    *(("limits-gangs", seed) for seed in (1279, 1502)),
    *(
        ("limits-gangs-priorities", seed)
        for seed in (256, 387, 640, 647, 871, 908, 912, 5080, 6038)
    ),
    *(("ranks", seed) for seed in (392, 615, 785)),
    *(("gangs-ranks", seed) for seed in (207, 208, 409)),
    ("topology-ranks", 1353),
    ("ladders-taints-ranks", 1569),
    *(("limits-gangs-ranks", seed) for seed in (956, 2209)),
    *(("tight-gangs-ranks", seed) for seed in (529, 1537)),
)
WORLDS = (*product(FAMILIES, SEEDS), *product(TIGHT, range(PER_FAMILY // 7)), *FOUND)


@cache
def planned(family: str, seed: int) -> tuple[Snapshot, Plan, Mapping[Counts, int]]:
    """Return a world, its plan, and all that could have been placed: what both tests below ask of each world."""
    snapshot = instance(seed, (FAMILIES | TIGHT)[family])
    return (
        snapshot,
        solve(snapshot, now=NOW, policy=POLICY),
        BruteForce(snapshot, POLICY).outcomes,
    )


def is_bound(facts: Facts, workload: Workload) -> bool:
    return bound(Topology(facts), workload)


@pytest.mark.parametrize(("family", "seed"), WORLDS)
def test_nothing_is_refused_that_could_be_placed(family: str, seed: int) -> None:
    snapshot, plan, outcomes = planned(family, seed)
    vector = placed_vector(snapshot, plan)
    assert vector in outcomes
    free = [
        not is_bound(Facts(snapshot, plan, NOW, POLICY), item.workload)
        for item in snapshot.demands
    ]
    assert not [
        better
        for better in could_have_been(snapshot, vector)
        if all(free[index] for index in range(len(vector)) if better[index] > vector[index])
    ]


@pytest.mark.parametrize(
    ("family", "seed"),
    [
        *product(["topology"], SEEDS),
        *product(["tight-topology"], (151, 194, 199, 294, 2243, 2666)),
    ],
)
def test_an_order_is_found_in_which_all_have_a_domain(family: str, seed: int) -> None:
    """The last ones are worlds in which those who went first once left others without a domain."""
    snapshot, plan, _ = planned(family, seed)
    assert not could_have_been(snapshot, placed_vector(snapshot, plan))


@pytest.mark.parametrize(("family", "seed"), WORLDS)
def test_the_checker_agrees_and_costs_are_between_bounds(family: str, seed: int) -> None:
    snapshot, plan, outcomes = planned(family, seed)
    assert check(snapshot, plan, now=NOW, policy=POLICY) == ()
    least = outcomes[placed_vector(snapshot, plan)]
    assert plan.cost_atto_usd_per_hour >= least
    if plan.lower_bound_atto_usd_per_hour is not None:
        assert plan.lower_bound_atto_usd_per_hour <= least
