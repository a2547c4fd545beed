"""The model of wake-ups says what the code does: its plays are played on the planner, rows equal after each step."""

from dataclasses import replace
from typing import Any

import pytest

from lab.fakes.stores.state import MemoryWorkloads
from lab.fakes.values import workload_record
from lab.formal import spin
from lab.simulation.aws.sqs import Message, Queue, Sqs
from lab.simulation.faults import Faults
from lab.simulation.kernel import SECOND, Chance, Kernel
from lab.worlds.planning_world import PlanningWorld, node_class_manifest, node_pool_manifest
from reservoir.adapters.sqs import SqsWorkQueue
from reservoir.ports.state import WorkloadRecord
from reservoir.runtime.wake_ups import woken_by
from tests.formal.turns import Run, Stopping, stand_before

PLAYS = 30
NAMES = ("a", "b")
HIDDEN_S = 60
CALM = Faults(message_doubled=0, message_late=0)


class LaggingWorkloads(MemoryWorkloads):
    """Workloads whose listing shows a row as it was when the model last moved the index."""

    def __init__(self, world: PlanningWorld) -> None:
        super().__init__(world.state)
        self.shown: dict[str, WorkloadRecord] = {}

    def list_needing_planning(self) -> tuple[WorkloadRecord, ...]:
        return tuple(
            record for _, record in sorted(self.shown.items()) if record.needs_planning
        )


class Wakes:
    """Two planners on one FIFO queue, as the model has them."""

    def __init__(self, *, pool: bool) -> None:
        self.world = PlanningWorld()
        self.world.apply(node_class_manifest(), *([node_pool_manifest()] if pool else []))
        self.world.offerings().run()
        self.world.discovery().run()
        self.kernel = Kernel()
        self.sqs = Sqs(self.kernel, Chance(0), lambda: CALM)
        self.queue = self.sqs.queues["planning"] = Queue(
            "planning", HIDDEN_S * SECOND, 100, fifo=True
        )
        client: Any = self.sqs
        self.wakes = SqsWorkQueue(
            client, planning_url="planning", launches_url="none", ids=self.world.ids
        )
        self.workloads = LaggingWorkloads(self.world)
        self.runs: dict[int, Run] = {}
        self.received: dict[int, list[Message]] = {}

    # --- the model's steps

    def write(self, number: int) -> None:
        key = f"research/{NAMES[number]}"
        stored = self.world.state.workloads.get(key)
        before = 0 if stored is None else stored.generation
        made = workload_record(NAMES[number], replicas=before + 1)
        record = (
            made
            if stored is None
            else replace(stored, workload=made.workload, generation=before + 1)
        )
        self.world.state.workloads.put(
            replace(record, pending_since=None),
            expected_revision=None if stored is None else stored.revision,
        )

    def pool(self) -> None:
        self.world.apply(node_pool_manifest())

    def wake(self, number: int) -> None:
        named = [f"research/{NAMES[number]}"] if number < len(NAMES) else []
        self.wakes.wake_planner(reason="written", workload_keys=named)

    def index(self, number: int) -> None:
        key = f"research/{NAMES[number]}"
        self.workloads.shown[key] = self.world.state.workload_rows[key]

    def deliver(self, planner: int) -> None:
        taken = list(self.sqs.take(self.queue, 10))
        # copies: the next delivery gives the messages other receipts
        self.received[planner] = [replace(message) for message in taken]
        told = woken_by({"Records": [{"body": message.body} for message in taken]})
        provision = self.world.provisioner(
            pause=lambda _: stand_before("pause"), queue=Both(self.world.queue, self.wakes)
        )
        provision = replace(
            provision,
            gatherer=replace(provision.gatherer, workloads=self.workloads),
            committer=replace(
                provision.committer,
                node_claims=Stopping(self.world.state.node_claims, {"commit"}),
            ),
        )
        self.runs[planner] = Run(lambda: provision.run(told))

    def look(self, planner: int) -> None:
        self.runs[planner].step("pause")

    def commit(self, planner: int) -> None:
        self.runs[planner].step("commit")

    lose = commit

    def ack(self, planner: int) -> None:
        assert self.runs.pop(planner).at is None
        self.sqs.delete(
            self.queue, [message.receipt for message in self.received.pop(planner)]
        )

    def die(self, planner: int) -> None:
        self.runs.pop(planner).die()

    def expire(self) -> None:
        self.kernel.now_us += (HIDDEN_S + 1) * SECOND

    # --- what is stored

    def state(self) -> dict[str, tuple[int, ...]]:
        rows = [self.world.state.workload_rows.get(f"research/{name}") for name in NAMES]
        shown = [self.workloads.shown.get(f"research/{name}") for name in NAMES]
        flying = sum(
            message.in_flight and message.visible_us > self.kernel.now_us
            for message in self.queue.messages
        )
        return {
            "row": tuple(0 if row is None else row.unfinished_count for row in rows),
            "placed": tuple(0 if row is None else row.placed_count for row in rows),
            "listed": tuple(int(row is not None and row.needs_planning) for row in shown),
            "visible": (len(self.queue.messages) - flying,),
            "flying": (flying,),
        }


class Both:
    """Launch batches go to one queue, wake-ups to the other."""

    def __init__(self, launches: Any, wakes: SqsWorkQueue) -> None:
        self.send_launches = launches.send_launches
        self.wake_planner = wakes.wake_planner


@pytest.mark.parametrize(
    "defines", [("WRITES=3",), ("WRITES=2", "POOL_LATER")], ids=["pool", "pool later"]
)
def test_the_planner_does_what_the_model_says(defines: tuple[str, ...]) -> None:
    steps = 0
    names: set[str] = set()
    for seed in range(PLAYS):
        wakes = Wakes(pool="POOL_LATER" not in defines)
        for step in spin.play("wake.pml", defines, seed):
            getattr(wakes, step.name)(*step.arguments)
            said = {name: value for name, value in step.state.items() if name != "pool"}
            assert wakes.state() == said, (
                f"seed {seed}, step {steps}: {step.name} {step.arguments}"
            )
            names.add(step.name)
            steps += 1
        assert not wakes.runs, "the play ended in the middle of a pass"
    assert names >= {
        "write",
        "wake",
        "index",
        "deliver",
        "look",
        "commit",
        "lose",
        "ack",
        "die",
        "expire",
    } - (set() if "POOL_LATER" in defines else {"look"})
