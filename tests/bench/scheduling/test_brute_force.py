"""The bench of small worlds compares plans with the best of all."""

from lab.bench.__main__ import benches
from lab.bench.scheduling import brute_force


def test_no_plan_costs_less_than_the_least() -> None:
    assert "brute_force" in {name for name, _ in benches()}
    assert brute_force.cases() == ["brute-force-plain", "brute-force-topology"]
    figures = brute_force.measure("topology", "10")
    assert figures["worlds"] == 10
    assert float(str(figures["cost_over_least"])) >= 1.0
    assert (figures["cost_over_least"] == 1.0) is (figures["dearer_worlds"] == 0)
