"""What filling one node promises whoever compares many: a bound, copies that go on apart, and what was filled."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reservoir.core.scheduling_terms import labels
from reservoir.core.solver.packing.buying import buy_rest
from reservoir.core.solver.packing.knapsack import Pattern
from tests.core.scheduler.world import (
    GIB,
    ON_DEMAND,
    ZONES,
    demand,
    fx_type,
    plain,
    spread,
    with_demand,
    workload,
)
from tests.core.solver.world import unpacked

BOUGHT = [(ON_DEMAND, zone) for zone in ZONES]


@given(
    requests=st.lists(
        st.tuples(st.integers(1, 9), st.integers(1, 40), st.integers(1, 30)),
        min_size=1,
        max_size=8,
    ),
    size=st.tuples(st.integers(1, 32), st.integers(1, 128)),
)
@settings(max_examples=50, deadline=None)
def test_no_pattern_is_worth_more_than_the_bound_of_its_node(
    requests: list[tuple[int, int, int]], size: tuple[int, int]
) -> None:
    """Whole replicas never use a node better than fractions of the one that pays most for what it takes."""
    cpus, memory_gib = size
    demands = [
        demand(workload(f"w{number}", 500 * cpu, memory * GIB // 2), count)
        for number, (cpu, memory, count) in enumerate(requests)
    ]
    world = unpacked(
        with_demand(plain(fx_type("node", cpus, memory_gib, 110, offered=BOUGHT)), *demands)
    )
    knapsack, everybody = world.packing.knapsack, world.packing.active
    room = (1000 * cpus, memory_gib * GIB, 110)

    value, _ = knapsack.fill(room, everybody)

    assert value <= knapsack.bound(room, everybody) * (1 + 1e-9)


def test_the_bound_falls_when_those_who_pay_most_have_their_place() -> None:
    """So a node that was worth a look at first is not filled for the others."""
    few, many = (
        demand(workload("few", 1000, 2 * GIB), 1),
        demand(workload("many", 1000, GIB), 9),
    )
    world = unpacked(
        with_demand(plain(fx_type("node", 8, 64, 50, offered=BOUGHT)), few, many)
    )
    knapsack, room = world.packing.knapsack, (8000, 64 * GIB, 50)
    knapsack.reprice([5.0 if item.count == 1 else 1.0 for item in world.items])
    before = knapsack.bound(room, world.packing.active)

    knapsack.take(next(item.index for item in world.items if item.count == 1), 1)

    assert knapsack.bound(room, world.packing.active) < before / 2


def test_what_a_fork_packs_is_left_to_the_packing_that_it_came_from() -> None:
    """Orders of items are found once for both, but who is left in them is each one's own."""
    few, many = (
        demand(workload("few", 1000, GIB), 1),
        demand(workload("many", 1000, 2 * GIB), 9),
    )
    world = unpacked(
        with_demand(plain(fx_type("node", 8, 64, 50, offered=BOUGHT)), few, many)
    )
    room, everybody = (8000, 64 * GIB, 50), world.packing.active
    before = world.packing.knapsack.fill(room, everybody)

    fork = world.packing.fork()
    buy_rest(fork, world.types)

    assert (sum(fork.left), sum(world.packing.left)) == (0, 10)
    assert fork.knapsack.fill(room, everybody) == (0.0, ())
    assert world.packing.knapsack.fill(room, everybody) == before


def test_fewer_carriers_a_node_in_a_fork_are_as_many_as_before_elsewhere() -> None:
    apart = workload(topology_spread=(spread(labels.HOSTNAME, skew=3),))
    world = unpacked(
        with_demand(plain(fx_type("node", 8, 64, 50, offered=BOUGHT)), demand(apart, 9))
    )
    (item,), everybody, room = world.items, world.packing.active, (8000, 64 * GIB, 50)
    assert item.host is not None
    fork = world.packing.fork()

    fork.knapsack.cap_carriers([item.host], 1)

    assert [
        dict(packing.knapsack.fill(room, everybody)[1]) for packing in (fork, world.packing)
    ] == [{0: 1}, {0: 3}]


def test_a_packing_remembers_also_the_patterns_that_it_filled_and_did_not_use() -> None:
    """Both sizes are filled, one is bought: the program may still find the other of use."""
    world = unpacked(
        with_demand(
            plain(
                fx_type("small", 4, 16, 10, offered=BOUGHT),
                fx_type("large", 16, 64, 10, offered=BOUGHT),
            ),
            demand(workload("a", 3000, 12 * GIB), 5),
        )
    )
    fork = world.packing.fork()

    buy_rest(fork, world.types)

    used = {
        use.bin_type.option.instance_type.name
        for use in fork.uses
        if use.bin_type is not None
    }
    filled = {bin_type.option.instance_type.name for bin_type, _ in world.packing.filled}
    assert used < filled


def test_of_many_different_replicas_those_fill_a_node_that_would_by_exact_masks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Coarse masks only ask about a few more of them; nothing is put where it does not fit."""
    demands = [
        demand(workload(f"w{number}", 101 + 7 * number, (97 + 5 * number) * 2**20), 1)
        for number in range(200)
    ]
    node = plain(fx_type("node", 16, 64, 110, offered=BOUGHT))

    def filled(steps_max: int) -> tuple[float, Pattern]:
        monkeypatch.setattr("reservoir.core.solver.packing.knapsack.STEPS_MAX", steps_max)
        packing = unpacked(with_demand(node, *demands)).packing
        return packing.knapsack.fill((16_000, 64 * GIB, 110), packing.active)

    assert filled(3) == filled(1_000)
