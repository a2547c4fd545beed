"""An integer program frees units by moving replicas between them and the nodes that are bought anyway."""

from itertools import product
from random import Random

import pytest

from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator
from reservoir.core.solver.column_generation.best_filling import BestFilling
from reservoir.core.solver.column_generation.spared_program import spared_exactly
from reservoir.core.solver.packing.item_types import BinType
from reservoir.core.solver.packing.packing import Packing
from tests.core.scheduler.world import (
    GIB,
    ON_DEMAND,
    ZONES,
    demand,
    fx_type,
    plain,
    require,
    reservation,
    with_demand,
    workload,
)
from tests.core.solver.world import Bins, unpacked, uses

GPU = "nvidia.com/gpu"
OFFERED = [(ON_DEMAND, ZONES[0])]
BOUGHT = fx_type("bought", 8, 32, 50, offered=OFFERED, price=400_000)
RESERVED = fx_type("reserved", 8, 32, 50, offered=OFFERED, price=800_000)
WITH_GPU = fx_type("with-gpu", 8, 32, 50, extra={GPU: 1}, offered=OFFERED, price=800_000)
# Only what is sold has what the pinned work wants; the free work may run anywhere.
PINNED = workload(
    "pinned",
    4000,
    4 * GIB,
    node_selector=require(labels.INSTANCE_TYPE, Operator.IN, "bought"),
)
FREE = workload("free", 2000, 4 * GIB)
PINNED_ITEM, FREE_ITEM = 0, 1


def world(free_count: int) -> Bins:
    """One replica is pinned to what is bought; of the others any unit holds three."""
    reservations = (
        reservation("cr-1", "reserved", 5),
        reservation("cr-gpu", "with-gpu", 5),
    )
    return unpacked(
        with_demand(
            plain(BOUGHT, RESERVED, WITH_GPU, reservations=reservations),
            demand(PINNED, 1),
            demand(FREE, free_count),
        )
    )


def bin_type(bins: Bins, name: str) -> BinType:
    every = [*bins.types.reserved, *bins.types.unthinned]
    return next(it for it in every if it.option.key.instance_type == name)


def packed(bins: Bins, *nodes: tuple[str, dict[int, int]]) -> Packing:
    """Return a packing of these nodes."""
    packing = bins.packing.fork()
    for name, pattern in nodes:
        assert packing.repeat(bin_type(bins, name), tuple(pattern.items()), 1) == 1
    return packing


def spared(bins: Bins, packing: Packing) -> list[tuple[str, dict[int, int], int]]:
    found = spared_exactly(bins.packing, packing, bins.types.reserved)
    assert found is not None
    assert not any(found.left)
    return sorted(uses(found), key=lambda use: use[0])


def test_a_replica_goes_beside_another_on_a_node_that_is_bought_anyway() -> None:
    bins = world(free_count=1)
    apart = packed(bins, ("bought", {PINNED_ITEM: 1}), ("reserved", {FREE_ITEM: 1}))

    assert spared(bins, apart) == [("bought", {PINNED_ITEM: 1, FREE_ITEM: 1}, 1)]


def test_nothing_more_is_bought_to_leave_a_unit_free() -> None:
    bins = world(free_count=3)
    apart = packed(bins, ("bought", {PINNED_ITEM: 1}), ("reserved", {FREE_ITEM: 3}))

    assert [(name, count) for name, _, count in spared(bins, apart)] == [
        ("bought", 1),
        ("reserved", 1),
    ]


def test_a_unit_without_accelerators_takes_the_place_of_one_with() -> None:
    bins = world(free_count=3)
    idle = packed(bins, ("bought", {PINNED_ITEM: 1}), ("with-gpu", {FREE_ITEM: 3}))

    assert [name for name, _, _ in spared(bins, idle)] == ["bought", "reserved"]


def test_nothing_is_looked_for_when_time_is_up() -> None:
    bins = world(free_count=1)
    apart = packed(bins, ("bought", {PINNED_ITEM: 1}), ("reserved", {FREE_ITEM: 1}))
    bins.packing.expired = lambda: True

    assert spared_exactly(bins.packing, apart, bins.types.reserved) is None


def test_with_many_kinds_of_work_nothing_is_looked_for() -> None:
    kinds = [workload(f"kind-{number}", 1000 + number, GIB) for number in range(21)]
    bins = unpacked(
        with_demand(
            plain(RESERVED, reservations=(reservation("cr-1", "reserved", 9),)),
            *[demand(kind, 1) for kind in kinds],
        )
    )
    nodes = [("reserved", dict.fromkeys(range(at, at + 3), 1)) for at in range(0, 21, 3)]

    assert spared_exactly(bins.packing, packed(bins, *nodes), bins.types.reserved) is None


@pytest.mark.parametrize("seed", range(20))
def test_the_best_filling_is_the_best_of_all(seed: int) -> None:
    """Against every combination of up to three replicas of each of four kinds."""
    random = Random(seed)  # noqa: S311 - an example, no secret
    kinds = [
        workload(
            f"kind-{number}", random.randrange(500, 4000), random.randrange(1, 16) * GIB
        )
        for number in range(4)
    ]
    bins = unpacked(with_demand(plain(BOUGHT), *[demand(kind, 3) for kind in kinds]))
    values = {index: random.uniform(0.1, 2.0) for index in range(4)}
    size = bin_type(bins, "bought").option.allocatable

    filling = BestFilling(bins.items, values, [3] * 4, size).found()
    value, pattern = filling.value, filling.pattern

    def fits(counts: tuple[int, ...]) -> bool:
        return all(
            sum(count * bins.items[index].request[at] for index, count in enumerate(counts))
            <= free
            for at, free in enumerate(size)
        )

    every = [counts for counts in product(range(4), repeat=4) if fits(counts)]
    best = max(sum(values[at] * count for at, count in enumerate(it)) for it in every)
    assert value == pytest.approx(best)
    assert filling.at_most == pytest.approx(best)
    assert value == pytest.approx(sum(values[index] * count for index, count in pattern))
    assert fits(tuple(dict(pattern).get(index, 0) for index in range(4)))
