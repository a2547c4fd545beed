"""The bench `topology`: ranks are dealt so that few hops are between those that follow each other."""

import pytest

from lab.bench.exact.topology import measure


@pytest.mark.parametrize(("kind", "target"), [("dealt", 1.0), ("replaced", 1.02)])
def test_few_hops_are_between_ranks_that_follow_each_other(
    kind: str, target: float
) -> None:
    figures = measure(kind, "200")
    over = figures["over_best"]
    assert isinstance(over, float)
    assert over <= target
