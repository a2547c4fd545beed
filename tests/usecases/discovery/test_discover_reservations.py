"""Discovery: every selector form, every state, and what happens when EC2 does not answer."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from lab.fakes.discovery import SUBNETS
from lab.fakes.effects import Killed
from lab.fakes.system import START
from lab.fakes.values import reservation
from lab.worlds.planning_world import PlanningWorld, node_class_manifest, node_pool_manifest
from reservoir.core.capacity.ledger import COUNT_LAG, Balance
from reservoir.core.history.past_event import PastEvent
from reservoir.core.launching.class_validation import validated
from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from reservoir.core.model.node_claim import ClaimState, LeaseState, NodeClaim
from reservoir.core.model.node_class import Validation, ValidationOutcome
from reservoir.core.model.plan import ReasonCode
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.names import SPLIT_FROM_TAG
from reservoir.ports.errors import AccessDeniedError, ThrottledError, UnknownOutcomeError
from reservoir.ports.policy import PolicyKind, PolicyObject
from reservoir.usecases.discovery.observe_reservation import ReservationChange
from reservoir.usecases.policy.resolve_node_classes import SelectedReservations
from reservoir.usecases.policy.stored_policy import StoredPolicy

TEAM = {"team": "research"}
SELF, OTHER = "111122223333", "999988887777"
GROUP = "arn:aws:resource-groups:us-east-1:111122223333:group/gpus"


def class_status(world: PlanningWorld) -> PolicyObject:
    stored = world.policy.get(PolicyKind.NODE_CLASS, "default")
    assert stored is not None
    return stored


def selected(world: PlanningWorld) -> tuple[str, ...]:
    return class_status(world).status.node_class.reservation_ids


def world_selecting(*terms: dict[str, Any], **spec: Any) -> PlanningWorld:
    world = PlanningWorld()
    world.apply(
        node_class_manifest(capacityReservationSelectorTerms=list(terms), **spec),
        node_pool_manifest(),
    )
    return world


# The reservations of Karpenter's own suite (scenarios S-22 to S-26).
SUITE = (
    reservation("cr-1a-1", instance_type="m5.large", available_count=10, total_count=10),
    reservation(
        "cr-1a-2",
        instance_type="m5.large",
        available_count=10,
        total_count=10,
        tags={"discovery": "x"},
    ),
    reservation(
        "cr-p5",
        owner_id=OTHER,
        kind=ReservationKind.CAPACITY_BLOCK,
        end_at=START + timedelta(hours=24),
        tags={"capacity-block": "yes"},
    ),
    reservation("cr-1b-1", instance_type="m5.large", zone="us-east-1b", zone_id="use1-az2"),
    reservation(
        "cr-1b-2", instance_type="m5.large", owner_id=OTHER, tags={"discovery": "x"}
    ),
    reservation("cr-1a-3", instance_type="m5.large", instance_match_criteria="open"),
    reservation(
        "cr-interruptible",
        kind=ReservationKind.INTERRUPTIBLE,
        instance_match_criteria="open",
    ),
    reservation("cr-nil", instance_type="m5.large"),
)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([{"tags": {"discovery": "x"}}], {"cr-1a-2", "cr-1b-2"}),
        ([{"tags": {"discovery": "*"}}], {"cr-1a-2", "cr-1b-2"}),
        ([{"tags": {"discovery": "y"}}], set()),
        ([{"tags": {"discovery": "x"}, "ownerID": SELF}], {"cr-1a-2"}),
        (
            [{"instanceMatchCriteria": "targeted"}],
            {"cr-1a-1", "cr-1a-2", "cr-p5", "cr-1b-1", "cr-1b-2", "cr-nil"},
        ),
        (
            [{"instanceMatchCriteria": "targeted", "tags": {"discovery": "x"}}],
            {"cr-1a-2", "cr-1b-2"},
        ),
        (
            [
                {
                    "instanceMatchCriteria": "targeted",
                    "tags": {"discovery": "x"},
                    "ownerID": SELF,
                }
            ],
            {"cr-1a-2"},
        ),
        ([{"id": "cr-nil"}, {"id": "cr-p5"}, {"id": "cr-unknown"}], {"cr-nil", "cr-p5"}),
        ([{"reservationGroupARN": GROUP}], {"cr-p5", "cr-1a-1"}),
        ([{"reservationGroupARN": GROUP, "ownerID": OTHER}], {"cr-p5"}),
        (
            [{"tags": {"capacity-block": "yes"}}, {"instanceMatchCriteria": "open"}],
            {"cr-p5", "cr-1a-3", "cr-interruptible"},
        ),
    ],
)
def test_terms_select_as_karpenter_selects(
    terms: list[dict[str, Any]], expected: set[str]
) -> None:
    world = world_selecting(*terms)
    world.reader.put(*SUITE)
    world.reader.groups[GROUP] = frozenset({"cr-p5", "cr-1a-1", "cr-elsewhere"})

    world.discover()

    assert set(selected(world)) == expected
    assert {
        record.reservation.id for record in world.state.reservations.list_current()
    } == expected


def test_platform_and_tenancy_are_the_classes_own() -> None:
    world = world_selecting({"tags": {"team": "*"}})
    world.reader.put(
        reservation("cr-linux", tags=TEAM),
        reservation("cr-windows", tags=TEAM, platform="Windows"),
        reservation("cr-dedicated", tags=TEAM, tenancy="dedicated"),
    )
    world.discover()
    assert selected(world) == ("cr-linux",)

    world = world_selecting({"tags": {"team": "*"}}, tenancy="dedicated")
    world.reader.put(
        reservation("cr-linux", tags=TEAM),
        reservation("cr-dedicated", tags=TEAM, tenancy="dedicated"),
    )
    world.discover()
    assert selected(world) == ("cr-dedicated",)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        # launches into a group's reservation join the group
        (None, {"cr-plain", "cr-rack-1", "cr-rack-2"}),
        ({"name": "rack-1"}, {"cr-plain", "cr-rack-1"}),
        ({"id": "pg-0123456789abcdef0"}, {"cr-plain"}),
    ],
)
def test_a_reservation_in_a_placement_group_serves_classes_of_that_group(
    selector: dict[str, str] | None, expected: set[str]
) -> None:
    spec = {} if selector is None else {"placementGroupSelector": selector}
    world = world_selecting({"tags": TEAM}, **spec)
    arn = "arn:aws:ec2:us-east-1:111122223333:placement-group/"
    world.reader.put(
        reservation("cr-plain", tags=TEAM),
        reservation("cr-rack-1", tags=TEAM, placement_group_arn=arn + "rack-1"),
        reservation("cr-rack-2", tags=TEAM, placement_group_arn=arn + "rack-2"),
    )
    world.discover()
    assert set(selected(world)) == expected


def test_reservations_that_others_share_are_selected_by_id_and_vanish_when_unshared() -> (
    None
):
    """Their owner's tags are not shown to us."""
    world = world_selecting({"id": "cr-shared"}, {"id": "cr-sharedblock"})
    tomorrow = START + timedelta(days=1)
    world.reader.put(
        reservation("cr-own", tags=TEAM),
        reservation("cr-shared", owner_id=OTHER),
        reservation(
            "cr-sharedblock",
            owner_id=OTHER,
            kind=ReservationKind.CAPACITY_BLOCK,
            end_at=tomorrow,
        ),
    )
    world.discover()
    assert selected(world) == ("cr-shared", "cr-sharedblock")
    del world.reader.reservations["cr-shared"]
    world.clock.advance(minutes=1)
    assert world.discover().gone_count == 1
    assert selected(world) == ("cr-sharedblock",)


