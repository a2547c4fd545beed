"""What tests of the client speak of."""

from typing import Final

from lab.fakes.system import START
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import DrainReason
from reservoir.manifests.event_parts import NodeDetail, PlacedWorkload
from reservoir.manifests.events import NodeDraining

KEY: Final = "research/train"


def draining(
    drain_id: str = "d-1", claim: str = "nc-1", *names: str, namespace: str = "research"
) -> NodeDraining:
    """Return the notice that a node goes with one replica of each of these workloads."""
    node = NodeDetail(
        instance_type="m5.large",
        zone="us-east-1a",
        zone_id="use1-az1",
        capacity_type=CapacityType.RESERVED,
        node_claim=claim,
        node_pool="general",
        node_class="general",
    )
    return NodeDraining(
        drain_id=drain_id,
        node=node,
        reason=DrainReason.CAPACITY_BLOCK_ENDING,
        notified_at=START,
        deadline=START,
        workloads=[
            PlacedWorkload(namespace=namespace, name=name, replicas=1)
            for name in names or ("train",)
        ],
    )
