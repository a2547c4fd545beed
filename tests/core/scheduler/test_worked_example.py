"""The example of docs/scheduler.md: five replicas, two types, one reserved unit; its numbers are read from the page."""

import re
from pathlib import Path

from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.solver.packing.item_types import BinTypes, build_item_types
from reservoir.core.solver.packing.item_values import item_values
from reservoir.core.solver.solution.domain_assignment import DomainBatch
from tests.core.scheduler.world import (
    GIB,
    ON_DEMAND,
    ZONES,
    demand,
    fx_type,
    launched,
    plain,
    planned,
    reservation,
    with_demand,
    workload,
)
from tests.core.solver.world import undecided

PAGE = Path(__file__).resolve().parents[3] / "docs" / "scheduler.md"
USD = 10**18
BOUGHT = [(ON_DEMAND, zone) for zone in ZONES]
SMALL = fx_type("small", 2, 8, 10, price=100_000, offered=BOUGHT)
LARGE = fx_type("large", 4, 16, 10, price=180_000, offered=BOUGHT)
FIVE = with_demand(
    plain(SMALL, LARGE, reservations=(reservation("cr-1", "large", 1),)),
    demand(workload(cpu=1500, memory=2 * GIB), 5),
)


def told(step: str) -> str:
    """Return one numbered step of the page's example."""
    section = (
        PAGE.read_text(encoding="utf-8")
        .split("## An example: five replicas")[1]
        .split("\n## ")[0]
    )
    found = re.search(rf"^{step}\. (.*?)(?=^\d\. |\Z)", section, re.MULTILINE | re.DOTALL)
    assert found is not None
    return " ".join(found[1].split())


def test_the_items_and_bins_are_those_of_the_page() -> None:
    state = undecided(FIVE)
    (item,) = build_item_types(
        [DomainBatch(group.relaxed[0], None, group.count) for group in state.groups]
    )
    bins = BinTypes(state, [item], SchedulingPolicy().overhead_atto_usd)
    (value,) = item_values([item], bins)

    assert item.count == 5
    assert sorted(f"{bin_.price:.3f}" for bin_ in bins.paid) == re.findall(
        r"0\.\d{3}", told("1")
    )
    assert len(bins.reserved) == 1
    assert f"**item value** is {value:.3f}" in told("2")
    small, large = sorted(bins.paid, key=lambda bin_: bin_.price)
    for_money = [2 * value / large.price, value / small.price, value / large.price]
    in_full, alone, half = [f"{ratio:.2f}" for ratio in for_money]
    assert f"{in_full} against {alone} for money" in told("4")
    assert f"({half} against {alone})" in told("4")


def test_the_bound_is_reckoned_as_on_the_page() -> None:
    state = undecided(FIVE)
    (item,) = build_item_types(
        [DomainBatch(group.relaxed[0], None, group.count) for group in state.groups]
    )
    bins = BinTypes(state, [item], SchedulingPolicy().overhead_atto_usd)
    large = max(bins.paid, key=lambda bin_: bin_.price)
    held = large.option.allocatable[0] / item.request[0]  # in fractions
    dual, saved = large.price / held, large.price

    assert f"takes {held:.1f} replicas in fractions" in told("7")
    assert (
        f"dual price of the relaxation, {dual:.2f}, all five are worth {item.count * dual:.2f}"
        in told("7")
    )
    assert (
        f"1.5 / {large.option.allocatable[0] / 1000:.1f} of {large.price:.3f}, which is {dual:.2f}"
        in told("2")
    )
    bound = item.count * dual - saved + SchedulingPolicy().overhead_atto_usd / USD
    assert f"**{bound:.3f}**" in told("7")


def test_the_plan_is_that_of_the_page() -> None:
    plan = planned(FIVE, policy=SchedulingPolicy(with_certificate=True))

    assert launched(plan) == {"large:cr-1": 1, "large:on-demand": 1, "small:on-demand": 1}
    assert [
        sum(placed.count for placed in launch.placements) for launch in plan.launches
    ] == [2, 2, 1]
    assert f"**costs {plan.cost_atto_usd_per_hour / USD:.3f}**" in told("5")
    assert plan.lower_bound_atto_usd_per_hour is not None
    assert f"**{plan.lower_bound_atto_usd_per_hour / USD:.3f}**" in told("7")
