"""What there is, counted; and what of it is told."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from lab.fakes.values import ZONE, ZONE_ID, node_claim, reservation
from reservoir.core.history.measures import (
    CARDINALITIES,
    DIMENSIONS,
    MEASURES,
    MOST,
    Subject,
    lines,
)
from reservoir.core.history.sample import (
    UNPLANNED,
    BoughtSample,
    PendingForReason,
    ReservationSample,
    Sample,
    TeamSample,
    WaitingSample,
    measure,
)
from reservoir.core.history.teams import measure_teams, with_owners
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.node_class import CapacityReservationSelectorTerm
from reservoir.core.model.plan import OfferingKey, ReasonCode
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.model.team import Quota, Team
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.serialisation.json_codec import dumps, loads

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
PRICES = {"p5.48xlarge": 55_000_000, "m5.large": 96_000}


def claim(
    name: str, market: CapacityType, *placements: tuple[str, int], **changes: Any
) -> NodeClaim:
    is_reserved = market is CapacityType.RESERVED
    instance_type = "p5.48xlarge" if is_reserved else "m5.large"
    usual = node_claim(
        name,
        state=ClaimState.RUNNING,
        node_pool_name="p",
        offering=OfferingKey(
            instance_type, ZONE, ZONE_ID, market, "cr-1" if is_reserved else None
        ),
        price_atto_usd_per_hour=40_000 * ATTO_USD_PER_MICRO_USD,
        placements=tuple(PlacedReplicas(key, count) for key, count in placements),
        allocatable=Resources.of({}),
        created_at=NOW,
        launched_at=NOW,
    )
    return replace(usual, **changes)


def sample(
    *claims: NodeClaim, reservations: Any = (), waiting: Any = (), prices: Any = PRICES
) -> Sample:
    return measure(NOW, reservations, claims, waiting, prices)


def test_units_are_ours_others_or_free() -> None:
    on_its_way = claim(
        "nc-2", CapacityType.RESERVED, state=ClaimState.PLANNED, launched_at=None
    )
    claims = (claim("nc-1", CapacityType.RESERVED), on_its_way)
    (found,) = sample(*claims, reservations=[reservation("cr-1", 8, 3)]).reservations
    assert (found.total_count, found.ours_count, found.others_count, found.free_count) == (
        8,
        2,
        3,
        3,
    )
    assert found.idle_micro_usd_per_hour == 3 * 55_000_000


def test_the_unit_of_a_warm_node_is_free() -> None:
    kept = claim("nc-1", CapacityType.RESERVED, is_warm=True)
    working = claim("nc-2", CapacityType.RESERVED, ("research/train", 1))
    full = reservation("cr-1", total_count=2, available_count=0, free_units=0)
    (found,) = sample(kept, working, reservations=[full]).reservations
    assert (found.ours_count, found.others_count, found.free_count) == (1, 0, 1)
    assert found.ours_milli_units == {"research": 1000}


def test_a_launch_that_ec2_counts_already_makes_no_unit_somebody_elses() -> None:
    """Two leases are open beside an observation that contains them: nothing may be promised, and two units are idle."""
    counted = replace(reservation("cr-1", 4, 2), free_units=0)
    (found,) = sample(
        *(claim(f"nc-{n}", CapacityType.RESERVED) for n in "12"), reservations=[counted]
    ).reservations
    assert (found.ours_count, found.others_count, found.free_count) == (2, 0, 2)


def test_before_and_after_it_is_active_nobody_has_a_unit_and_none_is_idle() -> None:
    (found,) = sample(
        reservations=[reservation("cr-1", 8, 8, state="scheduled")]
    ).reservations
    assert (
        found.ours_count,
        found.others_count,
        found.free_count,
        found.idle_micro_usd_per_hour,
    ) == (0, 0, 0, 0)


def test_units_that_are_billed_until_a_commitment_ends_are_idle() -> None:
    (found,) = sample(
        reservations=[reservation("cr-1", 4, 0, state="cancelling")]
    ).reservations
    assert (found.free_count, found.others_count) == (4, 0)
    assert found.idle_micro_usd_per_hour == 4 * 55_000_000


def test_without_a_price_idleness_has_none_and_is_not_nought() -> None:
    (found,) = sample(reservations=[reservation("cr-1", 8, 3)], prices={}).reservations
    assert found.idle_micro_usd_per_hour is None


def test_a_unit_that_two_claims_wait_for_is_counted_once() -> None:
    waits = claim("nc-2", CapacityType.RESERVED, waits_for_slot=True, launched_at=None)
    claims = (claim("nc-1", CapacityType.RESERVED), waits)
    (found,) = sample(*claims, reservations=[reservation("cr-1", 1, 0)]).reservations
    assert (found.ours_count, found.others_count) == (1, 0)


def test_units_are_the_namespaces_by_their_parts_of_each_node() -> None:
    claims = (
        claim("nc-1", CapacityType.RESERVED, ("a/x", 2), ("b/y", 1)),
        claim("nc-2", CapacityType.RESERVED),
    )
    (found,) = sample(*claims, reservations=[reservation("cr-1", 4, 2)]).reservations
    assert found.ours_milli_units == {"": 1000, "a": 666, "b": 334}


def test_free_units_are_their_owners_by_what_each_has_left() -> None:
    term = CapacityReservationSelectorTerm(id="cr-1")
    teams = [
        Team(name, namespaces=(name,), quotas=(Quota((term,), nominal),))
        for name, nominal in (("a", 3), ("b", 1))
    ]
    held = [reservation("cr-1", 6, 5), reservation("cr-2", 1)]
    running = [claim("nc-1", CapacityType.RESERVED, ("a/x", 1))]
    there = sample(*running, reservations=held)
    found = with_owners(there.reservations, teams, held, running, {})
    # a uses one of its three, and two of the five are nobody's
    assert [it.free_milli_units for it in found] == [
        {"a": 2000, "b": 1000, "": 2000},
        {"": 1000},
    ]
    # lent units are missing from what is free: owners share what is left by what they have left
    lent = replace(there.reservations[0], free_count=1)
    (less,) = with_owners([lent], teams, held, running, {})
    assert less.free_milli_units == {"a": 666, "b": 334}


def test_each_market_with_what_it_costs_and_avoids() -> None:
    there = sample(claim("nc-1", CapacityType.RESERVED), claim("nc-2", CapacityType.SPOT))
    by_market = {it.capacity_type: it for it in there.markets}
    reserved, spot, bought = (by_market[it] for it in CapacityType)
    assert (
        reserved.node_count,
        reserved.micro_usd_per_hour,
        reserved.avoided_micro_usd_per_hour,
    ) == (1, 0, 55_000_000)
    assert (spot.node_count, spot.micro_usd_per_hour, spot.avoided_micro_usd_per_hour) == (
        1,
        40_000,
        56_000,
    )
    assert (bought.node_count, bought.avoided_micro_usd_per_hour) == (0, 0)


def test_what_is_avoided_is_not_known_while_a_price_is_missing() -> None:
    (reserved, *_) = sample(claim("nc-1", CapacityType.RESERVED), prices={}).markets
    assert reserved.avoided_micro_usd_per_hour is None


def test_who_waits_is_counted_by_reason() -> None:
    earlier = NOW - timedelta(hours=1)
    waiting = [
        PendingForReason("a/x", 3, "ReservationFull", NOW),
        PendingForReason("a/y", 2, "ReservationFull", earlier),
        PendingForReason("a/y", 1, "LimitExceeded", earlier),
    ]
    found = {
        it.reason: (it.replica_count, it.workload_count, it.since)
        for it in sample(waiting=waiting).waiting
    }
    assert found == {"ReservationFull": (5, 2, earlier), "LimitExceeded": (1, 1, earlier)}


def test_what_was_bought_is_shared_by_those_on_it() -> None:
    there = sample(
        claim("nc-1", CapacityType.ON_DEMAND, ("a/x", 3), ("a/y", 1)),
        claim("nc-2", CapacityType.SPOT, ("a/x", 1), correlation_ids={"a/x": "m-1"}),
        claim("nc-3", CapacityType.RESERVED, ("a/z", 1)),
        claim("nc-4", CapacityType.SPOT),
    )
    assert [it.more for it in lines(there) if it.subject is Subject.BOUGHT] == [
        {"correlation_ids": ("m-1",)},
        {},
    ]
    assert [
        (it.workload_key, it.node_count, it.micro_usd_per_hour) for it in there.bought
    ] == [
        ("a/x", 2, 70_000),
        ("a/y", 1, 10_000),
    ]


def test_a_sample_is_read_back_as_it_was_written() -> None:
    there = sample(
        claim("nc-1", CapacityType.SPOT, ("a/x", 1)),
        reservations=[reservation("cr-1", 8, 3, end_at=NOW)],
        waiting=[PendingForReason("a/x", 3, "ReservationFull", NOW)],
    )
    assert loads(Sample, dumps(there)) == there


def idle(number: int, free: int, price: int | None = 1) -> ReservationSample:
    facts = (
        "m5.large",
        "us-east-1a",
        ReservationKind.DEFAULT,
        "active",
        free + 1,
        1,
        0,
        free,
    )
    return ReservationSample(f"cr-{number:03}", *facts, price)


def test_of_many_reservations_those_that_lie_idle_most_dearly_are_told() -> None:
    many = [idle(number, number) for number in range(100)]
    told = [it.name for it in lines(Sample(NOW, tuple(many)))]
    assert told == [f"cr-{number:03}" for number in range(99, 99 - MOST, -1)]


def test_what_is_not_known_is_left_out_of_a_line() -> None:
    (line,) = lines(Sample(NOW, (idle(1, 3, None),)))
    assert "idle_usd_per_hour" not in line.values
    assert line.values["free_count"] == 3


def test_a_line_has_no_value_that_is_not_described() -> None:
    there = sample(
        claim("nc-1", CapacityType.SPOT, ("a/x", 1)),
        reservations=[reservation("cr-1", 8, 3, end_at=NOW)],
        waiting=[PendingForReason("a/x", 3, "ReservationFull", NOW)],
    )
    there = replace(there, teams=(TeamSample("research", 4, 1, 0, 3),))
    told = list(lines(there))
    assert (
        {it.subject for it in told} == set(Subject) == set(DIMENSIONS) == set(CARDINALITIES)
    )
    for line in told:
        assert set(line.values) == {measure.field for measure in MEASURES[line.subject]}


def test_there_are_never_more_values_of_a_dimension_than_the_bill_is_reckoned_with() -> (
    None
):
    there = Sample(
        NOW,
        tuple(idle(number, number) for number in range(100)),
        sample(claim("nc-1", CapacityType.SPOT)).markets,
        tuple(WaitingSample(reason, 1, 1) for reason in (*ReasonCode, UNPLANNED)),
        tuple(BoughtSample(f"a/{number}", 1, number) for number in range(100)),
        tuple(TeamSample(f"team-{number:03}", 1, number, 0, 0) for number in range(100)),
    )
    told = Counter(line.subject for line in lines(there))
    assert told == CARDINALITIES


def test_what_each_team_uses_owns_buys_and_waits_for() -> None:
    terms = (CapacityReservationSelectorTerm(id="cr-1"),)
    research = Team("research", ("a", "b"), quotas=(Quota(terms, 4), Quota((), 2)))
    teams = (research, Team("serving", ("c",)), Team("idle", ("d",)))
    room = Resources.of({"cpu": 8_000})
    claims = [
        claim("nc-1", CapacityType.RESERVED, ("a/x", 1), ("c/z", 3), allocatable=room),
        claim("nc-2", CapacityType.RESERVED, ("b/y", 1), allocatable=room),
        claim("nc-3", CapacityType.RESERVED, ("others/w", 1), allocatable=room),
    ]
    cpu = Resources.of({"cpu": 1_000})
    each = [Workload(namespace, name, 1, 9, cpu) for namespace, name in ("ax", "cz", "by")]
    workloads = {it.key: it for it in [*each, Workload("others", "w", 1, 9, cpu)]}
    waiting = [
        PendingForReason("a/x", 3, "TeamQuota", NOW),
        PendingForReason("others/w", 5, "TeamQuota", NOW),
    ]
    bought = [BoughtSample("c/z", 1, 70_000), BoughtSample("others/w", 1, 10_000)]
    found = list(measure_teams(teams, claims, workloads, waiting, bought))
    assert found == [
        TeamSample("idle", 0, 0, 0, 0),
        TeamSample("research", 6, 1, 0, 3),
        TeamSample("serving", 0, 1, 70_000, 0),  # it has most of the unit that both are on
    ]
