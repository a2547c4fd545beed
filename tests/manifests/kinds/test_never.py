"""Of what is said to never launch, the scheduler launches nothing."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from lab.embedded.ec2.market.catalogue import instance_types
from lab.fakes import values
from reservoir.adapters.ec2.instance_types import parse
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms import labels
from reservoir.manifests.crosscheck import ObjectSet, cross_check
from reservoir.manifests.kinds.node_pool import NodePoolManifest
from tests.core.scheduler.world import NOW, POLICY, demand, types_launched, workload

FAMILIES = (
    "c5n",
    "c7g",
    "g6",
    "g6f",
    "i4i",
    "inf2",
    "m5",
    "m5zn",
    "m7i-flex",
    "p5",
    "t3",
    "trn1",
    "u-6tb1",
    "c6a",
)
PRICES = {CapacityType.ON_DEMAND: 2_000_000, CapacityType.SPOT: 1_000_000}


@cache
def catalogue() -> tuple[InstanceType, ...]:
    described = [
        info
        for name, info in instance_types().items()
        if name.partition(".")[0] in FAMILIES
    ]
    offerings = values.sold(PRICES, [(values.ZONE, values.ZONE_ID)])
    parsed = (
        parse(info, "us-east-1", Fraction("0.075")).instance_type for info in described
    )
    return tuple(
        replace(each, offerings=offerings, on_demand_price_micro_usd_per_hour=2_000_000)
        for each in parsed
    )


def launches(requirements: Sequence[dict[str, Any]]) -> tuple[bool, bool]:
    """Whether something is launched for a pool with these requirements, and whether that is said to be possible."""
    template = {
        "spec": {"nodeClassRef": {"name": "default"}, "requirements": list(requirements)}
    }
    manifest = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "pool"},
        "spec": {"template": template},
    }
    pool, node_class = (
        NodePoolManifest.model_validate(manifest).to_core(),
        NodeClass("default"),
    )
    snapshot = Snapshot(
        catalogue(),
        (),
        node_pools=(pool,),
        node_classes=(node_class,),
        demands=(demand(workload()),),
    )
    doubts = cross_check(ObjectSet(node_pools=(pool,), node_classes=(node_class,)))
    is_said = not any("the pool can never launch" in doubt.message for doubt in doubts)
    return bool(types_launched(solve(snapshot, now=NOW, policy=POLICY))), is_said


# No pool can require these; reservations and placement groups are not in this world.
ELSEWHERE = (
    labels.RESERVATION_LABELS
    | labels.NETWORK_LABELS
    | {
        labels.PLACEMENT_GROUP_ID,
        labels.PLACEMENT_GROUP_PARTITION,
        labels.NODE_POOL,
        labels.NODE_CLASS,
    }
)


@pytest.mark.parametrize("key", sorted(labels.WELL_KNOWN - ELSEWHERE))
def test_a_label_that_is_to_be_absent(key: str) -> None:
    does, is_said = launches([{"key": key, "operator": "DoesNotExist"}])
    assert is_said or not does
    assert is_said is (key not in labels.OF_EVERY_NODE)


@pytest.mark.parametrize(
    "requirements",
    [
        [{"key": labels.INSTANCE_GPU_COUNT, "operator": "DoesNotExist"}],
        [{"key": labels.INSTANCE_LOCAL_NVME, "operator": "Exists"}],
        [{"key": labels.INSTANCE_CPU, "operator": "Gt", "values": ["3"]}],
        [
            {"key": labels.INSTANCE_FAMILY, "operator": "In", "values": ["m5"]},
            {"key": labels.INSTANCE_GPU_NAME, "operator": "DoesNotExist"},
        ],
        [{"key": labels.INSTANCE_GPU_COUNT, "operator": "NotIn", "values": ["8"]}],
        [{"key": labels.INSTANCE_HYPERVISOR, "operator": "NotIn", "values": [""]}],
        [
            {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["spot"]},
            {"key": labels.CAPACITY_TYPE, "operator": "NotIn", "values": ["spot"]},
        ],
        [
            {"key": labels.INSTANCE_GPU_COUNT, "operator": "DoesNotExist"},
            {"key": labels.INSTANCE_GPU_COUNT, "operator": "In", "values": ["1"]},
        ],
        [{"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["reserved"]}],
        [
            {"key": labels.CAPACITY_RESERVATION_ID, "operator": "Exists"},
            {"key": labels.CAPACITY_TYPE, "operator": "NotIn", "values": ["reserved"]},
        ],
    ],
)
def test_what_is_said_of_a_pool_is_what_the_scheduler_does(
    requirements: list[dict[str, Any]],
) -> None:
    does, is_said = launches(requirements)
    assert does is is_said


def test_bare_metal_is_excluded_by_the_hypervisor_that_it_lacks() -> None:
    metal = [each for each in catalogue() if each.name.endswith("metal")]
    assert metal
    assert all(
        each.requirements[labels.INSTANCE_HYPERVISOR].values == {""} for each in metal
    )
