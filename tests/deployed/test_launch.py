"""What goes wrong at a launch, deployed, with permissions enforced: shortages, lost answers, bad classes, orphans.

The tests tell one story in their order, on one deployment. Each pool buys one instance type, so that a story can break
one type without touching the others.
"""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from infra.naming import function_name
from lab.demo.observer import Observed
from lab.embedded.reservoir import IMAGE_PARAMETER
from lab.fakes.manifests import workload_manifest
from lab.story.policies import one_type_pool, write_manifests
from lab.story.world import World
from reservoir import names
from reservoir.adapters.aws_errors import IDEMPOTENCY_CODES, SERVICE_TROUBLE_CODES
from reservoir.names import DEPLOYMENT, Function

pytestmark = pytest.mark.embedded

SPOT, STEADY, BROKEN, FORBIDDEN = "c7i.2xlarge", "m7i.2xlarge", "r6i.2xlarge", "m6i.2xlarge"
STRICT: Final = "r7i.2xlarge"
TROUBLED: Final = "c6i.2xlarge"
# a type for each code by which EC2 fails to answer a whole call, and one for silence that hides a launch
SILENT: Final = dict(
    zip(
        [*sorted(SERVICE_TROUBLE_CODES), "late"],
        ("c5", "m5", "r5", "c5a", "m5a", "r5a", "c5d", "m5d"),
        strict=True,
    )
)
# Types for what EC2 says of a token that it knows with another request: of the whole call, of its repeat, of a pool.
KNOWN_TOKENS: Final = {
    "known-token": "m6id.2xlarge",
    "known-repeat": "r6id.2xlarge",
    "known-in-pool": "c6id.2xlarge",
}
(MISMATCH,) = IDEMPOTENCY_CODES
MIXED: Final = ("c6a.2xlarge", "m6a.2xlarge", "r6a.2xlarge")
OTHER_ROLE: Final = "somebody-elses-role"
_TRUST: Final = {
    "Effect": "Allow",
    "Principal": {"Service": "ec2.amazonaws.com"},
    "Action": "sts:AssumeRole",
}
ZONE: Final = "us-east-1a"


