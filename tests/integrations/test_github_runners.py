"""Jobs of GitHub Actions: forged, doubled, late and cancelled, against a GitHub that hands jobs to any idle runner."""

import base64
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from integrations.github_runners.github import GitHub, GitHubError, https
from integrations.github_runners.handler import answer
from integrations.github_runners.runners import Runners
from lab.fakes.system import START
from reservoir.client.facts import parse_fact
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import DrainReason
from reservoir.manifests.event_parts import (
    Event,
    NodeDetail,
    NodePlacement,
    PlacedWorkload,
    WorkloadRef,
)
from reservoir.manifests.events import (
    NodeDraining,
    NodeLaunched,
    NodeTerminated,
    WorkloadPlaced,
)
from tests.client.world import Deployment
from tests.integrations.github import SECRET, FakeGitHub, payload, request

POOLS = {"gpu": {"resources": {"requests": {"cpu": "4"}}}}


@dataclass
class MemoryConfigurations:
    """Implements ``Configurations``."""

    rows: dict[tuple[str, str], str] = field(default_factory=dict)
    over: set[str] = field(default_factory=set)

    def has(self, instance_id: str, runner: str) -> bool:
        return (instance_id, runner) in self.rows

    def put(self, instance_id: str, runner: str, configuration: str) -> None:
        self.rows[instance_id, runner] = configuration

    def forget(self, instance_id: str, runners: Sequence[str]) -> None:
        for runner in runners:
            self.rows.pop((instance_id, runner), None)

    def end(self, runner: str) -> None:
        self.over.add(runner)
        self.rows = {key: value for key, value in self.rows.items() if key[1] != runner}

    def is_over(self, runner: str) -> bool:
        return runner in self.over


class World:
    """The functions between GitHub and a deployment."""

    def __init__(self) -> None:
        self.deployment = Deployment()
        self.github = FakeGitHub()
        self.configurations = MemoryConfigurations()
        self.runners = Runners(
            self.deployment,
            GitHub(self.github, "orgs/acme"),
            self.configurations,
            "runners",
            POOLS,
        )

    def deliver(
        self, action: str, job: int, runner: str | None = None, *labels: str
    ) -> int:
        """Deliver a webhook, signed; return its status."""
        return int(
            answer(request(payload(action, job, runner, *labels)), SECRET, self.runners)[
                "statusCode"
            ]
        )

    def wanted(self) -> set[str]:
        return {
            key.partition("/")[2]
            for key, record in self.deployment.state.workload_rows.items()
            if record.workload is not None and not record.withdrawn
        }

    def hear(self, event: Event) -> None:
        self.deployment.events.messages.clear()
        self.deployment.publish(event)
        told = parse_fact(self.deployment.events.messages.pop().body)
        assert told is not None
        self.runners.hear(told)


def node(instance: str = "i-1") -> NodeDetail:
    return NodeDetail(
        instance_type="g5.xlarge",
        zone="us-east-1a",
        zone_id="use1-az1",
        capacity_type=CapacityType.RESERVED,
        node_claim="nc-1",
        node_pool="gpu",
        node_class="gpu",
        instance_id=instance,
    )


def placed(name: str = "gpu-7", namespace: str = "runners") -> list[PlacedWorkload]:
    return [PlacedWorkload(namespace=namespace, name=name, replicas=1)]


def test_githubs_own_example_of_a_signature_is_right() -> None:
    example = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    signed = {"body": "Hello, World!", "headers": {"x-hub-signature-256": example}}
    assert answer(signed, SECRET, World().runners)["statusCode"] == 204


@pytest.mark.parametrize(
    "signature", [None, "", "sha256=", "sha256=00", "sha1=757107ea", "ключ"]
)
def test_what_is_not_signed_is_not_looked_at(signature: str | None) -> None:
    world = World()
    forged = request({"action": "queued"})
    forged["headers"] = {"X-GitHub-Event": "workflow_job"} | (
        {} if signature is None else {"X-Hub-Signature-256": signature}
    )
    assert answer(forged, SECRET, world.runners)["statusCode"] == 401
    assert (
        answer(request({"action": "queued"}, b"another"), SECRET, world.runners)[
            "statusCode"
        ]
        == 401
    )
    assert world.deployment.sent == []
    with pytest.raises(ValueError, match="empty secret"):
        answer(forged, b"", world.runners)


def test_a_queued_job_is_wanted_once_and_nothing_of_its_text_is_passed_on() -> None:
    world = World()
    assert [world.deliver("queued", 7) for _ in range(3)] == [202] * 3
    assert world.wanted() == {"gpu-7"}
    assert "rm -rf" not in json.dumps(world.deployment.sent)


