"""An account in which others use up most of EC2's tokens: launches and endings are throttled all the time.

Launches and terminations go on as slowly as EC2 lets them, and nothing is lost, doubled or taken for a shortage. The
tests tell one story in their order, on one deployment.
"""

from pathlib import Path
from typing import Any, Final

import pytest

from lab.fakes.manifests import workload_manifest
from lab.story.policies import one_type_pool, write_manifests
from lab.story.world import World
from reservoir.names import Queue, dead_letters_output

pytestmark = pytest.mark.embedded

TYPES: Final = {
    "first": "m7i.large",
    "second": "c7i.large",
    "third": "r7i.large",
}
WORKLOADS_OF_POOL: Final = 4
REPLICAS: Final = 12
NODES: Final = len(TYPES) * WORKLOADS_OF_POOL * REPLICAS
# What others leave: calls of each action, and the instances of launches and terminations.
LEFT: Final[tuple[dict[str, Any], ...]] = (
    {"operation": "CreateFleet", "at_once": 2, "per_s": 0.1},
    {"operation": "CreateLaunchTemplate", "at_once": 1, "per_s": 0.05},
    {"operation": "CreateTags", "at_once": 10, "per_s": 1},
    {"operation": "TerminateInstances", "at_once": 2, "per_s": 0.1},
    {"operation": "RunInstances", "what": "instances", "at_once": 40, "per_s": 1},
    {"operation": "TerminateInstances", "what": "instances", "at_once": 110, "per_s": 1},
)


def keys() -> list[tuple[str, str]]:
    """Return (pool, key) of each workload."""
    return [
        (pool, f"busy/{pool}-{number}")
        for pool in TYPES
        for number in range(WORKLOADS_OF_POOL)
    ]


def test_all_is_launched_though_ec2_throttles(world: World, tmp_path: Path) -> None:
    pools = [
        manifest
        for name, instance_type in TYPES.items()
        for manifest in one_type_pool(name, instance_type, ["on-demand"])
    ]
    world.apply(write_manifests(tmp_path, pools))
    world.discover()
    for buckets in LEFT:
        world.aws.ec2("limit_calls", **buckets)
    for pool, key in keys():
        body = workload_manifest(
            key, REPLICAS, {"cpu": "1.5"}, generation=1, nodeSelector={"story": pool}
        )
        world.send({"action": "submit", "workload": body})
    seen = world.until("all replicas run", lambda seen: len(seen.live("running")) >= NODES)
    assert len(seen.live()) == NODES
    world.until(
        "all are placed",
        lambda seen: all(seen.placed[key] == REPLICAS for _, key in keys()),
    )
    throttled = {
        code
        for event in world.events("Launch Failed")
        for code in [event.get("code")]
        if code is not None
    }
    assert throttled <= {"RequestLimitExceeded", "LaunchDeadlineExceeded"}


def test_a_throttle_says_nothing_about_capacity_or_the_class(world: World) -> None:
    assert world.events("Launches Blocked") == []
    offerings = world.command("get", "offerings", "--unavailable")
    assert "m7i.large" not in offerings.stdout, offerings.stdout + offerings.stderr


def test_all_is_ended_though_ec2_throttles(world: World) -> None:
    for _, key in keys():
        metadata = {"namespace": "busy", "name": key.partition("/")[2], "generation": 1}
        world.send({"action": "withdraw", "workload": {"metadata": metadata}})
    world.until("all have ended", lambda seen: not seen.live())
    world.until("nothing is placed", lambda seen: not any(seen.placed.values()))


def test_no_message_was_given_up(world: World) -> None:
    for queue in Queue:
        left = world.aws.client("sqs").get_queue_attributes(
            QueueUrl=world.reservoir.outputs[dead_letters_output(queue)],
            AttributeNames=["ApproximateNumberOfMessages"],
        )
        assert left["Attributes"]["ApproximateNumberOfMessages"] == "0", queue