@pytest.fixture(scope="module", autouse=True)
def policy(world: World, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A pool for each story, one of which names a role that is not for instances; reserved units of three."""
    iam = world.aws.client("iam")
    iam.create_role(
        RoleName=OTHER_ROLE,
        AssumeRolePolicyDocument=json.dumps(
            {"Version": "2012-10-17", "Statement": [_TRUST]}
        ),
    )
    iam.create_instance_profile(InstanceProfileName=OTHER_ROLE)
    iam.add_role_to_instance_profile(InstanceProfileName=OTHER_ROLE, RoleName=OTHER_ROLE)
    world.reserve("steady", STEADY, ZONE, 2, "steady")
    world.reserve("mixed", MIXED[0], ZONE, 1, "mixed")
    world.reserve("strict", STRICT, ZONE, 2, "strict")
    manifests = [
        *one_type_pool("spotty", SPOT, ["spot", "on-demand"]),
        *one_type_pool("steady", STEADY, ["reserved", "on-demand"]),
        *one_type_pool("strict", STRICT, ["reserved"]),
        *one_type_pool("troubled", TROUBLED, ["spot", "on-demand"]),
        *one_type_pool("broken", BROKEN, ["on-demand"]),
        *one_type_pool(
            "forbidden", FORBIDDEN, ["on-demand"], role=None, instanceProfile=OTHER_ROLE
        ),
    ]
    for code, family in SILENT.items():
        manifests += one_type_pool(code.lower(), f"{family}.2xlarge", ["spot", "on-demand"])
    for story, instance_type in KNOWN_TOKENS.items():
        manifests += one_type_pool(story, instance_type, ["spot", "on-demand"])
    mixed = one_type_pool("mixed", MIXED[0], ["reserved", "spot", "on-demand"])
    mixed[1]["spec"]["template"]["spec"]["requirements"][1]["values"] = list(MIXED)
    manifests += mixed
    world.apply(write_manifests(tmp_path_factory.mktemp("policy"), manifests))
    world.discover()
    # dry runs of the classes are calls of CreateFleet, too, and would be hit by what is meant for launches
    world.aws.clock.advance(timedelta(minutes=2))


def fail_launches(world: World, code: str, *, status: int, count: int = 1) -> None:
    """Have EC2 refuse the next whole launches; dry runs of classes, which come at any time, are answered."""
    world.aws.ec2(
        "fail_calls",
        operation="CreateFleet",
        code=code,
        status=status,
        count=count,
        dry_run=False,
    )


def submit(world: World, name: str, story: str, replicas: int = 1, **spec: Any) -> str:
    """Ask for replicas that fill a node each, on the pool of a story; return the workload's key."""
    key, requests = f"launch/{name}", {"cpu": "6", "memory": "10Gi"}
    where = {"story": story, "topology.kubernetes.io/zone": ZONE}
    body = workload_manifest(
        key, replicas, requests, generation=1, nodeSelector=where, **spec
    )
    world.send({"action": "submit", "workload": body})
    return key


def withdraw(world: World, key: str) -> None:
    """End a story's demand: a stopped class is tried again after a rest, and a later story moves the clock."""
    metadata = {"namespace": "launch", "name": key.partition("/")[2], "generation": 1}
    workload = {
        "apiVersion": "reservoir/v1",
        "kind": "Workload",
        "metadata": metadata,
        "spec": {"replicas": 0},
    }
    world.send({"action": "withdraw", "workload": workload})


def nodes_of(seen: Observed, key: str) -> list[Mapping[str, Any]]:
    """Return the nodes that were launched for a workload."""
    name = key.partition("/")[2]
    launched = (
        detail
        for detail in seen.launched.values()
        if any(w["name"] == name for w in detail["workloads"])
    )
    return [detail["node"] for detail in launched]


def runs(world: World, key: str, replicas: int = 1) -> list[Mapping[str, Any]]:
    """Wait until every replica has a node that EC2 shows as running; return the nodes."""

    def all_there(seen: Observed) -> bool:
        live = {instance.id for instance in seen.live("running")}
        return sum(node["instanceId"] in live for node in nodes_of(seen, key)) == replicas

    seen = world.until(f"{key} runs", all_there)
    return nodes_of(seen, key)


def failures(world: World, key: str) -> list[dict[str, Any]]:
    """Return the refused launches of a workload that were told so far."""
    name = key.partition("/")[2]
    found = (
        event for event in world.seen.events if event["detail-type"] == "Launch Failed"
    )
    return [
        event
        for event in found
        if any(workload["name"] == name for workload in event["detail"]["workloads"])
    ]


def failure(world: World, key: str) -> dict[str, Any]:
    """Wait until it is told that a launch of a workload was refused; return the only one."""
    world.until(
        f"a launch of {key} is told to have failed", lambda _: bool(failures(world, key))
    )
    (found,) = failures(world, key)
    return found


def exhausted(world: World) -> set[str]:
    return {
        event["capacityReservationId"] for event in world.events("Reservation Exhausted")
    }


def reservation_of(world: World, title: str) -> str:
    return next(key for key, known in world.titles.items() if known == title)


def create_fleet_calls(world: World) -> int:
    function = function_name(world.output(DEPLOYMENT), Function.LAUNCH)
    return sum(
        request["operation"] == "CreateFleet" for request in world.aws.requests(function)
    )


def rests(event: Mapping[str, Any], at_least: timedelta) -> bool:
    """Whether an offering rests for so long, or at most a minute longer; the bus tells whole seconds."""
    rest = datetime.fromisoformat(
        event["detail"]["unavailableUntil"]
    ) - datetime.fromisoformat(event["time"])
    return at_least < rest <= at_least + timedelta(minutes=1, seconds=1)


def test_a_pool_without_capacity_rests_and_the_next_market_serves(world: World) -> None:
    world.aws.ec2(
        "set_pool_capacity", instance_type=SPOT, zone=ZONE, market="spot", capacity=0
    )
    key = submit(world, "ice", "spotty")
    (node,) = runs(world, key)
    assert (node["instanceType"], node["capacityType"]) == (SPOT, "on-demand")
    failed = failure(world, key)
    assert failed["detail"]["code"] == "InsufficientInstanceCapacity"
    assert failed["detail"]["offering"]["capacityType"] == "spot"
    assert rests(failed, timedelta(minutes=2))


def test_while_it_rests_nobody_asks_for_it(world: World) -> None:
    before = create_fleet_calls(world)
    key = submit(world, "resting", "spotty", replicas=3)
    assert {node["capacityType"] for node in runs(world, key, 3)} == {"on-demand"}
    assert failures(world, key) == []
    assert create_fleet_calls(world) - before == 1


def test_a_probe_that_fails_doubles_the_rest(world: World) -> None:
    world.aws.clock.advance(timedelta(minutes=4), coalesce=True)
    key = submit(world, "probe", "spotty")
    runs(world, key)
    assert rests(failure(world, key), timedelta(minutes=5))


def test_a_quota_that_is_used_up_rests_its_market_and_is_named(world: World) -> None:
    world.aws.ec2(
        "refuse_launches",
        code="VcpuLimitExceeded",
        instance_type=BROKEN,
        market="on-demand",
        count=1,
    )
    key = submit(world, "quota", "broken")
    failed = failure(world, key)
    assert failed["detail"]["code"] == "VcpuLimitExceeded"
    assert rests(failed, timedelta(minutes=4))
    told = world.until(
        "it is said why", lambda seen: "quota" in seen.pending.get(key, "")
    ).pending[key]
    assert (
        "the account's quota of on-demand Standard instances is used up (VcpuLimitExceeded)"
        in told
    )
    calls = create_fleet_calls(world)
    world.reservoir.invoke(Function.COLLECT)
    assert create_fleet_calls(world) == calls
    world.aws.clock.advance(timedelta(minutes=6), coalesce=True)
    runs(world, key)
    withdraw(world, key)


def test_a_unit_that_somebody_else_took_is_bought_instead(world: World) -> None:
    steady = reservation_of(world, "steady")
    world.aws.ec2("outsider_launch", capacity_reservation_id=steady, count=1)
    key = submit(world, "outsider", "steady", replicas=2)
    nodes = runs(world, key, 2)
    assert sorted(node["capacityType"] for node in nodes) == ["on-demand", "reserved"]
    assert failure(world, key)["detail"]["code"] == "ReservationCapacityExceeded"
    world.until("that it is full is told", lambda _: steady in exhausted(world))
    assert world.seen.over_count == []


def test_a_unit_that_ec2_shows_and_refuses_is_told_as_refused_and_not_as_full(
    world: World,
) -> None:
    strict = reservation_of(world, "strict")
    world.aws.ec2(
        "refuse_launches", code="VcpuLimitExceeded", instance_type=STRICT, count=1
    )
    key = submit(world, "strict", "strict")
    told = world.until(
        "it is said why", lambda seen: "refuses" in seen.pending.get(key, "")
    ).pending[key]
    assert (
        f"of {strict} rests: EC2 refuses it (VcpuLimitExceeded); EC2 shows 2 of its units as free"
        in told
    )
    assert strict not in exhausted(world)
    (node,) = runs(world, key)  # EC2 is asked again after the next observation
    assert node["capacityReservationId"] == strict


def test_a_class_that_spot_refuses_runs_on_demand_and_in_its_reserved_units(
    world: World,
) -> None:
    not_reserved = [
        {"key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": ["reserved"]}
    ]
    terms = {"nodeSelectorTerms": [{"matchExpressions": not_reserved}]}
    bought_only = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    }
    for instance_type in MIXED:
        world.aws.ec2(
            "refuse_launches",
            code="InvalidFleetConfiguration",
            instance_type=instance_type,
            market="spot",
        )
    started_at = world.aws.clock.now()
    (node,) = runs(world, submit(world, "bought", "mixed", affinity=bought_only))
    assert node["capacityType"] == "on-demand"
    assert world.aws.clock.now() - started_at <= timedelta(minutes=2)
    assert any("spot launches" in event["message"] for event in blocked(world, "mixed"))
    (node,) = runs(world, submit(world, "owned", "mixed"))
    assert node["capacityReservationId"] == reservation_of(world, "mixed")


