from dataclasses import replace
from datetime import timedelta

import pytest

from lab.fakes import values
from lab.fakes.system import START
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.conditions import (
    Condition,
    ConditionStatus,
    ConditionType,
    launches_blocked,
    node_class_conditions,
    node_pool_conditions,
)
from reservoir.core.model.node_class import (
    CapacityReservationSelectorTerm,
    MachineImage,
    NodeClass,
    NodeClassStatus,
    SelectorTerm,
    Subnet,
)
from reservoir.core.model.node_pool import NodePool
from reservoir.core.scheduling_terms.requirements import Requirements

LATER = START + timedelta(minutes=1)
READY_CLASS = NodeClass(
    "c",
    capacity_reservation_selector_terms=(CapacityReservationSelectorTerm(id="cr-1"),),
    role="node",
    status=NodeClassStatus(
        subnets=(Subnet("subnet-1", "us-west-2a", "usw2-az1", 10),),
        security_group_ids=("sg-1",),
        machine_images=(MachineImage("ami-1", "amd64"),),
        instance_profile="node",
    ),
)


def reservation(free_units: int, state: str = "active") -> CapacityReservation:
    return values.reservation(
        "cr-1", 4, free_units, state=state, zone="us-west-2a", zone_id="usw2-az1"
    )


def of_class(
    node_class: NodeClass,
    *reservations: CapacityReservation,
    errors: dict[ConditionType, str] | None = None,
    previous: tuple[Condition, ...] = (),
) -> dict[ConditionType, Condition]:
    conditions = node_class_conditions(
        node_class,
        reservations,
        discovery_errors=errors or {},
        previous=previous,
        now=LATER if previous else START,
    )
    assert conditions[-1].type is ConditionType.READY
    return {condition.type: condition for condition in conditions}


def test_a_class_for_which_everything_was_found_is_ready() -> None:
    found = of_class(READY_CLASS, reservation(2))
    assert {kind: condition.status for kind, condition in found.items()} == {
        ConditionType.CAPACITY_RESERVATION: ConditionStatus.AVAILABLE,
        ConditionType.CAPACITY_RESERVATIONS_READY: ConditionStatus.TRUE,
        ConditionType.SUBNETS_READY: ConditionStatus.TRUE,
        ConditionType.SECURITY_GROUPS_READY: ConditionStatus.TRUE,
        ConditionType.AMIS_READY: ConditionStatus.TRUE,
        ConditionType.INSTANCE_PROFILE_READY: ConditionStatus.TRUE,
        ConditionType.LAUNCHES_PERMITTED: ConditionStatus.TRUE,
        # nobody asked yet, which stops nothing
        ConditionType.VALIDATION_SUCCEEDED: ConditionStatus.UNKNOWN,
        ConditionType.READY: ConditionStatus.TRUE,
    }
    assert found[ConditionType.CAPACITY_RESERVATION].message == "2 of 4 units are free"


def test_a_full_reservation_is_limit_exceeded_and_the_class_stays_ready() -> None:
    found = of_class(READY_CLASS, reservation(0))
    assert (
        found[ConditionType.CAPACITY_RESERVATION].status is ConditionStatus.LIMIT_EXCEEDED
    )
    assert found[ConditionType.READY].status is ConditionStatus.TRUE


def test_units_that_become_free_reset_the_limit() -> None:
    before = tuple(of_class(READY_CLASS, reservation(0)).values())
    after = of_class(READY_CLASS, reservation(1), previous=before)
    assert after[ConditionType.CAPACITY_RESERVATION].status is ConditionStatus.AVAILABLE
    assert after[ConditionType.CAPACITY_RESERVATION].last_transition_at == LATER


def test_units_that_the_class_cannot_launch_into_are_not_counted() -> None:
    found = of_class(
        READY_CLASS, reservation(0), replace(reservation(4), id="cr-2", zone="us-west-2b")
    )
    assert (
        found[ConditionType.CAPACITY_RESERVATION].status is ConditionStatus.LIMIT_EXCEEDED
    )
    assert found[ConditionType.CAPACITY_RESERVATION].message == "0 of 4 units are free"
    assert found[ConditionType.CAPACITY_RESERVATIONS_READY].message == "2 found"


def test_a_status_that_stays_keeps_its_time() -> None:
    before = tuple(of_class(READY_CLASS, reservation(1)).values())
    after = of_class(READY_CLASS, reservation(3), previous=before)
    assert {condition.last_transition_at for condition in after.values()} == {START}
    assert after[ConditionType.CAPACITY_RESERVATION].message == "3 of 4 units are free"


def test_a_reservation_that_cannot_be_used_is_named() -> None:
    found = of_class(READY_CLASS, replace(reservation(4), id="cr-2"))
    assert (
        found[ConditionType.CAPACITY_RESERVATIONS_READY].message
        == "1 found; not usable: cr-1"
    )


NO_SUBNET_THERE = replace(reservation(4), zone="us-west-2b", zone_id="usw2-az2")
ON_WINDOWS = replace(reservation(4), platform="Windows")


@pytest.mark.parametrize(
    "reservations", [(), (reservation(1, "expired"),), (NO_SUBNET_THERE,), (ON_WINDOWS,)]
)
def test_no_usable_reservation_is_neither_available_nor_exceeded(
    reservations: tuple[CapacityReservation, ...],
) -> None:
    found = of_class(READY_CLASS, *reservations)
    assert ConditionType.CAPACITY_RESERVATION not in found
    # S-28
    assert found[ConditionType.CAPACITY_RESERVATIONS_READY].status is ConditionStatus.TRUE
    assert found[ConditionType.READY].status is ConditionStatus.TRUE


