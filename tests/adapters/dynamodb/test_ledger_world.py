"""The ledger under every interleaving that a seed can think of (the bench runs the same world for longer)."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.bench.planners.ec2 import Chaos, SimulatedClock
from lab.bench.planners.threads import FastClock, ThreadedLedger
from lab.bench.planners.world import LedgerWorld
from lab.fakes.stores.state import MemoryState
from lab.local.stores import dynamodb_stores


def world(seed: int, planners: int, totals: tuple[int, ...], chaos: Chaos) -> LedgerWorld:
    clock = SimulatedClock()
    state = MemoryState(clock)
    return LedgerWorld(
        (state.workloads, state.reservations, state.node_claims),
        clock,
        seed=seed,
        planners=planners,
        totals=totals,
        chaos=chaos,
    )


CHAOS = st.builds(
    Chaos,
    death=st.sampled_from([0.0, 0.05, 0.2]),
    duplicate=st.sampled_from([0.0, 0.3]),
    late_answer=st.sampled_from([0.0, 0.5]),
    lifetime_s=st.sampled_from([60.0, 600.0]),
)


@settings(max_examples=15)
@given(
    st.integers(0, 2**32),
    st.integers(1, 8),
    st.lists(st.integers(1, 12), min_size=1, max_size=3),
    CHAOS,
)
def test_nothing_is_promised_twice_and_nothing_leaks(
    seed: int, planners: int, totals: list[int], chaos: Chaos
) -> None:
    simulated = world(seed, planners, tuple(totals), chaos)

    figures = simulated.run(250)

    assert figures.twice == 0
    assert figures.refused == 0
    assert simulated.leaks() == {}


def test_a_unit_that_an_outsider_took_is_recovered_from_without_a_leak() -> None:
    simulated = world(7, 4, (4, 8, 16), Chaos(outsider_every_s=5, lifetime_s=300))

    figures = simulated.run(1500)

    assert figures.refused > 0
    assert figures.twice == 0
    assert simulated.leaks() == {}


def test_reserved_units_are_used_as_far_as_observations_allow() -> None:
    simulated = world(11, 4, (1, 4, 16, 32), Chaos())

    figures = simulated.run(2500)

    assert figures.ledger_utilisation_percent >= 99
    assert figures.utilisation_percent >= 99


def test_units_that_change_hands_often_are_used_as_far_as_the_age_of_counts_allows() -> (
    None
):
    """EC2's lag hides some: launches that a count may contain cannot be told from those that it lacks."""
    simulated = world(11, 4, (16, 32), Chaos(lifetime_s=400))

    figures = simulated.run(3000)

    assert figures.of_feasible_percent >= 99
    assert figures.twice == figures.refused == 0
    assert simulated.leaks() == {}


def test_the_world_notices_a_ledger_that_counts_too_little() -> None:
    """The invariant is not vacuous: without leases, lagging counts promise units twice."""
    simulated = world(3, 4, (4, 8), Chaos(lifetime_s=120))
    save = simulated.reservations.save_observation

    def forgetful(reservation: Any, **arguments: Any) -> Any:
        stored = simulated.reservations.get(reservation.id)
        leased = 0 if stored is None else stored.balance.outstanding_count
        return save(_with(reservation, leased), **arguments)

    simulated.reservations.save_observation = forgetful  # type: ignore[method-assign] # a ledger without its point
    figures = simulated.run(1500)

    assert figures.twice > 0
    assert figures.refused > 0


def _with(reservation: Any, more: int) -> Any:
    return replace(
        reservation,
        total_count=reservation.total_count + more,
        available_count=reservation.available_count + more,
    )


@pytest.mark.embedded
def test_dynamodb_counts_exactly_as_the_ledger_in_memory(dynamodb: Any) -> None:
    """The same mishaps in the same order: every commit, conflict and idle second is the same."""
    chaos = Chaos(
        death=0.05, duplicate=0.3, late_answer=0.3, lifetime_s=60, outsider_every_s=10
    )
    stores = dynamodb_stores(dynamodb)
    clock = SimulatedClock()
    stored = LedgerWorld(
        (stores.workloads, stores.reservations, stores.node_claims),
        clock,
        seed=160,
        planners=3,
        totals=(1, 4, 8),
        chaos=chaos,
    )
    remembered = world(160, 3, (1, 4, 8), chaos)

    assert stored.run(50) == remembered.run(50)
    assert stored.leaks() == remembered.leaks() == {}
    assert stored.figures.conflicts > 0
    assert stored.figures.refused > 0


@pytest.mark.embedded
def test_planners_in_threads_never_meet_on_dynamodb(dynamodb: Any) -> None:
    clock = FastClock()
    stores = dynamodb_stores(dynamodb)
    ledger = ThreadedLedger(
        (stores.workloads, stores.reservations, stores.node_claims),
        clock,
        totals=(8, 24),
        seed=1,
        death=0.05,
    )

    figures = ledger.run(planners=6, operations=200)

    assert (figures.twice, figures.leaks) == (0, 0)
    assert figures.commits > 0
    assert figures.deaths > 0
