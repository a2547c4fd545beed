"""Shares against two oracles that share nothing with the code: levels of water, and all allocations of small worlds."""

from fractions import Fraction
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from reservoir.core.model.team import Quota, Team
from reservoir.core.sharing.quota_groups import QuotaGroup
from reservoir.core.sharing.water_filling import shared_out
from tests.core.scheduler.world import reservation
from tests.core.sharing.world import TERM

KEY = "block"


def shares(
    units: int,
    nominal: list[int],
    weights: list[int],
    wanted: list[int],
    limits: list[int | None] | None = None,
) -> list[int]:
    names = [f"team-{index}" for index in range(len(nominal))]
    caps = limits or [None] * len(nominal)
    quotas = {
        name: Quota((TERM,), own, cap)
        for name, own, cap in zip(names, nominal, caps, strict=True)
    }
    teams = {
        name: Team(name, weight=weight) for name, weight in zip(names, weights, strict=True)
    }
    group = QuotaGroup(KEY, (reservation("cr-1", "p5", units),), quotas)
    given_units = shared_out(
        [group],
        teams,
        {(name, KEY): count for name, count in zip(names, wanted, strict=True)},
    )
    return [given_units.get((name, KEY), 0) for name in names]


def water_level(
    capacity: Fraction, weights: list[int], wanted: list[int]
) -> list[Fraction]:
    """Fill vessels of width ``weights`` and volume ``wanted`` to one level, between where vessels are full."""
    edges = sorted(
        {Fraction(want, weight) for want, weight in zip(wanted, weights, strict=True)}
        | {Fraction(0)}
    )
    level = Fraction(0)
    for edge in edges:
        volume = sum(
            min(Fraction(want), edge * weight)
            for want, weight in zip(wanted, weights, strict=True)
        )
        if volume <= capacity:
            level = edge
            continue
        held = sum(
            min(Fraction(want), level * weight)
            for want, weight in zip(wanted, weights, strict=True)
        )
        open_width = sum(
            weight
            for want, weight in zip(wanted, weights, strict=True)
            if want > level * weight
        )
        level += (capacity - held) / open_width
        break
    return [
        min(Fraction(want), level * weight)
        for want, weight in zip(wanted, weights, strict=True)
    ]


@given(st.data())
def test_what_is_lent_is_the_water_level_rounded_to_whole_units(
    data: st.DataObject,
) -> None:
    count = data.draw(st.integers(1, 6))
    weights = data.draw(st.lists(st.integers(1, 5), min_size=count, max_size=count))
    wanted = data.draw(st.lists(st.integers(0, 60), min_size=count, max_size=count))
    units = data.draw(st.integers(0, 80))
    found = shares(units, [0] * count, weights, wanted)
    level = water_level(Fraction(units), weights, wanted)
    assert sum(found) == min(units, sum(wanted))
    for got, ideal, weight in zip(found, level, weights, strict=True):
        assert abs(got - ideal) < max(weight, 1) + 1


@given(st.data())
def test_small_worlds_have_no_better_allocation(data: st.DataObject) -> None:
    """All allocations: nobody below what it owns and wants while units are elsewhere, then the fairest loans."""
    count = data.draw(st.integers(1, 3))
    nominal = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    weights = data.draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
    wanted = data.draw(st.lists(st.integers(0, 6), min_size=count, max_size=count))
    units = data.draw(st.integers(sum(nominal), 8)) if sum(nominal) <= 8 else sum(nominal)
    caps: list[int | None] = data.draw(
        st.lists(st.one_of(st.none(), st.integers(0, 3)), min_size=count, max_size=count)
    )
    found = shares(units, nominal, weights, wanted, caps)

    def is_allowed(allocation: tuple[int, ...]) -> bool:
        within = all(
            got <= want and (cap is None or got - own <= cap)
            for got, want, own, cap in zip(allocation, wanted, nominal, caps, strict=True)
        )
        guaranteed = all(
            got >= min(want, own)
            for got, want, own in zip(allocation, wanted, nominal, strict=True)
        )
        return within and guaranteed and sum(allocation) <= units

    def quality(allocation: tuple[int, ...]) -> tuple[int, list[Fraction]]:
        loans = [
            Fraction(max(0, got - own), weight)
            for got, own, weight in zip(allocation, nominal, weights, strict=True)
        ]
        return -sum(allocation), sorted(loans, reverse=True)

    allowed = [
        each for each in product(*(range(want + 1) for want in wanted)) if is_allowed(each)
    ]
    assert is_allowed(tuple(found))
    most = min(quality(each)[0] for each in allowed)
    assert quality(tuple(found))[0] == most, "work-conserving"
    # One unit is the grain: nobody's loan could shrink by a whole unit to raise a smaller one above it.
    for giver, taker in product(range(count), repeat=2):
        moved = list(found)
        moved[giver] -= 1
        moved[taker] += 1
        if giver != taker and min(moved) >= 0 and is_allowed(tuple(moved)):
            assert quality(tuple(found))[1][0] <= quality(tuple(moved))[1][0]


def test_two_groups_count_by_the_larger_share() -> None:
    big, small = reservation("cr-big", "p5", 100), reservation("cr-small", "p4", 10)
    quota = {"a": Quota((TERM,), 0), "b": Quota((TERM,), 0)}
    groups = [
        QuotaGroup("big", (big,), quota),
        QuotaGroup("small", (small,), quota, {"a": 5}),
    ]
    teams = {"a": Team("a"), "b": Team("b")}
    found = shared_out(groups, teams, {("a", "big"): 100, ("b", "big"): 100})
    # A borrows half of the small block already, so B comes up to that half of the big one first, then all else is even.
    assert found == {("a", "big"): 50, ("b", "big"): 50}
    scarce = [
        QuotaGroup("big", (reservation("cr-big", "p5", 100, free_units=40),), quota),
        groups[1],
    ]
    assert shared_out(scarce, teams, {("a", "big"): 100, ("b", "big"): 100}) == {
        ("b", "big"): 40
    }
