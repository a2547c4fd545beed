"""The whole pipeline in memory, minute by minute: planner, launches, sweeps, discovery of reservations, disruption.

Only the disruption function is watched by ``effects``: it is the one that tests kill.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from lab.fakes.effects import Effects, Killed
from lab.fakes.outside import with_parts
from lab.fakes.stores.policy_store import MemoryPolicyStore
from lab.fakes.system import SequentialIds
from lab.fakes.unit_loans import FakeUnitLender
from lab.fakes.unit_moves import FakeUnitMover
from lab.fakes.unit_splits import FakeUnitSplitter
from lab.fakes.values import instance_type, sold
from lab.worlds.launch_world import ZONES, World, node_class
from lab.worlds.planning_world import node_class_manifest, node_pool_manifest, solve
from reservoir.core.disruption.command import DisruptionDecision
from reservoir.core.disruption.decision_ids import LATEST_DECISION
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_claim import OPEN_LEASE_STATES, ClaimState, NodeClaim
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.serialisation.json_codec import loads
from reservoir.ports.errors import TransientError
from reservoir.ports.messaging import LaunchBatch
from reservoir.ports.policy import PolicyKind, PolicyStatus, PutPolicy
from reservoir.ports.state import WorkloadRecord
from reservoir.runtime.composition.disrupt import disrupt_from
from reservoir.runtime.composition.parts.planning import snapshot_gatherer_from
from reservoir.runtime.composition.provision import provision_from
from reservoir.runtime.outside import Outside
from reservoir.usecases.disruption.disrupt import Disrupt, DisruptReport
from reservoir.usecases.policy.stored_policy import StoredPolicy
from reservoir.usecases.provisioning.gather_snapshot import SnapshotGatherer
from reservoir.usecases.provisioning.provision import Provision
from reservoir.usecases.provisioning.share_demand import Woken

GIB = 1 << 30


def priced(name: str, cpus: int, price: int, **extra: int) -> InstanceType:
    """A type with 4 GiB a core; spot costs a third. Prices in micro-USD an hour."""
    prices = {CapacityType.ON_DEMAND: price, CapacityType.SPOT: price // 3}
    return instance_type(name, cpus, 4 * cpus, sold(prices, ZONES), extra=extra)


TYPES = (
    priced("m5.large", 2, 96_000),
    priced("m5.xlarge", 4, 192_000),
    priced("m5.4xlarge", 16, 768_000),
    priced("p5.48xlarge", 192, 98_320_000, **{"nvidia.com/gpu": 8}),
)


class DisruptWorld(World):
    """One pool, one class. ``disruption`` is the pool's, in manifest form."""

    def __init__(
        self,
        *capacity_types: str,
        policy: SchedulingPolicy | None = None,
        **disruption: Any,
    ) -> None:
        super().__init__()
        self.scheduling = policy or SchedulingPolicy()
        self.delayed: list[tuple[datetime, LaunchBatch]] = []
        self.ids = SequentialIds()
        self.mover = FakeUnitMover(self.ec2)
        self.splitter = FakeUnitSplitter(self.ec2)
        self.lender = FakeUnitLender(self.ec2)
        self.ec2_moves_in = (
            True  # whether EC2 moves instances into reservations that joined a group
        )
        self.reclaim_group_arn: str | None = None
        self.moved_in: list[str] = []  # instances, in turn
        self.store = MemoryPolicyStore()
        self.policy: Any = StoredPolicy(self.store, self.clock)
        self.state.offerings.save_catalogue(TYPES)
        self.armed = Effects()
        self.reports: list[DisruptReport] = []
        self.holds_on = False
        self.launched = 0
        pool = node_pool_manifest(
            capacity_types=capacity_types or ("reserved", "on-demand")
        )
        pool["spec"]["disruption"] = {
            "consolidateAfter": "0s",
            "budgets": [{"nodes": "100%"}],
            **disruption,
        }
        self.apply(node_class_manifest(role=None, instanceProfile="nodes"))
        self.apply(pool)
        self.select()

    # --- policy

    def apply(self, manifest: dict[str, Any]) -> None:
        kind, name = PolicyKind(manifest["kind"]), manifest["metadata"]["name"]
        stored = self.store.get(kind, name)
        generation, revision = (
            (1, None) if stored is None else (stored.generation + 1, stored.revision)
        )
        spec = {key: value for key, value in manifest["spec"].items() if value is not None}
        self.store.commit(
            [PutPolicy(kind, name, manifest | {"spec": spec}, generation, revision)]
        )

    def change_pool(self, name: str = "gpu", **spec: Any) -> None:
        """Change fields of the pool's template (which drifts its nodes) or of its ``disruption``."""
        stored = self.store.get(PolicyKind.NODE_POOL, name)
        assert stored is not None
        manifest = dict(stored.manifest)
        template = dict(manifest["spec"]["template"])
        metadata = {key: spec.pop(key) for key in ("labels", "annotations") if key in spec}
        if metadata:
            template["metadata"] = metadata
        self.apply(manifest | {"spec": {**manifest["spec"], "template": template, **spec}})

    def copy_pool(self, name: str) -> None:
        """Make another pool like the one that there is."""
        stored = self.store.get(PolicyKind.NODE_POOL, "gpu")
        assert stored is not None
        self.apply({**stored.manifest, "metadata": {"name": name}})

    def launch_at(self, group_arn: str) -> None:
        """Let the class launch on-demand nodes at a resource group of reservations."""
        self.reclaim_group_arn = group_arn
        self.apply(
            node_class_manifest(
                role=None, instanceProfile="nodes", reclaimGroupARN=group_arn
            )
        )
        self.select(*self.ec2.reservations)

    def select(self, *reservation_ids: str) -> None:
        """Let the class select exactly these reservations, as discovery would."""
        status = replace(
            node_class().status,
            reservation_ids=tuple(sorted(reservation_ids)),
            reclaim_group_arn=self.reclaim_group_arn,
        )
        self.store.save_status(
            PolicyKind.NODE_CLASS, "default", PolicyStatus(node_class=status)
        )

    def add_reservation(
        self, reservation_id: str = "cr-1", **changes: Any
    ) -> CapacityReservation:
        count = changes.get("total_count", 4)
        counts = {"available_count": count, "free_units": count}
        created = super().add_reservation(reservation_id, **counts | changes)
        self.select(*self.ec2.reservations)
        return created

    # --- the functions

    def outside(self, **chosen: Any) -> Outside:
        decisions = self.effects.watch(self.state.decisions, {"save", "save_if_changed"})
        mover = self.effects.watch(self.mover, {"move"}, remote=True)
        splitter = self.effects.watch(self.splitter, {"split", "join"}, remote=True)
        lender = self.effects.watch(self.lender, {"begin", "change"}, remote=True)
        found = super().outside(scheduling=self.scheduling, **chosen)
        return with_parts(
            found,
            ids=self.ids,
            policy=self.store,
            decisions=decisions,
            unit_mover=mover,
            unit_splitter=splitter,
            unit_lender=lender,
        )

    def gatherer(self) -> SnapshotGatherer:
        return snapshot_gatherer_from(self.outside())

    def provision(self) -> Provision:
        # Without column generation for what is bought, which would take most of the time.
        return replace(provision_from(self.outside(), solve), policy=self.scheduling)

    def disrupt(self) -> Disrupt:
        return disrupt_from(self.outside(), solve)

    # --- time

    def disruption_pass(self) -> DisruptReport:
        """Run one pass; it may be killed by ``armed``, once, and then reports nothing."""
        self.effects = self.armed
        try:
            report = self.disrupt().run()
        except (Killed, TransientError):
            report = DisruptReport()
            self.armed = Effects()
        finally:
            self.effects = Effects()
        self.reports.append(report)
        return report

    def plan_and_launch(self) -> None:
        self.queue.groups.clear()
        self.provision().run(Woken(indexes_lag=True))
        # whoever found out has planners of groups woken
        for parts, named in dict(self.queue.groups).items():
            group = parts.split("+")
            self.provision().run(
                Woken(
                    named,
                    names_all=True,
                    group_keys=frozenset(group[:1]),
                    parts=frozenset(group),
                )
            )
        for _ in range(10):
            batches = self._due_batches()
            for batch in batches:
                self.launch().run(batch)
            if not batches:
                break

    def _due_batches(self) -> list[LaunchBatch]:
        """Take the batches from the queue whose delay is over."""
        now = self.clock.now()
        sent = zip(self.queue.launches, self.queue.delays_s, strict=True)
        self.delayed += [
            (now + timedelta(seconds=delay_s), batch) for batch, delay_s in sent
        ]
        self.queue.launches, self.queue.delays_s = [], []
        due = [batch for at, batch in self.delayed if at <= now]
        self.delayed = [(at, batch) for at, batch in self.delayed if at > now]
        return due

    def settle(self) -> None:
        """EC2 and the schedules, for one minute: everything but disruption."""
        self.clock.advance(minutes=1)
        for instance in self.ec2.all():
            if instance.state == "shutting-down":
                self.ec2.change(instance.id, state="terminated")
        self.ec2.start_all()
        if self.ec2_moves_in:
            self.moved_in += self.ec2.move_into_groups()
        if self.reclaim_group_arn is not None:
            self.select(*self.ec2.reservations)
        self.expire().run()
        for reservation_id in sorted(self.ec2.reservations):
            self.observe(reservation_id)
        self.collect().run()
        self.plan_and_launch()

    def minute(self) -> DisruptReport:
        """One minute of everything; workloads leave a draining node within a minute, unless ``holds_on``."""
        self.settle()
        if not self.holds_on:
            self.release()
        report = self.disruption_pass()
        self.plan_and_launch()
        self.check()
        return report

    def minutes(self, count: int) -> None:
        for _ in range(count):
            self.minute()

    def release(self) -> None:
        """Let the workload system release whatever still runs on draining nodes."""
        for claim in self.claims():
            if claim.state is ClaimState.DRAINING and claim.drain is not None:
                for placed in claim.drain.awaiting:
                    self.draining().release(
                        placed.workload_key, claim.id, None, self.clock.now()
                    )

    # --- what there is

    def submit(
        self, name: str, replicas: int = 1, cpus: float = 0, gpus: int = 0, **changes: Any
    ) -> WorkloadRecord:
        requests = {"cpu": int(cpus * 1000)} if cpus else {}
        requests |= {"nvidia.com/gpu": gpus} if gpus else {}
        return self.add_workload(
            name, replicas=replicas, requests=Resources.of(requests), **changes
        )

    def scale(self, name: str, replicas: int) -> None:
        """Change the number of replicas that are wanted, as intake does."""
        record = self.state.workload_rows[f"research/{name}"]
        assert record.workload is not None
        wanted = replace(
            record.workload, replicas=replicas, generation=record.generation + 1
        )
        self.state.workloads.put(
            replace(record, workload=wanted, generation=record.generation + 1),
            expected_revision=record.revision,
        )

    def live(self) -> list[NodeClaim]:
        return [claim for claim in self.claims() if claim.is_live]

    def types(self) -> list[str]:
        """Return the live nodes, as type and market."""
        return sorted(
            f"{c.offering.instance_type} {c.offering.capacity_type.value}"
            for c in self.live()
        )

    def at_work(self) -> int:
        """Replicas that run: on a node that is up, or not yet released by one that drains."""
        count = 0
        for claim in self.live():
            if claim.state is ClaimState.RUNNING:
                count += sum(placed.count for placed in claim.placements)
            elif claim.state is ClaimState.DRAINING and claim.drain is not None:
                count += sum(placed.count for placed in claim.drain.awaiting)
        return count

    def pending(self) -> int:
        return sum(record.pending_count for record in self.state.workload_rows.values())

    def decision(self, decision_id: str = LATEST_DECISION) -> DisruptionDecision:
        found = self.state.decisions.load(decision_id)
        assert found is not None
        return loads(DisruptionDecision, found[0].plan_json)

    def reason(self, claim_id: str) -> str:
        """Return why the last pass left the node alone."""
        return {refusal.claim_id: refusal.reason for refusal in self.decision().refusals}[
            claim_id
        ]

    def resize(self, reservation_id: str, total_count: int) -> None:
        """Let EC2 show other units than before: the owner changed them, outsiders came, or slots are being scrubbed."""
        self.ec2.reservations[reservation_id] = replace(
            self.ec2.reservations[reservation_id], total_count=total_count
        )

    def of(self, detail_type: str) -> list[str]:
        """Return the claims that facts of a kind are about, in order."""
        return [event["node"]["nodeClaim"] for event in self.bus.of(detail_type)]

    def check(self) -> None:
        """What must hold at any time, killed or not."""
        claims = self.claims()
        for key, record in self.state.workload_rows.items():
            held = sum(
                p.count for c in claims for p in c.placements if p.workload_key == key
            )
            assert record.placed_count == held, f"{key}: a replica was lost or doubled"
        for reservation_id, row in self.state.reservation_rows.items():
            leases = [
                c.lease
                for c in claims
                if c.lease is not None and c.lease.reservation_id == reservation_id
            ]
            assert row.balance.outstanding_count == sum(
                lease.state in OPEN_LEASE_STATES for lease in leases
            )
        ids = [c.instance_id for c in claims if c.is_live and c.instance_id is not None]
        alive = {i.id for i in self.ec2.live()}
        assert alive <= set(ids), "an instance without a claim"
        assert len(ids) == len(set(ids))
