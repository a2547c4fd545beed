"""Manifests of a class and a pool, and the use case that applies them to a store in memory."""

from collections.abc import Collection, Sequence

from lab.fakes.principals import MemoryPrincipals
from lab.fakes.stores.policy_store import MemoryPolicyStore
from lab.fakes.system import ManualClock
from reservoir.ports.messaging import LaunchBatch, OutboundEvent
from reservoir.usecases.policy.apply_policy import ApplyPolicy
from reservoir.usecases.policy.resolve_principals import ResolvePrincipals
from reservoir.usecases.policy.write_policy import WritePolicy

BY = "arn:aws:sts::111122223333:assumed-role/operators/ada"

CLASS = """
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: CLASS}
spec:
  subnetSelectorTerms: [{tags: {network: private}}]
  securityGroupSelectorTerms: [{id: sg-1}]
  amiSelectorTerms: [{name: IMAGE}]
"""
POOL = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: POOL}
spec:
  weight: 7
  template: {spec: {nodeClassRef: {name: CLASS}, requirements: [REQUIREMENT]}}
"""


def node_class(name: str = "c", image: str = "app-*") -> str:
    return CLASS.replace("CLASS", name).replace("IMAGE", image)


def pool(name: str = "p", node_class_name: str = "c", requirement: str = "") -> str:
    return (
        POOL.replace("POOL", name)
        .replace("CLASS", node_class_name)
        .replace("REQUIREMENT", requirement)
    )


class Bus:
    """The outbound bus and the planning queue."""

    def __init__(self) -> None:
        self.events: list[OutboundEvent] = []
        self.wake_count = 0

    def publish(self, events: Sequence[OutboundEvent]) -> None:
        self.events.extend(events)

    def announce(self, events: Sequence[OutboundEvent]) -> None:
        self.publish(events)

    def wake_planner(
        self, *, reason: str, workload_keys: Collection[str] = (), group: Sequence[str] = ()
    ) -> None:
        assert reason
        assert not workload_keys
        assert not group
        self.wake_count += 1

    def planner_is_awaited(self) -> bool:
        raise AssertionError("apply plans nothing")

    def send_validations(self, node_class_names: Sequence[str]) -> None:
        raise AssertionError(f"apply asks for no dry runs: {node_class_names}")

    def send_launches(self, batches: Sequence[LaunchBatch], *, delay_s: int = 0) -> None:
        raise AssertionError(f"apply launches nothing: {batches}, {delay_s}")


def applier(
    store: MemoryPolicyStore,
    bus: Bus | None = None,
    principals: MemoryPrincipals | None = None,
) -> ApplyPolicy:
    bus = bus or Bus()
    resolve = ResolvePrincipals(principals or MemoryPrincipals(), ManualClock())
    return ApplyPolicy(store, WritePolicy(store, bus, bus, BY), resolve)


def files(*texts: str) -> list[tuple[str, str]]:
    return [(f"{index}.yaml", text) for index, text in enumerate(texts)]