def test_trouble_of_ec2_in_one_pool_leads_to_the_next_market_within_two_minutes(
    world: World,
) -> None:
    world.aws.ec2(
        "refuse_launches", code="InternalError", instance_type=TROUBLED, market="spot"
    )
    started_at = world.aws.clock.now()
    key = submit(world, "troubled", "troubled")
    (node,) = runs(world, key)
    assert node["capacityType"] == "on-demand"
    assert world.aws.clock.now() - started_at <= timedelta(minutes=2)
    withdraw(world, key)


def test_an_answer_that_is_lost_launches_one_set_of_instances(world: World) -> None:
    world.aws.ec2("lose_response", operation="CreateFleet", count=2)
    key = submit(world, "lost", "steady", replicas=3)
    nodes = runs(world, key, 3)
    assert len({node["instanceId"] for node in nodes}) == 3
    assert_one_instance_a_claim(world)


@pytest.mark.parametrize("code", sorted(SERVICE_TROUBLE_CODES))
def test_a_whole_call_without_an_answer_leads_to_the_next_market_within_two_minutes(
    world: World, code: str
) -> None:
    fail_launches(world, code, status=503, count=2)
    before = {instance.id for instance in world.look().live()}
    started_at = world.aws.clock.now()
    key = submit(world, code.lower(), code.lower())
    (node,) = runs(world, key)
    assert node["capacityType"] == "on-demand"
    assert world.aws.clock.now() - started_at <= timedelta(minutes=2)
    assert f"gave no answer ({code})" in failure(world, key)["detail"]["message"]
    assert {it.id for it in world.seen.live()} - before == {node["instanceId"]}


