"""Every value that is stored or replayed survives its way through JSON."""

import json
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from reservoir.core.model.instance_type import CapacityType, InstanceType, Offering
from reservoir.core.model.node_claim import (
    ClaimState,
    Drain,
    DrainReason,
    Lease,
    LeaseState,
    NodeClaim,
)
from reservoir.core.model.node_class import (
    CapacityReservationSelectorTerm,
    NodeClass,
    NodeClassStatus,
    Subnet,
)
from reservoir.core.model.node_pool import Budget, Disruption, DisruptionReason, NodePool
from reservoir.core.model.plan import (
    OfferingKey,
    Plan,
    PlannedNodes,
    ReasonCode,
    UnplacedReplicas,
)
from reservoir.core.model.snapshot import Node, PlacedReplicas, Snapshot
from reservoir.core.model.workload import (
    AffinityTerm,
    Demand,
    FallbackStep,
    Gang,
    LabelSelector,
    LabelSelectorExpression,
    LabelSelectorOperator,
    TopologySpreadConstraint,
    Workload,
)
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.scheduling_terms.taint import Taint, Toleration
from reservoir.core.serialisation.json_codec import CodecError, dumps, from_json, loads
from reservoir.core.serialisation.remembered_text import LastText


def to_json(value: object) -> Any:
    return json.loads(dumps(value))


NOW = datetime(2026, 1, 15, 12, 30, tzinfo=UTC)
KEY = OfferingKey("p5.48xlarge", "us-east-1a", "use1-az1", CapacityType.RESERVED, "cr-1")
REQUIREMENTS = Requirements.of(
    Requirement.new("a", Operator.IN, ("x", "y"), 2),
    Requirement.new("b", Operator.NOT_IN, ("z",)),
    Requirement.new("c", Operator.GT, ("7",)),
    Requirement.new("d", Operator.DOES_NOT_EXIST),
)
WORKLOAD = Workload(
    namespace="research",
    name="train",
    generation=3,
    replicas=4,
    requests=Resources.of({"cpu": 1500, "nvidia.com/gpu": 8}),
    labels={"team": "a"},
    node_selector=REQUIREMENTS,
    required_node_terms=(REQUIREMENTS,),
    tolerations=(Toleration("k"),),
    topology_spread=(TopologySpreadConstraint("zone", 1, LabelSelector((("a", "b"),))),),
    anti_affinity=(
        AffinityTerm(
            "host",
            LabelSelector(
                match_expressions=(
                    LabelSelectorExpression(
                        "a", LabelSelectorOperator.IN, frozenset({"1", "2"})
                    ),
                )
            ),
            weight=3,
        ),
    ),
    gang=Gang("zone"),
    fallback=(FallbackStep(CapacityType.RESERVED, 60), FallbackStep(CapacityType.SPOT)),
)
CLAIM = NodeClaim(
    id="nc-1",
    state=ClaimState.DRAINING,
    revision=4,
    node_pool_name="gpu",
    node_class_name="default",
    batch_id="b-1",
    attempt=2,
    offering=KEY,
    price_atto_usd_per_hour=10**20,
    placements=(PlacedReplicas("research/train", 2),),
    allocatable=Resources.of({"cpu": 1}),
    created_at=NOW,
    alternatives=(KEY,),
    taints=(Taint("k", "v"),),
    lease=Lease("cr-1", LeaseState.SETTLED, NOW),
    drain=Drain("d-1", DrainReason.INTERRUPTION, NOW, NOW),
)
RESERVATION = CapacityReservation(
    "cr-1", "1" * 12, "p5.48xlarge", "us-east-1a", "use1-az1", ReservationKind.CAPACITY_BLOCK, "active", 4, 3,
    free_units=2, end_at=NOW, tags={"b": "2", "a": "1"},
)  # fmt: skip
SNAPSHOT = Snapshot(
    instance_types=(
        InstanceType(
            "p5.48xlarge",
            REQUIREMENTS,
            Resources.of({"cpu": 192000}),
            Resources.of({"cpu": 1000}),
            (Offering("us-east-1a", "use1-az1", CapacityType.SPOT, 12, NOW),),
            13,
        ),
    ),
    reservations=(RESERVATION,),
    node_pools=(
        NodePool(
            "gpu", "default", REQUIREMENTS, limits=Resources.of({"cpu": 0}),
            disruption=Disruption(budgets=(Budget("1", frozenset(DisruptionReason), "@daily", 60),)),
        ),
    ),
    node_classes=(
        NodeClass(
            "default",
            (CapacityReservationSelectorTerm(tags={"a": "*"}),),
            block_device_mappings=({"deviceName": "/dev/xvda", "ebs": {"volumeSize": "10Gi", "encrypted": True}},),
            status=NodeClassStatus(("cr-1",), (Subnet("subnet-1", "us-east-1a", "use1-az1", 9),)),
        ),
    ),
    nodes=(
        Node("nc-1", "gpu", "default", "p5.48xlarge", "us-east-1a", "use1-az1", CapacityType.RESERVED, {"a": "b"},
             Resources.of({"cpu": 1}), Resources.of({})),
    ),
    demands=(Demand(WORKLOAD, 2, NOW),),
    workloads={WORKLOAD.key: WORKLOAD},
)  # fmt: skip
PLAN = Plan(
    launches=(
        PlannedNodes(
            "gpu", "default", KEY, 5, 2, (PlacedReplicas("a/b", 1),), labels={"x": "y"}
        ),
    ),
    unplaced=(UnplacedReplicas("a/b", 1, ReasonCode.TOPOLOGY, "why", KEY, NOW),),
)


