"""Karpenter's side: its rules over the same account, in the same emulated time.

In: the batching window (1 s without a pod, 10 s at most; asked again every 10 s while pods wait), the ported scheduling
loop over nodes that run and that are on their way, pessimistic holding of reservations with counts described each
minute and moved in memory meanwhile, kube-scheduler's binding (the node with the most left) once nodes run,
consolidation every 10 s (``lab.bench.peers.consolidation``) with its 15 s before a command is validated again, the
pool's ``consolidateAfter`` and budget, replacements that run before nodes go, and interruptions: the node is cordoned
at the warning, its pods are provisioned for with the next batch, and leave after 30 s.

Not in: what controllers compute and how long their calls take (none of it takes time here, which favours it by some
tenths of a second), the kubelet's joining (an instance that runs is ready, on both sides), drift, expiry,
PodDisruptionBudgets, priorities and preemption, DaemonSets, volumes, topology, minValues, rules between workloads,
price-capacity-optimized allocation (both launch the cheapest), time-outs of passes, and that an unchanged cluster is
looked at again after five minutes.
"""

from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final

from lab.bench.karpenter.index import PortOffering
from lab.bench.karpenter.loop import Claim
from lab.bench.peers.account import Meter, Place, market, play, quiet_account
from lab.bench.peers.cluster import Cluster, Node, Pod
from lab.bench.peers.consolidation import Command, consolidated, decide
from lab.bench.peers.ours import LEAVES_AFTER_S, Moves
from lab.bench.peers.trace import Job, Trace
from lab.bench.worlds.common import NAMESPACE, node_class, node_pool
from lab.simulation.catalogue import ZONES
from lab.simulation.kernel import MINUTE, SECOND
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.instance import RUNNING, TERMINATED
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.core.scheduling_terms.resources import Resources

_IDLE_US: Final = SECOND  # batchIdleDuration
_LONGEST_US: Final = 10 * SECOND  # batchMaxDuration
_AGAIN_US: Final = 10 * SECOND  # a pod that waits is looked at again
_DISRUPTION_US: Final = 10 * SECOND
_VALIDATED_AFTER_US: Final = 15 * SECOND
_NOMINATED_US: Final = 20 * SECOND  # twice the longest batch
_CONSOLIDATE_AFTER_US: Final = 5 * MINUTE
_BUDGET_PERCENT: Final = 10
_RESERVED_DIVISOR: Final = 10_000_000  # of the on-demand price


