"""Packing by counts: what goes onto one node, who gets reserved units, what is bought."""

from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.scheduling_terms import labels
from reservoir.core.solver.packing.buying import buy_rest, completed
from reservoir.core.solver.packing.reserved_units import use_reserved
from reservoir.core.solver.pattern_packing import pack
from reservoir.core.solver.problem.components import connected_components
from tests.core.scheduler.world import (
    GIB,
    ON_DEMAND,
    ZONES,
    demand,
    fx_type,
    near,
    node,
    plain,
    planned,
    replicas_by,
    reservation,
    spread,
    with_demand,
    workload,
)
from tests.core.solver.world import inserting, undecided, unpacked, uses

BOUGHT = [(ON_DEMAND, zone) for zone in ZONES]


def test_a_node_is_filled_so_that_cpu_and_memory_run_out_together() -> None:
    """One replica alone would leave the other resource behind: one with much CPU and one with much memory share."""
    world = unpacked(
        with_demand(
            plain(fx_type("large", 4, 16, 10, offered=BOUGHT)),
            demand(workload("cpu", 3000, 2 * GIB), 2),
            demand(workload("memory", 500, 13 * GIB), 2),
        )
    )

    _, pattern = world.packing.knapsack.fill(
        world.types.paid[0].option.allocatable, world.types.paid[0].eligible
    )

    assert dict(pattern) == {0: 1, 1: 1}


def test_nodes_are_bought_by_value_for_money_and_shrunk_to_what_they_hold() -> None:
    small, large = (
        fx_type("small", 2, 8, 10, offered=BOUGHT),
        fx_type("large", 8, 32, 10, offered=BOUGHT),
    )
    world = unpacked(
        with_demand(plain(small, large), demand(workload(cpu=1500, memory=GIB), 6))
    )

    buy_rest(world.packing, world.types)

    assert uses(world.packing) == [("large", {0: 5}, 1), ("small", {0: 1}, 1)]


def test_a_short_reserved_unit_goes_to_whom_it_would_be_dearest_elsewhere() -> None:
    """Both fit the unit; one could have a small node instead, the other only a large one."""
    small, large = (
        fx_type("small", 2, 4, 10, offered=BOUGHT),
        fx_type("large", 16, 64, 10, offered=BOUGHT),
    )
    world = unpacked(
        with_demand(
            plain(small, large, reservations=(reservation("cr-1", "large", 1),)),
            demand(workload("huge", 15_000, 32 * GIB), 1),
            demand(workload("tiny", 1500, 2 * GIB), 1),
        )
    )

    packing = use_reserved(world.packing, world.types)

    assert uses(packing) == [("large", {0: 1}, 1)]
    assert list(packing.left) == [0, 1]


def test_nodes_that_are_there_are_filled_before_any_is_bought() -> None:
    four = fx_type("four", 4, 16, 10, offered=BOUGHT)
    state = undecided(
        with_demand(
            plain(four, nodes=(node("n-1", four),)),
            demand(workload(cpu=1200, memory=GIB), 5),
        )
    )

    pack(inserting(state), connected_components(state.groups))

    there, bought = state.bins
    assert (there.node is not None, there.contents) == (True, {0: 3})
    assert (bought.node is None, bought.contents) == (True, {0: 2})


def test_what_is_left_goes_beside_a_pattern_on_a_reserved_node_before_a_node_is_bought() -> (
    None
):
    """The pattern uses half of the unit; the small replica finds room in the other half."""
    four = fx_type("four", 4, 16, 10, offered=BOUGHT)
    world = unpacked(
        with_demand(
            plain(four, reservations=(reservation("cr-1", "four", 1),)),
            demand(workload("large", 2000, GIB)),
            demand(workload("small", 1000, GIB)),
        )
    )
    world.packing.repeat(world.types.reserved[0], ((0, 1),))

    assert uses(completed(world.packing, world.types)) == [("four", {0: 1, 1: 1}, 1)]


