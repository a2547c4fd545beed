"""Accounts that refuse what most allow, and services that do not answer: what is necessary goes on, deployed.

The tests tell one story in their order, on one deployment.
"""

import json
from datetime import timedelta
from typing import Any

import pytest

from infra.naming import function_name
from lab.demo.observer import Observed
from lab.fakes.manifests import workload_manifest
from lab.story.policies import one_type_pool, write_manifests
from lab.story.world import World
from reservoir.names import DEPLOYMENT, Function

pytestmark = pytest.mark.embedded

STEADY, BLOCK = "m7i.2xlarge", "p5.48xlarge"
ZONE = "us-east-1a"
DAY_S = 24 * 60 * 60


def expect_refusals(world: World) -> None:
    """End ordered failures; what functions have said of them so far was meant."""
    world.expected_denials += world.denials()
    world.aws.clear_faults()


def delete_templates(world: World) -> list[str]:
    """Delete all launch templates, as somebody who tidies up does; return their names."""
    ec2 = world.aws.client("ec2")
    names = [
        each["LaunchTemplateName"]
        for each in ec2.describe_launch_templates()["LaunchTemplates"]
    ]
    for name in names:
        ec2.delete_launch_template(LaunchTemplateName=name)
    return names


@pytest.fixture(scope="module", autouse=True)
def policy(world: World, tmp_path_factory: pytest.TempPathFactory) -> None:
    """One pool, whose class selects six reservations and a Capacity Block that is to come."""
    pool = one_type_pool("steady", STEADY, ["reserved", "on-demand"])
    world.apply(write_manifests(tmp_path_factory.mktemp("policy"), [*pool]))


def submit(world: World, name: str, replicas: int = 1) -> str:
    """Ask for replicas that fill a node each."""
    requests = {"cpu": "6", "memory": "10Gi"}
    body = workload_manifest(
        f"strict/{name}", replicas, requests, generation=1, nodeSelector={"story": "steady"}
    )
    world.send({"action": "submit", "workload": body})
    return name


def nodes_of(seen: Observed, name: str) -> int:
    """Return how many nodes were launched for a workload."""
    return sum(
        any(w["name"] == name for w in detail["workloads"])
        for detail in seen.launched.values()
    )


@pytest.mark.parametrize(
    "failure",
    [
        {"code": "AccessDeniedException", "status": 403},
        {"code": "ThrottlingException", "status": 400},
        {"code": "InternalServerException", "status": 500},
        {"code": "ResourceNotFoundException", "status": 404},
    ],
    ids=lambda failure: failure["code"],
)
def test_what_scheduler_refuses_stops_neither_discovery_nor_launches(
    world: World, failure: dict[str, Any]
) -> None:
    name = str(failure["code"]).lower()
    world.aws.fault("error", service="scheduler", times=100_000, **failure)
    world.buy_block(
        f"block-{name}", BLOCK, ZONE, 1, "steady", start_in_s=DAY_S, end_in_s=3 * DAY_S
    )
    ids = {
        world.reserve(f"{name}-{number}", STEADY, ZONE, 1, "steady") for number in range(6)
    }
    world.discover()
    shown = world.command("get", "reservations").stdout
    assert {each for each in ids if each in shown} == ids
    key = submit(world, name)
    world.until("the workload has a node", lambda seen: nodes_of(seen, key) == 1)
    assert "timer refused" in world.log(Function.DISCOVER_RESERVATIONS)
    expect_refusals(world)
    world.aws.clock.advance(timedelta(minutes=1), coalesce=True)


def launched_though_templates_are_gone(world: World, name: str) -> None:
    """Launch, so that a warm launcher believes in its template, take the template away, and launch again."""
    first = submit(world, f"{name}-before")
    world.until("a launcher is warm", lambda seen: nodes_of(seen, first) == 1)
    assert delete_templates(world)
    second = submit(world, f"{name}-after")
    world.until("the workload has a node", lambda seen: nodes_of(seen, second) == 1)
    assert world.events("Launches Blocked") == []


def test_a_launch_template_that_was_deleted_is_made_again(world: World) -> None:
    launched_though_templates_are_gone(world, "deleted")


def test_so_it_is_where_ec2_calls_it_unauthorized(world: World) -> None:
    world.aws.fault(
        "error",
        service="ec2",
        operation="CreateFleet",
        code="UnauthorizedOperation",
        status=403,
        times=1,
    )
    launched_though_templates_are_gone(world, "unauthorized")
    expect_refusals(world)


