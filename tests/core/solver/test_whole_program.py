"""Small problems are searched exactly, from a known packing on."""

from itertools import product
from random import Random

import pytest

from reservoir.core.solver.column_generation.best_filling import BestFilling
from reservoir.core.solver.column_generation.whole_program import cheapest_exactly
from reservoir.core.solver.packing.item_types import BinType
from reservoir.core.solver.packing.packing import Packing
from tests.core.scheduler.world import (
    GIB,
    ON_DEMAND,
    ZONES,
    demand,
    fx_type,
    plain,
    reservation,
    with_demand,
    workload,
)
from tests.core.solver.world import Bins, unpacked, uses

OFFERED = [(ON_DEMAND, ZONES[0])]
SMALL = fx_type("small", 4, 32, 50, offered=OFFERED, price=200_000)
LARGE = fx_type("large", 8, 32, 50, offered=OFFERED, price=300_000)


def world(*milli_cpus: int, units: int = 0) -> Bins:
    """One replica of each of these sizes, and so many reserved units of the large type."""
    kinds = [
        workload(f"kind-{number}", milli_cpu, GIB)
        for number, milli_cpu in enumerate(milli_cpus)
    ]
    reservations = (reservation("cr-1", "large", units),) if units else ()
    return unpacked(
        with_demand(
            plain(SMALL, LARGE, reservations=reservations),
            *[demand(kind, 1) for kind in kinds],
        )
    )


def bin_type(bins: Bins, name: str) -> BinType:
    return next(it for it in bins.types.unthinned if it.option.key.instance_type == name)


def apart(bins: Bins) -> Packing:
    """Return the packing in which each replica has a large node of its own."""
    packing = bins.packing.fork()
    for item in bins.items:
        assert packing.repeat(bin_type(bins, "large"), ((item.index, 1),), 1) == 1
    return packing


def test_the_cheapest_nodes_are_found_from_any_packing() -> None:
    """A node of 8 vCPU has less than 8 to give: 3 + 4 and 2 + 5 share two."""
    bins = world(3000, 4000, 2000, 5000)

    found = cheapest_exactly(
        bins.packing, apart(bins), bins.types, is_last=True, is_quick=False
    )

    assert found is not None
    assert not any(found.left)
    assert sorted(name for name, _, _ in uses(found)) == ["large", "large"]


def test_reserved_units_are_used_before_anything_is_bought() -> None:
    bins = world(3000, 4000, 2000, 5000, units=2)

    found = cheapest_exactly(
        bins.packing, apart(bins), bins.types, is_last=True, is_quick=True
    )

    assert found is not None
    assert not any(use.is_bought for use in found.uses)


def test_units_stay_free_for_work_of_less_priority_that_follows() -> None:
    """The best greedy packing has bought the nodes although units were free: whoever follows was counted on them."""
    bins = world(3000, 4000, units=1)

    found = cheapest_exactly(
        bins.packing, apart(bins), bins.types, is_last=False, is_quick=False
    )

    assert found is not None
    assert all(use.is_bought for use in found.uses)


def test_nothing_is_looked_for_when_time_is_up() -> None:
    bins = world(3000, 4000)
    bins.packing.expired = lambda: True

    assert (
        cheapest_exactly(
            bins.packing, apart(bins), bins.types, is_last=True, is_quick=False
        )
        is None
    )


@pytest.mark.parametrize("seed", range(20))
def test_all_full_fillings_above_a_value_are_listed(seed: int) -> None:
    """Against every combination of up to three replicas of each of four kinds."""
    random = Random(seed)  # noqa: S311 - an example, no secret
    bins = world(*[random.randrange(500, 4000) for _ in range(4)])
    values = {index: random.uniform(0.1, 2.0) for index in range(4)}
    size = bin_type(bins, "large").option.allocatable
    most, least = 3, 2.5

    def fits(counts: tuple[int, ...]) -> bool:
        return all(
            sum(count * bins.items[index].request[at] for index, count in enumerate(counts))
            <= free
            for at, free in enumerate(size)
        )

    def is_full(counts: tuple[int, ...]) -> bool:
        more = [
            tuple(count + (at == index) for at, count in enumerate(counts))
            for index in range(4)
            if counts[index] < most
        ]
        return not any(map(fits, more))

    every = [it for it in product(range(most + 1), repeat=4) if fits(it) and is_full(it)]
    expected = []
    for counts in every:
        if sum(values[at] * count for at, count in enumerate(counts)) > least:
            expected.append(tuple((at, count) for at, count in enumerate(counts) if count))

    listed = BestFilling(bins.items, values, [most] * 4, size).above(least, 3_000)

    assert listed.is_complete
    assert sorted(listed.patterns) == sorted(expected)


def test_fillings_with_fewer_of_an_item_than_fit_are_listed_where_asked_for() -> None:
    """Two nodes that hold two replicas each hold three only if one of them may have room left."""
    bins = world(2_000)
    size = tuple(2 * asked for asked in bins.items[0].request)
    filling = BestFilling(bins.items, {0: 1.0}, [2], size)

    full = filling.above(0.5, 100)
    fewer_too = filling.above(0.5, 100, {0})

    assert full.patterns == [((0, 2),)]
    assert sorted(fewer_too.patterns) == [((0, 1),), ((0, 2),)]


def test_an_item_of_negative_value_does_not_lower_the_bound_of_others() -> None:
    """Where exactly as many replicas are asked for, one of them may cost more than it is worth."""
    bins = world(1_000, 1_100)
    size = tuple(2 * asked for asked in bins.items[1].request)
    filling = BestFilling(bins.items, {0: 1.0, 1: -0.2}, [1, 1], size)

    listed = filling.above(0.9, 100, {0, 1})

    assert listed.patterns == [((0, 1),)]
    assert filling.bound() == 1.0
