"""What becomes of the nodes that are too many for a spot pool's share. ``planned`` lets the checker object."""

from typing import Any

import pytest

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.plan import Plan, ReasonCode
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.workload import Demand, Gang, Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator
from tests.core.scheduler.world import (
    ON_DEMAND,
    SPOT,
    demand,
    fx_type,
    launched,
    placed_count,
    plain,
    planned,
    replicas_by,
    require,
    spread,
    types_launched,
    unplaced_count,
    with_demand,
    workload,
)

HALF = SchedulingPolicy(spot_pool_share_percent=50, spot_share_from_nodes=4)
PRICES = {SPOT: 30_000, ON_DEMAND: 100_000}
ONLY_SPOT = require(labels.CAPACITY_TYPE, Operator.IN, str(SPOT))


def node_sized(name: str = "job", **changes: Any) -> Workload:
    """Fill a node each."""
    return workload(name, cpu=3500, **changes)


def shared_out(
    *demands: Demand,
    zones: tuple[str, ...] = ("zone-1",),
    dear: tuple[CapacityType, ...] = (),
) -> Plan:
    """Plan with spot pools in these zones, of one type, and other markets in the first."""
    offered = [
        *((SPOT, zone) for zone in zones),
        *((market, zone) for market in dear for zone in zones),
    ]
    return planned(
        with_demand(plain(fx_type("only", offered=offered, price=PRICES)), *demands),
        policy=HALF,
    )


def test_what_is_too_many_goes_on_demand() -> None:
    plan = shared_out(demand(node_sized(), 10), dear=(ON_DEMAND,))
    # three spot nodes: too few for a share
    assert launched(plan) == {"only:spot": 3, "only:on-demand": 7}


def test_what_may_not_go_on_demand_waits_and_says_why() -> None:
    plan = shared_out(demand(node_sized(node_selector=ONLY_SPOT), 10), dear=(ON_DEMAND,))
    assert launched(plan) == {"only:spot": 3}
    (refusal,) = plan.unplaced
    assert (refusal.code, refusal.count) == (ReasonCode.SPOT_SHARE, 7)
    assert (
        refusal.message
        == "more of only spot in zone-1 would be over its share, 50 % of the plan's spot nodes"
    )
    assert refusal.nearest_offering is not None
    assert refusal.nearest_offering.zone == "zone-1"


def test_company_that_must_stay_on_spot_keeps_nobody_else_waiting() -> None:
    """The nodes cannot go on demand as they are, but half of who is on them can."""
    both = [
        demand(workload(name, cpu=1700, node_selector=where), 10)
        for name, where in (
            ("stays", ONLY_SPOT),
            ("moves", require(labels.ARCH, Operator.IN, "amd64")),
        )
    ]
    plan = shared_out(*both, dear=(ON_DEMAND,))
    assert {item.workload_key for item in plan.unplaced} <= {"ns/stays"}
    assert launched(plan)["only:spot"] == 3


def test_the_more_important_stay() -> None:
    demands = [
        demand(node_sized(name, priority=priority, node_selector=ONLY_SPOT), 3)
        for name, priority in (("high", 10), ("low", 0))
    ]
    plan = shared_out(*demands)
    assert [(item.workload_key, item.count) for item in plan.unplaced] == [("ns/low", 3)]


@pytest.mark.parametrize(("dear", "placed"), [((), 2), ((ON_DEMAND,), 10)])
def test_a_gang_goes_or_waits_as_a_whole(
    dear: tuple[CapacityType, ...], placed: int
) -> None:
    plan = shared_out(
        demand(node_sized("gang", gang=Gang()), 8),
        demand(node_sized("other"), 2),
        dear=dear,
    )
    assert placed_count(plan) == placed
    if unplaced_count(plan):
        (refusal,) = plan.unplaced
        assert (refusal.code, refusal.count) == (ReasonCode.GANG_INCOMPLETE, 8)
        assert "would be over its share, 50 % of the plan's spot nodes" in refusal.message


def test_what_is_spread_stays_spread() -> None:
    """Three zones of spot at most in thirds would do; two in halves with one left out would not be even."""
    thirds = SchedulingPolicy(spot_pool_share_percent=30, spot_share_from_nodes=4)
    zones = ("zone-1", "zone-2", "zone-3")
    kind = fx_type("only", offered=[(SPOT, zone) for zone in zones], price=PRICES)
    wanted = node_sized(topology_spread=(spread(labels.ZONE),))
    plan = planned(with_demand(plain(kind), demand(wanted, 30)), policy=thirds)
    per_zone = replicas_by(plan, labels.ZONE)
    assert len(per_zone) == 3
    assert per_zone[-1] - per_zone[0] <= 1
    assert placed_count(plan) + unplaced_count(plan) == 30
    assert {item.code for item in plan.unplaced} == {ReasonCode.SPOT_SHARE}


def test_a_price_cap_holds_for_moved_nodes_too() -> None:
    capped = node_sized(max_price_micro_usd_per_hour=400_000)
    plan = shared_out(demand(capped, 10), dear=(ON_DEMAND,))
    spent = sum(launch.price_atto_usd_per_hour * launch.count for launch in plan.launches)
    assert spent <= 400_000 * 10**12
    assert types_launched(plan)["only"] >= 4