@pytest.mark.parametrize(
    "value",
    [WORKLOAD, CLAIM, RESERVATION, SNAPSHOT, PLAN],
    ids=lambda value: type(value).__name__,
)
def test_what_is_written_is_read_back(value: object) -> None:
    text = dumps(value)

    assert loads(type(value), text) == value
    assert dumps(loads(type(value), text)) == text


@pytest.mark.parametrize(
    "value",
    [WORKLOAD, CLAIM, RESERVATION, SNAPSHOT, PLAN],
    ids=lambda value: type(value).__name__,
)
def test_the_text_is_what_a_json_library_would_write(value: object) -> None:
    data = json.loads(dumps(value))

    assert dumps(value) == json.dumps(
        data, separators=(",", ":"), sort_keys=True, ensure_ascii=False
    )


def test_what_stands_in_many_places_is_written_in_each() -> None:
    placed = (PlacedReplicas('a/"b"', 1),)
    launch = PlannedNodes(
        "gpu",
        "default",
        KEY,
        5,
        2,
        placed,
        alternatives=(KEY, KEY),
        labels={"b": '"', "a": "1"},
    )
    plan = Plan(launches=(launch, replace(launch, count=3), launch))

    assert loads(Plan, dumps(plan)) == plan


def test_instance_types_are_written_as_they_are_in_each_of_many_snapshots() -> None:
    """Their texts are remembered from snapshot to snapshot, far more than are kept, and never taken for another's."""
    for number in range(5000):
        kind = InstanceType(
            f"m{number}.large",
            Requirements.of(),
            Resources.of({"cpu": number + 1}),
            Resources.of({}),
        )
        snapshot = Snapshot(instance_types=(kind,))
        assert f'"m{number}.large"' in dumps(snapshot)
        assert dumps(snapshot) == dumps(replace(snapshot, instance_types=(replace(kind),)))


def test_derived_fields_are_not_stored_and_come_back() -> None:
    (stored,) = to_json(SNAPSHOT)["instance_types"]

    assert "allocatable" not in stored
    assert from_json(Snapshot, to_json(SNAPSHOT)).instance_types[
        0
    ].allocatable == Resources.of({"cpu": 191000})


def test_equal_values_give_equal_bytes_in_whatever_order_they_were_made() -> None:
    other = CapacityReservation(
        "cr-1", "1" * 12, "p5.48xlarge", "us-east-1a", "use1-az1", ReservationKind.CAPACITY_BLOCK, "active", 4, 3,
        free_units=2, end_at=NOW, tags={"a": "1", "b": "2"},
    )  # fmt: skip

    assert dumps(other) == dumps(RESERVATION)


def test_rows_of_older_and_newer_forms_can_be_read() -> None:
    data = to_json(WORKLOAD)
    data["added_later"] = 1
    del data["fallback"]

    assert from_json(Workload, data).fallback == ()


@pytest.mark.parametrize(
    "data", [{}, {"id": "nc-1"}, [], None, {**to_json(CLAIM), "state": "dreaming"}]
)
def test_other_json_is_refused(data: object) -> None:
    with pytest.raises(CodecError):
        from_json(NodeClaim, json.loads(json.dumps(data)))


@pytest.mark.parametrize(
    "data", [[], None, "name", {"name": "train"}, {**to_json(WORKLOAD), "fallback": [{}]}]
)
def test_a_workload_that_lacks_something_is_refused(data: object) -> None:
    with pytest.raises(CodecError):
        from_json(Workload, json.loads(json.dumps(data)))


def test_what_is_read_cannot_be_changed_and_shares_nothing_that_can() -> None:
    data = to_json(WORKLOAD)
    first, second = from_json(Workload, data), from_json(Workload, data)

    assert type(first) is Workload
    assert first.labels is not second.labels
    assert first.annotations is not second.annotations
    assert hash(first.node_selector) == hash(WORKLOAD.node_selector)
    with pytest.raises(FrozenInstanceError):
        first.name = "other"  # type: ignore[misc] # that it cannot be said is what is tested


@pytest.mark.parametrize("weight", [1, True, None, "1"])
def test_what_is_remembered_is_only_given_for_data_of_the_same_kind(weight: object) -> None:
    """1 and True are equal in Python, not in JSON."""
    for other in (1, True, weight):
        term = {"topology_key": "zone", "selector": {}, "weight": other}
        (read,) = from_json(
            Workload, to_json(WORKLOAD) | {"anti_affinity": [term]}
        ).anti_affinity

    assert (type(read.weight), read.weight) == (type(weight), weight)


def test_the_text_of_a_node_is_made_once_while_snapshots_have_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = tuple(_node(f"nc-{number}") for number in range(3))
    cold = dumps(Snapshot(instance_types=(), nodes=nodes))
    assert dumps(Snapshot(instance_types=(), nodes=nodes)) == cold
    assert set(LastText.kept) == {id(node) for node in nodes}

    changed = replace(nodes[1], used=Resources.of({"cpu": 5}))
    text = dumps(Snapshot(instance_types=(), nodes=(nodes[0], changed)))

    assert set(LastText.kept) == {id(nodes[0]), id(changed)}
    monkeypatch.setattr(LastText, "kept", {})
    assert dumps(Snapshot(instance_types=(), nodes=(nodes[0], changed))) == text


def _node(claim_id: str) -> Node:
    place = ("us-east-1a", "use1-az1", CapacityType.SPOT)
    return Node(
        claim_id,
        "p",
        "c",
        "m5.large",
        *place,
        {},
        Resources.of({"cpu": 9}),
        Resources.of({}),
    )
