"""Scarce reserved units: which slots should choose first depends on the world, so more than one order is tried."""

from collections.abc import Sequence

import pytest

from bench.worlds.mix import Mix, mix_snapshot
from shared.core.model.policy import SchedulingPolicy
from shared.core.scheduler import solve
from shared.core.solver import pattern_packing
from shared.core.solver.packing import mixing, reserved_units
from shared.core.solver.packing.packing import Packing, Trial
from shared.core.solver.packing.reserved_units import TRIALS_TO_MIX
from tests.core.scheduler.world import NOW


def cost(seed: int) -> int:
    snapshot = mix_snapshot(Mix(10_000, seed=seed))
    return solve(snapshot, now=NOW, policy=SchedulingPolicy()).cost_atto_usd_per_hour


def test_slots_with_memory_to_spare_choose_first_where_that_is_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cost(seed=17)
    monkeypatch.setattr(pattern_packing, "TRIALS_TO_MIX", tuple(trial for trial in TRIALS_TO_MIX if not trial.by_size))
    assert found < cost(seed=17) * 0.96


def test_the_price_of_a_slot_goes_first_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cost(seed=0)
    monkeypatch.setattr(pattern_packing, "TRIALS_TO_MIX", (Trial(0.1, by_size=True),))
    assert found < cost(seed=0)


def test_the_best_of_all_orders_is_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed: list[Packing] = []

    def deal(packing: Packing, trials: Sequence[Packing], worth: Sequence[float]) -> None:
        mixing.deal_mixed(packing, trials, worth)
        mixed.append(packing)

    def deal_nothing(_packing: Packing, _trials: Sequence[Packing], _worth: Sequence[float]) -> None:
        """Leave everything to the order that served best."""

    monkeypatch.setattr(reserved_units, "deal_mixed", deal)
    found = cost(seed=17)
    monkeypatch.setattr(reserved_units, "deal_mixed", deal_nothing)
    assert found < cost(seed=17) * 0.97
    assert len(mixed) == 1
    assert min(mixed[0].left) >= 0
    assert min(mixed[0].supply.units.values()) >= 0
