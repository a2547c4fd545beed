"""Column generation: the program combines patterns that greedy packing would repeat one by one."""

from dataclasses import replace

import pytest

from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.scheduling_terms import labels
from reservoir.core.solver.column_generation import linear_program
from reservoir.core.solver.column_generation.improve import improved, is_done
from reservoir.core.solver.column_generation.pricing import Knapsacks
from reservoir.core.solver.column_generation.restricted_master import RestrictedMaster
from reservoir.core.solver.packing.buying import buy_rest
from reservoir.core.solver.packing.reserved_units import use_reserved
from tests.core.scheduler.world import (
    GIB,
    ON_DEMAND,
    ZONES,
    demand,
    fx_type,
    plain,
    planned,
    reservation,
    spread,
    with_demand,
    workload,
)
from tests.core.solver.world import unpacked, uses

BOUGHT = [(ON_DEMAND, zone) for zone in ZONES]
# Rolls of 9.9 are cut into pieces. Greed takes two large ones twice, so that large and small + small fit only once.
ROLL = fx_type("roll", 10, 400, 50, offered=BOUGHT)
PIECES = (demand(workload("large", 4000, GIB), 5), demand(workload("small", 2600, GIB), 6))
ROLLS = with_demand(plain(ROLL), *PIECES)
CERTIFIED = SchedulingPolicy(with_certificate=True)


def test_the_cutting_stock_problem_is_solved_to_the_optimum() -> None:
    """Five pieces of 4.0 and six of 2.6 CPU need four rolls: their sum is 35.6, and three rolls are 29.7."""
    greedy = unpacked(ROLLS)
    base = greedy.packing.fork()
    buy_rest(greedy.packing, greedy.types)

    certified = improved(base, greedy.packing, greedy.types, is_quick=False)

    assert certified is not None
    assert sum(count for _, _, count in uses(greedy.packing)) == 5
    assert sum(count for _, _, count in uses(certified)) == 4


def test_column_generation_makes_the_plan_cheaper_and_proves_a_bound() -> None:
    first, certified = planned(ROLLS), planned(ROLLS, policy=CERTIFIED)

    assert first.lower_bound_atto_usd_per_hour is None
    assert certified.lower_bound_atto_usd_per_hour is not None
    assert (
        certified.lower_bound_atto_usd_per_hour
        <= certified.cost_atto_usd_per_hour
        < first.cost_atto_usd_per_hour
    )


def test_a_first_plan_asks_the_program_who_gets_units_that_are_short() -> None:
    """Two rolls are reserved. Greed fills them so that the rest takes three more, where two would do."""
    reserved = with_demand(
        plain(ROLL, reservations=(reservation("cr-1", "roll", 2),)), *PIECES
    )
    world = unpacked(reserved)
    greedy = use_reserved(world.packing, world.types)
    buy_rest(greedy, world.types)

    plan = planned(reserved)

    assert sum(count for _, _, count in uses(greedy)) == 5
    assert sum(launch.count for launch in plan.launches) == 4
    assert plan.lower_bound_atto_usd_per_hour is None


def test_the_pricing_problem_finds_patterns_that_are_worth_more_than_a_node_costs() -> None:
    """Two large are worth 0.8, less than the node; three small are worth 0.9."""
    world = unpacked(ROLLS)
    knapsacks = Knapsacks(world.items, world.types.paid)

    found = knapsacks.fill([0.4, 0.3], [0.85], [5, 6])

    assert [pattern for _, pattern in found] == [((1, 3),)]


def test_of_equal_patterns_only_a_cheaper_one_becomes_a_column() -> None:
    narrow, wide = (
        fx_type("narrow", 8, 32, 50, offered=BOUGHT),
        fx_type("wide", 16, 64, 50, offered=BOUGHT),
    )
    world = unpacked(
        with_demand(plain(narrow, wide), demand(workload("any", 3000, GIB), 4))
    )
    by_name = {item.option.key.instance_type: item for item in world.types.paid}
    master, pattern = RestrictedMaster(world.packing), ((0, 2),)

    added = [master.add([(by_name[name], pattern)]) for name in ("wide", "narrow", "wide")]

    assert added == [1, 1, 0]


def test_priced_patterns_hold_no_more_carriers_of_a_rule_about_hosts_than_a_node_may() -> (
    None
):
    rule = {
        "labels": {"app": "apart"},
        "topology_spread": (spread(labels.HOSTNAME, 2, app="apart"),),
    }
    reserved = with_demand(
        plain(ROLL, reservations=(reservation("cr-1", "roll", 2),)),
        demand(workload("one", 1500, GIB, **rule), 4),
        demand(workload("other", 1400, GIB, **rule), 4),
        demand(workload("large", 3800, GIB), 5),
    )
    world = unpacked(reserved)
    bin_types = [*world.types.reserved, *world.types.paid]
    priced = Knapsacks(world.items, bin_types).fill(
        [9.0] * 3, [0.1] * len(bin_types), [5, 4, 4]
    )

    plan = planned(reserved, policy=CERTIFIED)

    carriers = [
        sum(count for index, count in pattern if world.items[index].host)
        for _, pattern in priced
    ]
    assert set(carriers) == {2}
    assert not plan.unplaced


