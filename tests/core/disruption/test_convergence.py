"""Passes never make a fleet dearer, never oscillate, and lose no replica."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from reservoir.core.model.instance_type import CapacityType
from tests.core.disruption.world import (
    ON_DEMAND,
    RESERVED,
    SPOT,
    Fleet,
    instance_type,
    node_pool,
    reservation,
    workload,
)

TYPES = (
    instance_type("small", 2, on_demand=100_000, spot=40_000),
    instance_type("middle", 4, on_demand=190_000, spot=81_000),
    instance_type("large", 8, on_demand=400_000, spot=160_000),
)
CPUS = {"small": 2, "middle": 4, "large": 8}
WORK = {w.key: w for w in (workload("one", 1), workload("two", 2), workload("three", 3))}
PASSES_MAX = 12

nodes = st.tuples(
    st.sampled_from(sorted(CPUS)),
    st.sampled_from([RESERVED, SPOT, ON_DEMAND]),
    st.lists(st.sampled_from(sorted(WORK)), max_size=4),
)


def make_fleet(
    drawn: list[tuple[str, CapacityType, list[str]]], free: dict[str, int]
) -> Fleet:
    standing = Counter(type_name for type_name, market, _ in drawn if market is RESERVED)
    reservations = tuple(
        reservation(f"cr-{name}", name, standing[name] + free[name], free[name])
        for name in sorted(CPUS)
    )
    fleet = Fleet(TYPES, (node_pool(),), WORK, reservations)
    for index, (type_name, market, keys) in enumerate(drawn):
        placements: Counter[str] = Counter()
        room = CPUS[type_name] * 1000
        for key in keys:
            if WORK[key].requests["cpu"] <= room:
                room -= WORK[key].requests["cpu"]
                placements[key] += 1
        in_reservation = f"cr-{type_name}" if market is RESERVED else None
        fleet.add_node(
            f"d{index}", type_name, market, placements, reservation_id=in_reservation
        )
    return fleet


def replicas(fleet: Fleet) -> Counter[str]:
    counts: Counter[str] = Counter()
    for claim in fleet.claims.values():
        for placed in claim.placements:
            counts[placed.workload_key] += placed.count
    return counts


# a pass is several solves; hypothesis's own clock would flake on a busy machine
@settings(deadline=None)
@given(
    st.lists(nodes, min_size=1, max_size=8),
    st.fixed_dictionaries({name: st.integers(0, 2) for name in sorted(CPUS)}),
)
def test_passes_get_cheaper_each_time_and_come_to_rest(
    drawn: list[tuple[str, CapacityType, list[str]]], free: dict[str, int]
) -> None:
    fleet = make_fleet(drawn, free)
    before = replicas(fleet)
    for _ in range(PASSES_MAX):
        cost = fleet.cost()
        decision = fleet.decide()
        if not decision.commands:
            break
        fleet.apply(decision)

        assert fleet.cost() < cost
        assert replicas(fleet) == before
    else:
        raise AssertionError(f"no rest after {PASSES_MAX} passes")


@settings(deadline=None, max_examples=25)  # as above
@given(st.lists(nodes, min_size=1, max_size=6), st.integers(0, 2))
def test_the_same_world_gives_the_same_decision(
    drawn: list[tuple[str, CapacityType, list[str]]], free: int
) -> None:
    fleet = make_fleet(drawn, dict.fromkeys(CPUS, free))

    assert fleet.decide() == fleet.decide()