def test_a_token_that_ec2_knows_otherwise_leads_to_the_next_market_within_two_minutes(
    world: World,
) -> None:
    fail_launches(world, MISMATCH, status=400)
    before = {instance.id for instance in world.look().live()}
    started_at = world.aws.clock.now()
    key = submit(world, "known-token", "known-token")
    (node,) = runs(world, key)
    assert node["capacityType"] == "on-demand"
    assert world.aws.clock.now() - started_at <= timedelta(minutes=2)
    assert f"gave no answer ({MISMATCH})" in failure(world, key)["detail"]["message"]
    assert {it.id for it in world.seen.live()} - before == {node["instanceId"]}


def test_a_repeat_that_ec2_knows_otherwise_adopts_what_the_first_call_launched(
    world: World,
) -> None:
    world.aws.ec2("lose_response", operation="CreateFleet", repeat_code=MISMATCH)
    before, calls = {it.id for it in world.look().live()}, create_fleet_calls(world)
    started_at = world.aws.clock.now()
    key = submit(world, "known-repeat", "known-repeat")
    (node,) = runs(world, key)
    assert node["capacityType"] == "spot"
    assert world.aws.clock.now() - started_at <= timedelta(minutes=2)
    assert create_fleet_calls(world) - calls >= 2
    assert failures(world, key) == []
    assert {it.id for it in world.seen.live()} - before == {node["instanceId"]}
    assert_one_instance_a_claim(world)