@pytest.mark.parametrize(
    "labels",
    [
        ("ubuntu-latest",),
        ("self-hosted",),
        ("self-hosted", "tpu"),
        ("self-hosted", "gpu", "x"),
    ],
)
def test_jobs_for_others_are_left_to_them(labels: tuple[str, ...]) -> None:
    world = World()
    assert world.deliver("queued", 7, None, *labels) == 202
    assert world.deployment.sent == []


def test_the_signature_is_of_the_bytes_that_came_and_not_of_what_they_mean() -> None:
    world = World()
    signed = request(payload("queued", 7))
    as_bytes = {
        **signed,
        "body": base64.b64encode(signed["body"].encode()).decode(),
        "isBase64Encoded": True,
    }
    spaced = {**signed, "body": signed["body"].replace(": ", ":")}
    assert answer(spaced, SECRET, world.runners)["statusCode"] == 401
    assert world.deployment.sent == []
    assert answer(as_bytes, SECRET, world.runners)["statusCode"] == 202
    assert world.wanted() == {"gpu-7"}


def test_a_delivery_that_is_made_again_after_the_job_brings_nothing_back() -> None:
    world = World()
    # by hand or by the API: the same body, under the same id
    queued = request(payload("queued", 7))
    for delivery in (queued, request(payload("completed", 7, "reservoir-gpu-7")), queued):
        assert answer(delivery, SECRET, world.runners)["statusCode"] == 202
    assert world.wanted() == set()


@pytest.mark.parametrize("event", ["ping", "workflow_run", "check_run", ""])
def test_events_of_other_kinds_are_taken_and_left_alone(event: str) -> None:
    world = World()
    delivery = request({"zen": "Anything added dilutes everything else.", "hook_id": 1})
    delivery["headers"]["X-GitHub-Event"] = event
    assert answer(delivery, SECRET, world.runners)["statusCode"] == 204
    assert world.deployment.sent == []


@pytest.mark.parametrize("action", ["in_progress", "waiting", "one_that_comes_next_year"])
def test_actions_that_change_nothing_are_taken(action: str) -> None:
    world = World()
    assert world.deliver(action, 7) == 202
    assert world.deployment.sent == []


@pytest.mark.parametrize(
    "said", [{}, {"action": "queued"}, [], {"action": "queued", "workflow_job": {"id": -1}}]
)
def test_what_is_no_job_is_refused(said: Any) -> None:
    assert answer(request(said), SECRET, World().runners)["statusCode"] == 400


def test_a_job_and_its_runner_end_together_in_any_order_of_events_and_any_number() -> None:
    events = [
        ("queued", None),
        ("in_progress", "reservoir-gpu-7"),
        ("completed", "reservoir-gpu-7"),
    ]
    for order in itertools.permutations([*events, events[0], events[2]]):
        world = World()
        for action, runner in order:
            world.deliver(action, 7, runner)
        assert world.wanted() == set(), order


def test_a_job_that_is_cancelled_while_it_waits_is_withdrawn() -> None:
    world = World()
    world.deliver("queued", 7)
    world.hear(NodeLaunched(node=node(), launched_at=START, workloads=placed()))
    world.deliver("completed", 7)
    assert (world.wanted(), world.github.runners) == (set(), {})


def test_a_runner_that_took_another_job_is_not_taken_away_when_its_own_is_cancelled() -> (
    None
):
    world = World()
    for job in (7, 8):
        world.deliver("queued", job)
    world.hear(NodeLaunched(node=node(), launched_at=START, workloads=placed("gpu-7")))
    world.github.busy = {"reservoir-gpu-7"}  # runs job 8
    world.github.over = {7}
    world.deliver("completed", 7)
    assert world.wanted() == {"gpu-7", "gpu-8"}
    world.deliver("completed", 8, "reservoir-gpu-7")
    assert world.wanted() == set()  # the runner ended, and job 8 needs no other


def test_two_jobs_that_swapped_their_runners_both_run_to_their_end() -> None:
    world = World()
    for job in (7, 8):
        world.deliver("queued", job)
    world.deliver("completed", 8, "reservoir-gpu-7")
    assert world.wanted() == {"gpu-8"}  # job 7 is still to come, and takes it
    world.github.over = {8}
    world.deliver("completed", 7, "reservoir-gpu-8")
    assert world.wanted() == set()


