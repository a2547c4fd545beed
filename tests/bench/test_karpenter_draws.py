"""The pods of Karpenter's own benchmark: what is drawn here is what its generator draws."""

import pytest

from lab.bench.worlds.cases import WORLDS
from lab.bench.worlds.ladder import diverse_snapshot


def test_a_thousand_pods_of_karpenters_seed_are_665_kinds() -> None:
    assert len(WORLDS["karpenter-1000"].make(0).demands) == 665


@pytest.mark.parametrize("count", [500, 1000, 2000])
def test_each_seed_draws_other_pods_of_the_same_mix(count: int) -> None:
    worlds = [WORLDS[f"karpenter-{count}"].make(seed) for seed in range(3)]

    assert all(
        sum(demand.pending_count for demand in world.demands) == count for world in worlds
    )
    counts = {
        tuple(demand.pending_count for demand in world.demands)
        for world in (*worlds, diverse_snapshot(count))
    }
    assert len(counts) == 4