@pytest.mark.parametrize(
    ("status", "condition"),
    [
        (replace(READY_CLASS.status, subnets=()), ConditionType.SUBNETS_READY),
        (
            replace(READY_CLASS.status, security_group_ids=()),
            ConditionType.SECURITY_GROUPS_READY,
        ),
        (replace(READY_CLASS.status, machine_images=()), ConditionType.AMIS_READY),
        (
            replace(READY_CLASS.status, instance_profile=None),
            ConditionType.INSTANCE_PROFILE_READY,
        ),
        (
            replace(READY_CLASS.status, launch_blocked_reason="no permission"),
            ConditionType.LAUNCHES_PERMITTED,
        ),
    ],
)
def test_what_is_missing_makes_the_class_not_ready(
    status: NodeClassStatus, condition: ConditionType
) -> None:
    found = of_class(replace(READY_CLASS, status=status))
    assert found[condition].status is ConditionStatus.FALSE
    assert found[ConditionType.READY].status is ConditionStatus.FALSE
    assert found[ConditionType.READY].message.startswith(condition)


def test_a_failed_lookup_is_unknown_and_what_was_found_before_keeps_working() -> None:
    errors = {
        ConditionType.CAPACITY_RESERVATIONS_READY: "throttled",
        ConditionType.SUBNETS_READY: "denied",
    }
    found = of_class(READY_CLASS, reservation(1), errors=errors)
    assert (
        found[ConditionType.CAPACITY_RESERVATIONS_READY].status is ConditionStatus.UNKNOWN
    )
    assert found[ConditionType.SUBNETS_READY].message == "denied"
    assert found[ConditionType.READY].status is ConditionStatus.TRUE


@pytest.mark.parametrize(
    ("status", "condition"),
    [
        (replace(READY_CLASS.status, subnets=()), ConditionType.SUBNETS_READY),
        (
            replace(READY_CLASS.status, security_group_ids=()),
            ConditionType.SECURITY_GROUPS_READY,
        ),
        (replace(READY_CLASS.status, machine_images=()), ConditionType.AMIS_READY),
        (
            replace(READY_CLASS.status, instance_profile=None),
            ConditionType.INSTANCE_PROFILE_READY,
        ),
    ],
)
def test_a_first_lookup_that_failed_leaves_nothing_to_work_with(
    status: NodeClassStatus, condition: ConditionType
) -> None:
    found = of_class(
        replace(READY_CLASS, status=status), errors={condition: "RequestLimitExceeded"}
    )
    assert found[condition].status is ConditionStatus.UNKNOWN
    ready = found[ConditionType.READY]
    assert ready.status is ConditionStatus.UNKNOWN
    assert ready.message == f"{condition}: RequestLimitExceeded"
    (pool_class, pool_ready) = node_pool_conditions(
        NodePool("p", "c", Requirements.of()),
        tuple(found.values()),
        (),
        previous=(),
        now=LATER,
    )
    assert {pool_class.status, pool_ready.status} == {ConditionStatus.UNKNOWN}


def test_what_is_missing_counts_more_than_what_is_unknown() -> None:
    status = replace(READY_CLASS.status, subnets=(), machine_images=())
    found = of_class(
        replace(READY_CLASS, status=status), errors={ConditionType.AMIS_READY: "Throttling"}
    )
    assert found[ConditionType.READY].status is ConditionStatus.FALSE


def test_a_refused_launch_shows_at_once_and_keeps_the_rest() -> None:
    before = of_class(READY_CLASS, reservation(1))
    after = {
        c.type: c
        for c in launches_blocked(
            tuple(before.values()), "Configuration: InvalidAMIID.NotFound", LATER
        )
    }
    assert after.keys() == before.keys()
    for kind in (ConditionType.LAUNCHES_PERMITTED, ConditionType.READY):
        assert after[kind].status is ConditionStatus.FALSE
        assert after[kind].last_transition_at == LATER
    assert (
        after[ConditionType.READY].message
        == "LaunchesPermitted: Configuration: InvalidAMIID.NotFound"
    )
    assert after[ConditionType.SUBNETS_READY] == before[ConditionType.SUBNETS_READY]


def test_a_class_without_a_role_needs_no_instance_profile() -> None:
    node_class = replace(
        READY_CLASS, role=None, status=replace(READY_CLASS.status, instance_profile=None)
    )
    assert ConditionType.INSTANCE_PROFILE_READY not in of_class(node_class)


def test_a_pool_is_as_ready_as_its_class() -> None:
    pool = NodePool("p", "c", Requirements.of())
    ready = tuple(of_class(READY_CLASS, reservation(1)).values())
    broken = tuple(of_class(replace(READY_CLASS, status=NodeClassStatus())).values())

    def status(conditions: tuple[Condition, ...] | None) -> ConditionStatus:
        return node_pool_conditions(pool, conditions, (), previous=(), now=START)[-1].status

    assert status(ready) is ConditionStatus.TRUE
    assert status(broken) is ConditionStatus.FALSE
    assert status(None) is ConditionStatus.FALSE
    assert status(()) is ConditionStatus.UNKNOWN  # nobody has looked yet


def test_a_class_without_an_image_says_what_was_looked_for() -> None:
    terms = (SelectorTerm(alias="al2023@2023.5.20240708.0"), SelectorTerm(name="app-*"))
    status = replace(READY_CLASS.status, machine_images=())
    found = of_class(replace(READY_CLASS, status=status, ami_selector_terms=terms))
    told = found[ConditionType.AMIS_READY].message
    assert told == "the terms select no machine image (al2023@2023.5.20240708.0, app-*)"