def test_a_future_dated_reservation_is_known_through_its_states_and_used_when_it_is_there() -> (
    None
):
    starts = START + timedelta(days=9)
    world = PlanningWorld().ready(
        reservation(
            tags=TEAM, state="assessing", start_at=starts, total_count=0, available_count=0
        ),
        pool=node_pool_manifest(capacity_types=("reserved",)),
    )
    world.submit(replicas=2)
    for state in ("scheduled", "delayed"):
        world.reader.put(
            reservation(
                tags=TEAM, state=state, start_at=starts, total_count=0, available_count=0
            )
        )
        world.clock.advance(hours=1)
        world.discover()
        world.plan()
        assert world.reservation().reservation.state == state
        assert world.workload().pending_count == 2
    world.clock.set(starts + timedelta(minutes=1))
    world.reader.put(reservation(tags=TEAM, start_at=starts))
    assert world.discover().woke_planner
    world.plan()
    assert (
        world.workload().pending_count,
        world.reservation().balance.outstanding_count,
    ) == (0, 2)


@pytest.mark.parametrize(
    ("state", "kept"),
    [
        ("active", True),
        ("scheduled", True),
        ("pending", True),
        ("payment-pending", True),
        ("assessing", True),
        ("delayed", True),
        ("cancelling", True),
        ("unavailable", True),
        ("invented-next-year", True),
        ("expired", False),
        ("cancelled", False),
        ("failed", False),
        ("payment-failed", False),
        ("unsupported", False),
    ],
)
def test_what_may_become_usable_is_known_and_only_what_is_active_is_used(
    state: str, kept: bool
) -> None:
    world = PlanningWorld().ready(
        reservation(
            state=state,
            tags=TEAM,
            start_at=START + timedelta(days=1) if state == "scheduled" else None,
        )
    )

    assert (selected(world) == ("cr-1",)) is kept
    world.submit(replicas=1)
    world.plan()
    leased = [
        claim for claim in world.state.node_claims.list_live() if claim.lease is not None
    ]
    assert bool(leased) is (state == "active")


def test_a_reservation_that_ended_is_not_selected() -> None:
    world = PlanningWorld().ready(reservation(tags=TEAM, end_at=START + timedelta(hours=1)))
    assert selected(world) == ("cr-1",)

    world.clock.advance(hours=2)
    world.discover()
    assert selected(world) == ()


