"""CreateFleet with reservations: targeting x usage strategy x preference, row by row of the ODCR RFC's appendix.

The pools are C5_LARGE (cheaper) and M5_LARGE in one zone, each with a reservation that holds two instances.
"""

from dataclasses import dataclass

import pytest

from lab.worlds.cloud import ZONE_A, Cloud, config, error_codes, launched, override, refused

CHEAP, DEAR = "c5.large", "m5.large"
FIRST = {"CapacityReservationOptions": {"UsageStrategy": "use-capacity-reservations-first"}}


@dataclass(frozen=True)
class Case:
    """What the template targets, what the request says, and what becomes of five instances."""

    criteria: str
    targeted: bool
    strategy: bool
    preference: str | None
    in_cheap: int
    in_dear: int
    on_demand: int
    errors: frozenset[str] = frozenset()


EXCEEDED, UNUSED = (
    frozenset({"ReservationCapacityExceeded"}),
    frozenset({"UnfulfillableCapacity"}),
)

TABLE = {
    # Row 1: Fleet does not use templates that target reservations when it looks for reservations itself.
    "target-targeted, first": Case("targeted", True, True, None, 0, 0, 0, UNUSED),
    "target-open, first": Case("open", True, True, None, 0, 0, 0, UNUSED),
    # Row 2: all open reservations first, cheapest type first, then on-demand; targeted ones are left alone.
    "untargeted, first, open": Case("open", False, True, None, 2, 2, 1),
    "untargeted, first, targeted": Case("targeted", False, True, None, 0, 0, 5),
    # Row 3: one targeted reservation after the other, cheapest type first, and never on-demand.
    "target-targeted": Case("targeted", True, False, None, 2, 2, 0, EXCEEDED),
    "target-open": Case("open", True, False, None, 2, 2, 0, EXCEEDED),
    # Row 4: Fleet knows nothing of reservations; what lands on a matching open one is in it by luck.
    "untargeted, open": Case("open", False, False, None, 2, 0, 3),
    "untargeted, targeted": Case("targeted", False, False, None, 0, 0, 5),
    # Row 5: with the preference none, even a matching open reservation is not entered.
    "untargeted, none": Case("open", False, False, "none", 0, 0, 5),
    # Row 6: a target and the preference none contradict each other: errors on launch.
    "target-targeted, none": Case(
        "targeted", True, False, "none", 0, 0, 0, frozenset({"InvalidParameterCombination"})
    ),
    "target-open, none": Case(
        "open", True, False, "none", 0, 0, 0, frozenset({"InvalidParameterCombination"})
    ),
    # Beyond the table: the preference that came later.
    "target, only": Case(
        "targeted", True, False, "capacity-reservations-only", 2, 2, 0, EXCEEDED
    ),
    "untargeted, only": Case(
        "open", False, False, "capacity-reservations-only", 2, 2, 0, EXCEEDED
    ),
    "untargeted, first, none": Case("open", False, True, "none", 0, 0, 5),
}


@pytest.mark.parametrize("case", TABLE.values(), ids=TABLE.keys())
def test_row(cloud: Cloud, case: Case) -> None:
    reserved = {
        kind: cloud.reserve(2, InstanceType=kind, InstanceMatchCriteria=case.criteria)
        for kind in (DEAR, CHEAP)
    }
    templates = {
        kind: cloud.template(
            preference=case.preference, target=reserved[kind] if case.targeted else None
        )
        for kind in (DEAR, CHEAP)
    }
    configs = [config(templates[kind], override(kind)) for kind in (DEAR, CHEAP)]
    answer = cloud.fleet(configs, total=5, OnDemandOptions=FIRST if case.strategy else {})

    shown = [cloud.instance(i) for i in launched(answer)]
    in_reservation = [i.get("CapacityReservationId") for i in shown]
    assert in_reservation.count(reserved[CHEAP]) == case.in_cheap
    assert in_reservation.count(reserved[DEAR]) == case.in_dear
    assert in_reservation.count(None) == case.on_demand
    assert set(error_codes(answer)) == case.errors
    assert {e["Lifecycle"] for e in answer["Instances"]} <= {"on-demand"}
    assert (cloud.available(reserved[CHEAP]), cloud.available(reserved[DEAR])) == (
        2 - case.in_cheap,
        2 - case.in_dear,
    )


@pytest.mark.parametrize("strategy", [False, True])
def test_the_same_type_and_zone_in_two_templates_is_refused(
    cloud: Cloud, strategy: bool
) -> None:
    configs = [config(cloud.template(target=cloud.reserve(2))) for _ in range(2)]
    with refused("InvalidFleetConfig"):
        cloud.fleet(configs, OnDemandOptions=FIRST if strategy else {})
    assert cloud.instances() == []


def test_reservations_first_with_a_group_uses_the_group(cloud: Cloud) -> None:
    reserved = cloud.reserve(2)
    arn = cloud.control("create_group", name="ml", capacity_reservation_ids=[reserved])[
        "arn"
    ]
    answer = cloud.fleet(
        [config(cloud.template(target=arn))], total=3, OnDemandOptions=FIRST
    )
    where = [cloud.instance(i).get("CapacityReservationId") for i in launched(answer)]
    assert where == [reserved, reserved, None]


def test_reservations_first_orders_by_priority_when_asked(cloud: Cloud) -> None:
    reserved = {
        k: cloud.reserve(1, InstanceType=k, InstanceMatchCriteria="open")
        for k in (CHEAP, DEAR)
    }
    overrides = (override(CHEAP, ZONE_A, Priority=2), override(DEAR, ZONE_A, Priority=1))
    answer = cloud.fleet(
        [config(cloud.template(), *overrides)],
        total=1,
        OnDemandOptions={**FIRST, "AllocationStrategy": "prioritized"},
    )
    assert cloud.instance(launched(answer)[0])["CapacityReservationId"] == reserved[DEAR]
