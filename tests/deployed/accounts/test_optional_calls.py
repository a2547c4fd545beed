"""An account that denies, from before the deployment on, every call that a launch into a reservation can do without."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from lab.embedded.client import EmbeddedAws
from lab.fakes.manifests import workload_manifest
from lab.story.policies import one_type_pool, write_manifests
from lab.story.world import World

pytestmark = pytest.mark.embedded

STEADY: Final = "m7i.2xlarge"
BLOCK: Final = "p5.48xlarge"
DAY_S: Final = 24 * 60 * 60
OPTIONAL: Final = {
    "Action": [
        "ec2:DeleteLaunchTemplate",
        "ec2:DescribeCapacityBlock*",
        "ec2:DescribeInstanceStatus",
        "ec2:DescribeSpotPriceHistory",
        "pricing:GetProducts",
        "resource-groups:*",
        "s3:PutObject",
        "scheduler:CreateSchedule",
        "scheduler:UpdateSchedule",
    ],
    "Resource": "*",
}


def prepare(aws: EmbeddedAws) -> dict[str, Any]:
    """Put the rules in force."""
    aws.set_account_rules(denied=[OPTIONAL])
    return {}


def has_instance(world: World) -> bool:
    listed = json.loads(world.command("get", "nodes", "-o", "json").stdout)["items"]
    return any("instanceId" in node["status"] for node in listed)


def test_work_is_placed_into_a_reservation(world: World, tmp_path: Path) -> None:
    world.apply(write_manifests(tmp_path, one_type_pool("steady", STEADY, ["reserved"])))
    world.reserve("first", STEADY, "us-east-1a", 1, "steady")
    world.buy_block(
        "block", BLOCK, "us-east-1a", 1, "steady", start_in_s=DAY_S, end_in_s=2 * DAY_S
    )
    world.discover()
    requests = {"cpu": "6", "memory": "10Gi"}
    workload = workload_manifest(
        "story/first", 1, requests, generation=1, nodeSelector={"story": "steady"}
    )
    world.send({"action": "submit", "workload": workload})
    world.until("it has an instance", lambda _: has_instance(world))
    asked = {each["operation"] for each in world.aws.requests()}
    assert {"CreateSchedule", "DescribeCapacityBlocks", "GetProducts", "PutObject"} <= asked
    assert world.denials()
    world.expected_denials += world.denials()