def test_unchanged_facts_write_nothing() -> None:
    world = PlanningWorld().ready(reservation(tags=TEAM))
    written = world.state.write_count
    status = class_status(world)

    for _ in range(5):
        world.clock.advance(minutes=1)
        found = world.discover()
        assert (found.written_count, found.changed_classes, found.woke_planner) == (
            0,
            (),
            False,
        )

    assert world.state.write_count == written
    assert class_status(world) == status
    assert world.queue.wake_ups == []


def test_freed_units_and_started_reservations_wake_the_planner() -> None:
    scheduled = reservation(
        tags=TEAM, state="scheduled", start_at=START + timedelta(hours=1), available_count=0
    )
    world = PlanningWorld().ready(scheduled)

    world.clock.advance(hours=1)
    world.reader.put(reservation(tags=TEAM, start_at=scheduled.start_at, available_count=2))
    assert world.discover().woke_planner
    world.reader.put(reservation(tags=TEAM, start_at=scheduled.start_at, available_count=1))
    world.clock.advance(minutes=1)
    assert not world.discover().woke_planner
    world.reader.put(reservation(tags=TEAM, start_at=scheduled.start_at, available_count=3))
    world.clock.advance(minutes=1)
    assert world.discover().woke_planner


def test_an_outsider_that_takes_the_last_unit_is_told() -> None:
    world = PlanningWorld().ready(reservation(tags=TEAM))
    world.clock.advance(minutes=1)
    world.reader.put(reservation(tags=TEAM, available_count=0))

    world.discover()
    world.clock.advance(minutes=1)
    world.discover()

    assert [
        event["capacityReservationId"] for event in world.bus.of("Reservation Exhausted")
    ] == ["cr-1"]


@pytest.mark.parametrize(
    ("available_count", "is_woken_by_a_change"), [(2, False), (0, True)]
)
def test_a_launch_that_ec2_counts_already_exhausts_nothing(
    available_count: int, is_woken_by_a_change: bool
) -> None:
    """Two of four units are leased, and the leases stay open beside what EC2 shows a moment later."""
    record = PlanningWorld().ready(reservation(tags=TEAM)).state.reservations.get("cr-1")
    assert record is not None
    before = replace(record, balance=Balance(available_count=4, outstanding_count=2))
    after = replace(record, balance=Balance(available_count, outstanding_count=2))
    assert (
        ReservationChange(before, after, absorbed_count=0).was_exhausted
        == is_woken_by_a_change
    )


def test_units_that_lie_idle_are_told_once_and_then_daily() -> None:
    world = PlanningWorld().ready(reservation(tags=TEAM))

    def idle(**passed: float) -> list[tuple[int, str]]:
        world.clock.advance(**passed)
        world.discover()
        return [
            (event["idleCount"], event["idleSince"])
            for event in world.bus.of("Reservation Idle")
        ]

    assert idle(minutes=29) == []
    first = (4, "2026-01-15T12:00:00Z")
    assert idle(minutes=1) == [first]
    written = world.state.write_count
    assert idle(minutes=1) == idle(hours=23) == [first]
    assert world.state.write_count == written  # saying nothing costs nothing
    world.reader.put(reservation(tags=TEAM, available_count=1))
    # a unit has been free all the time, if not always the same one
    assert idle(hours=1) == [first, (1, first[1])]


def test_units_that_are_used_in_between_begin_to_lie_idle_anew() -> None:
    world = PlanningWorld().ready(reservation(tags=TEAM))
    world.clock.advance(minutes=20)
    world.reader.put(reservation(tags=TEAM, available_count=0))
    world.discover()
    world.clock.advance(minutes=5)
    world.reader.put(reservation(tags=TEAM, available_count=4))
    world.discover()
    world.clock.advance(minutes=29)
    world.discover()
    assert world.bus.of("Reservation Idle") == []
    world.clock.advance(minutes=1)
    world.discover()
    assert [event["idleSince"] for event in world.bus.of("Reservation Idle")] == [
        "2026-01-15T12:25:00Z"
    ]


def test_what_is_promised_or_not_yet_there_does_not_lie_idle() -> None:
    scheduled = reservation(
        "cr-later", tags=TEAM, state="scheduled", start_at=START + timedelta(days=1)
    )
    world = PlanningWorld().ready(reservation(tags=TEAM), scheduled)
    committed(world, 4)
    world.clock.advance(hours=1)
    world.discover()
    world.clock.advance(hours=1)
    world.discover()
    assert world.bus.of("Reservation Idle") == []


def test_a_throttled_discovery_keeps_the_last_good_facts_and_says_so() -> None:
    world = PlanningWorld().ready(reservation(tags=TEAM))
    world.clock.advance(minutes=1)
    world.reader.failing = True

    with pytest.raises(ThrottledError):
        world.discover()

    record = world.reservation()
    assert record.reservation.stale
    assert record.balance == Balance(4, 0)
    assert selected(world) == ("cr-1",)
    world.reader.failing = False
    world.clock.advance(minutes=1)
    world.discover()
    assert not world.reservation().reservation.stale


