"""One answer to when a node of a Capacity Block drains for work that wants notice, whoever asks."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lab.fakes.values import node_claim
from reservoir.core.checker import check
from reservoir.core.checking.violation import ViolationCode
from reservoir.core.launching.claim_nodes import node_of
from reservoir.core.model import capacity_reservation
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.snapshot import PlacedReplicas, Snapshot
from reservoir.core.model.workload import Workload
from reservoir.core.node_life.drain import block_drain
from reservoir.core.scheduler import solve
from tests.core.scheduler.world import (
    NOW,
    POLICY,
    RESERVED,
    block,
    demand,
    fx_type,
    markets,
    node,
    placed_count,
    plain,
    planned,
    pool,
    with_demand,
    workload,
)

P5 = fx_type("p5", 4, 4, pods=5)
RESERVED_ONLY = (pool("default", markets(RESERVED)),)
MINUTE = 60
NOTICES = (None, 5 * MINUTE, 8 * MINUTE, 10 * MINUTE, 20 * MINUTE)
LEADS = (timedelta(minutes=8), timedelta(minutes=15))


@pytest.fixture(params=LEADS, ids=["as it is", "with a longer usual notice"])
def ending(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> CapacityReservation:
    """A block that drains within an hour or two; every answer must follow the lead when that is changed."""
    monkeypatch.setattr(capacity_reservation, "USUAL_NOTICE", request.param)
    return block("b", "p5", 2, ends_in=timedelta(minutes=120))


def through_in_time(
    reservation: CapacityReservation,
    notice_s: int | None,
    *,
    late_s: int = 0,
    name: str = "work",
) -> Workload:
    """Return work that is through when its node starts to drain, or so many seconds later."""
    drain = block_drain(reservation, [notice_s or 0])
    assert drain is not None
    duration_s = int((drain.starts_at - NOW).total_seconds()) + late_s
    return workload(name, cpu=1500, duration_s=duration_s, checkpoint_period_s=notice_s)


def strict(*reservations: CapacityReservation, **changes: Any) -> Snapshot:
    return plain(P5, reservations=reservations, node_pools=RESERVED_ONLY, **changes)


@pytest.mark.parametrize("notice_s", NOTICES)
def test_work_may_use_a_block_until_its_node_drains_and_no_second_longer(
    ending: CapacityReservation, notice_s: int | None
) -> None:
    fits = with_demand(strict(ending), demand(through_in_time(ending, notice_s)))
    late = with_demand(strict(ending), demand(through_in_time(ending, notice_s, late_s=1)))

    refused = planned(late)

    assert placed_count(planned(fits)) == 1
    assert [item.code for item in refused.unplaced] == [ReasonCode.DURATION_DOES_NOT_FIT]
    drain = block_drain(ending, [notice_s or 0])
    assert drain is not None
    assert f"drains at {drain.starts_at.isoformat()}" in refused.unplaced[0].message
    assert codes(late, fits) == {ViolationCode.DURATION}


@pytest.mark.parametrize("notice_s", NOTICES)
def test_work_waits_for_a_block_only_if_it_will_be_through_in_time(
    ending: CapacityReservation, notice_s: int | None
) -> None:
    coming = replace(ending, state="scheduled", start_at=NOW + timedelta(minutes=1))
    waits = through_in_time(ending, notice_s, late_s=-MINUTE)

    reasons = [
        planned(with_demand(strict(coming), demand(it))).unplaced[0].code
        for it in (waits, later(waits, 1))
    ]

    assert reasons == [ReasonCode.RESERVATION_NOT_STARTED, ReasonCode.DURATION_DOES_NOT_FIT]


@pytest.mark.parametrize("notice_s", NOTICES)
def test_a_node_that_is_there_takes_work_that_is_through_before_it_drains(
    ending: CapacityReservation, notice_s: int | None
) -> None:
    snapshot = with_node(ending)
    fits = with_demand(snapshot, demand(through_in_time(ending, notice_s)))
    late = with_demand(snapshot, demand(through_in_time(ending, notice_s, late_s=1)))

    assert placed_count(planned(fits)) == 1
    assert placed_count(planned(late)) == 0
    assert codes(late, fits) == {ViolationCode.DURATION}


@pytest.mark.parametrize("notice_s", NOTICES)
def test_work_on_a_node_keeps_its_time_beside_a_neighbour_that_wants_notice(
    ending: CapacityReservation, notice_s: int | None
) -> None:
    """The neighbour is short, and its notice is what decides."""
    tight = replace(
        through_in_time(ending, notice_s, name="tight"), checkpoint_period_s=None
    )
    neighbour = workload(
        "neighbour", cpu=1500, duration_s=MINUTE, checkpoint_period_s=notice_s
    )
    fits = with_demand(with_node(ending), demand(tight), demand(neighbour))
    late = with_demand(with_node(ending), demand(later(tight, 1)), demand(neighbour))

    assert placed_count(planned(fits)) == 2
    assert placed_count(planned(late)) < 2
    assert ViolationCode.DURATION in codes(late, fits)


@pytest.mark.parametrize("notice_s", NOTICES)
def test_a_node_is_seen_to_drain_as_early_as_the_work_on_it_wants(
    ending: CapacityReservation, notice_s: int | None
) -> None:
    """Also while its claim still has the times of the work that came first."""
    there = workload("there", cpu=1500, checkpoint_period_s=notice_s)
    usual, wanted = ending.block_drain(), block_drain(ending, [notice_s or 0])
    assert usual is not None
    claim = replace(
        node_claim("busy", placements=(PlacedReplicas(there.key, 1),)),
        drain_at=usual.starts_at,
        drain_deadline=usual.deadline,
    )

    assert node_of(claim, {there.key: there}).block_drain == wanted


def later(work: Workload, seconds: int) -> Workload:
    assert work.duration_s is not None
    return replace(work, duration_s=work.duration_s + seconds)


def with_node(ending: CapacityReservation) -> Snapshot:
    drain = ending.block_drain()
    assert drain is not None
    there = node(
        "there",
        P5,
        capacity_type=RESERVED,
        drain_at=drain.starts_at,
        drain_deadline=drain.deadline,
    )
    return strict(nodes=(there,))


def codes(snapshot: Snapshot, planned_for: Snapshot) -> set[ViolationCode]:
    """Judge, in one world, the plan that was right in another."""
    plan = solve(planned_for, now=NOW, policy=POLICY)
    return {violation.code for violation in check(snapshot, plan, now=NOW, policy=POLICY)}
