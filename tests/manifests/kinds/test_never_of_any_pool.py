"""Of any pool that is said to never launch, the scheduler launches nothing: pools are generated, of every label.

Classes have images of some architectures, subnets in some zones, and a reservation or none.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

import pytest
from pydantic import ValidationError

from lab.fakes import values
from reservoir.core.model.node_class import MachineImage, NodeClass, NodeClassStatus, Subnet
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.taint import Toleration, TolerationOperator
from reservoir.core.what_if.never_launches import never_launching
from reservoir.manifests.crosscheck import ObjectSet, cross_check
from reservoir.manifests.kinds.node_pool import NodePoolManifest
from tests.core.scheduler.world import NOW, POLICY, demand, types_launched, workload
from tests.manifests.kinds.test_never import catalogue

KEYS = [*sorted(labels.WELL_KNOWN - {labels.NODE_POOL, labels.NODE_CLASS}), "example.com/a"]
OPERATORS = ("In", "In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte")
RESERVATION = values.reservation(
    "cr-1", 2, instance_type="m5.large", zone=values.ZONE, zone_id=values.ZONE_ID
)
NEVER = "the pool can never launch"
ANYTHING = workload(tolerations=(Toleration(operator=TolerationOperator.EXISTS),))


@cache
def known_values() -> Mapping[str, Sequence[str]]:
    """Return what the types of the catalogue have by label, and what places have, with one that none has."""
    found = defaultdict[str, set[str]](set)
    for each in catalogue():
        for key, value in each.requirements.labels().items():
            found[key].add(value)
    found[labels.CAPACITY_TYPE] |= {"spot", "on-demand", "reserved"}
    found[labels.ZONE] |= {values.ZONE, "zone-x"}
    found[labels.CAPACITY_RESERVATION_ID] |= {"cr-1", "cr-2"}
    found[labels.CAPACITY_RESERVATION_TYPE] |= {"default", "capacity-block"}
    return {key: sorted(value) for key, value in found.items()}


def requirement(random: Random) -> dict[str, Any]:
    key, operator = random.choice(KEYS), random.choice(OPERATORS)
    known = known_values().get(key, ())
    if operator in {"Exists", "DoesNotExist"}:
        return {"key": key, "operator": operator}
    if operator in {"In", "NotIn"}:
        some = random.sample(known, min(len(known), random.randint(1, 3)))
        return {"key": key, "operator": operator, "values": some or ["odd"]}
    numbers = [value for value in known if value.isdigit()] or ["3"]
    return {"key": key, "operator": operator, "values": [random.choice(numbers)]}


def node_pool(random: Random) -> NodePool | None:
    """Return a pool of any requirements and limits, or None where its manifest is not valid."""
    template: dict[str, Any] = {
        "nodeClassRef": {"name": "default"},
        "requirements": [requirement(random) for _ in range(random.randint(1, 4))],
        "taints": random.choice([[], [], [{"key": "a", "effect": "NoSchedule"}]]),
    }
    limits = random.choice([{}, {}, {"cpu": "2"}, {"nodes": "0"}, {"nvidia.com/gpu": "1"}])
    manifest = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "pool"},
        "spec": {"template": {"spec": template}, "limits": limits},
    }
    try:
        return NodePoolManifest.model_validate(manifest).to_core()
    except ValidationError:
        return None


def node_class(random: Random) -> NodeClass:
    architectures = random.choice([(), ("amd64",), ("arm64",), ("amd64", "arm64")])
    images = tuple(MachineImage(f"ami-{each}", each) for each in architectures)
    zones = random.choice([(), (), ((values.ZONE, values.ZONE_ID),), (("zone-x", "id-x"),)])
    subnets = tuple(Subnet("subnet-1", *zone, 100) for zone in zones)
    reservation_ids = random.choice([(), ("cr-1",)])
    status = NodeClassStatus(
        machine_images=images, subnets=subnets, reservation_ids=reservation_ids
    )
    return NodeClass("default", status=status)


@pytest.mark.parametrize("block", range(6))
def test_nothing_is_launched_for_a_pool_that_is_said_to_never_launch(block: int) -> None:
    said_count = 0
    for seed in range(block * 10, (block + 1) * 10):
        random = Random(seed)  # noqa: S311 - a test
        pool, of_pool = node_pool(random), node_class(random)
        if pool is None:
            continue
        snapshot = Snapshot(
            catalogue(),
            (RESERVATION,),
            node_pools=(pool,),
            node_classes=(of_pool,),
            demands=(demand(ANYTHING),),
        )
        doubts = cross_check(ObjectSet(node_pools=(pool,), node_classes=(of_pool,)))
        said = [each.message for each in doubts if each.message.startswith(NEVER)]
        said += [each.reason for each in never_launching(snapshot)]
        if said:
            said_count += 1
            launched = types_launched(solve(snapshot, now=NOW, policy=POLICY))
            assert not launched, (seed, said)
    assert said_count > 3
