"""What counts as drift, and what does not (ODCR RFC, "Drift" and goal 9; R-149 to R-155)."""

from dataclasses import replace
from datetime import timedelta

import pytest

from reservoir.core.disruption.methods import drift
from reservoir.core.disruption.methods.drift import TYPE_GONE_AFTER, Offered
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.node_class import MachineImage, NodeClass, NodeClassStatus, Subnet
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from tests.core.disruption.world import (
    LARGE,
    NOW,
    ON_DEMAND,
    RESERVED,
    SPOT,
    Fleet,
    instance_type,
    node_pool,
    reservation,
)

POOL = node_pool("default", RESERVED, ON_DEMAND, static_hash="p1")
FOUND = NodeClassStatus(
    reservation_ids=("cr-1",),
    subnets=(Subnet("subnet-1", "zone-1", "z1", 100),),
    security_group_ids=("sg-1", "sg-2"),
    machine_images=(MachineImage("ami-new", "amd64"),),
)
CLASS = NodeClass("default", status=FOUND, static_hash="c1")
ANY = node_pool("default", static_hash="p1")
HOUR = timedelta(hours=1)
OFFERED = Offered.of(Snapshot((LARGE,), reservations=(reservation("cr-1", "large", 1, 0),)))


def drift_reason(
    claim: NodeClaim, pool: NodePool, node_class: NodeClass | None
) -> str | None:
    return drift.drift_reason(claim, pool, node_class, OFFERED, NOW)


def claim(*, market: CapacityType = RESERVED, **changes: object) -> NodeClaim:
    fleet = Fleet((LARGE,), (POOL,), {}, (reservation("cr-1", "large", 1, 0),))
    current: dict[str, object] = {
        "node_pool_hash": "p1",
        "node_class_hash": "c1",
        "image_id": "ami-new",
        "subnet_id": "subnet-1",
        "security_group_ids": ("sg-1", "sg-2"),
    }
    reservation_id = "cr-1" if market is RESERVED else None
    return fleet.add_node(
        "n", "large", market, {}, reservation_id=reservation_id, **{**current, **changes}
    )


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"node_pool_hash": "p0"}, "NodePool default changed"),
        ({"node_class_hash": "c0"}, "EC2NodeClass default changed"),
        ({"image_id": "ami-old"}, "AMI ami-old is no longer selected"),
        ({"subnet_id": "subnet-0"}, "subnet subnet-0 is no longer selected"),
        ({"security_group_ids": ("sg-1",)}, "security groups differ"),
    ],
)
def test_a_node_that_is_not_what_pool_and_class_say_has_drifted(
    changes: dict[str, object], because: str
) -> None:
    assert drift_reason(claim(), POOL, CLASS) is None
    assert because in (drift_reason(replace(claim(), **changes), POOL, CLASS) or "")  # type: ignore[arg-type]  # as named


def test_what_is_not_known_of_a_node_is_no_drift() -> None:
    unknown = claim(image_id=None, subnet_id=None, security_group_ids=())

    assert drift_reason(unknown, POOL, CLASS) is None


@pytest.mark.parametrize("field", ["machine_images", "subnets", "security_group_ids"])
def test_a_finding_that_is_empty_is_no_drift(field: str) -> None:
    status = replace(FOUND, **{field: ()})  # type: ignore[arg-type]  # each of them is a tuple

    assert (
        drift_reason(claim(image_id="ami-old", subnet_id="subnet-0"), POOL, CLASS)
        is not None
    )
    assert drift_reason(claim(), POOL, replace(CLASS, status=status)) is None


def test_a_reservation_that_is_no_longer_selected_is_drift() -> None:
    status = replace(FOUND, reservation_ids=("cr-2",))

    assert "cr-1 is no longer selected" in (
        drift_reason(claim(), POOL, replace(CLASS, status=status)) or ""
    )
    # S-73: its node is about to be demoted, and judged then
    ended = Offered.of(Snapshot((LARGE,)))
    assert (
        drift.drift_reason(claim(), POOL, replace(CLASS, status=status), ended, NOW) is None
    )


@pytest.mark.parametrize(
    ("markets", "drifts"), [((RESERVED,), True), ((RESERVED, ON_DEMAND), False)]
)
def test_a_node_whose_reservation_ended_drifts_only_if_its_pool_forbids_on_demand(
    markets: tuple[CapacityType, ...], drifts: bool
) -> None:
    demoted = claim(market=ON_DEMAND)  # what ``expire`` makes of it

    assert (
        drift_reason(demoted, node_pool("default", *markets, static_hash="p1"), CLASS)
        is not None
    ) is drifts


