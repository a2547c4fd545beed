"""What the next best places would have cost."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import FallbackStep
from reservoir.core.what_if.alternatives import Alternative, alternatives
from tests.core.scheduler.world import (
    NOW,
    ON_DEMAND,
    POLICY,
    RESERVED,
    demand,
    fx_reserved,
    planned,
    reservation,
    with_demand,
    workload,
)


def of(snapshot: Snapshot, key: str = "ns/job", limit: int = 20) -> tuple[Alternative, ...]:
    return alternatives(
        snapshot, planned(snapshot), key, now=NOW, policy=POLICY, limit=limit
    )


def told(found: tuple[Alternative, ...]) -> list[tuple[str, int | None, int]]:
    places = [
        (each, each.offering.reservation_id or str(each.offering.capacity_type))
        for each in found
    ]
    return [
        (f"{each.offering.instance_type} {where}", each.node_count, each.chosen_count)
        for each, where in places
    ]


def job(count: int = 1, **changes: Any) -> Snapshot:
    return with_demand(fx_reserved(), demand(workload("job", cpu=1500, **changes), count))


def test_what_was_chosen_comes_first_then_from_cheap_to_dear() -> None:
    found = of(job())
    assert told(found)[:2] == [("small r-small", 1, 1), ("medium r-medium", 1, 0)]
    prices = [each.price_micro_usd_per_hour for each in found[1:]]
    assert prices == sorted(prices, key=lambda price: price or 0)
    assert [each.reason for each in found[:2]] == [
        "chosen",
        "1 unit is free: others serve as well",
    ]
    assert found[-1].reason.startswith("dearer by ")


def test_reserved_places_come_in_the_order_in_which_plans_use_them() -> None:
    """As each reservation fills up, the next plan chooses the place that was told next."""
    soon = reservation("r-soon", "large", 1, end_at=NOW + timedelta(hours=30))
    base = fx_reserved(soon)
    status = base.node_classes[0].status
    known = replace(status, reservation_ids=(*status.reservation_ids, "r-soon"))
    node_classes = (replace(base.node_classes[0], status=known),)
    snapshot = with_demand(
        replace(base, node_classes=node_classes), demand(workload("job", cpu=1500))
    )
    first = [each.offering.reservation_id for each in of(snapshot)]
    told_in_order = [each for each in first if each is not None]
    used: list[str] = []
    while (chosen := of(snapshot)[0].offering.reservation_id) is not None:
        used.append(chosen)
        left = [
            replace(each, free_units=0) if each.id == chosen else each
            for each in snapshot.reservations
        ]
        snapshot = replace(snapshot, reservations=tuple(left))
    assert told_in_order == used
    assert len(used) > 2


def test_the_price_is_for_all_replicas() -> None:
    found = of(job(4))
    large = next(each for each in found if each.offering.instance_type == "large")
    assert large.node_count == 2  # three of them fit one
    small = next(
        each
        for each in found
        if each.offering.instance_type == "small" and each.price_micro_usd_per_hour
    )
    assert small.node_count == 4


def test_what_could_not_serve_says_why() -> None:
    full = reservation("r-large", "large", 2, free_units=0)
    coming = reservation(
        "r-later", "large", 2, state="scheduled", start_at=NOW + timedelta(hours=1)
    )
    base = fx_reserved(full, coming)
    ids = tuple(
        sorted((*base.node_classes[0].status.reservation_ids, "r-large", "r-later"))
    )
    status = replace(base.node_classes[0].status, reservation_ids=ids)
    snapshot = replace(base, node_classes=(replace(base.node_classes[0], status=status),))
    strict = workload(
        "job", cpu=1500, fallback=(FallbackStep(RESERVED, 3600), FallbackStep(ON_DEMAND))
    )
    found = of(with_demand(snapshot, demand(strict)), limit=100)
    reasons = {
        each.offering.reservation_id or str(each.offering.capacity_type): each.reason
        for each in found
    }
    assert (
        reasons["r-large"]
        == "large reserved in zone-1 of r-large has no free unit (2 in all)"
    )
    assert reasons["r-later"].startswith("large reserved in zone-1 of r-later starts at ")
    assert "the fallback ladder has not reached on-demand" in reasons["on-demand"]


def test_units_that_others_took() -> None:
    urgent = workload("urgent", cpu=1500, priority=10)
    snapshot = with_demand(
        fx_reserved(), demand(urgent, 2), demand(workload("job", cpu=1500))
    )
    found = of(snapshot)
    assert {each.reason for each in found if each.offering.reservation_id} == {
        "all of its free units are used"
    }


def test_no_more_than_asked_for_and_nothing_for_who_did_not_wait() -> None:
    assert len(of(job(), limit=3)) == 4
    assert of(job(), key="ns/nobody") == ()