def test_a_group_that_cannot_be_read_keeps_what_it_selected() -> None:
    world = world_selecting({"reservationGroupARN": GROUP}, {"tags": TEAM})
    world.reader.put(reservation("cr-1"), reservation("cr-2", tags=TEAM))
    world.reader.groups[GROUP] = frozenset({"cr-1"})
    world.discover()
    world.reader.broken_groups.add(GROUP)
    world.clock.advance(minutes=1)

    found = world.discover()

    assert selected(world) == ("cr-1", "cr-2")
    assert found.failures == ("default: CapacityReservationsReady: ThrottlingException",)


RECLAIM = "arn:aws:resource-groups:us-east-1:111122223333:group/reservoir-default"


def test_launches_name_the_group_for_running_nodes_only_while_it_is_there() -> None:
    world = world_selecting({"tags": TEAM}, reclaimGroupARN=RECLAIM)

    def found() -> str | None:
        world.clock.advance(minutes=1)
        assert world.discover().failures == ()
        return class_status(world).status.node_class.reclaim_group_arn

    world.reader.missing_groups.add(RECLAIM)
    assert found() is None, "what is optional stops no launch"
    world.reader.missing_groups.clear()
    assert found() == RECLAIM
    world.reader.broken_groups.add(RECLAIM)
    assert found() == RECLAIM, "what cannot be read is what it was"
    world.reader.broken_groups.clear()
    world.reader.missing_groups.add(RECLAIM)
    assert found() is None


def test_what_was_split_off_a_selected_reservation_is_selected_with_it() -> None:
    world = world_selecting({"id": "cr-1"})
    split_off = {SPLIT_FROM_TAG: "cr-1"}
    world.reader.put(
        reservation("cr-1"),
        reservation("cr-split", total_count=1, available_count=1, tags=split_off),
        reservation("cr-of-others", tags={SPLIT_FROM_TAG: "cr-2"}),
    )

    world.discover()

    assert selected(world) == ("cr-1", "cr-split")
    record = world.state.reservations.get("cr-split")
    assert record is not None
    assert record.reservation.free_units == 0, "nothing is launched into it"


def test_what_a_class_cannot_look_up_keeps_its_last_good_value() -> None:
    world = PlanningWorld().ready(reservation(tags=TEAM))
    world.environment.error = ThrottledError("RequestLimitExceeded", "DescribeSubnets")
    world.clock.advance(minutes=1)

    found = world.discover()

    stored = class_status(world).status
    assert stored.node_class.subnets == SUBNETS
    conditions = {condition.type: condition.status for condition in stored.conditions}
    assert (conditions["SubnetsReady"], conditions["Ready"]) == ("Unknown", "True")  # type: ignore[index] # StrEnum
    assert len(found.failures) == 1


def test_a_class_learns_what_it_selects() -> None:
    world = PlanningWorld().ready(reservation(tags=TEAM))

    status = class_status(world).status.node_class
    assert status.subnets == SUBNETS
    assert status.security_group_ids == ("sg-1",)
    assert {image.architecture for image in status.machine_images} == {"amd64", "arm64"}
    assert status.instance_profile == "nodes-profile"
    pool = world.policy.get(PolicyKind.NODE_POOL, "gpu")
    assert pool is not None
    assert {condition.type: condition.status for condition in pool.status.conditions}[
        "Ready"  # type: ignore[index] # StrEnum
    ] == "True"


def block_class(world: PlanningWorld) -> None:
    StoredPolicy(world.policy, world.clock).block_launches(
        "default", "UnauthorizedOperation"
    )


def block_after(world: PlanningWorld, **passed: float) -> str | None:
    world.clock.advance(**passed)
    world.discover()
    return class_status(world).status.node_class.launch_blocked_reason


def test_a_blocked_class_is_released_by_a_change_or_after_a_rest() -> None:
    world = PlanningWorld().ready(reservation(tags=TEAM))
    block_class(world)
    assert block_after(world, minutes=1) == "UnauthorizedOperation"
    assert block_after(world, minutes=14) is None
    block_class(world)
    world.apply(node_class_manifest(role="others"))
    assert block_after(world, minutes=1) is None


def test_other_subnets_release_a_blocked_class_and_other_counts_of_their_addresses_do_not() -> (
    None
):
    """Every launch of anybody in a subnet changes the count: the class would be asked for each minute."""
    world = PlanningWorld().ready(reservation(tags=TEAM))
    block_class(world)
    for free in (11, 10, 0, 250):
        world.environment.found_subnets = tuple(
            replace(each, available_ip_count=free) for each in SUBNETS
        )
        assert block_after(world, minutes=1) == "UnauthorizedOperation"
    assert {
        subnet.available_ip_count
        for subnet in class_status(world).status.node_class.subnets
    } == {250}
    world.environment.found_subnets = SUBNETS[:-1]
    assert block_after(world, minutes=1) is None


