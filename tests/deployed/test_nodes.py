"""What nodes learn from inside and report, deployed: each about itself, and about nobody else."""

import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from lab.demo.observer import Instance
from lab.story.nodes import Inside, let_nodes_in
from lab.story.people import Person, all_refused
from lab.story.policies import one_type_pool, story_workload, write_manifests
from lab.story.world import World
from reservoir.names import (
    IDENTITY,
    IDENTITY_KEY,
    INSTANCE_INDEX,
    INSTANCE_KEY,
    KEY,
    LISTING_INDEX,
    LISTING_KEY,
    Function,
    Queue,
    Table,
)

pytestmark = pytest.mark.embedded
ZONE = "us-east-1a"
REPLICAS = 3  # two in the reservation, one beside it


@pytest.fixture(scope="module")
def instances(world: World, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Nodes of one replica each."""
    let_nodes_in(world)
    world.reserve("known", "m5.large", ZONE, 2, "known")
    pool = one_type_pool("known", "m5.large", ("reserved", "on-demand"))
    world.apply(write_manifests(tmp_path_factory.mktemp("policy"), pool))
    world.discover()
    world.send({"action": "submit", "workload": story_workload("known", REPLICAS, "1500m")})
    world.until("all run", lambda seen: len(seen.live("running")) == REPLICAS)
    seen = world.until("all launches are told", lambda seen: len(seen.launched) == REPLICAS)
    # leases are absorbed: somebody else writes the claims
    world.aws.clock.advance(timedelta(minutes=3))
    return sorted(map(_id, seen.live("running")))


def _id(instance: Instance) -> str:
    return instance.id


def known(world: World) -> dict[str, Any]:
    """Return how nodes and facts name the workload: with the id of the message that it began with."""
    submitted = (
        each for each in world.events("Workload Accepted") if each["action"] == "submit"
    )
    (correlation_id,) = {each["workload"]["correlationId"] for each in submitted}
    return {"namespace": "story", "name": "known", "correlationId": correlation_id}


def test_an_instance_reads_what_it_is_for(world: World, instances: list[str]) -> None:
    launched = {
        event["node"]["instanceId"]: event["node"]
        for event in world.events("Node Launched")
    }
    for instance in instances:
        identity, node = Inside(world, instance).identity(), launched[instance]
        for field in (
            "nodeClaim",
            "nodePool",
            "nodeClass",
            "capacityType",
            "capacityReservationId",
        ):
            assert identity.get(field) == node.get(field), field
        assert identity["state"] == "running"
        assert identity["workloads"] == [known(world) | {"replicas": 1}]
        assert "drain" not in identity


def test_the_index_holds_nothing_but_the_identity(
    world: World, instances: list[str]
) -> None:
    inside = Inside(world, instances[0])
    (row,) = inside.identities(inside.arn)
    assert set(row) == {KEY, IDENTITY_KEY, IDENTITY}


def test_an_instance_reads_nothing_else_and_writes_nothing(
    world: World, instances: list[str]
) -> None:
    inside, neighbour = Inside(world, instances[0]), Inside(world, instances[1])
    dynamodb, sqs, claim = (
        inside.client("dynamodb"),
        inside.client("sqs"),
        inside.identity()["nodeClaim"],
    )
    other_claim = neighbour.identity()["nodeClaim"]
    item = {"id": {"S": claim}}
    calls: list[Callable[[], Any]] = [
        lambda: inside.identities(neighbour.arn),
        lambda: inside.identities("${ec2:SourceInstanceARN}"),
        lambda: inside.identities(instances[0], INSTANCE_INDEX, INSTANCE_KEY),
        lambda: inside.identities("live", LISTING_INDEX, LISTING_KEY),
        lambda: dynamodb.get_item(TableName=inside.table, Key=item),
        lambda: dynamodb.get_item(TableName=inside.table, Key={"id": {"S": other_claim}}),
        lambda: dynamodb.batch_get_item(RequestItems={inside.table: {"Keys": [item]}}),
        lambda: dynamodb.scan(TableName=inside.table),
        lambda: dynamodb.scan(TableName=inside.table, IndexName="node-identity"),
        lambda: dynamodb.put_item(TableName=inside.table, Item=item),
        lambda: dynamodb.update_item(TableName=inside.table, Key=item),
        lambda: dynamodb.delete_item(TableName=inside.table, Key=item),
        lambda: sqs.send_message(
            QueueUrl=world.output(Queue.DEMAND.value), MessageBody="{}"
        ),
        lambda: inside.client("ec2").describe_instances(),
        *(
            partial(dynamodb.get_item, TableName=world.output(table.value), Key=item)
            for table in Table
        ),
    ]
    all_refused(calls)


def test_nobody_reports_in_the_name_of_an_instance(
    world: World, instances: list[str]
) -> None:
    """Not an administrator, and not a session of a role that may report, whose name is the instance's id."""
    url = world.output(Queue.REPORTS.value)
    report = json.dumps(
        {
            "report": "finished",
            "workload": {"namespace": "story", "name": "known"},
            "replicas": 1,
        }
    )
    administrator = Person(
        world, statements=({"Effect": "Allow", "Action": "*", "Resource": "*"},)
    )
    iam = world.aws.client("iam")
    trust = {
        "Effect": "Allow",
        "Principal": {"AWS": administrator.arn},
        "Action": "sts:AssumeRole",
    }
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    role = iam.create_role(RoleName="impostor", AssumeRolePolicyDocument=document)["Role"][
        "Arn"
    ]
    iam.attach_role_policy(
        RoleName="impostor", PolicyArn=world.reservoir.outputs["NodePolicyArn"]
    )
    assumed = administrator.client("sts").assume_role(
        RoleArn=role, RoleSessionName=instances[0]
    )["Credentials"]
    impostor = world.aws.client(
        "sqs",
        aws_access_key_id=assumed["AccessKeyId"],
        aws_secret_access_key=assumed["SecretAccessKey"],
        aws_session_token=assumed["SessionToken"],
    )
    for sqs in (administrator.client("sqs"), impostor):
        all_refused([partial(sqs.send_message, QueueUrl=url, MessageBody=report)])


def test_an_instance_reports_about_its_own_replicas_alone(
    world: World, instances: list[str]
) -> None:
    inside = Inside(world, instances[0])
    for workload in ("story/another", "other/known"):
        inside.report("ready", workload, replicas=1)
    inside.report("ready", "story/known", replicas=1)
    inside.report(
        "failed", "story/known", exitCode=1, restarts=0, nextStartInS=10, logTail="no\n"
    )
    world.until(
        "it is told",
        lambda _: bool(world.events("Replica Ready") and world.events("Replica Failed")),
    )
    world.aws.clock.settle()
    world.look()
    (ready,) = world.events("Replica Ready")
    assert ready["node"]["instanceId"] == instances[0]
    assert ready["workload"] == known(world)
    (failed,) = world.events("Replica Failed")
    assert (failed["exitCode"], failed["logTail"], failed["isCrashLoop"]) == (
        1,
        "no\n",
        False,
    )
    log = world.log(Function.FOLLOW)
    assert log.count("report of replicas that are not the sender's") == 2


def test_a_replica_that_finishes_is_not_demand_again(
    world: World, instances: list[str]
) -> None:
    inside = Inside(world, instances[0])
    for _ in range(2):
        inside.report("finished", "story/known", replicas=1, logTail="done\n")
    world.until("it is told", lambda _: bool(world.events("Replica Finished")))
    world.aws.clock.advance(timedelta(minutes=2))
    seen = world.look()
    assert len(seen.live("running")) == REPLICAS
    told = {
        (event["replicas"], event["finished"], event["wanted"])
        for event in world.events("Replica Finished")
    }
    assert told == {(1, 1, REPLICAS)}
    assert inside.identity()["workloads"] == []
    explained = world.command("explain", "workload", "story/known").stdout
    assert (
        f"{REPLICAS - 1} wanted, {REPLICAS - 1} placed, 0 waiting, 1 finished" in explained
    )


def test_an_instance_reads_that_it_must_go_and_until_when(
    world: World, instances: list[str]
) -> None:
    instances = instances[1:]  # of the first the replica has finished
    inside = [Inside(world, instance) for instance in instances]
    world.send(
        {
            "action": "withdraw",
            "workload": {
                "metadata": {"namespace": "story", "name": "known", "generation": 2}
            },
        }
    )
    world.until(
        "they drain",
        lambda _: (
            {e["node"]["instanceId"] for e in world.events("Node Draining")}
            >= set(instances)
        ),
    )
    world.until(
        "it can be read",
        lambda _: all(node.identity()["state"] == "draining" for node in inside),
    )
    told = {event["node"]["instanceId"]: event for event in world.events("Node Draining")}
    for instance, node in zip(instances, inside, strict=True):
        identity = node.identity()
        assert identity["drain"]["reason"] == "Withdrawn"
        for field in ("drainId", "notifiedAt", "deadline"):
            assert identity["drain"][field] == told[instance][field], field
        assert identity["workloads"] == [known(world) | {"replicas": 1}]
