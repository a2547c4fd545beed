"""A deployment in an account that denies what strict accounts deny, with every setting that keeps its rules.

The tests tell one story in their order, on one deployment.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from infra.app import ROOT
from lab.embedded.client import EmbeddedAws
from lab.embedded.reservoir.network import make_way_out
from lab.fakes.manifests import workload_manifest
from lab.story.policies import one_type_pool, story_workload, write_manifests
from lab.story.world import World

pytestmark = pytest.mark.embedded

STEADY: Final = "m7i.large"
TAGS: Final = {"team": "research"}
# What a service control policy of such an account says of instances, volumes and interfaces.
NOTHING_UNTAGGED: Final = {
    "Action": "ec2:RunInstances",
    "Resource": [
        f"arn:aws:ec2:*:*:{kind}/*" for kind in ("instance", "volume", "network-interface")
    ],
    "Condition": {"Null": {"aws:RequestTag/team": "true"}},
}
NOTHING_ELSEWHERE: Final = {
    "Action": "*",
    "Resource": "*",
    "Condition": {
        "StringNotEquals": {"aws:RequestedRegion": "us-east-1"},
        "Null": {"aws:RequestedRegion": "false"},
    },
}


def prepare(aws: EmbeddedAws) -> dict[str, Any]:
    """Make what the settings name, and put the rules in force."""
    policy = (ROOT / "examples" / "iam" / "encryption-key.json").read_text()
    key = aws.client("kms").create_key(Policy=policy)["KeyMetadata"]["Arn"]
    # what Reservoir needs of the services, and no right over people and roles
    allowed = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    denied = {"Effect": "Deny", "Action": ["iam:Create*", "iam:Put*"], "Resource": "*"}
    boundary = aws.client("iam").create_policy(
        PolicyName="bounds", PolicyDocument=json.dumps({"Statement": [allowed, denied]})
    )["Policy"]["Arn"]
    aws.set_account_rules(
        boundary=boundary,
        tags=sorted(TAGS),
        with_keys=True,
        in_vpc=True,
        denied=[NOTHING_UNTAGGED, NOTHING_ELSEWHERE],
    )
    return {
        "permissionsBoundary": boundary,
        "tags": TAGS,
        "encryptionKey": key,
        "vpc": make_way_out(aws),
        "logRetentionDays": 90,
    }


def test_it_is_deployed_and_launches_what_the_rules_ask_for(
    world: World, tmp_path: Path
) -> None:
    pool = one_type_pool("steady", STEADY, ["on-demand"])
    world.apply(write_manifests(tmp_path, pool))
    world.discover()
    world.send({"action": "submit", "workload": story_workload("steady", 1, "1")})
    world.until("it runs", lambda seen: bool(seen.launched))
    (found,) = world.aws.client("ec2").describe_instances()["Reservations"]
    (instance,) = found["Instances"]
    assert {"Key": "team", "Value": "research"} in instance["Tags"]


def test_without_the_tag_nothing_would_have_been_launched(world: World) -> None:
    """The rule is in force for the role that launches: a launch without the tag is refused."""
    denied = {**NOTHING_UNTAGGED, "Condition": {"Null": {"aws:RequestTag/owner": "true"}}}
    world.aws.set_account_rules(denied=[denied])
    requests = {"cpu": "1.5", "memory": "1Gi"}
    other = workload_manifest(
        "story/other", 1, requests, generation=1, nodeSelector={"story": "steady"}
    )
    world.send({"action": "submit", "workload": other})
    world.until("launches are blocked", lambda _: bool(world.events("Launches Blocked")))
    world.expected_denials += world.denials()
    world.aws.set_account_rules()