def test_a_block_by_a_launch_shows_in_the_conditions_and_outlives_the_next_discovery() -> (
    None
):
    world = PlanningWorld().ready(reservation(tags=TEAM))

    StoredPolicy(world.policy, world.clock).block_launches(
        "default", "Permission: UnauthorizedOperation"
    )

    for _ in range(2):
        shown = {
            str(condition.type): condition
            for condition in class_status(world).status.conditions
        }
        assert shown["Ready"].status == "False"
        assert shown["LaunchesPermitted"].message == "Permission: UnauthorizedOperation"
        world.clock.advance(minutes=1)
        world.discover()


def test_a_class_whose_terms_select_nothing_is_told_once_and_again_when_it_is_another_fault() -> (
    None
):
    world = PlanningWorld().ready(reservation(tags=TEAM))

    def told(minutes: int = 1) -> list[str]:
        for _ in range(minutes):
            world.clock.advance(minutes=1)
            world.discover()
        return [
            each["message"]
            for each in world.bus.of("Launches Blocked")
            if each["nodeClass"] == "default"
        ]

    assert told() == []
    world.environment.found_subnets = ()
    without_subnet = ["SubnetsReady: the terms select no subnet"]
    assert told(minutes=3) == without_subnet
    world.environment.found_subnets = SUBNETS
    assert told() == without_subnet
    world.environment.found_subnets = ()
    assert told() == without_subnet * 2


def test_what_ec2_refuses_is_told_by_who_asked_it_and_not_by_discovery() -> None:
    world = PlanningWorld().ready(reservation(tags=TEAM))
    block_class(world)
    world.clock.advance(minutes=1)
    world.discover()
    assert world.bus.of("Launches Blocked") == []


# Dry runs by the role that launches


def answered(world: PlanningWorld, outcome: ValidationOutcome, reason: str) -> None:
    """Let the launch function remember an answer about the class as it is."""
    policy = StoredPolicy(world.policy, world.clock)
    node_class = policy.node_class("default")
    assert node_class is not None
    policy.save_validation(
        "default",
        Validation(validated(node_class), world.clock.now(), outcome, reason, "said"),
    )


def shown(world: PlanningWorld) -> dict[str, tuple[str, str]]:
    return {
        str(each.type): (str(each.status), each.reason)
        for each in class_status(world).status.conditions
    }


def test_a_class_is_tried_until_it_is_answered_and_again_when_it_changes() -> None:
    world = PlanningWorld().ready(reservation(tags=TEAM))
    assert shown(world)["ValidationSucceeded"] == ("Unknown", "AwaitingReconciliation")
    world.queue.validations.clear()
    world.discover()
    assert world.queue.validations == ["default"]
    answered(world, ValidationOutcome.SUCCEEDED, "ValidationSucceeded")
    world.discover()
    assert world.queue.validations == ["default"]
    assert shown(world)["ValidationSucceeded"] == ("True", "ValidationSucceeded")
    world.environment.found_subnets = SUBNETS[:-1]
    world.discover()
    assert world.queue.validations == ["default", "default"]
    assert shown(world)["ValidationSucceeded"] == ("Unknown", "AwaitingReconciliation")


def test_a_refused_dry_run_is_shown_and_makes_no_class_unready() -> None:
    world = PlanningWorld().ready(reservation(tags=TEAM))
    answered(world, ValidationOutcome.REFUSED, "CreateFleetAuthCheckFailed")
    world.discover()
    assert shown(world)["ValidationSucceeded"] == ("False", "CreateFleetAuthCheckFailed")
    assert shown(world)["Ready"] == ("True", "Ready")


def test_discovery_goes_on_where_no_dry_run_can_be_asked_for() -> None:
    world = PlanningWorld().ready(reservation(tags=TEAM))

    def refuse(node_class_names: Sequence[str]) -> None:
        assert list(node_class_names) == ["default"]
        raise UnknownOutcomeError("InternalError", "SendMessageBatch")

    world.queue.send_validations = refuse  # type: ignore[method-assign] # as SQS does
    found = world.discover()
    assert found.seen_count == 1
    assert found.failures == ("default: no dry run was asked for: InternalError",)


def test_an_answer_that_comes_while_discovery_runs_is_kept() -> None:
    world = PlanningWorld().ready(reservation(tags=TEAM))
    before = world.policy.list_all()
    answered(world, ValidationOutcome.SUCCEEDED, "ValidationSucceeded")
    resolver = world.discovery().resolver
    world.environment.found_subnets = SUBNETS[:-1]
    resolver.refresh(before, {"default": SelectedReservations()}, world.clock.now())
    assert class_status(world).status.node_class.validation is not None


# Timers


def block(**changes: Any) -> CapacityReservation:
    return reservation(
        kind=ReservationKind.CAPACITY_BLOCK,
        tags=TEAM,
        end_at=START + timedelta(hours=24),
        **changes,
    )


