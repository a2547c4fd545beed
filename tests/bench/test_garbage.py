"""A pass leaves nothing that only the collector of cyclic garbage could free, so that pausing it costs no memory."""

import gc
from collections.abc import Callable, Iterator

import pytest

from lab.bench.worlds.cases import WORLDS
from lab.bench.worlds.common import NOW
from lab.bench.worlds.mix import Mix, mix_snapshot
from reservoir.core.checker import check
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduler import solve
from reservoir.core.serialisation.json_codec import dumps, loads

POLICY = SchedulingPolicy()


def a_pass(text: str) -> None:
    """Parse, solve, check and write, as the planner does."""
    snapshot = loads(Snapshot, text)
    plan = solve(snapshot, now=NOW, policy=POLICY)
    check(snapshot, plan, now=NOW, policy=POLICY)
    dumps(plan)


@pytest.fixture(autouse=True)
def without_the_collector() -> Iterator[None]:
    """Let nothing but reference counts free memory."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    "make",
    [
        lambda: WORLDS["diverse-500"].make(0),
        lambda: mix_snapshot(Mix(300, shapes=30, existing=5)),
        lambda: mix_snapshot(Mix(200, shapes=20, reserved_percent=300)),
    ],
)
def test_a_pass_leaves_no_cycles(make: Callable[[], Snapshot]) -> None:
    text = dumps(make())
    a_pass(text)  # what is imported and remembered for good is made here
    gc.collect()
    a_pass(text)
    assert gc.collect() == 0
