"""Whatever Karpenter's loop places on the same snapshot has a place; what either pays is told by the benches."""

from collections.abc import Callable

import pytest

from lab.bench.karpenter.port import provision
from lab.bench.worlds.cases import reserved_ladder
from lab.bench.worlds.ladder import diverse_snapshot
from lab.bench.worlds.mix import Mix, mix_snapshot
from lab.oracle.world import NOW
from reservoir.core.checker import check
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduler import solve

POLICY = SchedulingPolicy()
WORLDS: dict[str, Callable[[], Snapshot]] = {
    "diverse": lambda: diverse_snapshot(500),
    "catalogue": lambda: mix_snapshot(Mix(600, shapes=40, reserved_percent=10)),
    "catalogue-other-seed": lambda: mix_snapshot(
        Mix(600, shapes=40, reserved_percent=10, seed=5)
    ),
    "no-spot": lambda: mix_snapshot(
        Mix(600, shapes=40, markets=(CapacityType.RESERVED, CapacityType.ON_DEMAND))
    ),
    "on-demand": lambda: mix_snapshot(
        Mix(600, shapes=40, markets=(CapacityType.ON_DEMAND,))
    ),
    "existing": lambda: mix_snapshot(Mix(400, shapes=40, existing=200)),
    "reserved-ladder": lambda: reserved_ladder(1, 400, 0),
    "reserved-ladder-scarce": lambda: reserved_ladder(1, 800, 0),
    "reserved-ladder-hosts": lambda: reserved_ladder(2, 1200, 0),
    "reserved-ladder-plenty": lambda: reserved_ladder(2, 500, 0),
}


@pytest.mark.parametrize("name", WORLDS)
def test_all_are_placed_as_by_the_port(name: str) -> None:
    snapshot = WORLDS[name]()
    plan = solve(snapshot, now=NOW, policy=POLICY)
    assert check(snapshot, plan, now=NOW, policy=POLICY) == ()
    assert not plan.unplaced
    outcome = provision(snapshot, NOW)
    assert (outcome.unplaced, outcome.over_commitments) == (0, 0)


def test_rules_over_zones_hold_where_rules_over_hosts_keep_many_from_their_nodes() -> None:
    """Replicas were dealt to zones evenly; those that hosts refuse stay in their zones, in whatever order."""
    snapshot = reserved_ladder(1, 5000, 0)
    plan = solve(snapshot, now=NOW, policy=SchedulingPolicy())
    assert not plan.unplaced
    assert check(snapshot, plan, now=NOW, policy=POLICY) == ()