def test_a_block_gets_one_exact_timer_that_moves_with_its_end() -> None:
    world = PlanningWorld().ready(block())
    assert world.timers.at == {"cr-1": START + timedelta(hours=23, minutes=20)}

    world.clock.advance(minutes=1)
    world.discover()
    assert world.timers.set_count == 1
    world.reader.put(replace(block(), end_at=START + timedelta(hours=48)))
    world.clock.advance(minutes=1)
    world.discover()
    assert world.timers.at == {"cr-1": START + timedelta(hours=47, minutes=20)}


def test_an_ultra_server_block_drains_seventy_minutes_before_its_end() -> None:
    world = PlanningWorld().ready(block(ultra_server=True))
    assert world.timers.at == {"cr-1": START + timedelta(hours=22, minutes=50)}


def test_a_reservation_that_is_to_come_gets_a_timer_at_its_start() -> None:
    start = START + timedelta(hours=2)
    coming = reservation(
        tags=TEAM, state="scheduled", start_at=start, total_count=0, available_count=0
    )
    world = PlanningWorld().ready(coming)
    assert world.timers.starts == {"cr-1": start}

    world.clock.advance(minutes=1)
    world.discover()
    assert world.timers.set_count == 1
    world.reader.put(replace(coming, state="delayed", start_at=start + timedelta(hours=1)))
    world.clock.advance(minutes=1)
    world.discover()
    assert world.timers.starts == {"cr-1": start + timedelta(hours=1)}


def test_a_reservation_that_is_late_gets_no_timer_in_the_past() -> None:
    late = reservation(
        tags=TEAM,
        state="delayed",
        start_at=START - timedelta(hours=1),
        total_count=0,
        available_count=0,
    )
    assert PlanningWorld().ready(late).timers.starts == {}


def test_an_odcr_that_expires_gets_no_timer() -> None:
    world = PlanningWorld().ready(
        reservation(tags=TEAM, end_at=START + timedelta(hours=24))
    )
    assert world.timers.at == {}


# Leases


def committed(world: PlanningWorld, replicas: int) -> list[NodeClaim]:
    world.submit(replicas=replicas)
    world.plan()
    return list(world.state.node_claims.list_live())


def launched(world: PlanningWorld, claim: NodeClaim) -> NodeClaim:
    claim = world.state.node_claims.save(
        replace(claim, state=ClaimState.LAUNCHING), expected_revision=claim.revision
    )
    after = replace(
        claim,
        state=ClaimState.LAUNCHED,
        instance_id=f"i-{claim.id}",
        launched_at=world.clock.now(),
    )
    return world.state.node_claims.settle(after, expected_revision=claim.revision)


def test_a_launch_is_counted_by_its_lease_until_ec2_counts_it() -> None:
    world = PlanningWorld().ready(reservation(tags=TEAM))
    (claim,) = committed(world, 1)
    launched(world, claim)
    world.clock.advance(seconds=10)
    world.reader.put(reservation(tags=TEAM, available_count=3))

    world.discover()
    # conservative: counted twice for a minute
    assert world.reservation().balance == Balance(3, 1)
    world.clock.advance(seconds=COUNT_LAG.total_seconds())
    found = world.discover()
    assert (found.absorbed_count, world.reservation().balance) == (1, Balance(3, 0))


def test_a_row_that_was_lost_is_made_anew_with_all_that_is_promised() -> None:
    """Of four units one is promised and not launched yet: EC2 shows four, and three are free."""
    world = PlanningWorld().ready(reservation(tags=TEAM))
    committed(world, 1)
    assert world.reservation().balance == Balance(4, 1)
    del world.state.reservation_rows["cr-1"]
    world.clock.advance(minutes=1)

    world.discover()

    assert world.reservation().balance == Balance(4, 1)
    world.submit("more", replicas=9)
    world.plan()
    assert len(world.state.node_claims.list_leased("cr-1")) == 4, (
        "no unit is promised twice"
    )


def test_leases_of_a_reservation_that_vanished_are_closed() -> None:
    world = PlanningWorld().ready(reservation(tags=TEAM))
    (claim,) = committed(world, 1)
    launched(world, claim)
    world.clock.advance(minutes=1)
    del world.reader.reservations["cr-1"]

    found = world.discover()

    assert (found.gone_count, found.absorbed_count) == (1, 1)
    assert world.reservation().reservation.state == "gone"
    assert world.reservation().balance == Balance(0, 0)
    assert world.state.reservations.list_current() == ()
    lease = world.state.claim_rows[claim.id].lease
    assert lease is not None
    assert lease.state is LeaseState.ABSORBED
    # It comes back (shared again): known again.
    world.reader.put(reservation(tags=TEAM, available_count=2))
    world.clock.advance(minutes=1)
    assert world.discover().woke_planner
    assert world.reservation().balance == Balance(2, 0)


def test_a_vanished_reservation_stays_known_while_a_launch_is_under_way() -> None:
    world = PlanningWorld().ready(reservation(tags=TEAM))
    committed(world, 1)
    del world.reader.reservations["cr-1"]
    world.clock.advance(minutes=1)

    world.discover()

    assert world.reservation().balance == Balance(0, 1)
    assert len(world.state.reservations.list_current()) == 1


