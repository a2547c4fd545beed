from fractions import Fraction

import pytest

from reservoir.core.disruption.saving.cost import (
    DELETION_COST_ANNOTATION,
    ONE,
    node_cost,
    replica_cost,
    savings_ratio,
)
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.resources import Resources


def workload(
    name: str = "w", priority: int = 0, deletion_cost: str | None = None
) -> Workload:
    annotations = {} if deletion_cost is None else {DELETION_COST_ANNOTATION: deletion_cost}
    return Workload(
        "default", name, 1, 1, Resources.of({}), priority=priority, annotations=annotations
    )


@pytest.mark.parametrize(
    ("priority", "deletion_cost", "expected"),
    [
        (0, None, ONE),
        (2**25, None, 2 * ONE),
        (0, str(2**27), 2 * ONE),
        (0, str(-(2**27)), 0),
        (2**31 - 1, None, 10 * ONE),  # clamped
        (-(2**31), None, -10 * ONE),
        (0, "a lot", ONE),  # weighs nothing, as upstream
        (0, "9" * 5000, ONE),
    ],
)
def test_replica_cost(priority: int, deletion_cost: str | None, expected: int) -> None:
    assert (
        replica_cost(workload(priority=priority, deletion_cost=deletion_cost)) == expected
    )


def test_replicas_of_negative_cost_do_not_make_a_node_cheaper_to_disrupt() -> None:
    willing = workload(priority=-(2**31))

    assert node_cost([PlacedReplicas(willing.key, 3)], {willing.key: willing}) == ONE


def test_savings_ratio_orders_nodes_of_one_price_by_their_disruption() -> None:
    # S-122: three nodes at 4.84 with disruption 10, 1 and 5; with 3 default replicas the ratio is 1.21
    ratios = {cost: savings_ratio(484, cost * ONE) for cost in (10, 1, 5)}

    assert sorted(ratios, key=lambda cost: -ratios[cost]) == [1, 5, 10]
    assert savings_ratio(484, 4 * ONE) == Fraction(121)
