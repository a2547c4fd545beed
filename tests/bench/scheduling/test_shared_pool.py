"""A small workload has its place in each pass beside a team at its bounds in the same pool."""

import pytest

from lab.bench.scheduling import shared_pool


@pytest.mark.parametrize("kind", ["plain", "terms"])
def test_the_small_workload_has_its_place_in_each_pass(kind: str) -> None:
    found = shared_pool.measure(f"shared-pool-{kind}-5", "2")

    assert found["passes"] == 2
    assert found.keys() >= {"alone_cpu_s", "waits_p50_cpu_s", "waits_p99_cpu_s"}
