"""A cluster as Karpenter keeps it: pods, nodes, kube-scheduler's choice among nodes that run, and simulated loops."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from lab.bench.karpenter.index import Index
from lab.bench.karpenter.loop import Claim, Loop
from lab.bench.karpenter.shapes import Shape, all_shapes
from lab.bench.karpenter.topology import Topology
from lab.bench.peers.account import Place
from lab.simulation.kernel import Kernel
from reservoir.core.model.instance_type import InstanceType
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import PODS, Resources


@dataclass(slots=True, eq=False)
class Node:
    """One node, from its launch on."""

    name: str
    instance_id: str
    place: Place
    requirements: Requirements
    allocatable: Resources
    price_atto_usd: int
    pods: "list[Pod]" = field(default_factory=list)
    runs: bool = False
    tainted: bool = False  # takes no pods: it is to go, or is going
    deleting: bool = False
    changed_us: int = 0  # when a pod came or left last, or it began to run
    nominated_until_us: int = 0

    def free(self) -> Resources:
        """Return what no pod on it uses."""
        left = self.allocatable
        for pod in self.pods:
            left -= pod.size
        return left


@dataclass(slots=True, eq=False)
class Pod:
    """One replica; ``node`` None: it waits."""

    workload: Workload
    number: int
    size: Resources
    node: Node | None = None
    gone: bool = False


@dataclass(slots=True)
class Placed:
    """What a loop would do: pods by workload on new claims and on nodes, and how many found no place."""

    claims: list[Claim]
    onto: dict[str, list[str]]  # workloads, by the name of the node
    left: int
    index: Index


class Cluster:
    """All of it."""

    def __init__(
        self,
        kernel: Kernel,
        types: Sequence[InstanceType],
        pool: NodePool,
        template: Snapshot,
    ) -> None:
        self.kernel = kernel
        self.types = {each.name: each for each in types}
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, list[Pod]] = {}  # by workload
        self.waiting: list[Pod] = []
        self.version = 0
        self._pool, self._template = pool, template
        self._index: Index | None = None
        self._loop_names = (f"node-{number:06d}" for number in count(1))
        self._pod_numbers = count(1)

    # --- pods

    def create(self, workload: Workload) -> None:
        """Create the pods of a workload."""
        size = Resources.of({**workload.requests, PODS: 1})
        self.pods[workload.key] = [
            Pod(workload, next(self._pod_numbers), size) for _ in range(workload.replicas)
        ]
        self.waiting += self.pods[workload.key]
        self.bind()

    def delete(self, key: str) -> None:
        """Delete the pods of a workload."""
        for pod in self.pods.pop(key):
            pod.gone = True
            if pod.node is not None:
                self._leave(pod)
        self.waiting = [pod for pod in self.waiting if not pod.gone]
        self.version += 1

    def evict(self, pod: Pod) -> None:
        """End a pod; its controller makes another at once."""
        self._leave(pod)
        self.waiting.append(pod)
        self.version += 1

    def _leave(self, pod: Pod) -> None:
        node, pod.node = pod.node, None
        if node is not None:
            node.pods.remove(pod)
            node.changed_us = self.kernel.now_us

    def bind(self) -> None:
        """Let kube-scheduler put pods on nodes that run: each on the one with the largest share left (its default)."""
        left = []
        for pod in self.waiting:
            fitting = [
                node
                for node in self.nodes.values()
                if _takes(node) and pod.size.fits_in(node.free())
            ]
            if not fitting:
                left.append(pod)
                continue
            node = max(fitting, key=lambda each: (_share_left(each, pod), each.name))
            node.pods.append(pod)
            node.changed_us = self.kernel.now_us
            pod.node = node
        self.waiting = left
        self.version += 1

    def leaving(self) -> Iterator[Pod]:
        """Yield the pods on nodes that are going, which provisioning counts as waiting."""
        for node in self.nodes.values():
            if node.deleting:
                yield from node.pods

    def running(self) -> Counter[str]:
        """Count pods on nodes that run."""
        return Counter(
            pod.workload.name
            for node in self.nodes.values()
            if node.runs
            for pod in node.pods
        )

    # --- loops

    def see(self, snapshot: Snapshot) -> None:
        """Take the reservations as they are described now."""
        self._template, self._index = snapshot, None

    def counts(self) -> dict[str, int]:
        """Return the free units of reservations as they are believed to be."""
        return self._seen().counts

    def moved(self, reservation_id: str, by: int) -> None:
        """Count a launch into a reservation, or the end of an instance in it."""
        counts = self.counts()
        if reservation_id in counts:
            counts[reservation_id] = max(0, counts[reservation_id] + by)
            self._seen().new_loop()

    def _seen(self) -> Index:
        if self._index is None:
            self._index = Index(self._template, self.kernel.now())
        return self._index

    def simulate(self, without: Collection[Node] = ()) -> Placed:
        """Run one scheduling loop for whoever waits, whoever is on nodes that go, and the pods of ``without``."""
        index = self._seen()
        pods = [
            *self.waiting,
            *self.leaving(),
            *(pod for node in without for pod in node.pods),
        ]
        topology = Topology({})
        wanted = Counter(pod.workload.key for pod in pods)
        first = {pod.workload.key: pod for pod in reversed(pods)}
        order = sorted(wanted, key=lambda key: first[key].number)
        demands = [
            Demand(replace(first[key].workload), wanted[key], self.kernel.now())
            for key in order
        ]
        queue = [
            shape
            for shape, number in all_shapes(demands, index, topology)
            for _ in range(number)
        ]
        # CPU, then memory, descending; then creation order
        queue.sort(key=_size_order)
        stay = [
            node for node in self.nodes.values() if not node.tainted and node not in without
        ]
        # Nodes that run first, then by name.
        stay.sort(key=lambda node: (not node.runs, node.name))
        nodes = [self._as_claim(node, index) for node in stay]
        index.new_loop()
        loop = Loop(self._loop_names, index, topology, nodes, (self._pool,), {})
        left = loop.run(queue)
        onto = {node.name: node.came for node in nodes if node.came}
        return Placed(loop.claims, onto, len(left), index)

    def _as_claim(self, node: Node, index: Index) -> Claim:
        return Claim(
            node.name, self._pool, index.interned(node.requirements), 0, free=node.free()
        )

    def described(self, claim: Claim, place: Place) -> Requirements:
        """Return the labels that a claim's node will have."""
        offering = {
            labels.ZONE: place.zone,
            labels.ZONE_ID: place.zone_id,
            labels.CAPACITY_TYPE: str(place.capacity_type),
        }
        hostname = Requirement.new(labels.HOSTNAME, Operator.IN, (claim.name,))
        types = self.types[place.instance_type].requirements
        return (
            claim.requirements.merged(types)
            .merged(Requirements.from_labels(offering))
            .add(hostname)
        )


def _takes(node: Node) -> bool:
    return node.runs and not node.tainted


def _share_left(node: Node, pod: Pod) -> float:
    left = node.free() - pod.size
    return (
        left["cpu"] / node.allocatable["cpu"] + left["memory"] / node.allocatable["memory"]
    )


def _size_order(shape: Shape) -> tuple[int, int]:
    size = dict(shape.size)
    return -size["cpu"], -size.get("memory", 0)


def pods_of(nodes: Iterable[Node]) -> int:
    """Count the pods on nodes."""
    return sum(len(node.pods) for node in nodes)
