"""What a pool is, or asks for itself, may be why work waits; and may not be blamed where it is not."""

import pytest

from shared.core.model.plan import ReasonCode
from shared.core.scheduling_terms import labels
from shared.core.scheduling_terms.requirement import Operator, Requirement
from tests.core.scheduler.test_reasons import Situation
from tests.core.scheduler.world import (
    demand,
    fx_type,
    near,
    plain,
    planned,
    pool,
    reservation,
    with_demand,
    workload,
)

SMALL, LARGE = fx_type("small", 2, 2), fx_type("large", 8, 8)
CHOOSY = pool("default", Requirement.new(labels.INSTANCE_TYPE, Operator.IN, ("small", "large"), min_values=2))

MIN_VALUES = (
    Situation(
        "minValues that replicas of this size leave no room for",
        plain(SMALL, LARGE, node_pools=(CHOOSY,)),
        workload(cpu=4000),
        ReasonCode.MIN_VALUES,
        "pool default: minValues cannot be met",
    ),
    Situation(
        "minValues that are met, and a rule that is not",
        plain(SMALL, LARGE, node_pools=(CHOOSY,)),
        workload(cpu=100, affinity=(near(labels.ZONE, app="cache"),)),
        ReasonCode.TOPOLOGY,
        "affinity: nothing that it must be near runs in a topology.kubernetes.io/zone where it may run",
    ),
    Situation(
        "minValues, and nothing to choose from but a reservation that is full",
        plain(
            fx_type("small", 2, 2, offered=()),
            fx_type("large", 8, 8, offered=()),
            reservations=[reservation("cr-1", "small", 1, available_count=0, free_units=0)],
            node_pools=(CHOOSY,),
        ),
        workload(cpu=100),
        ReasonCode.RESERVATION_FULL,
        "small reserved in zone-1 of cr-1 has no free unit (1 in all)",
    ),
)


@pytest.mark.parametrize("it", MIN_VALUES, ids=lambda it: it.name)
def test_a_pool_is_told_as_the_reason_where_it_is_one(it: Situation) -> None:
    plan = planned(with_demand(it.snapshot, demand(it.wanted, it.replicas)), policy=it.policy)

    (refusal,) = plan.unplaced
    assert (refusal.code, refusal.message) == (it.code, it.sentence)