def test_where_nothing_can_be_bought_the_bound_is_nothing() -> None:
    larger_than_a_roll = with_demand(ROLLS, demand(workload("eleven", 11_000, GIB), 2))

    plan = planned(larger_than_a_roll, policy=CERTIFIED)

    assert (plan.lower_bound_atto_usd_per_hour, plan.notes) == (0, ())
    assert [item.count for item in plan.unplaced] == [2]


def test_units_that_are_paid_for_count_in_the_bound() -> None:
    reserved = with_demand(
        plain(ROLL, reservations=(reservation("cr-1", "roll", 1),)),
        demand(workload("large", 3800, GIB), 4),
    )

    plan = planned(
        reserved,
        policy=SchedulingPolicy(with_certificate=True, node_overhead_micro_usd_per_hour=0),
    )

    # A roll of 9.9 CPU holds two whole pieces; in fractions the reserved one would hold 9.9 of 15.2 CPU.
    assert plan.lower_bound_atto_usd_per_hour == pytest.approx(
        plan.cost_atto_usd_per_hour, rel=1e-5
    )


def test_the_bound_of_many_kinds_of_replicas_is_nearly_that_of_each_kind() -> None:
    """A roll has 9.9 CPU. Six hundred pieces of different sizes are more kinds than the program has rows for."""
    sizes = range(1_000, 4_000, 5)
    many = with_demand(
        plain(ROLL), *(demand(workload(f"cut-{size}", size, GIB), 1) for size in sizes)
    )

    plan = planned(
        many,
        policy=SchedulingPolicy(with_certificate=True, node_overhead_micro_usd_per_hour=0),
    )

    nodes = sum(launch.count for launch in plan.launches)
    in_fractions = plan.cost_atto_usd_per_hour / nodes * sum(sizes) / 9_900
    assert plan.lower_bound_atto_usd_per_hour is not None
    assert 0.94 * in_fractions <= plan.lower_bound_atto_usd_per_hour <= in_fractions


def test_a_program_that_takes_too_long_is_stopped() -> None:
    looks = 0

    def expired() -> bool:
        nonlocal looks
        looks += 1
        return looks > 5

    rows = [(1.0, 1e6)] * 40
    columns = [
        (1.0 + row % 7, 1e6, [(row, 1.0), ((row + 1) % 40, 0.3)]) for row in range(40)
    ]

    assert linear_program.LinearProgram(rows, columns).solve()
    assert not linear_program.LinearProgram(rows, columns, expired=expired).solve()
    assert looks == 6


def test_what_a_deadline_lets_through_no_later_one_loses() -> None:
    """The deadline passes at each look at the clock in turn: a plan that was ready is not lost for its certificate."""

    def cut(looks: int) -> Plan:
        left = iter([False] * looks)
        return planned(ROLLS, policy=replace(CERTIFIED, expired=lambda: next(left, True)))

    plans = [cut(looks) for looks in range(150)]

    left_over = [sum(item.count for item in plan.unplaced) for plan in plans]
    complete = plans[left_over.index(0) :]
    costs = [plan.cost_atto_usd_per_hour for plan in complete]
    assert not any(plan.unplaced for plan in complete)
    assert costs == sorted(costs, reverse=True)
    assert complete[0].notes == ("no certificate: out of time",)
    assert complete[-1].lower_bound_atto_usd_per_hour is not None


@pytest.mark.parametrize("duals", [[0.2, 0.1, -0.4, 0.0], [5.0, -3.0, 1.0, 2.0], [0.0] * 4])
def test_any_dual_prices_prove_a_bound(duals: list[float]) -> None:
    class Told(linear_program.LinearProgram):
        def duals(self) -> list[float]:
            return duals

    rows = [(4.0, 4.0), (6.0, 6.0), (-9.0, 0.0), (-9.0, 0.0)]
    node = (1.0, 9.0, [(2, -1.0), (3, -1.0)])
    pieces = [
        (0.0, 4.0, [(0, 1.0), (2, 0.4), (3, 0.1)]),
        (0.0, 6.0, [(1, 1.0), (2, 0.3), (3, 0.2)]),
    ]
    own, told = (
        kind(rows, [node, *pieces]) for kind in (linear_program.LinearProgram, Told)
    )
    assert own.solve()
    assert own.proven() == pytest.approx(own.objective())

    assert told.proven() <= own.objective()


@pytest.mark.parametrize(
    ("costs", "ends"),
    [
        ([110.0 - number for number in range(9)], False),
        ([110.0] * 8, False),
        ([110.0] * 9, True),
        ([110.0 - number / 1000 for number in range(9)], True),
    ],
)
def test_the_search_for_patterns_ends_when_more_rounds_would_gain_nothing(
    costs: list[float], ends: bool
) -> None:
    assert is_done(costs) is ends