@pytest.mark.parametrize(
    ("wanted", "drifts"),
    [
        (Requirement.new(labels.ZONE, Operator.IN, ("zone-1", "zone-2")), False),
        (Requirement.new(labels.ZONE, Operator.IN, ("zone-2",)), True),
        (Requirement.new(labels.INSTANCE_TYPE, Operator.NOT_IN, ("large",)), True),
        (Requirement.new("team", Operator.IN, ("ml",)), True),
    ],
)
def test_a_node_that_its_pools_requirements_no_longer_admit_has_drifted(
    wanted: Requirement, drifts: bool
) -> None:
    pool: NodePool = replace(POOL, requirements=POOL.requirements.add(wanted))

    assert (drift_reason(claim(), pool, CLASS) is not None) is drifts


def test_spot_is_no_drift_where_spot_is_allowed() -> None:
    assert (
        drift_reason(
            claim(market=SPOT), node_pool("default", SPOT, static_hash="p1"), CLASS
        )
        is None
    )


def test_without_its_class_a_node_has_drifted() -> None:
    assert "no longer exists" in (drift_reason(claim(), POOL, None) or "")


def offers(*markets: CapacityType) -> Offered:
    """What is on offer when the type is sold on just these markets in the node's zone, and on all of them elsewhere."""
    here = tuple(
        offering for offering in LARGE.offerings if offering.capacity_type in markets
    )
    elsewhere = tuple(
        replace(offering, zone="zone-2", zone_id="z2") for offering in LARGE.offerings
    )
    units = (reservation("cr-9", "large", 1, 0),) if RESERVED in markets else ()
    kinds = (
        replace(LARGE, offerings=here + elsewhere),
        instance_type("other", 2, on_demand=100_000, spot=50_000),
    )
    return Offered.of(Snapshot(kinds, reservations=units))


@pytest.mark.parametrize(
    ("markets", "drifts"),
    [
        ((RESERVED, ON_DEMAND), False),
        ((RESERVED,), False),
        ((ON_DEMAND,), False),
        ((SPOT,), True),
        ((), True),
    ],
)
def test_s74_a_reserved_node_whose_type_is_gone_has_drifted(
    markets: tuple[CapacityType, ...], drifts: bool
) -> None:
    reason = drift.drift_reason(claim(), POOL, CLASS, offers(*markets), NOW)

    assert (reason == "large is no longer offered reserved in zone-1") is drifts
    assert (reason is not None) is drifts


@pytest.mark.parametrize(
    ("market", "left", "drifts"),
    [
        (ON_DEMAND, (ON_DEMAND,), False),
        (ON_DEMAND, (RESERVED, SPOT), True),
        (SPOT, (SPOT,), False),
        (SPOT, (ON_DEMAND,), False),  # spot may only lack a price
        (SPOT, (RESERVED,), True),
    ],
)
def test_a_paid_node_needs_its_own_market_or_a_spot_node_any(
    market: CapacityType, left: tuple[CapacityType, ...], drifts: bool
) -> None:
    assert (
        drift.drift_reason(claim(market=market), ANY, CLASS, offers(*left), NOW) is not None
    ) is drifts


def test_a_shortage_is_not_a_type_that_is_gone() -> None:
    short = replace(
        LARGE,
        offerings=tuple(
            replace(it, unavailable_until=NOW + 2 * HOUR) for it in LARGE.offerings
        ),
    )

    assert (
        drift.drift_reason(
            claim(market=SPOT), ANY, CLASS, Offered.of(Snapshot((short,))), NOW
        )
        is None
    )


@pytest.mark.parametrize("kinds", [(), (LARGE,)])
def test_a_young_node_and_a_catalogue_that_was_never_read_say_nothing(
    kinds: tuple[InstanceType, ...],
) -> None:
    age = TYPE_GONE_AFTER - timedelta(seconds=1) if kinds else timedelta(days=1)
    gone = Offered.of(Snapshot(tuple(replace(kind, name="other") for kind in kinds)))

    assert drift.drift_reason(claim(created_at=NOW - age), POOL, CLASS, gone, NOW) is None