def test_a_pool_that_ec2_refuses_for_a_token_rests_and_the_next_market_serves(
    world: World,
) -> None:
    world.aws.ec2(
        "refuse_launches",
        code=MISMATCH,
        instance_type=KNOWN_TOKENS["known-in-pool"],
        market="spot",
    )
    before = {instance.id for instance in world.look().live()}
    started_at = world.aws.clock.now()
    key = submit(world, "known-in-pool", "known-in-pool")
    (node,) = runs(world, key)
    assert node["capacityType"] == "on-demand"
    assert world.aws.clock.now() - started_at <= timedelta(minutes=2)
    assert failure(world, key)["detail"]["code"] == MISMATCH
    assert {it.id for it in world.seen.live()} - before == {node["instanceId"]}


def test_a_launch_that_ec2_neither_answers_nor_shows_for_long_is_ended_and_replaced(
    world: World,
) -> None:
    before = {instance.id for instance in world.look().live()}
    world.aws.ec2("configure", describe_lag_s=150)
    world.aws.ec2("lose_response", operation="CreateFleet", count=2)
    started_at = world.aws.clock.now()
    key = submit(world, "late", "late")
    world.until("it is launched", lambda seen: bool(nodes_of(seen, key)))
    (node,) = nodes_of(world.seen, key)
    assert node["capacityType"] == "on-demand"
    assert world.aws.clock.now() - started_at <= timedelta(minutes=2)
    world.aws.ec2("configure", describe_lag_s=0)
    assert len({it.id for it in world.look().live()} - before) == 2
    world.until(
        "the hidden one is ended",
        lambda seen: {it.id for it in seen.live()} - before == {node["instanceId"]},
    )
    assert world.aws.clock.now() - started_at <= timedelta(minutes=16)
    withdraw(world, key)


def test_a_function_that_dies_after_the_call_finds_its_instances_again(
    world: World,
) -> None:
    function = function_name(world.output(DEPLOYMENT), Function.LAUNCH)
    world.aws.fault(
        "kill", service="ec2", operation="CreateFleet", function=function, moment="after"
    )
    before = {instance.id for instance in world.look().live()}
    key = submit(world, "killed", "steady", replicas=2)
    seen = world.until(
        "EC2 has launched", lambda seen: len({it.id for it in seen.live()} - before) == 2
    )
    assert nodes_of(seen, key) == []  # nobody could say so
    # the message comes back long after: adoption by tag
    world.aws.clock.advance(timedelta(minutes=8), coalesce=True)
    runs(world, key, 2)
    assert len({it.id for it in world.seen.live()} - before) == 2
    assert_one_instance_a_claim(world)


def test_a_class_whose_launches_ec2_refuses_is_stopped_and_others_go_on(
    world: World,
) -> None:
    world.aws.ec2("refuse_launches", code="InvalidAMIID.NotFound", instance_type=BROKEN)
    broken = submit(world, "broken", "broken", replicas=2)
    world.until("the class is stopped", lambda _: bool(blocked(world, "broken")))
    assert failure(world, broken)["detail"]["code"] == "InvalidAMIID.NotFound"
    assert not_ready(world, "broken") == "Configuration: InvalidAMIID.NotFound"
    calls = create_fleet_calls(world)
    runs(world, submit(world, "beside", "steady"))
    # the stopped class is not asked for again
    assert create_fleet_calls(world) == calls + 1
    assert nodes_of(world.seen, broken) == []
    withdraw(world, broken)


def test_a_permission_that_is_missing_stops_its_class_only(world: World) -> None:
    forbidden = submit(world, "forbidden", "forbidden")
    world.until("the class is stopped", lambda _: bool(blocked(world, "forbidden")))
    assert not_ready(world, "forbidden").startswith("Permission: ")
    runs(world, submit(world, "beside-forbidden", "steady"))
    assert nodes_of(world.seen, forbidden) == []
    withdraw(world, forbidden)
    # What IAM denied here was to be denied: the role is none that the deployment may hand to instances. That the
    # launch failed for it is history, too.
    denied = world.denials()
    assert {line.partition(": ")[0] for line in denied} == {
        Function.LAUNCH,
        Function.RECORD,
    }
    world.expected_denials += denied