def test_claims_that_move_on_during_the_observation_do_not_hold_the_facts_back() -> None:
    world = PlanningWorld().ready(reservation(tags=TEAM))
    (claim,) = committed(world, 1)
    stale = launched(world, claim)
    world.state.node_claims.save(
        replace(stale, state=ClaimState.RUNNING), expected_revision=stale.revision
    )

    def lagging_index(reservation_id: str) -> tuple[NodeClaim, ...]:
        assert reservation_id == "cr-1"
        return (stale,)

    world.state.node_claims.list_leased = lagging_index  # type: ignore[method-assign] # as a lagging index has it
    world.clock.advance(minutes=1)
    world.reader.put(reservation(tags=TEAM, available_count=3))

    found = world.discover()

    assert (found.absorbed_count, world.reservation().balance) == (0, Balance(3, 1))


def test_units_in_a_zone_without_a_subnet_show_as_available_nowhere() -> None:
    """No node can be launched into them, so neither the class nor its pool counts them."""
    out_of_reach = reservation("cr-1", tags=TEAM, zone="us-east-1f", zone_id="use1-az6")
    world = PlanningWorld().ready(
        out_of_reach, pool=node_pool_manifest(capacity_types=("reserved",))
    )
    pool = world.policy.get(PolicyKind.NODE_POOL, "gpu")
    assert pool is not None

    assert selected(world) == ("cr-1",)
    for stored in (class_status(world), pool):
        assert "CapacityReservation" not in {
            str(condition.type) for condition in stored.status.conditions
        }


@pytest.mark.parametrize(
    ("key", "value", "shows"),
    [
        ("karpenter.sh/capacity-type", "reserved", True),
        ("karpenter.sh/capacity-type", "spot", False),
        ("topology.kubernetes.io/zone", "us-east-1a", True),
        ("topology.kubernetes.io/zone", "us-east-1b", False),
        ("karpenter.k8s.aws/capacity-reservation-id", "cr-2", False),
        ("node.kubernetes.io/instance-type", "m5.large", False),
    ],
)
def test_a_pool_shows_only_units_that_its_nodes_could_run_in(
    key: str, value: str, shows: bool
) -> None:
    manifest = node_pool_manifest(capacity_types=("reserved",))
    manifest["spec"]["template"]["spec"]["requirements"] = [
        {"key": key, "operator": "In", "values": [value]}
    ]
    world = PlanningWorld().ready(reservation("cr-1", tags=TEAM), pool=manifest)
    pool = world.policy.get(PolicyKind.NODE_POOL, "gpu")
    assert pool is not None

    found = {str(condition.type) for condition in pool.status.conditions}

    assert ("CapacityReservation" in found) is shows


def test_units_that_ec2_calls_unlaunchable_are_offered_to_nobody_until_it_says_otherwise() -> (
    None
):
    pool = node_pool_manifest(capacity_types=("reserved",))
    world = PlanningWorld().ready(reservation(tags=TEAM, is_launchable=False), pool=pool)
    record = world.submit(requests=Resources.of({"nvidia.com/gpu": 8}))
    world.provisioner().run()
    (waiting,) = world.state.workload_rows[record.key].unplaced
    assert waiting.code is ReasonCode.OFFERING_UNAVAILABLE
    assert "unlaunchable" in waiting.message

    world.reader.put(reservation(tags=TEAM))
    world.clock.advance(minutes=1)
    world.discover()
    world.provisioner().run()
    assert {
        claim.offering.reservation_id for claim in world.state.node_claims.list_live()
    } == {"cr-1"}


def told_of_changes(
    world: PlanningWorld,
) -> list[tuple[list[str], dict[str, tuple[Any, Any]]]]:
    changed = world.bus.of("Reservation Changed")
    return [
        (
            event["what"],
            {it["field"]: (it.get("old"), it.get("new")) for it in event["changes"]},
        )
        for event in changed
    ]


def test_what_becomes_of_a_reservation_is_told_with_old_and_new() -> None:
    end = START + timedelta(days=2)
    block = reservation(
        tags=TEAM,
        kind=ReservationKind.CAPACITY_BLOCK,
        state="scheduled",
        start_at=START,
        end_at=end,
        total_count=0,
    )
    world = PlanningWorld().ready(replace(block, available_count=0))
    begun = replace(block, state="active", total_count=4, available_count=4)
    later = replace(begun, end_at=end + timedelta(days=1))
    for shown in (
        begun,
        begun,
        later,
        replace(later, available_count=1),
        replace(later, state="expired"),
    ):
        world.clock.advance(minutes=1)
        world.reader.put(shown)
        world.discover()
    assert [what for what, _ in told_of_changes(world)] == [
        ["appeared"],
        ["began"],
        ["extended"],
        ["expired"],
    ]
    assert told_of_changes(world)[2][1] == {
        "endAt": ("2026-01-17T12:00:00Z", "2026-01-18T12:00:00Z")
    }


