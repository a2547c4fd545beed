"""A small workload has its place beside a heavy neighbour, whichever way planners are divided."""

from lab.bench.scheduling import heavy_neighbour


def test_both_ways_place_the_small_workload() -> None:
    apart = heavy_neighbour.with_a_planner_for_each_group("20")
    together = heavy_neighbour.with_one_planner("20")

    assert apart.keys() == {"apart_small_waits_cpu_s", "apart_heavy_pass_cpu_s"}
    assert together["together_small_waits_longest_cpu_s"]
