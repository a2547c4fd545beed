"""Two systems with roles of their own, one team: identity comes from AWS, and what is refused changes nothing.

The tests tell one story in their order, on one deployment.
"""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from lab.demo.observer import Observed
from lab.fakes.manifests import team_manifest
from lab.story.policies import one_type_pool, story_workload, write_manifests
from lab.story.world import World
from reservoir.names import (
    DEMAND_DEAD_LETTER_QUEUE,
    DEPLOYMENT,
    Function,
    Queue,
    Table,
    function_name,
)

pytestmark = pytest.mark.embedded

ACCOUNT_ID: Final = "123456789012"
SENDS: Final = {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": "*"}
TRUST: Final = {
    "Effect": "Allow",
    "Principal": {"AWS": ACCOUNT_ID},
    "Action": "sts:AssumeRole",
}


def document(statement: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


class Role:
    """A role that may send demand; a session of it sends."""

    def __init__(self, world: World, name: str) -> None:
        self._world, self.name = world, name
        iam = world.aws.client("iam")
        self.arn = str(
            iam.create_role(RoleName=name, AssumeRolePolicyDocument=document(TRUST))[
                "Role"
            ]["Arn"]
        )
        iam.put_role_policy(
            RoleName=name, PolicyName="send", PolicyDocument=document(SENDS)
        )

    def delete(self) -> None:
        iam = self._world.aws.client("iam")
        iam.delete_role_policy(RoleName=self.name, PolicyName="send")
        iam.delete_role(RoleName=self.name)

    def send(self, *bodies: dict[str, Any], session: str = "worker-1") -> list[str]:
        key = self._world.aws.client("sts").assume_role(
            RoleArn=self.arn, RoleSessionName=session
        )["Credentials"]
        sqs = self._world.aws.client(
            "sqs",
            aws_access_key_id=key["AccessKeyId"],
            aws_secret_access_key=key["SecretAccessKey"],
            aws_session_token=key["SessionToken"],
        )
        url = self._world.output(Queue.DEMAND.value)
        return [
            sqs.send_message(QueueUrl=url, MessageBody=json.dumps(body))["MessageId"]
            for body in bodies
        ]


def team(*principals: str) -> dict[str, Any]:
    return team_manifest("story-tellers", namespaces=["story"], principals=list(principals))


WORKLOAD: Final = story_workload("teams", 1, "1")
NAMED: Final = {"metadata": WORKLOAD["metadata"]}


def generation(number: int) -> dict[str, Any]:
    return {**WORKLOAD, "metadata": {**WORKLOAD["metadata"], "generation": number}}


@pytest.fixture(scope="module")
def owner(world: World, tmp_path_factory: pytest.TempPathFactory) -> Role:
    role = Role(world, "front-end")
    pool = one_type_pool("teams", "m7i.large", ["reserved"])
    world.apply(write_manifests(tmp_path_factory.mktemp("policy"), [*pool, team(role.arn)]))
    world.reserve("teams", "m7i.large", "us-east-1a", 1, "teams")
    world.discover()
    return role


def test_a_principal_submits_for_its_namespace(world: World, owner: Role) -> None:
    owner.send({"action": "submit", "workload": WORKLOAD})
    world.until("it is placed", lambda seen: "story/teams" in seen.placed)
    world.until(
        "it runs", lambda seen: any(each.state == "running" for each in seen.live())
    )


def test_a_stranger_is_refused_in_every_verb_and_changes_nothing(
    world: World, owner: Role
) -> None:
    seen = world.until("its launch is told", lambda seen: bool(seen.launched))
    running = {each.id for each in seen.live()}
    (claim,) = seen.launched
    release = {"action": "release", "workload": NAMED, "nodeClaim": claim}
    bodies: list[dict[str, Any]] = [
        {"action": "submit", "workload": generation(2)},
        {"action": "update", "workload": generation(3)},
        {
            "action": "withdraw",
            "workload": {"metadata": {**WORKLOAD["metadata"], "generation": 2**53 - 1}},
        },
        release,
    ]
    # The session bears the name of the team's role: it is the role that counts.
    ids = Role(world, "stranger").send(*bodies, session=owner.name)
    world.until("all are told", lambda _: rejected(world) >= set(ids))
    assert rejected(world) == set(ids)
    assert {
        event["problems"][0]["rule"] for event in world.events("Workload Rejected")
    } == {"not-permitted"}
    letters: dict[str, str] = {}

    def all_are_put_away(_: Observed) -> bool:
        found = world.aws.client("sqs").receive_message(
            QueueUrl=world.output(DEMAND_DEAD_LETTER_QUEUE),
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
        )
        for letter in found.get("Messages", ()):
            attributes = letter["MessageAttributes"]
            letters[attributes["MessageId"]["StringValue"]] = attributes["Reason"][
                "StringValue"
            ]
        return letters.keys() >= set(ids)

    world.until("all are put away", all_are_put_away)
    assert letters.keys() == set(ids)
    assert all(
        "is not a principal of Team story-tellers" in reason for reason in letters.values()
    )
    assert {each.id for each in world.look().live()} == running
    assert world.events("Node Draining") == []


def rejected(world: World) -> set[str]:
    """Return the messages that were told to be refused."""
    return {str(event["messageId"]) for event in world.events("Workload Rejected")}


def test_a_role_that_is_made_anew_is_a_stranger_until_the_team_is_applied_again(
    world: World, owner: Role, tmp_path: Path
) -> None:
    owner.delete()
    heir = Role(world, owner.name)
    assert heir.arn == owner.arn
    (refused,) = heir.send({"action": "withdraw", "workload": NAMED})
    world.until("it is refused", lambda _: refused in rejected(world))

    world.apply(write_manifests(tmp_path, [team(owner.arn)]))
    heir.send({"action": "withdraw", "workload": NAMED})
    world.until("it is withdrawn", lambda seen: seen.counts["Node Draining"] > 0)


def test_what_is_known_of_the_team_is_shown(world: World, owner: Role) -> None:
    shown = json.loads(world.command("get", "team", "story-tellers", "-o", "json").stdout)[
        "items"
    ]
    (found,) = shown
    role = world.aws.client("iam").get_role(RoleName=owner.name)["Role"]
    assert found["status"]["principals"] == [{"arn": owner.arn, "uniqueID": role["RoleId"]}]
    assert [each["status"] for each in found["status"]["conditions"]] == ["True", "True"]


# -- units that are lent and taken back


def sharing_team(name: str, nominal: int) -> dict[str, Any]:
    quota = {
        "capacityReservationSelectorTerms": [{"tags": {"purpose": "lent"}}],
        "nominalQuota": nominal,
    }
    return team_manifest(name, namespaces=[name], quotas=[quota], reclaimWithinCohort="Any")


def of_team(name: str, replicas: int) -> dict[str, Any]:
    workload = story_workload("lent", replicas, "3")
    return {**workload, "metadata": {"namespace": name, "name": "job", "generation": 1}}


def test_an_owner_gets_its_units_back_from_whoever_borrows_them(
    world: World, tmp_path: Path
) -> None:
    pool = one_type_pool("lent", "m7i.xlarge", ["reserved"])
    pool[1]["spec"]["disruption"]["budgets"] = [{"nodes": "100%"}]
    world.apply(
        write_manifests(
            tmp_path, [*pool, sharing_team("audio", 1), sharing_team("seeing", 2)]
        )
    )
    world.reserve("lent", "m7i.xlarge", "us-east-1a", 3, "lent")
    world.discover()
    world.send({"action": "submit", "workload": of_team("audio", 3)})
    world.until("audio has all units", lambda seen: seen.placed["audio/job"] == 3)
    world.until(
        "they run",
        lambda seen: (
            sum(it.instance_type == "m7i.xlarge" for it in seen.live("running")) == 3
        ),
    )

    world.send({"action": "submit", "workload": of_team("seeing", 1)})
    why = "Team seeing uses 0 units of tag purpose lent and owns 2; borrowed by others: audio 2"
    world.until("it waits", lambda _: told_to_wait(world, "seeing", "TeamQuota", why))

    world.until("a node is told", lambda _: bool(reclaimed_now(world)))
    (drain,) = reclaimed_now(world)
    release = {
        "action": "release",
        "workload": {"metadata": of_team("audio", 3)["metadata"]},
        "nodeClaim": drain["node"]["nodeClaim"],
    }
    world.send(release)
    world.until("its owner has it", lambda seen: seen.placed["seeing/job"] == 1)
    assert len(reclaimed_now(world)) == 1, f"one was owed, one was taken\n{world.summary()}"


def reclaimed_now(world: World) -> list[dict[str, Any]]:
    """Let nodes be taken back that are owed; return all that were."""
    world.reservoir.invoke(Function.DISRUPT)
    return reclaimed(world)


def told_to_wait(world: World, namespace: str, reason: str, text: str = "") -> bool:
    """Whether it was ever told that a namespace's workload waits for this; it may wait for something else before."""
    told = (
        it
        for it in world.events("Workload Pending")
        if it["workload"]["namespace"] == namespace
    )
    return any(it["reason"] == reason and text in it["message"] for it in told)


def reclaimed(world: World) -> list[dict[str, Any]]:
    world.look()
    drains = {
        it["drainId"]: it
        for it in world.events("Node Draining")
        if it["reason"] == "Reclaimed"
    }
    return list(drains.values())


# -- what may be bought, and what was spent


def test_a_month_that_is_nearly_spent_lets_one_node_be_bought(
    world: World, tmp_path: Path
) -> None:
    payers = team_manifest("payers", namespaces=["payers"], budget={"usdPerMonth": "0.15"})
    pool = one_type_pool("bought", "m7i.large", ["on-demand"])  # some 0.10 USD an hour
    world.apply(write_manifests(tmp_path, [*pool, payers]))
    world.discover()
    workload = story_workload("bought", 2, "1500m")
    world.send(
        {
            "action": "submit",
            "workload": {**workload, "metadata": {"namespace": "payers", "name": "job"}},
        }
    )
    world.until("one waits", lambda _: told_to_wait(world, "payers", "TeamBudget"))
    world.until("one is placed", lambda seen: seen.placed["payers/job"] == 1)
    world.until(
        "it runs", lambda seen: any(it.market == "on-demand" for it in seen.live("running"))
    )
    record(world)

    def told() -> set[tuple[str, str, int]]:
        return {
            (it["team"], it["period"], it["waitingReplicas"])
            for it in world.events("Team Over Budget")
        }

    world.until("it is told", lambda _: ("payers", "month", 1) in told())

    def shares_of(team: str) -> list[dict[str, Any]]:
        return [each for each in world.events("Team Share") if each["team"] == team]

    # each recording tells one share a team, and the bus keeps no order among them
    world.until(
        "what it buys",
        lambda _: any(each["microUsdPerHour"] > 90_000 for each in shares_of("payers")),
    )
    world.until("what another team uses", lambda _: bool(shares_of("seeing")))
    assert all(each["quotas"][0]["nominal"] == 2 for each in shares_of("seeing"))


def test_accounts_add_up_to_what_ec2_ran(world: World) -> None:
    for namespace, name in (("audio", "job"), ("seeing", "job"), ("payers", "job")):
        metadata = {"namespace": namespace, "name": name, "generation": 1}
        world.send({"action": "withdraw", "workload": {"metadata": metadata}})
    world.until("all nodes have ended", lambda seen: not seen.live())
    world.until("all are told", lambda seen: seen.launched.keys() == seen.terminated.keys())

    def written() -> list[dict[str, Any]]:
        record(world)
        rows = []
        # it may have turned meanwhile
        for month in sorted({f"{moment:%Y-%m}" for moment in (began, world.now())}):
            rows += world.aws.client("dynamodb").query(
                TableName=world.output(Table.ACCOUNTS.value),
                KeyConditionExpression="id = :month",
                ExpressionAttributeValues={":month": {"S": month}},
            )["Items"]
        return rows

    ran = {}
    reservations = world.aws.client("ec2").describe_instances()["Reservations"]
    instances = [it for reservation in reservations for it in reservation["Instances"]]
    began = min(it["LaunchTime"] for it in instances)
    for instance in instances:
        ended = re.search(r"\((.*) GMT\)", instance["StateTransitionReason"])
        assert ended is not None, instance
        ended_at = datetime.fromisoformat(f"{ended[1]}+00:00")
        ran[instance["InstanceId"]] = int(
            (ended_at - instance["LaunchTime"]).total_seconds()
        )
    rows = written()
    assert sum(int(row["seconds"]["N"]) for row in rows) == sum(ran.values())
    assert {row["team"]["S"] for row in rows} == {
        "audio",
        "seeing",
        "payers",
        "story-tellers",
    }, "each was somebody's"
    assert {row["team"]["S"] for row in rows if int(row["atto_usd"]["N"])} == {"payers"}, (
        "reserved use costs nothing"
    )
    again = written()
    assert again == rows, "nothing is counted twice"


def record(world: World) -> None:
    """Let record do what its schedule has it do every ten minutes."""
    message = {"messageId": "tick", "body": json.dumps({"source": "aws.events"})}
    name = function_name(world.output(DEPLOYMENT), Function.RECORD)
    payload = json.dumps({"Records": [message]}).encode()
    answer = world.aws.client("lambda").invoke(FunctionName=name, Payload=payload)
    assert json.loads(answer["Payload"].read()) == {"batchItemFailures": []}, world.log(
        Function.RECORD
    )


# -- resources that are lent and taken back


def amounts_team(name: str) -> dict[str, Any]:
    quota = {"capacityTypes": ["on-demand"], "resource": "cpu", "nominalQuota": "3"}
    return team_manifest(
        name, namespaces=[name], cohort="amounts", quotas=[quota], reclaimWithinCohort="Any"
    )


def test_an_owner_gets_its_vcpus_back_from_whoever_borrows_them(
    world: World, tmp_path: Path
) -> None:
    """Each owns one replica's, which is a node's; the room is free as soon as the node is told to go."""
    pool = one_type_pool("amounts", "m7i.xlarge", ["on-demand"])
    pool[1]["spec"]["disruption"]["budgets"] = [{"nodes": "100%"}]
    world.apply(
        write_manifests(tmp_path, [*pool, amounts_team("brass"), amounts_team("strings")])
    )
    world.discover()

    def job(name: str, replicas: int) -> dict[str, Any]:
        workload = story_workload("amounts", replicas, "3")
        return {**workload, "metadata": {"namespace": name, "name": "job", "generation": 1}}

    world.send({"action": "submit", "workload": job("brass", 3)})
    world.until("brass has its own, and a loan", lambda seen: seen.placed["brass/job"] == 2)
    world.until("the third waits", lambda _: told_to_wait(world, "brass", "TeamQuota"))
    world.until(
        "both run",
        lambda seen: sum(it.market == "on-demand" for it in seen.live("running")) == 2,
    )

    def told(name: str) -> set[tuple[str, str, str]]:
        shares = [each for each in world.events("Team Share") if each["team"] == name]
        return {
            (it["nominal"], it["used"], it["borrowed"])
            for share in shares
            for it in share["resources"]
        }

    record(world)
    world.until("its share is told", lambda _: ("3", "6", "3") in told("brass"))

    before = {drain["drainId"] for drain in reclaimed(world)}
    world.send({"action": "submit", "workload": job("strings", 1)})
    why = "Team strings has 0 cpu on on-demand and owns 3; borrowed by others: brass 3; it takes its own back"
    world.until("it waits", lambda _: told_to_wait(world, "strings", "TeamQuota", why))
    world.until(
        "a node is told", lambda _: {it["drainId"] for it in reclaimed_now(world)} > before
    )
    world.until("its owner has a node", lambda seen: seen.placed["strings/job"] == 1)
    taken = {it["drainId"] for it in reclaimed_now(world)} - before
    assert len(taken) == 1, f"one was owed, one was taken\n{world.summary()}"