class Karpenter:
    """The controllers. ``moves`` counts evictions."""

    def __init__(self, trace: Trace) -> None:
        self.kernel, self.chance, self.ec2 = quiet_account(trace, self._hear)
        self._by_instance: dict[str, Node] = {}
        self.ec2.open(trace)
        self.moves = Moves()
        self._pool = node_pool(
            "default", capacity_types=tuple(CapacityType(each) for each in trace.markets)
        )
        self._types = market().composed()
        self.cluster = Cluster(self.kernel, self._types, self._pool, self._snapshot(()))
        self._batch_began_us: int | None = None
        self._last_pod_us = 0
        # of a pass that found nothing
        self._looked_at: tuple[int, frozenset[str]] | None = None
        self._validates = False
        self.kernel.at(0, self._describe)
        self.kernel.after(_AGAIN_US, self._look_again)
        self.kernel.after(_DISRUPTION_US, self._disrupt)

    # --- what is counted

    @property
    def version(self) -> int:
        """Grow with each change of what runs where."""
        return self.cluster.version

    def running(self) -> Counter[str]:
        """Count pods on nodes that run."""
        return self.cluster.running()

    def busy(self) -> Collection[str]:
        """Return the instances that have pods."""
        return {node.instance_id for node in self.cluster.nodes.values() if node.pods}

    # --- demand

    def submit(self, job: Job) -> None:
        """Create a job's pods."""
        self.cluster.create(
            Workload(NAMESPACE, job.name, 1, job.replicas, Resources.parse(job.requests))
        )
        self._trigger()

    def withdraw(self, job: Job) -> None:
        """Delete them."""
        self.cluster.delete(f"{NAMESPACE}/{job.name}")

    # --- provisioning

    def _trigger(self) -> None:
        """Begin a batch, or let it wait a little longer."""
        if not self.cluster.waiting and not any(True for _ in self.cluster.leaving()):
            return
        self._last_pod_us = self.kernel.now_us
        if self._batch_began_us is None:
            self._batch_began_us = self.kernel.now_us
            self.kernel.after(_IDLE_US, self._close_batch)

    def _close_batch(self) -> None:
        began = self._batch_began_us
        assert began is not None
        due = min(self._last_pod_us + _IDLE_US, began + _LONGEST_US)
        if self.kernel.now_us < due:
            self.kernel.at(due, self._close_batch)
            return
        self._batch_began_us = None
        self._provision()

    def _look_again(self) -> None:
        if self.cluster.waiting:
            self._trigger()
        self.kernel.after(_AGAIN_US, self._look_again)

    def _provision(self) -> None:
        placed = self.cluster.simulate()
        for name in placed.onto:
            self.cluster.nodes[name].nominated_until_us = self.kernel.now_us + _NOMINATED_US
        for claim in placed.claims:
            if claim.held:
                offering = placed.index.cheapest_held(claim.held, claim.types)
            else:
                offering = placed.index.cheapest(
                    placed.index.interned(claim.requirements), claim.types
                )
            self._launch(claim, offering)

    def _launch(self, claim: Claim, offering: PortOffering) -> Node | None:
        """Launch a claim as one offering; a reservation that turns out full counts as empty from then on."""
        name = self._types[offering.type_index].name
        place = Place(
            name,
            offering.zone,
            offering.zone_id,
            offering.capacity_type,
            offering.reservation_id,
        )
        instance_id = self.ec2.run(place)
        if instance_id is None:
            self.cluster.moved(
                place.reservation_id or "",
                -self.cluster.counts()[place.reservation_id or ""],
            )
            self._trigger()  # its pods wait for the next batch
            return None
        if place.reservation_id is not None:
            self.cluster.moved(place.reservation_id, -1)
        node = Node(
            claim.name,
            instance_id,
            place,
            self.cluster.described(claim, place),
            self._types[offering.type_index].allocatable,
            offering.price_atto_usd,
            nominated_until_us=self.kernel.now_us + _NOMINATED_US,
        )
        self.cluster.nodes[node.name] = self._by_instance[instance_id] = node
        self.cluster.version += 1
        return node

    # --- EC2

    def _hear(self, detail_type: str, detail: Any) -> None:
        node = self._by_instance.get(detail.get("instance-id", ""))
        if node is None:
            return
        if "Interruption Warning" in detail_type:
            late = self.chance.between("event", SECOND // 10, 2 * SECOND)
            self.kernel.after(late, partial(self._interrupted, node))
        elif detail.get("state") == RUNNING:
            node.runs, node.changed_us = True, self.kernel.now_us
            self.cluster.bind()
        elif detail.get("state") == TERMINATED:
            self._gone(node)

    def _interrupted(self, node: Node) -> None:
        if not node.deleting:
            self._delete(node, by_choice=False)

    def _gone(self, node: Node) -> None:
        for pod in list(node.pods):
            self.cluster.evict(pod)
        self.cluster.nodes.pop(node.name, None)
        if node.place.reservation_id is not None:
            self.cluster.moved(node.place.reservation_id, 1)
        self.cluster.bind()
        self._trigger()

    def _describe(self) -> None:
        """Take the reservations as EC2 shows them; nodes of one that is no more are on-demand nodes."""
        self.cluster.see(self._snapshot(self.ec2.list_visible()))
        for node in self.cluster.nodes.values():
            truth = self.ec2.truth(node.instance_id)
            lost = truth is not None and truth.capacity_reservation_id is None
            if lost and node.place.reservation_id is not None:
                place = node.place
                node.place = Place(
                    place.instance_type, place.zone, place.zone_id, CapacityType.ON_DEMAND
                )
                node.price_atto_usd = (
                    market().on_demand[place.instance_type] * ATTO_USD_PER_MICRO_USD
                )
        self.kernel.after(MINUTE, self._describe)

    def _snapshot(self, reservations: Collection[CapacityReservation]) -> Snapshot:
        shown = tuple(
            CapacityReservation.of(each, free_units=each.available_count)
            for each in reservations
        )
        chosen = node_class(ZONES, [each.id for each in shown])
        return Snapshot(self._types, shown, (self._pool,), (chosen,))

    # --- disruption

    def _disrupt(self) -> None:
        self.kernel.after(_DISRUPTION_US, self._disrupt)
        if self._validates:
            return
        candidates = [node for node in self.cluster.nodes.values() if self._may_go(node)]
        looks_at = (self.cluster.version, frozenset(node.name for node in candidates))
        allowed = self._allowed()
        if not candidates or not allowed or looks_at == self._looked_at:
            return
        command = decide(self.cluster, candidates, allowed)
        if command is None:
            self._looked_at = looks_at
            return
        self._validates = True
        self.kernel.after(_VALIDATED_AFTER_US, partial(self._validate, command))

    def _may_go(self, node: Node) -> bool:
        now = self.kernel.now_us
        rested = now - node.changed_us >= _CONSOLIDATE_AFTER_US
        return node.runs and not node.tainted and node.nominated_until_us <= now and rested

    def _allowed(self) -> int:
        nodes = self.cluster.nodes.values()
        going = sum(node.tainted or not node.runs for node in nodes)
        return max(0, -(-len(nodes) * _BUDGET_PERCENT // 100) - going)

    def _validate(self, command: Command) -> None:
        """Carry a command out if it is still right."""
        self._validates = False
        nodes = command.nodes
        if not all(
            self._may_go(node) and node.name in self.cluster.nodes for node in nodes
        ):
            return
        if len(nodes) > self._allowed():
            return
        again = consolidated(self.cluster, nodes)
        if again is None or (again.claim is None) != (command.claim is None):
            return
        self._carry_out(again)

    def _carry_out(self, command: Command) -> None:
        for node in command.nodes:
            node.tainted = True
        if command.claim is None or command.offering is None:
            self._let_go(command)
            return
        replacement = self._launch(command.claim, command.offering)
        if replacement is None:
            for node in command.nodes:
                node.tainted = False
            return
        # until its pods are there
        replacement.nominated_until_us = self.kernel.now_us + 10 * MINUTE
        self._await(replacement, lambda: self._let_go(command))

    def _await(self, replacement: Node, then: Callable[[], None]) -> None:
        if replacement.runs or replacement.name not in self.cluster.nodes:
            replacement.nominated_until_us = self.kernel.now_us + _NOMINATED_US
            then()
        else:
            self.kernel.after(SECOND, partial(self._await, replacement, then))

    def _let_go(self, command: Command) -> None:
        for node in command.nodes:
            if node.name in self.cluster.nodes and not node.deleting:
                self._delete(node, by_choice=True)

    def _delete(self, node: Node, *, by_choice: bool) -> None:
        """Cordon and drain a node; its pods are evicted at once, and leave after their grace."""
        node.tainted = node.deleting = True
        self.cluster.version += 1
        if by_choice:
            self.moves.by_choice += len(node.pods)
        else:
            self.moves.interrupted += len(node.pods)
        self._trigger()
        pods = list(node.pods)
        self.kernel.after(
            LEAVES_AFTER_S * SECOND if pods else 0, partial(self._drained, node, pods)
        )

    def _drained(self, node: Node, pods: list[Pod]) -> None:
        for pod in pods:
            if pod.node is node:
                self.cluster.evict(pod)
        self.cluster.bind()
        self._trigger()
        self.ec2.terminate((node.instance_id,))


def played(trace: Trace) -> tuple[Meter, Moves]:
    """Play the trace; return what was counted and the moves."""
    world = Karpenter(trace)
    return play(world, trace, world.submit, world.withdraw), world.moves
