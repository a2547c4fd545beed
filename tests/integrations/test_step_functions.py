"""States that wait for machines, with facts that are lost, doubled and late."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from pydantic import ValidationError

from integrations.step_functions.tasks import Tasks, WaitingTask
from lab.fakes.values import node_claim
from reservoir.client.facts import parse_fact
from reservoir.core.model.node_claim import ClaimState
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.manifests.event_parts import WorkloadRef
from reservoir.manifests.replica_events import ReplicaFailed
from tests.client.values import draining
from tests.client.world import Deployment

KEY = "research/train"


@dataclass
class MemoryTasks:
    """Implements ``TaskStore``."""

    rows: dict[str, WaitingTask] = field(default_factory=dict)

    def put(self, task: WaitingTask) -> None:
        self.rows[task.key] = task

    def get(self, key: str) -> WaitingTask | None:
        return self.rows.get(key)

    def waited_for(self) -> Iterable[str]:
        return list(self.rows)

    def forget(self, task: WaitingTask) -> None:
        if self.rows.get(task.key) == task:
            del self.rows[task.key]


@dataclass
class MemoryAnswers:
    """Implements ``TaskAnswers``; an answer to a state that has gone on is none."""

    outputs: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def succeed(self, token: str, output: str) -> None:
        self.outputs.setdefault(token, json.loads(output))

    def fail(self, token: str, error: str, cause: str) -> None:
        assert cause
        self.errors.setdefault(token, error)


class World:
    """The function between a deployment and Step Functions."""

    def __init__(self) -> None:
        self.deployment = Deployment()
        self.store = MemoryTasks()
        self.answers = MemoryAnswers()
        self.tasks = Tasks(self.deployment, self.store, self.answers)

    def request(
        self,
        token: str = "secret-1",  # noqa: S107 - no password
        *,
        until: str = "placed",
        **spec: Any,
    ) -> dict[str, Any]:
        workload = {
            "apiVersion": "reservoir/v1",
            "kind": "Workload",
            "metadata": {"namespace": "research", "name": "train"},
            "spec": {"replicas": 2, **spec},
        }
        return {"taskToken": token, "until": until, "workload": workload}

    def place(self, *states: ClaimState) -> None:
        rows = self.deployment.state.workload_rows
        rows[KEY] = replace(rows[KEY], placed_count=len(states))
        for number, state in enumerate(states):
            claim = node_claim(
                f"nc-{number}", placements=(PlacedReplicas(KEY, 1),), state=state
            )
            self.deployment.state.claim_rows[claim.id] = claim

    def hear(self) -> None:
        """Invoke the function with every fact that lies on the bus, and with those that this brings about."""
        while self.deployment.events.messages:
            fact = parse_fact(self.deployment.events.messages.pop(0).body)
            assert fact is not None
            self.tasks.hear(fact)

    def something_happens(self) -> None:
        self.deployment.publish(draining())
        self.hear()


def test_a_state_goes_on_when_its_replicas_are_placed() -> None:
    world = World()
    world.tasks.begin(world.request())
    world.hear()
    assert world.answers.outputs == {}
    world.place(ClaimState.LAUNCHING, ClaimState.LAUNCHING)
    world.something_happens()
    assert world.answers.outputs["secret-1"]["placed"] == 2
    assert world.store.rows == {}


def test_one_that_waits_for_instances_waits_for_all_of_them() -> None:
    world = World()
    world.tasks.begin(world.request(until="launched"))
    world.place(ClaimState.RUNNING, ClaimState.LAUNCHING)
    world.something_happens()
    assert world.answers.outputs == {}
    world.place(ClaimState.RUNNING, ClaimState.RUNNING)
    world.something_happens()
    assert [node["nodeClaim"] for node in world.answers.outputs["secret-1"]["nodes"]] == [
        "nc-0",
        "nc-1",
    ]


def test_one_that_waits_for_its_replicas_to_run_goes_on_when_all_of_them_have_said_so() -> (
    None
):
    world = World()
    world.tasks.begin(world.request(until="ready"))
    world.place(ClaimState.RUNNING, ClaimState.RUNNING)
    for claim_id, count in (("nc-0", 0), ("nc-0", 1), ("nc-1", 1)):
        assert world.answers.outputs == {}
        claim = world.deployment.state.claim_rows[claim_id]
        world.deployment.state.claim_rows[claim_id] = replace(
            claim, ready=(PlacedReplicas(KEY, count),)
        )
        world.something_happens()
    assert world.answers.outputs["secret-1"]["placed"] == 2


def test_one_that_finished_before_the_other_ran_counts_as_having_run() -> None:
    world = World()
    world.tasks.begin(world.request(until="ready"))
    world.place(ClaimState.RUNNING)
    rows, claims = world.deployment.state.workload_rows, world.deployment.state.claim_rows
    rows[KEY] = replace(rows[KEY], finished_count=1)
    world.something_happens()
    assert world.answers.outputs == {}
    claims["nc-0"] = replace(claims["nc-0"], ready=(PlacedReplicas(KEY, 1),))
    world.something_happens()
    assert "secret-1" in world.answers.outputs


def test_one_that_waits_for_the_end_of_the_work_goes_on_when_all_replicas_have_finished() -> (
    None
):
    world = World()
    world.tasks.begin(world.request(until="finished"))
    world.place(ClaimState.RUNNING)
    rows = world.deployment.state.workload_rows
    rows[KEY] = replace(rows[KEY], finished_count=1)
    world.something_happens()
    assert world.answers.outputs == {}
    rows[KEY] = replace(rows[KEY], placed_count=0, finished_count=2)
    world.something_happens()
    assert world.answers.outputs["secret-1"]["placed"] == 0


@pytest.mark.parametrize(
    ("is_crash_loop", "errors"), [(False, {}), (True, {"secret-1": "Reservoir.CrashLoop"})]
)
def test_a_crash_loop_fails_the_state_and_a_single_crash_does_not(
    is_crash_loop: bool, errors: dict[str, str]
) -> None:
    world = World()
    world.tasks.begin(world.request(until="finished"))
    world.deployment.publish(
        ReplicaFailed(
            node=draining().node,
            workload=WorkloadRef(namespace="research", name="train"),
            exit_code=1,
            restarts=5,
            next_start_in_s=60,
            is_crash_loop=is_crash_loop,
            log_tail="",
        )
    )
    world.hear()
    assert world.answers.errors == errors


def test_without_any_fact_the_sweep_finds_it() -> None:
    world = World()
    world.tasks.begin(world.request())
    world.deployment.events.messages.clear()
    world.place(ClaimState.RUNNING, ClaimState.RUNNING)
    world.tasks.sweep()
    world.hear()
    assert "secret-1" in world.answers.outputs


def test_a_begin_that_is_repeated_and_a_later_try_answer_the_one_that_waits() -> None:
    world = World()
    world.tasks.begin(world.request())
    world.tasks.begin(world.request())
    world.tasks.begin(world.request("secret-2"))
    world.place(ClaimState.RUNNING, ClaimState.RUNNING)
    world.something_happens()
    assert set(world.answers.outputs) == {"secret-2"}
    assert world.deployment.state.workload_rows[KEY].generation == 1


def test_what_is_refused_or_withdrawn_fails_the_state() -> None:
    world = World()
    world.tasks.begin(world.request(nodeSelector={"karpenter.sh/nodepool": "nobodys"}))
    world.hear()
    assert world.answers.errors == {"secret-1": "Reservoir.Rejected"}
    world.tasks.begin(world.request("secret-2"))
    world.hear()
    world.deployment.client().withdraw(KEY)
    world.tasks.sweep()
    world.hear()
    assert world.answers.errors["secret-2"] == "Reservoir.Withdrawn"


def test_giving_back_withdraws_and_nobody_waits_any_more() -> None:
    world = World()
    world.tasks.begin(world.request())
    world.tasks.withdraw(KEY, 1)
    assert world.deployment.state.workload_rows[KEY].withdrawn
    assert world.store.rows == {}


@pytest.mark.parametrize(
    "change",
    [{"until": "soon"}, {"workload": {"kind": "Pod"}}, {"taskToken": ""}, {"more": 1}],
)
def test_a_request_that_is_wrong_fails_at_once_and_shows_no_token(
    change: dict[str, Any],
) -> None:
    world = World()
    with pytest.raises(ValidationError) as error:
        world.tasks.begin({**world.request("very-secret"), **change})
    assert "very-secret" not in str(error.value) or "taskToken" in change
    assert world.deployment.sent == []
    assert world.store.rows == {}