def test_a_launch_template_that_is_not_visible_yet_is_waited_for(world: World) -> None:
    delete_templates(world)
    world.aws.ec2("configure", template_lag_s=5)
    key = submit(world, "not-visible")
    world.until("the workload has a node", lambda seen: nodes_of(seen, key) == 1)
    assert world.events("Launches Blocked") == []
    world.aws.ec2("configure", template_lag_s=0)


def test_a_class_whose_launches_stay_refused_is_blocked_after_one_more_try(
    world: World,
) -> None:
    world.aws.fault(
        "error",
        service="ec2",
        operation="CreateFleet",
        code="UnauthorizedOperation",
        status=403,
        times=100_000,
    )
    submit(world, "refused")
    world.until("the class is blocked", lambda _: bool(world.events("Launches Blocked")))
    (rule,) = world.aws.faults()
    assert rule["hits"] == 2
    expect_refusals(world)


def validation(world: World, name: str) -> Any:
    """Return a class's condition about the dry run of a launch, as the command line shows it; empty: none yet."""
    shown = json.loads(world.command("get", "nodeclass", name, "-o", "json").stdout)
    (found,) = shown.get("items", [shown])
    conditions = found["status"]["conditions"]
    return next(
        (each for each in conditions if each["type"] == "ValidationSucceeded"),
        {"status": "", "message": ""},
    )


def validated_as(world: World, name: str, status: str) -> Any:
    """Let minutes pass until the condition has a status; return it."""
    for _ in range(10):
        found = validation(world, name)
        if found["status"] == status:
            return found
        world.aws.clock.advance(timedelta(minutes=1), coalesce=True)
    raise AssertionError(f"never {status}: {found}\n{world.summary()}")


def test_a_dry_run_shows_what_an_account_denies_before_anybody_submits(
    world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    iam = world.aws.client("iam")
    launcher = function_name(world.output(DEPLOYMENT), Function.LAUNCH)
    configuration = world.aws.client("lambda").get_function_configuration(
        FunctionName=launcher
    )
    role = configuration["Role"].rpartition("/")[2]
    denial = {"Effect": "Deny", "Action": "ec2:CreateFleet", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [denial]})
    iam.put_role_policy(
        RoleName=role, PolicyName="as-an-organisation-denies", PolicyDocument=policy
    )
    world.apply(
        write_manifests(
            tmp_path_factory.mktemp("denied"),
            [*one_type_pool("denied", STEADY, ["on-demand"])],
        )
    )
    said = validated_as(world, "denied", "False")
    assert said["reason"] == "CreateFleetAuthCheckFailed"
    assert "explicit deny" in said["message"]
    assert "explicit deny" in world.command("doctor").stdout
    assert [
        each for each in world.events("Launches Blocked") if each["nodeClass"] == "denied"
    ] == []
    iam.delete_role_policy(RoleName=role, PolicyName="as-an-organisation-denies")
    world.aws.clock.advance(timedelta(minutes=15), coalesce=True)
    assert validated_as(world, "denied", "True")["reason"] == "ValidationSucceeded"
    expect_refusals(world)


def instances_of(world: World, name: str) -> set[str]:
    """Return the instances on which replicas of a workload have a place."""
    listed = json.loads(world.command("get", "nodes", "-o", "json").stdout)["items"]
    return {
        node["status"]["instanceId"]
        for node in listed
        if any(each["name"] == name for each in node["status"]["workloads"])
        and "instanceId" in node["status"]
    }


def test_a_bus_that_refuses_stops_no_work_and_tells_all_of_it_later(world: World) -> None:
    world.aws.fault(
        "error", service="events", times=100_000, code="AccessDeniedException", status=403
    )
    name = submit(world, "untold")
    world.until("it has an instance", lambda _: bool(instances_of(world, "untold")))
    (lost,) = instances_of(world, "untold")

    world.aws.client("ec2").terminate_instances(InstanceIds=[lost])
    world.until(
        "it has another instance", lambda _: bool(instances_of(world, "untold") - {lost})
    )
    assert nodes_of(world.seen, name) == 0, "nobody was told"

    expect_refusals(world)
    world.until("both launches are told", lambda seen: nodes_of(seen, "untold") == 2)
    ended = [
        event
        for event in world.events("Node Terminated")
        if event["node"]["instanceId"] == lost
    ]
    assert ended, "and the end of the first"