def test_an_instance_gets_one_configuration_for_each_runner_however_often_it_is_told() -> (
    None
):
    world = World()
    world.deliver("queued", 7)
    launched = NodeLaunched(
        node=node(), launched_at=START, workloads=[*placed(), *placed("web", "others")]
    )
    world.hear(launched)
    world.hear(launched)
    on = NodePlacement(**node().model_dump(by_alias=False), replicas=1)
    world.hear(
        WorkloadPlaced(
            workload=WorkloadRef(namespace="runners", name="gpu-7"), replicas=1, nodes=[on]
        )
    )
    assert world.configurations.rows == {("i-1", "reservoir-gpu-7"): "config-1"}
    (made,) = world.github.made
    assert made == {
        "name": "reservoir-gpu-7",
        "runner_group_id": 1,
        "labels": ["self-hosted", "gpu"],
        "work_folder": "_work",
    }


def test_the_configuration_of_a_job_that_ended_is_taken_back_from_a_node_that_stays() -> (
    None
):
    world = World()
    for job in (7, 8):
        world.deliver("queued", job)
        world.hear(
            NodeLaunched(node=node(), launched_at=START, workloads=placed(f"gpu-{job}"))
        )
    world.deliver("completed", 7, "reservoir-gpu-7")
    assert world.configurations.rows.keys() == {("i-1", "reservoir-gpu-8")}
    world.deliver("completed", 8)  # cancelled while it waited
    assert world.configurations.rows == {}


def test_a_fact_that_comes_after_the_end_of_a_job_registers_no_runner() -> None:
    world = World()
    world.deliver("queued", 7)
    launched = NodeLaunched(node=node(), launched_at=START, workloads=placed())
    world.hear(launched)
    world.deliver("completed", 7, "reservoir-gpu-7")
    world.hear(launched)
    assert world.configurations.rows == {}
    assert len(world.github.made) == 1


def test_a_machine_that_is_lost_is_followed_by_one_with_a_runner_of_the_same_name() -> None:
    world = World()
    world.deliver("queued", 7)
    world.hear(NodeLaunched(node=node("i-1"), launched_at=START, workloads=placed()))
    world.hear(
        NodeTerminated(
            node=node("i-1"), reason="Interruption", terminated_at=START, returned=placed()
        )
    )
    world.hear(NodeLaunched(node=node("i-2"), launched_at=START, workloads=placed()))
    assert world.configurations.rows == {("i-2", "reservoir-gpu-7"): "config-2"}


def test_a_draining_node_is_released_unless_its_runner_runs_a_job() -> None:
    world = World()
    world.github.runners = {"reservoir-gpu-7": 1, "reservoir-gpu-8": 2}
    world.github.busy = {"reservoir-gpu-8"}
    for name in ("gpu-7", "gpu-8"):
        world.configurations.put("i-1", f"reservoir-{name}", "secret")
        world.hear(
            NodeDraining(
                drain_id=f"d-{name}",
                node=node(),
                reason=DrainReason.EXPIRED,
                notified_at=START,
                deadline=START,
                workloads=[*placed(name), *placed("web", "others")],
            )
        )
    assert world.deployment.releases == [("runners/gpu-7", "nc-1")]
    assert world.configurations.rows.keys() == {("i-1", "reservoir-gpu-8")}


@pytest.mark.parametrize("status", [403, 404, 422, 429, 500])
def test_a_runner_that_cannot_be_registered_is_an_error_and_its_machine_gets_nothing(
    status: int,
) -> None:
    """No right, no such group, a wrong body, too many requests, or GitHub's own fault: the fact comes again."""
    world = World()
    world.deliver("queued", 7)
    launched = NodeLaunched(node=node(), launched_at=START, workloads=placed())
    world.github.fails_with = status
    with pytest.raises(
        GitHubError, match=f"no configuration for reservoir-gpu-7: status {status}"
    ):
        world.hear(launched)
    assert world.configurations.rows == {}
    world.github.fails_with = None
    world.hear(launched)
    assert world.configurations.rows == {("i-1", "reservoir-gpu-7"): "config-1"}


def test_a_name_that_a_busy_runner_has_is_not_taken_from_it() -> None:
    world = World()
    world.github.runners, world.github.busy = {"reservoir-gpu-7": 9}, {"reservoir-gpu-7"}
    with pytest.raises(GitHubError, match="status 409"):
        world.hear(NodeLaunched(node=node(), launched_at=START, workloads=placed()))
    assert world.github.runners == {"reservoir-gpu-7": 9}


def test_an_answer_that_is_not_as_documented_is_an_error_without_secrets() -> None:
    github = GitHub(lambda method, path, body: (500, None), "orgs/acme")  # noqa: ARG005 - a failing GitHub
    calls: list[Callable[[], bool]] = [
        lambda: github.remove("r"),
        lambda: github.is_over("acme/app", 7),
    ]
    for call in calls:
        with pytest.raises(GitHubError, match="status 500"):
            call()


def test_a_token_is_sent_over_https_only() -> None:
    with pytest.raises(ValueError, match="HTTPS only"):
        https("http://github.example.com/api/v3", "token")
