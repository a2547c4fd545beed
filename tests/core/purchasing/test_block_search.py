"""Which blocks to buy: small cases by hand, and as good as trying everything."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations, product

import pytest

from lab.fakes.system import START
from reservoir.core.purchasing.block_search import BlockNeed, BlockSearch, BlockWindow
from tests.core.purchasing.block_world import HOUR, P5, P6, need, window


def search(
    needs: Sequence[BlockNeed], *offers: BlockWindow, waiting: int = 0
) -> BlockSearch:
    return BlockSearch(needs, [[each] for each in offers], START, waiting)


def test_two_workloads_share_a_block_one_after_the_other() -> None:
    found = search(
        [need("a", 4, 10), need("b", 4, 10)], window("cb-1", 4, 0, 24, 500)
    ).best()
    assert [(each.key, each.begins_at - START) for each in found.placed] == [
        ("a", 0 * HOUR),
        ("b", 10 * HOUR),
    ]
    assert (found.total_micro_usd, found.left_over) == (500, ())


def test_what_is_cheaper_on_demand_is_not_bought() -> None:
    found = search([need("a", 4, 10, 499)], window("cb-1", 4, 0, 24, 500)).best()
    assert (found.bought, found.on_demand, found.total_micro_usd) == ((), ("a",), 499)


def test_what_cannot_be_had_otherwise_is_bought() -> None:
    found = search(
        [need("a", 4, 10), need("b", 8, 10)], window("cb-1", 4, 0, 24, 500)
    ).best()
    assert ([each.id for each in found.bought], found.left_over) == (["cb-1"], ("b",))


def test_the_shorter_goes_first_where_waiting_costs() -> None:
    found = search(
        [need("long", 4, 10), need("short", 4, 2)], window("cb-1", 4, 0, 24, 500), waiting=1
    ).best()
    assert [each.key for each in found.placed] == ["short", "long"]
    assert found.waiting_micro_usd == 4 * 2


def test_a_dearer_block_that_begins_sooner_is_bought_where_waiting_costs_more() -> None:
    offers = (window("late", 4, 48, 72, 500), window("soon", 4, 0, 24, 600))
    assert [each.id for each in search([need("a", 4, 10)], *offers).best().bought] == [
        "late"
    ]
    assert [
        each.id for each in search([need("a", 4, 10)], *offers, waiting=1).best().bought
    ] == ["soon"]


def test_units_that_are_owned_come_first() -> None:
    found = search(
        [need("a", 4, 10)], window("cr-1", 4, 0, 24), window("cb-1", 4, 0, 24, 500)
    ).best()
    assert (found.bought, found.placed[0].window.id) == ((), "cr-1")


def test_work_that_a_block_is_too_short_for_runs_on_in_its_extension() -> None:
    slot = [window("cr-1", 4, 0, 8), window("cbe-1", 4, 0, 32, 300, extends="cr-1")]
    found = BlockSearch(
        [need("a", 4, 10)], [slot, [window("cb-1", 4, 0, 24, 400)]], START
    ).best()
    assert [each.id for each in found.bought] == ["cbe-1"]


def test_no_more_than_256_instances_are_bought_at_once() -> None:
    needs = [need("a", 64, 20), need("b", 64, 20)]
    offers = [
        [window("cb-1", 64, 0, 24, 500)],
        [window("cb-2", 64, 12, 36, 501)],
        [window("cb-3", 64, 24, 48, 900)],
    ]
    held = [window("cr-1", 128, 0, 20)]
    assert [
        each.id for each in BlockSearch(needs, offers, START, held=held).best().bought
    ] == ["cb-1", "cb-2"]
    held = [window("cr-1", 192, 0, 20)]
    assert [
        each.id for each in BlockSearch(needs, offers, START, held=held).best().bought
    ] == ["cb-1", "cb-3"]


def test_too_many_workloads_are_refused() -> None:
    with pytest.raises(ValueError, match="6 workloads at most, not 7"):
        search([need(str(index), 1, 1) for index in range(7)])


def _orders(
    hours: Sequence[tuple[int, int]], first: int, last: int, count: int
) -> Iterator[list[int]]:
    """Yield every way to begin these (units, hours) at whole hours so that they fit."""
    for begins in product(*(range(first, last - length + 1) for _, length in hours)):
        load = dict.fromkeys(range(first, last), 0)
        for begin, (units, length) in zip(begins, hours, strict=True):
            for at in range(begin, begin + length):
                load[at] += units
        if max(load.values(), default=0) <= count:
            yield list(begins)


def _by_trying(
    needs: Sequence[BlockNeed],
    offers: Sequence[BlockWindow],
    waiting: int,
    at_once_max: int,
) -> tuple[int, int]:
    """Return the best of all assignments, with every way to begin: how many are left over, and the cost."""
    cheapest: dict[tuple[int, tuple[int, ...]], int | None] = {}
    best = (len(needs) + 1, 0)
    for where in product(range(-1, len(offers)), repeat=len(needs)):
        prices = [
            each.on_demand_micro_usd
            for each, place in zip(needs, where, strict=True)
            if place == -1
        ]
        cost: int | None = sum(each or 0 for each in prices)
        for place in set(where) - {-1}:
            members = tuple(index for index, there in enumerate(where) if there == place)
            if (place, members) not in cheapest:
                cheapest[place, members] = _in_one(
                    offers[place], [needs[each] for each in members], waiting
                )
            there_cost = cheapest[place, members]
            cost = None if cost is None or there_cost is None else cost + there_cost
        bought = [
            offers[place] for place in set(where) - {-1} if offers[place].fee_micro_usd
        ]
        if cost is not None and _bought_at_once(bought) <= at_once_max:
            best = min(best, (prices.count(None), cost))
    return best


def _bought_at_once(bought: Sequence[BlockWindow]) -> int:
    hours = (START + hour * HOUR for hour in range(24))
    return max(
        sum(each.count for each in bought if each.start_at <= at < each.end_at)
        for at in hours
    )


def _in_one(offer: BlockWindow, needs: Sequence[BlockNeed], waiting: int) -> int | None:
    units = [each.units.get(offer.instance_type) for each in needs]
    if None in units:
        return None
    hours = [
        (count or 0, each.duration // HOUR)
        for count, each in zip(units, needs, strict=True)
    ]
    first, last = (offer.start_at - START) // HOUR, (offer.end_at - START) // HOUR
    costs = [
        sum(waiting * count * at for at, (count, _) in zip(begins, hours, strict=True))
        for begins in _orders(hours, first, last, offer.count)
    ]
    return offer.fee_micro_usd + min(costs) if costs else None


@pytest.mark.parametrize("seed", range(60))
def test_as_good_as_trying_everything(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a test
    needs = []
    for index in range(chance.randint(1, 4)):
        otherwise = chance.choice([None, chance.randint(20, 400)])
        more = {P6: chance.randint(1, 4)} if chance.random() < 0.5 else {}
        needs.append(
            need(f"w{index}", chance.randint(1, 4), chance.randint(1, 4), otherwise, **more)
        )
    offers = []
    for index in range(chance.randint(0, 6)):
        start = chance.randint(0, 4)
        lasts, fee = chance.randint(2, 6), chance.choice([0, chance.randint(20, 300)])
        type_ = chance.choice([P5, P6])
        offers.append(
            window(
                f"cb-{index}", chance.randint(1, 6), start, start + lasts, fee, type_=type_
            )
        )
    waiting, at_once_max = chance.choice([0, 1, 10]), chance.choice([4, 8, 256])
    for order in list(permutations(offers))[:2]:
        found = replace(
            search(needs, *order, waiting=waiting), at_once_max=at_once_max
        ).best()
        best = _by_trying(needs, offers, waiting, at_once_max)
        assert (len(found.left_over), found.total_micro_usd) == best
