"""Blocks and durations, scheduled reservations, ladders, price caps, priorities, gangs, shares, reasons with times."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.policy import NoDurationPolicy, SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import AffinityTerm, FallbackStep, Gang, Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator
from tests.core.scheduler.world import (
    DEFAULT_OFFERINGS,
    NOW,
    ON_DEMAND,
    RESERVED,
    SPOT,
    block,
    demand,
    fx_type,
    launched,
    markets,
    near,
    node,
    placed_count,
    plain,
    planned,
    pool,
    replicas_by,
    require,
    reservation,
    spread,
    types_launched,
    unplaced_count,
    with_demand,
    workload,
)

HOUR = timedelta(hours=1)
P5 = fx_type("p5", 4, 4, pods=5)
BIG = fx_type("big", 32, 32, pods=50)
SMALL = fx_type("small", 2, 2)
RESERVED_ONLY = (pool("default", markets(RESERVED)),)


def slot_sized(name: str = "job", **changes: Any) -> Workload:
    """Fill one p5 each."""
    return workload(name, cpu=3500, **changes)


def strict(*reservations: CapacityReservation, **changes: Any) -> Snapshot:
    return plain(
        P5, BIG, SMALL, reservations=reservations, node_pools=RESERVED_ONLY, **changes
    )


# -- the order among reservations


@pytest.mark.parametrize(
    ("choices", "chosen"),
    [
        (
            [
                block("b-late", "p5", 1, ends_in=9 * HOUR),
                block("c-soon", "p5", 1, ends_in=5 * HOUR),
            ],
            "c-soon",
        ),
        (
            [
                block("a-too-soon", "p5", 1, ends_in=HOUR),
                block("b-late", "p5", 1, ends_in=9 * HOUR),
            ],
            "b-late",
        ),
        (
            [reservation("a-odcr", "p5", 1), block("z-block", "p5", 1, ends_in=9 * HOUR)],
            "z-block",
        ),
        ([reservation("a-one", "p5", 1), reservation("b-seven", "p5", 7)], "b-seven"),
        ([reservation("a-big", "big", 1), reservation("b-p5", "p5", 1)], "b-p5"),
        ([reservation("b", "p5", 1), reservation("a", "p5", 1)], "a"),
        (
            [
                reservation("a", "p5", 1, kind=ReservationKind.INTERRUPTIBLE),
                reservation("b", "p5", 1),
            ],
            "b",
        ),
    ],
    ids=[
        "ends soonest",
        "but still fits",
        "block before ODCR",
        "most units",
        "smallest",
        "id",
        "interruptible last",
    ],
)
def test_the_order_of_reservations(choices: list[CapacityReservation], chosen: str) -> None:
    plan = planned(with_demand(strict(*choices), demand(slot_sized(duration_s=2 * 3600))))
    assert [launch.offering.reservation_id for launch in plan.launches] == [chosen]


def test_tiny_work_leaves_a_huge_slot_that_ends_sooner() -> None:
    snapshot = strict(
        block("a-huge", "big", 1, ends_in=5 * HOUR), reservation("b-small", "small", 1)
    )
    plan = planned(with_demand(snapshot, demand(workload(cpu=1000, duration_s=3600))))
    assert launched(plan) == {"small:b-small": 1}


@pytest.mark.parametrize(("floor", "expected"), [(0, "big"), (10, "small")])
@pytest.mark.parametrize("apart", [(), (near(labels.HOSTNAME),)], ids=["", "one per node"])
def test_a_policy_floor_keeps_tiny_work_off_a_slot(
    floor: int, expected: str, apart: tuple[AffinityTerm, ...]
) -> None:
    snapshot = plain(BIG, SMALL, reservations=(reservation("a-huge", "big", 1),))
    tiny = workload(cpu=1000, anti_affinity=apart)
    plan = planned(
        with_demand(snapshot, demand(tiny)),
        policy=SchedulingPolicy(reserved_floor_percent=floor),
    )
    assert types_launched(plan) == {expected: 1}


def test_a_policy_floor_keeps_nobody_off_a_slot_who_has_no_other_place() -> None:
    snapshot = strict(reservation("a-huge", "big", 1))
    plan = planned(
        with_demand(snapshot, demand(workload(cpu=1000))),
        policy=SchedulingPolicy(reserved_floor_percent=10),
    )
    assert launched(plan) == {"big:a-huge": 1}


def test_scarce_units_go_to_what_is_dearest_elsewhere() -> None:
    priced = fx_type("p5", price={SPOT: 100_000, ON_DEMAND: 1_000_000})
    snapshot = plain(priced, reservations=(reservation("r", "p5", 1),))
    calm = slot_sized(
        "calm", node_selector=require(labels.CAPACITY_TYPE, Operator.NOT_IN, "spot")
    )
    plan = planned(with_demand(snapshot, demand(slot_sized("any")), demand(calm)))
    assert launched(plan) == {"p5:r": 1, "p5:spot": 1}


# -- blocks and time


@pytest.mark.parametrize(
    ("ends_in", "ultra", "duration", "notice", "fits"),
    [
        (timedelta(minutes=101), False, HOUR, None, True),
        (timedelta(minutes=99), False, HOUR, None, False),
        (timedelta(minutes=131), True, HOUR, None, True),
        (timedelta(minutes=129), True, HOUR, None, False),
        (timedelta(minutes=100), False, HOUR, 480, True),  # within the usual notice
        (timedelta(minutes=102), False, HOUR, 600, True),
        (timedelta(minutes=101), False, HOUR, 600, False),
        (timedelta(minutes=39), False, None, None, False),
        (timedelta(minutes=41), False, None, None, True),
    ],
)
def test_work_must_be_through_before_the_block_drains(
    ends_in: timedelta,
    ultra: bool,
    duration: timedelta | None,
    notice: int | None,
    fits: bool,
) -> None:
    seconds = None if duration is None else int(duration.total_seconds())
    snapshot = strict(block("b", "p5", 1, ends_in=ends_in, ultra_server=ultra))
    plan = planned(
        with_demand(
            snapshot, demand(slot_sized(duration_s=seconds, checkpoint_period_s=notice))
        )
    )
    assert placed_count(plan) == int(fits)
    if duration is not None and not fits:
        assert plan.unplaced[0].code is ReasonCode.DURATION_DOES_NOT_FIT


SAVES_LONG = workload("saves-long", cpu=1500, duration_s=600, checkpoint_period_s=1200)


@pytest.mark.parametrize(
    ("duration", "nodes"), [(48 * 60, 1), (49 * 60, 2)], ids=["in time", "cut short"]
)
def test_a_long_notice_cuts_no_neighbours_time_short(duration: int, nodes: int) -> None:
    """The block drains in an hour, a node that saves for twenty minutes in 48."""
    snapshot = strict(block("b", "p5", 2, ends_in=timedelta(minutes=100)))
    tight = workload("tight", cpu=1500, duration_s=duration)
    plan = planned(with_demand(snapshot, demand(tight), demand(SAVES_LONG)))
    assert placed_count(plan) == 2
    assert launched(plan) == {"p5:b": nodes}


@pytest.mark.parametrize(("leaves_in", "joins"), [(48, True), (49, False), (None, True)])
def test_a_node_in_a_block_takes_no_work_whose_notice_would_cut_what_runs_there_short(
    leaves_in: int | None, joins: bool
) -> None:
    there = node(
        "busy",
        P5,
        {"ns/before": 1},
        capacity_type=RESERVED,
        drain_at=NOW + timedelta(hours=1),
        leaves_at=None if leaves_in is None else NOW + timedelta(minutes=leaves_in),
    )
    plan = planned(with_demand(strict(nodes=(there,)), demand(SAVES_LONG)))
    assert placed_count(plan) == int(joins)


def test_policy_may_keep_work_without_a_hint_out_of_blocks() -> None:
    snapshot = plain(P5, reservations=(block("b", "p5", 1, ends_in=9 * HOUR),))
    avoiding = SchedulingPolicy(no_duration_policy=NoDurationPolicy.AVOID)
    placing = planned(with_demand(snapshot, demand(slot_sized())))
    elsewhere = planned(with_demand(snapshot, demand(slot_sized())), policy=avoiding)
    assert launched(placing) == {"p5:b": 1}
    assert elsewhere.launches[0].offering.reservation_id is None


def test_an_odcr_with_an_end_is_not_drained_so_any_duration_fits() -> None:
    snapshot = strict(reservation("r", "p5", 1, end_at=NOW + HOUR))
    assert (
        placed_count(planned(with_demand(snapshot, demand(slot_sized(duration_s=86_400)))))
        == 1
    )


def test_demand_for_a_scheduled_reservation_is_held_with_the_time() -> None:
    later = block(
        "b", "p5", 4, ends_in=24 * HOUR, state="scheduled", start_at=NOW + 2 * HOUR
    )
    snapshot = strict(later)
    plan = planned(with_demand(snapshot, demand(slot_sized(duration_s=3600), 2)))
    assert plan.unplaced[0].code is ReasonCode.RESERVATION_NOT_STARTED
    assert plan.unplaced[0].earliest_at == NOW + 2 * HOUR
    assert plan.unplaced[0].nearest_offering is not None
    assert plan.unplaced[0].nearest_offering.reservation_id == "b"

    active = replace(snapshot, reservations=(replace(later, state="active"),))
    started = planned(
        with_demand(active, demand(slot_sized(duration_s=3600), 2)), now=NOW + 2 * HOUR
    )
    assert placed_count(started) == 2


@pytest.mark.parametrize("late_s", [0, 20, 6 * HOUR.total_seconds()])
def test_demand_is_held_for_a_reservation_that_is_late(late_s: float) -> None:
    """EC2 makes a reservation active some seconds after its start, or says ``delayed``; nothing became incompatible."""
    later = block("b", "p5", 4, ends_in=24 * HOUR, state="scheduled", start_at=NOW)
    snapshot = with_demand(strict(later), demand(slot_sized(duration_s=3600), 2))
    (refusal,) = planned(snapshot, now=NOW + timedelta(seconds=late_s)).unplaced
    assert (refusal.code, refusal.earliest_at) == (ReasonCode.RESERVATION_NOT_STARTED, None)
    assert "was to start at" in refusal.message


def test_work_that_no_longer_fits_into_a_reservation_that_is_late_is_not_held_for_it() -> (
    None
):
    later = block("b", "p5", 4, ends_in=24 * HOUR, state="delayed", start_at=NOW)
    snapshot = with_demand(strict(later), demand(slot_sized(duration_s=20 * 3600), 2))
    assert (
        planned(snapshot, now=NOW + HOUR).unplaced[0].code
        is ReasonCode.RESERVATION_NOT_STARTED
    )
    assert (
        planned(snapshot, now=NOW + 4 * HOUR).unplaced[0].code
        is ReasonCode.DURATION_DOES_NOT_FIT
    )


def test_the_work_of_others_goes_on_while_demand_is_held() -> None:
    later = block(
        "b", "p5", 4, ends_in=24 * HOUR, state="scheduled", start_at=NOW + 2 * HOUR
    )
    snapshot = strict(later, reservation("now", "p5", 1))
    pinned = require(labels.CAPACITY_RESERVATION_ID, Operator.IN, "b")
    plan = planned(
        with_demand(
            snapshot,
            demand(slot_sized("held", node_selector=pinned)),
            demand(slot_sized("short")),
        )
    )
    assert launched(plan) == {"p5:now": 1}
    assert [item.workload_key for item in plan.unplaced] == ["ns/held"]


# -- the ladder, prices, stock


LADDER = (FallbackStep(RESERVED, 7200), FallbackStep(SPOT, 900), FallbackStep(ON_DEMAND))


@pytest.mark.parametrize(
    ("waiting", "market", "opens_in"),
    [
        (timedelta(), None, 2 * HOUR),
        (timedelta(hours=1, minutes=59), None, timedelta(minutes=1)),
        (timedelta(hours=2), CapacityType.SPOT, None),
        (timedelta(hours=3), CapacityType.ON_DEMAND, None),
    ],
)
def test_the_ladder_adds_markets_with_time(
    waiting: timedelta, market: CapacityType | None, opens_in: timedelta | None
) -> None:
    offered = DEFAULT_OFFERINGS if market is not ON_DEMAND else ((ON_DEMAND, "zone-1"),)
    snapshot = plain(fx_type("p5", offered=offered, price={SPOT: 50, ON_DEMAND: 100}))
    plan = planned(
        with_demand(snapshot, demand(slot_sized(fallback=LADDER), waiting=waiting))
    )
    if market is None:
        assert opens_in is not None
        assert plan.unplaced[0].code is ReasonCode.FALLBACK_NOT_YET
        assert plan.unplaced[0].earliest_at == NOW + opens_in
    else:
        assert [launch.offering.capacity_type for launch in plan.launches] == [market]


def test_a_spread_over_markets_counts_those_that_the_ladder_has_reached() -> None:
    """Although there is a spot node, which holds none of them and never could yet."""
    even = slot_sized(fallback=LADDER, topology_spread=(spread(labels.CAPACITY_TYPE),))
    snapshot = plain(
        P5,
        reservations=(reservation("r", "p5", 2),),
        nodes=(node("old", P5, capacity_type=SPOT),),
    )
    plan = planned(with_demand(snapshot, demand(even, 2)))
    assert launched(plan) == {"p5:r": 2}


def test_a_price_cap_is_on_the_whole_workload() -> None:
    snapshot = plain(
        fx_type("p5", price=1_000_000), reservations=(reservation("r", "p5", 2),)
    )
    plan = planned(
        with_demand(
            snapshot, demand(slot_sized(max_price_micro_usd_per_hour=3_100_000), 16)
        )
    )
    assert launched(plan)["p5:r"] == 2
    assert placed_count(plan) == 5
    assert plan.unplaced[0].code is ReasonCode.MAX_PRICE


@pytest.mark.parametrize(
    ("cap_usd", "types"), [("0.5", ["a"]), ("0.9", ["a", "b"]), ("1.7", ["a", "b", "c"])]
)
def test_a_cap_bounds_what_ec2_may_choose_too(cap_usd: str, types: list[str]) -> None:
    """Types a, b and c cost 0.41, 0.83 and 1.66 USD an hour; one replica fits each."""
    snapshot = plain(fx_type("a", 2, 2), fx_type("b", 4, 4), fx_type("c", 8, 8))
    cap = round(float(cap_usd) * 1_000_000)
    plan = planned(
        with_demand(snapshot, demand(workload(cpu=1000, max_price_micro_usd_per_hour=cap)))
    )
    (launch,) = plan.launches
    assert (
        sorted({key.instance_type for key in (launch.offering, *launch.alternatives)})
        == types
    )


def test_nodes_share_what_a_cap_leaves_beside_their_prices() -> None:
    """Two nodes at 0.41 USD: of a cap of 1.10 each may cost 0.13 more, and the next type costs 0.21 more."""
    snapshot = plain(fx_type("a", 2, 2), fx_type("b", 3, 3))
    plan = planned(
        with_demand(
            snapshot, demand(workload(cpu=1800, max_price_micro_usd_per_hour=1_100_000), 2)
        )
    )
    assert {
        key.instance_type for launch in plan.launches for key in launch.alternatives
    } == {"a"}


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("", "had insufficient capacity"),
        ("the quota is used up", "rests: the quota is used up"),
    ],
)
def test_stock_that_ran_out_is_asked_again_at_its_time(reason: str, told: str) -> None:
    back_at = NOW + timedelta(minutes=3)
    rests = [
        replace(each, unavailable_until=back_at, unavailable_reason=reason)
        for each in P5.offerings
    ]
    sold_out = replace(P5, offerings=tuple(rests))
    plan = planned(with_demand(plain(sold_out), demand(slot_sized())))
    assert (plan.unplaced[0].code, plan.unplaced[0].earliest_at) == (
        ReasonCode.OFFERING_UNAVAILABLE,
        back_at,
    )
    assert told in plan.unplaced[0].message
    assert (
        placed_count(
            planned(with_demand(plain(sold_out), demand(slot_sized())), now=back_at)
        )
        == 1
    )


@pytest.mark.parametrize("percent", [10, 25, 50])
def test_no_spot_pool_holds_more_than_its_share(percent: int) -> None:
    types = [
        fx_type(f"type-{index}", price=100_000 + index, offered=((SPOT, "zone-1"),))
        for index in range(12)
    ]
    policy = SchedulingPolicy(spot_pool_share_percent=percent)
    plan = planned(with_demand(plain(*types), demand(slot_sized(), 40)), policy=policy)
    assert placed_count(plan) == 40
    assert max(types_launched(plan).values()) <= -(-40 * percent // 100)


# -- priority and gangs


def test_a_lower_priority_never_takes_a_unit_that_a_higher_could_use() -> None:
    snapshot = strict(reservation("r", "p5", 2))
    low = demand(slot_sized("low"), 2, waiting=HOUR)
    plan = planned(with_demand(snapshot, low, demand(slot_sized("high", priority=100), 1)))
    placed = {
        item.workload_key: item.count
        for launch in plan.launches
        for item in launch.placements
    }
    assert placed["ns/high"] == 1
    assert placed_count(plan) == 2


@pytest.mark.parametrize(("units", "replicas", "placed"), [(4, 4, 4), (3, 4, 0)])
def test_a_gang_is_placed_whole_or_not_at_all(
    units: int, replicas: int, placed: int
) -> None:
    spread_out = (
        reservation("r-1", "p5", 2),
        reservation("r-2", "p5", units - 2, zone="zone-2", zone_id="id-zone-2"),
    )
    plan = planned(
        with_demand(strict(*spread_out), demand(slot_sized(gang=Gang()), replicas))
    )
    assert placed_count(plan) == placed
    if not placed:
        assert plan.unplaced[0].code is ReasonCode.GANG_INCOMPLETE
        assert plan.unplaced[0].count == replicas


def test_a_gang_that_cannot_be_whole_leaves_its_units_to_others() -> None:
    snapshot = strict(reservation("r", "p5", 3))
    gang = demand(slot_sized("gang", gang=Gang()), 4)
    plan = planned(with_demand(snapshot, gang, demand(slot_sized("plain"), 3)))
    assert launched(plan) == {"p5:r": 3}
    assert [item.workload_key for item in plan.unplaced] == ["ns/gang"]


def test_of_two_gangs_that_contend_one_is_placed() -> None:
    snapshot = strict(reservation("r", "p5", 3))
    gangs = [demand(slot_sized(name, gang=Gang()), 2) for name in ("a", "b")]
    plan = planned(with_demand(snapshot, *gangs))
    assert (placed_count(plan), unplaced_count(plan)) == (2, 2)


def test_a_gang_may_ask_for_one_zone() -> None:
    split = (
        reservation("r-1", "p5", 2),
        reservation("r-2", "p5", 3, zone="zone-2", zone_id="id-zone-2"),
    )
    plan = planned(
        with_demand(strict(*split), demand(slot_sized(gang=Gang(labels.ZONE)), 3))
    )
    assert replicas_by(plan, labels.ZONE) == [3]
    assert launched(plan) == {"p5:r-2": 3}


def test_a_deleting_node_keeps_its_unit_but_its_replicas_are_planned() -> None:
    leaving = node(
        "n-1",
        P5,
        {"job": 1},
        capacity_type=RESERVED,
        reservation_id="r",
        deleting=True,
        drain_at=NOW + HOUR,
    )
    snapshot = strict(reservation("r", "p5", 1, free_units=0), nodes=(leaving,))
    plan = planned(with_demand(snapshot, demand(slot_sized())))
    assert plan.unplaced[0].code is ReasonCode.RESERVATION_FULL


def test_several_reservations_serve_a_workload_whose_replicas_share_no_host() -> None:
    wanted = workload(cpu=500, anti_affinity=(near(labels.HOSTNAME),))
    plan = planned(
        with_demand(
            strict(reservation("a", "p5", 3), reservation("b", "small", 4)),
            demand(wanted, 9),
        )
    )
    assert (launched(plan)["p5:a"], launched(plan)["small:b"]) == (3, 4)
    assert unplaced_count(plan) == 2
