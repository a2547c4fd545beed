"""Teams at their bounds leave a small workload its place in each pass."""

import pytest

from lab.bench.harness import fresh
from lab.bench.scheduling.neighbours import world
from reservoir.manifests.kinds.workload_bounds import excesses


@pytest.mark.parametrize("kind", ["terms", "preferences", "affinity"])
def test_every_workload_is_within_the_bounds_of_one(kind: str) -> None:
    for demand in world(kind, 5).demands:
        assert not list(excesses(demand.workload))


def test_a_small_workload_has_its_place_in_each_pass() -> None:
    figures = fresh(
        "lab.bench.scheduling.neighbours:measure", "neighbours-preferences-20", "2"
    )
    assert figures["passes_that_serve_the_small_one"] == 2
    assert figures["served_at_their_bounds"]
