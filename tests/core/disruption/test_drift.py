"""What counts as drift, and what does not (ODCR RFC, "Drift" and goal 9; R-149 to R-155)."""

from dataclasses import replace

import pytest

from shared.core import labels
from shared.core.disruption.drift import drift_reason
from shared.core.instance_type import CapacityType
from shared.core.node_claim import NodeClaim
from shared.core.node_class import MachineImage, NodeClass, NodeClassStatus, Subnet
from shared.core.node_pool import NodePool
from shared.core.requirement import Operator, Requirement
from tests.core.disruption.world import ON_DEMAND, RESERVED, SPOT, Fleet, instance_type, node_pool, reservation

LARGE = instance_type("large", 8, on_demand=400_000, spot=160_000)
POOL = node_pool("default", RESERVED, ON_DEMAND, static_hash="p1")
FOUND = NodeClassStatus(
    reservation_ids=("cr-1",),
    subnets=(Subnet("subnet-1", "zone-1", "z1", 100),),
    security_group_ids=("sg-1", "sg-2"),
    machine_images=(MachineImage("ami-new", "amd64"),),
)
CLASS = NodeClass("default", status=FOUND, static_hash="c1")


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
    return fleet.add_node("n", "large", market, {}, reservation_id=reservation_id, **{**current, **changes})


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
def test_a_node_that_is_not_what_pool_and_class_say_has_drifted(changes: dict[str, object], because: str) -> None:
    assert drift_reason(claim(), POOL, CLASS) is None
    assert because in (drift_reason(replace(claim(), **changes), POOL, CLASS) or "")  # type: ignore[arg-type]  # as named


def test_what_is_not_known_of_a_node_is_no_drift() -> None:
    unknown = claim(image_id=None, subnet_id=None, security_group_ids=())

    assert drift_reason(unknown, POOL, CLASS) is None


@pytest.mark.parametrize("field", ["machine_images", "subnets", "security_group_ids"])
def test_a_finding_that_is_empty_is_no_drift(field: str) -> None:
    status = replace(FOUND, **{field: ()})  # type: ignore[arg-type]  # each of them is a tuple

    assert drift_reason(claim(image_id="ami-old", subnet_id="subnet-0"), POOL, CLASS) is not None
    assert drift_reason(claim(), POOL, replace(CLASS, status=status)) is None


def test_a_reservation_that_is_no_longer_selected_is_drift() -> None:
    status = replace(FOUND, reservation_ids=("cr-2",))

    assert "cr-1 is no longer selected" in (drift_reason(claim(), POOL, replace(CLASS, status=status)) or "")


@pytest.mark.parametrize(("markets", "drifts"), [((RESERVED,), True), ((RESERVED, ON_DEMAND), False)])
def test_a_node_whose_reservation_ended_drifts_only_if_its_pool_forbids_on_demand(
    markets: tuple[CapacityType, ...], drifts: bool
) -> None:
    demoted = claim(market=ON_DEMAND)  # what ``expire`` makes of it

    assert (drift_reason(demoted, node_pool("default", *markets, static_hash="p1"), CLASS) is not None) is drifts


@pytest.mark.parametrize(
    ("wanted", "drifts"),
    [
        (Requirement.new(labels.ZONE, Operator.IN, ("zone-1", "zone-2")), False),
        (Requirement.new(labels.ZONE, Operator.IN, ("zone-2",)), True),
        (Requirement.new(labels.INSTANCE_TYPE, Operator.NOT_IN, ("large",)), True),
        (Requirement.new("team", Operator.IN, ("ml",)), True),
    ],
)
def test_a_node_that_its_pools_requirements_no_longer_admit_has_drifted(wanted: Requirement, drifts: bool) -> None:
    pool: NodePool = replace(POOL, requirements=POOL.requirements.add(wanted))

    assert (drift_reason(claim(), pool, CLASS) is not None) is drifts


def test_spot_is_no_drift_where_spot_is_allowed() -> None:
    assert drift_reason(claim(market=SPOT), node_pool("default", SPOT, static_hash="p1"), CLASS) is None


def test_without_its_pool_or_class_a_node_has_drifted() -> None:
    assert "no longer exists" in (drift_reason(claim(), None, CLASS) or "")
    assert "no longer exists" in (drift_reason(claim(), POOL, None) or "")
