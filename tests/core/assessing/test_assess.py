"""What an account makes of its reservations."""

from datetime import UTC, datetime, timedelta
from typing import Any

from lab.fakes.values import ZONE, reservation
from reservoir.core.assessing.assess import ELSEWHERE, UNTAGGED, Assessment, Running, assess
from reservoir.core.model.capacity_reservation import ReservationKind

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
MONTH = timedelta(days=30)
PRICE = 60_000_000
PRICES = {"p5.48xlarge": PRICE}


def running(name: str, reservation_id: str | None = None, **changes: Any) -> Running:
    facts = {
        "instance_type": "p5.48xlarge",
        "zone": ZONE,
        "platform": "Linux/UNIX",
        "tenancy": "default",
        "lifecycle": "",
        "tags": {"team": "research"},
    }
    return Running(name, reservation_id=reservation_id, **{**facts, **changes})


def judged(
    reservations: list[Any], instances: list[Running], prices: dict[str, int] | None = None
) -> Assessment:
    return assess(reservations, instances, PRICES if prices is None else prices, NOW, MONTH)


def test_who_holds_units_is_told_by_tags_and_what_is_not_shown_is_said() -> None:
    here = [
        running("i-1", "cr-1"),
        running("i-2", "cr-1", tags={"Name": "x", "eks:nodegroup-name": "gpu"}),
        running("i-3", "cr-1", tags={}),
    ]
    (use,) = judged([reservation("cr-1", 6, 2)], here).uses
    assert use.holders == {
        "eks:nodegroup-name=gpu": 1,
        "team=research": 1,
        UNTAGGED: 1,
        ELSEWHERE: 1,
    }
    assert (use.free_count, use.idle_micro_usd_per_hour) == (2, 2 * PRICE)


def test_without_a_price_idle_money_is_not_known_and_a_full_one_costs_nothing() -> None:
    found = judged([reservation("cr-1", 2), reservation("cr-2", 2, 0)], [], {})
    idle = {use.reservation.id: use.idle_micro_usd_per_hour for use in found.uses}
    assert idle == {"cr-1": None, "cr-2": 0}
    (windows,) = judged([reservation("cr-1", 2, platform="Windows")], []).uses
    assert windows.idle_micro_usd_per_hour is None, "the price is that of Linux"


def test_on_demand_counts_only_as_far_as_units_of_its_kind_are_free() -> None:
    outside = [running(f"i-{number}") for number in range(3)]
    others = [
        running("i-spot", lifecycle="spot"),
        running("i-other", zone="us-east-1f"),
        running("i-own", tenancy="dedicated"),
        running("i-in", "cr-1"),
    ]
    (beside,) = judged([reservation("cr-1", 3, 2)], [*outside, *others]).beside
    assert (beside.on_demand_count, beside.free_count, beside.count) == (3, 2, 2)
    assert beside.micro_usd_per_hour == 2 * PRICE
    assert beside.holders == {"team=research": 3}


def test_blocks_hold_nothing_that_runs_elsewhere() -> None:
    block = reservation("cr-1", 3, kind=ReservationKind.CAPACITY_BLOCK)
    assert judged([block], [running("i-1")]).beside == ()


def test_what_has_ended_is_left_out_and_what_ends_soon_is_said() -> None:
    soon = reservation("cr-1", end_at=NOW + MONTH)
    later = reservation("cr-2", end_at=NOW + MONTH + timedelta(seconds=1))
    ended = reservation("cr-3", state="cancelled")
    found = judged([soon, later, ended], [])
    assert {use.reservation.id: use.ends_soon for use in found.uses} == {
        "cr-1": True,
        "cr-2": False,
    }


def test_the_dearest_idle_comes_first_and_what_is_to_come_idles_not() -> None:
    found = judged(
        [
            reservation("cr-1", 2),
            reservation("cr-2", 4),
            reservation("cr-3", 9, state="scheduled"),
        ],
        [],
    )
    assert [use.reservation.id for use in found.uses] == ["cr-2", "cr-1", "cr-3"]
    assert found.uses[-1].free_count == 0
