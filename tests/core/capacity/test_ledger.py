"""The ledger's arithmetic against a simulated EC2: what is promised never exceeds what there is."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from reservoir.core.capacity.ledger import (
    COUNT_LAG,
    Balance,
    exhausted,
    is_absorbed_by,
    observed,
)
from reservoir.core.model.node_claim import Lease, LeaseState

START = datetime(2026, 1, 15, tzinfo=UTC)
LAG_MAX_S = int(COUNT_LAG.total_seconds())


def settled(at: datetime) -> Lease:
    return Lease("cr-1", LeaseState.SETTLED, at)


def test_an_observation_contains_a_launch_only_after_the_lag() -> None:
    assert not is_absorbed_by(settled(START), START)
    assert not is_absorbed_by(settled(START), START + COUNT_LAG - timedelta(seconds=1))
    assert is_absorbed_by(settled(START), START + COUNT_LAG)


def test_a_launch_in_flight_is_never_absorbed() -> None:
    assert not is_absorbed_by(Lease("cr-1"), START + timedelta(days=1))


def test_a_refused_unit_that_is_returned_frees_nothing() -> None:
    after_refusal = exhausted(Balance(available_count=5, outstanding_count=2))

    assert (
        Balance(
            after_refusal.available_count, after_refusal.outstanding_count - 1
        ).free_units
        <= 0
    )


@dataclass
class World:
    """A reservation in EC2 whose described count lags, and our balance of it."""

    total: int
    now: datetime = START
    instances: int = 0
    history: list[tuple[datetime, int]] = field(default_factory=list)
    balance: Balance = field(default_factory=lambda: Balance(0, 0))
    leases: list[Lease] = field(default_factory=list)

    def described(self, lag: timedelta) -> int:
        """EC2's count as it was ``lag`` ago."""
        seen = 0
        for at, instances in self.history:
            if at <= self.now - lag:
                seen = instances
        return self.total - seen

    def step(self, action: str, lag_s: int) -> None:
        self.now += timedelta(seconds=7)
        if action == "lease" and self.balance.free_units > 0:
            self.balance = Balance(
                self.balance.available_count, self.balance.outstanding_count + 1
            )
            self.leases.append(Lease("cr-1"))
        elif action == "launch":
            for index, lease in enumerate(self.leases):
                if lease.state is LeaseState.HELD:
                    self.leases[index] = settled(self.now)
                    self.instances += 1
                    self.history.append((self.now, self.instances))
                    break
        elif action == "observe":
            absorbed = [lease for lease in self.leases if is_absorbed_by(lease, self.now)]
            self.leases = [lease for lease in self.leases if lease not in absorbed]
            self.balance = observed(
                self.balance, self.described(timedelta(seconds=lag_s)), len(absorbed)
            )


@given(
    st.integers(0, 5),
    st.lists(
        st.tuples(
            st.sampled_from(["lease", "launch", "observe"]), st.integers(0, LAG_MAX_S)
        )
    ),
)
def test_units_promised_and_used_never_exceed_the_total(
    total: int, steps: list[tuple[str, int]]
) -> None:
    world = World(total)
    for action, lag_s in steps:
        world.step(action, lag_s)
        held = sum(lease.state is LeaseState.HELD for lease in world.leases)

        assert world.instances + held <= total