def test_a_cancelled_reservation_is_cancelled_and_not_exhausted() -> None:
    world = PlanningWorld().ready(reservation(tags=TEAM))
    world.clock.advance(minutes=1)
    world.reader.put(
        reservation(tags=TEAM, state="cancelled", total_count=0, available_count=0)
    )
    world.discover()
    assert told_of_changes(world)[-1][0] == ["cancelled"]
    assert world.bus.of("Reservation Exhausted") == []


def test_what_is_not_listed_any_more_was_unshared_and_is_told_once() -> None:
    world = PlanningWorld().ready(reservation(tags=TEAM, owner_id=OTHER))
    world.reader.reservations.clear()
    for _ in range(2):
        world.clock.advance(minutes=1)
        world.discover()
    assert [what for what, _ in told_of_changes(world)] == [["appeared"], ["unshared"]]


def test_who_dies_before_it_is_saved_tells_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = PlanningWorld().ready(reservation(tags=TEAM))
    world.reader.put(reservation(tags=TEAM, total_count=8, available_count=8))

    def dies(*_: object, **__: object) -> None:
        raise Killed

    world.clock.advance(minutes=1)
    with monkeypatch.context() as patched:
        patched.setattr(type(world.state.reservations), "save_observation", dies)
        with pytest.raises(Killed):
            world.discover()
    world.discover()
    assert [what for what, _ in told_of_changes(world)] == [
        ["appeared"],
        ["resized"],
        ["resized"],
    ]


def test_an_end_is_told_once_two_weeks_one_week_and_a_day_before_and_again_when_it_moves() -> (
    None
):
    end = START + timedelta(days=20)
    block = reservation(tags=TEAM, kind=ReservationKind.CAPACITY_BLOCK, end_at=end)
    world = PlanningWorld().ready(block)
    told: list[tuple[int, int, str | None]] = []
    for day in range(1, 24):
        if day == 16:
            world.reader.put(replace(block, end_at=end + timedelta(days=3)))
        world.clock.set(START + timedelta(days=day))
        for _ in range(2):
            world.clock.advance(minutes=1)
            world.discover()
        told += [
            (day, event["days"], event.get("successor"))
            for event in world.bus.of("Reservation Ending")[len(told) :]
        ]
    assert told == [(6, 14, None), (13, 7, None), (16, 7, None), (22, 1, None)]


def test_an_end_that_is_known_late_is_told_at_once_with_what_goes_on() -> None:
    end = START + timedelta(days=3)
    block = reservation(tags=TEAM, kind=ReservationKind.CAPACITY_BLOCK, end_at=end)
    later = replace(
        block,
        id="cr-2",
        state="scheduled",
        start_at=end + timedelta(hours=1),
        end_at=end + timedelta(days=30),
    )
    world = PlanningWorld().ready(block, later)
    (told,) = world.bus.of("Reservation Ending")
    assert (told["days"], told["successor"], told["gapS"], told["nodeCount"]) == (
        7,
        "cr-2",
        3_600,
        0,
    )


def placed(name: str, replicas: int, reservation_id: str, at: datetime) -> PastEvent:
    node = {
        "nodeClaim": f"claim-{name}",
        "capacityReservationId": reservation_id,
        "replicas": replicas,
    }
    detail = {
        "workload": {"namespace": "ns", "name": name, "generation": 1},
        "replicas": replicas,
        "nodes": [node],
    }
    return PastEvent(f"placed-{name}-{at:%d}", at, "Workload Placed", detail)


def test_an_end_is_told_with_what_was_placed_in_it_in_the_last_two_weeks() -> None:
    end = START + timedelta(days=20)
    block = reservation(tags=TEAM, kind=ReservationKind.CAPACITY_BLOCK, end_at=end)
    world = PlanningWorld().ready(block)
    now = START + timedelta(days=19, hours=1)
    world.history.keep(
        [
            placed("weekly", 4, block.id, now - timedelta(days=13)),
            placed("weekly", 4, block.id, now - timedelta(days=6)),
            placed("before", 2, block.id, now - timedelta(days=15)),
            placed("elsewhere", 2, "cr-other", now - timedelta(days=1)),
        ]
    )
    world.clock.set(now)
    world.discover()
    (told,) = world.bus.of("Reservation Ending")
    recent = [(each["name"], each["replicas"]) for each in told["recentWorkloads"]]
    assert (told["workloads"], recent) == ([], [("weekly", 8)])


def test_an_end_is_told_where_what_happened_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    end = START + timedelta(days=3)
    block = reservation(tags=TEAM, kind=ReservationKind.CAPACITY_BLOCK, end_at=end)
    world = PlanningWorld()

    def refused(*_: object) -> Iterator[PastEvent]:
        raise AccessDeniedError("AccessDenied", "no")

    monkeypatch.setattr(world.history, "of_object", refused)
    world.ready(block)
    (told,) = world.bus.of("Reservation Ending")
    assert "recentWorkloads" not in told
