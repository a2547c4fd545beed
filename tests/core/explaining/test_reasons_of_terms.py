"""Required node terms are ORed: one is enough, and where each fails in its own way, the nearest one is told."""

import pytest

from reservoir.core.model.plan import ReasonCode
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator
from reservoir.core.scheduling_terms.requirements import Requirements
from tests.core.scheduler.test_reasons import Situation
from tests.core.scheduler.world import (
    RESERVED,
    SPOT,
    demand,
    fx_type,
    markets,
    one_of,
    plain,
    planned,
    require,
    reservation,
    with_demand,
    workload,
)

SMALL = fx_type("small", 2, 2)
FULL = reservation("cr-1", "small", 4, available_count=0, free_units=0)
ARM = require(labels.ARCH, Operator.IN, "arm64")


SITUATIONS = (
    Situation(
        "no such zone, or an architecture that nothing has",
        plain(SMALL),
        workload(
            cpu=100, required_node_terms=(require(labels.ZONE, Operator.IN, "zone-9"), ARM)
        ),
        ReasonCode.INCOMPATIBLE,
        "pool default offers nothing with topology.kubernetes.io/zone In [zone-9] (it has zone-1, zone-2, "
        "zone-3; did you mean zone-3?)",
    ),
    Situation(
        "two things wrong with the first term, one with the second",
        plain(SMALL),
        workload(
            cpu=100,
            required_node_terms=(
                Requirements.of(
                    one_of(labels.ZONE, "zone-9"), one_of(labels.CAPACITY_TYPE, "reserved")
                ),
                ARM,
            ),
        ),
        ReasonCode.INCOMPATIBLE,
        "small of pool default: kubernetes.io/arch In [amd64] does not meet kubernetes.io/arch In [arm64]; "
        "did you mean amd64?",
    ),
    Situation(
        "a full reservation, or an architecture that nothing has",
        plain(SMALL, reservations=[FULL]),
        workload(cpu=100, required_node_terms=(Requirements.of(markets(RESERVED)), ARM)),
        ReasonCode.RESERVATION_FULL,
        "small reserved in zone-1 of cr-1 has no free unit (4 in all)",
    ),
    Situation(
        "a market that is not sold in the zone, each of which is there by itself",
        plain(SMALL),
        workload(
            cpu=100,
            node_selector=Requirements.of(one_of(labels.ZONE, "zone-3"), markets(SPOT)),
        ),
        ReasonCode.INCOMPATIBLE,
        "small spot in zone-1 is not what the workload selects (topology.kubernetes.io/zone In [zone-3])",
    ),
)


@pytest.mark.parametrize("it", SITUATIONS, ids=lambda it: it.name)
def test_the_nearest_term_names_the_reason(it: Situation) -> None:
    plan = planned(
        with_demand(it.snapshot, demand(it.wanted, it.replicas)), policy=it.policy
    )

    (refusal,) = plan.unplaced
    assert (refusal.code, refusal.message) == (it.code, it.sentence)
