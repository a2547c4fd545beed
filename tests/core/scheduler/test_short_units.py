"""Scarce reserved units: which slots should choose first depends on the world, so more than one order is tried."""

import pytest

from bench.mix import Mix, mix_snapshot
from shared.core.policy import SchedulingPolicy
from shared.core.scheduler import solve
from shared.core.solver import by_counts
from shared.core.solver.packing import Trial
from shared.core.solver.reserved import TRIALS
from tests.core.scheduler.world import NOW


def cost(seed: int) -> int:
    snapshot = mix_snapshot(Mix(10_000, seed=seed))
    return solve(snapshot, now=NOW, policy=SchedulingPolicy()).cost_atto_usd_per_hour


def test_slots_with_memory_to_spare_choose_first_where_that_is_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cost(seed=2)
    monkeypatch.setattr(by_counts, "TRIALS", tuple(trial for trial in TRIALS if not trial.by_size))
    assert found < cost(seed=2) * 0.96


def test_the_price_of_a_slot_goes_first_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cost(seed=0)
    monkeypatch.setattr(by_counts, "TRIALS", (Trial(0.1, by_size=True),))
    assert found < cost(seed=0)