def test_instances_that_only_carry_our_tags_are_left_alone(world: World) -> None:
    """A tag is no evidence that we launched an instance: whoever may create tags could set it on anybody's."""
    deployment = world.output(DEPLOYMENT)
    tagged = run_instance(
        world, {names.OWNER_TAG: deployment, names.BATCH_TAG: "batch-nobody-knows"}
    )
    untagged = run_instance(world, {})
    foreign = run_instance(
        world,
        {names.OWNER_TAG: "another-deployment", names.BATCH_TAG: "batch-nobody-knows"},
    )
    world.aws.clock.advance(timedelta(minutes=11), coalesce=True)
    world.reservoir.invoke(Function.COLLECT)
    world.aws.clock.advance(timedelta(seconds=30))
    assert {state(world, each) for each in (tagged, untagged, foreign)} == {"running"}
    world.aws.client("ec2").terminate_instances(InstanceIds=[tagged, untagged, foreign])
    world.aws.clock.advance(timedelta(seconds=30))


def test_a_claim_whose_instance_is_gone_is_replaced_without_any_event(world: World) -> None:
    world.aws.ec2("mistreat_events", kind="drop", count=1000)
    key = submit(world, "vanishing", "steady")
    (node,) = runs(world, key)
    # it runs, and a sweep has seen it: what ends before it runs rests
    world.aws.clock.advance(timedelta(minutes=2))
    world.aws.ec2("terminate_instance", instance_id=node["instanceId"])
    world.aws.clock.advance(timedelta(minutes=2))
    world.until("it is replaced", lambda seen: len(nodes_of(seen, key)) == 2)
    assert_one_instance_a_claim(world)


def assert_one_instance_a_claim(world: World) -> None:
    seen = world.until(
        "each has its tag", lambda seen: all(instance.claim_id for instance in seen.live())
    )
    claims = [instance.claim_id for instance in seen.live()]
    assert len(set(claims)) == len(claims)


def blocked(world: World, node_class: str) -> list[dict[str, Any]]:
    return [
        event
        for event in world.events("Launches Blocked")
        if event["nodeClass"] == node_class
    ]


def not_ready(world: World, name: str) -> str:
    """Return why the command line says that a class launches nothing."""
    shown = world.command("get", "nodeclass", name, "--output", "json")
    assert shown.returncode == 0, shown.stderr
    (manifest,) = json.loads(shown.stdout)["items"]
    conditions = {item["type"]: item for item in manifest["status"]["conditions"]}
    assert conditions["Ready"]["status"] == "False"
    return str(conditions["LaunchesPermitted"]["message"])


def run_instance(world: World, tags: Mapping[str, str]) -> str:
    ec2 = world.aws.client("ec2")
    image = world.aws.client("ssm").get_parameter(Name=IMAGE_PARAMETER.format("x86_64"))[
        "Parameter"
    ]["Value"]
    tagged = [
        {
            "ResourceType": "instance",
            "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
        }
    ]
    answer = ec2.run_instances(
        ImageId=image,
        InstanceType="m5.large",
        MinCount=1,
        MaxCount=1,
        **({"TagSpecifications": tagged} if tags else {}),
    )
    world.aws.clock.advance(timedelta(seconds=10))
    return str(answer["Instances"][0]["InstanceId"])


def state(world: World, instance_id: str) -> str:
    (reservation,) = world.aws.client("ec2").describe_instances(InstanceIds=[instance_id])[
        "Reservations"
    ]
    return str(reservation["Instances"][0]["State"]["Name"])