def test_a_node_that_a_replica_must_have_to_itself_is_opened_first_and_shared_with_others() -> (
    None
):
    """By value for money the others would get a small node, and the large ones would have room to spare."""
    small, large = (
        fx_type("small", 2, 8, 10, offered=BOUGHT),
        fx_type("large", 16, 64, 10, offered=BOUGHT),
    )
    alone = workload(
        "alone", 3000, GIB, anti_affinity=(near(labels.HOSTNAME, app="alone"),)
    )
    world = unpacked(
        with_demand(
            plain(small, large), demand(alone, 2), demand(workload("any", 500, 2 * GIB), 4)
        )
    )

    buy_rest(world.packing, world.types)

    assert uses(world.packing) == [("large", {0: 1, 1: 4}, 1), ("large", {0: 1}, 1)]


def test_a_reserved_unit_that_is_short_saves_a_node_of_those_that_share_none() -> None:
    """Three of much memory would use more of the unit, but two replicas that share no node need a node each."""
    eight = fx_type("eight", 8, 32, 30, offered=BOUGHT)
    alone = workload(
        "alone", 3000, 2 * GIB, anti_affinity=(near(labels.HOSTNAME, app="alone"),)
    )
    world = unpacked(
        with_demand(
            plain(eight, reservations=(reservation("cr-1", "eight", 1),)),
            demand(alone, 2),
            demand(workload("memory", 500, 10 * GIB), 4),
        )
    )

    packing = use_reserved(world.packing, world.types)

    assert uses(packing) == [("eight", {0: 1, 1: 2}, 1)]


def test_replicas_that_share_no_node_get_one_each_with_company() -> None:
    alone = workload("alone", 500, GIB, anti_affinity=(near(labels.HOSTNAME, app="alone"),))
    world = unpacked(
        with_demand(
            plain(fx_type("only", 4, 16, 10, offered=BOUGHT)),
            demand(alone, 2),
            demand(workload("any", 1000), 4),
        )
    )

    buy_rest(world.packing, world.types)

    lonely = next(item.index for item in world.items if item.host is not None)
    assert [pattern[lonely] for _, pattern, _ in uses(world.packing)] == [1] * len(
        uses(world.packing)
    )
    assert sum(count for _, _, count in uses(world.packing)) == 2


def test_who_keeps_others_off_its_node_is_worth_more_than_its_request() -> None:
    """Equal requests, but who shares no node with the others costs a part of a node of its own."""
    rule = {"topology_spread": (spread(labels.HOSTNAME, app="any"),)}
    world = unpacked(
        with_demand(
            plain(fx_type("only", 4, 16, 10, offered=BOUGHT)),
            demand(workload("apart", 500, GIB, **rule), 2),
            demand(workload("any", 500, GIB), 2),
        )
    )

    (apart,) = [item.index for item in world.items if item.is_loose]
    value, of_the_other = world.values[apart], world.values[1 - apart]
    assert of_the_other < value < of_the_other + world.types.price_alone(world.items[apart])


def test_host_spread_is_kept_when_items_become_replicas_again() -> None:
    job = workload(cpu=100, memory=GIB, topology_spread=(spread(labels.HOSTNAME, 2),))

    plan = planned(
        with_demand(plain(fx_type("only", 4, 64, 50, offered=BOUGHT)), demand(job, 5))
    )

    assert replicas_by(plan, labels.HOSTNAME) == [1, 2, 2]


def test_a_part_of_a_pattern_that_is_below_the_floor_leaves_a_reserved_slot_alone() -> None:
    """The pattern wants six; three are left, a fifth of the slot."""
    world = unpacked(
        with_demand(
            plain(
                fx_type("large", 16, 64, 50, offered=BOUGHT),
                reservations=(reservation("cr-1", "large", 1),),
            ),
            demand(workload(cpu=1000, memory=GIB), 3),
        ),
        SchedulingPolicy(reserved_floor_percent=25),
    )

    world.packing.repeat_in_part(world.types.reserved[0], ((0, 6),))
    assert uses(world.packing) == []

    world.packing.repeat_in_part(world.types.paid[0], ((0, 6),))
    assert uses(world.packing) == [("large", {0: 3}, 1)]
