"""What ``reservoir self-test`` chooses and would make, and what it refuses before it touches anything.

That it works is shown on the deployed stack (``tests/deployed/self_test``).
"""

from dataclasses import dataclass, replace

import pytest

from lab.fakes.stores.policy_store import MemoryPolicyStore
from lab.fakes.values import instance_type
from lab.worlds.disrupt_world import DisruptWorld
from reservoir.cli.self_testing.manifests import NAME, cheapest, policy, workload
from reservoir.core.model.instance_type import CapacityType, InstanceType, Offering
from reservoir.core.model.node_class import (
    MachineImage,
    NodeClass,
    NodeClassStatus,
    Subnet,
)
from reservoir.manifests.parsing.problems import errors_of
from reservoir.manifests.validate import read_files
from tests.cli.world_stack import WorldStack, invoke

IN_A = NodeClassStatus(
    subnets=(Subnet("subnet-a", "us-east-1a", "use1-az1", 100),),
    machine_images=(MachineImage("ami-1", "amd64"),),
)
CLASS = replace(NodeClass(name="general"), status=IN_A)
STORED = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "general", "labels": {"owner": "somebody"}},
    "spec": {
        "role": "nodes",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"network": "private"}}],
        "securityGroupSelectorTerms": [{"tags": {"network": "private"}}],
        "capacityReservationSelectorTerms": [{"tags": {"team": "training"}}],
    },
}


def sold(name: str, micro_usd: int, zone_id: str = "use1-az1") -> InstanceType:
    zone = "us-east-1a" if zone_id == "use1-az1" else "us-east-1b"
    return instance_type(
        name, 2, 1, [Offering(zone, zone_id, CapacityType.ON_DEMAND, micro_usd)]
    )


def test_the_cheapest_type_that_the_class_can_launch_is_taken() -> None:
    types = [
        sold("t3.micro", 10_400),
        sold("t3.nano", 5_200, "use1-az2"),  # the class has no subnet there
        sold("m5.large", 96_000),
    ]

    chosen = cheapest(types, CLASS, 100_000)

    assert chosen is not None
    assert chosen.name == "t3.micro"


@pytest.mark.parametrize(
    "types", [[], [sold("m5.large", 100_001)], [sold("t3.nano", 1, "use1-az2")]]
)
def test_nothing_is_taken_that_costs_more_or_cannot_be_had(
    types: list[InstanceType],
) -> None:
    assert cheapest(types, CLASS, 100_000) is None


@pytest.mark.parametrize(
    ("market", "ids"), [(CapacityType.ON_DEMAND, ()), (CapacityType.RESERVED, ("cr-1",))]
)
def test_what_it_would_apply_and_submit_is_valid_and_has_names_of_its_own(
    market: CapacityType, ids: tuple[str, ...]
) -> None:
    file = policy(STORED, "t3.micro", market, ids)
    reading = read_files([file])
    terms = reading.manifests[0].manifest.model_dump(by_alias=True)["spec"]

    assert errors_of(reading.problems) == ()
    assert [read.identity for read in reading.manifests] == [
        ("EC2NodeClass", NAME),
        ("NodePool", NAME),
    ]
    assert [term["id"] for term in terms["capacityReservationSelectorTerms"]] == list(ids)
    assert workload("research", market)["metadata"] == {
        "namespace": "research",
        "name": f"{NAME}-{market.value}",
    }


@dataclass
class Stack(WorldStack[DisruptWorld]):
    """The part of a connection that choosing needs."""

    @property
    def policy(self) -> MemoryPolicyStore:
        return self.world.store


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--node-class", "gone"), "there is no EC2NodeClass gone"),
        (("--most", "a lot"), "'a lot' is not an amount of USD"),
        (("--most", "-1"), "--most is more than nothing"),
        (("--most", "0.001"), "allow more with --most"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_made(
    arguments: tuple[str, ...], said: str
) -> None:
    stack = Stack(DisruptWorld("on-demand"))
    before = stack.policy.list_all()

    result = invoke(stack, "self-test", "--yes", *arguments)

    assert (result.exit_code, said in result.output) == (2, True), result.output
    assert stack.policy.list_all() == before
