"""A deployment is destroyed under a running fleet, on the embedded AWS; the tests tell one story in their order."""

import json
import shutil
from collections.abc import Collection, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from lab.embedded.client import EmbeddedAws
from lab.embedded.reservoir import DeployedReservoir, make_network
from lab.fakes.manifests import team_manifest, workload_manifest
from lab.fakes.values import node_claim
from lab.story.world import World
from reservoir.cli.deployment.account import Account, FoundStack
from reservoir.cli.deployment.connect import deployed, fleet
from reservoir.cli.deployment.deploy import Deploy
from reservoir.cli.deployment.destroy import Destroy, DestroyRefusedError
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.deployment.deployment import read
from reservoir.names import OWNER_TAG, SNAPSHOTS_BUCKET, Table, output_name
from tests.deployment.embedded_cdk import EmbeddedCdk

pytestmark = pytest.mark.embedded

POLICY: Final = Path(__file__).parents[2] / "examples" / "demo" / "policy.yaml"
SETTINGS: Final = {
    "stack": "Reservoir",
    "manifests": "policy",
    "instanceRole": "reservoir-node",
    "terminationProtection": False,
    "retain": False,
}
LOOKS_MAX: Final = 60


class Stuck:
    """A stack one of whose nodes never goes, and no account behind it."""

    is_half_deleted = False

    def __init__(self) -> None:
        self.looks = 0
        self.claim = node_claim("nc-1", state=ClaimState.RUNNING, instance_id="i-1")

    def list_live(self) -> tuple[NodeClaim, ...]:
        return (self.claim,)

    def list_owned(self) -> tuple[str, ...]:
        return ("i-1",)

    def get_many(self, _: Collection[str]) -> dict[str, Any]:
        return {}

    def list_needing_planning(self) -> tuple[()]:
        return ()

    def wait(self, _: float) -> None:
        self.looks += 1


def test_it_gives_up_when_nothing_goes_for_hours_and_says_what_stays() -> None:
    stuck: Any = Stuck()
    found = SimpleNamespace(instances=stuck, node_claims=stuck, workloads=stuck)
    # One object stands for all that is outside: it has what this story asks of each.
    action: Any = Destroy(stuck, stuck, lambda _: found, stuck, print, stuck.wait)  # type: ignore[arg-type,return-value] # one object for all, as said
    with pytest.raises(
        DestroyRefusedError, match=r"1 instances have not ended for hours: i-1 \(running\)"
    ):
        action.run(stuck)
    assert timedelta(hours=3) < timedelta(seconds=15 * stuck.looks) < timedelta(hours=5)


class HalfDeleted:
    """A stack whose deletion failed when its tables and its bucket were gone, and all that is outside."""

    def __init__(self, *running: str) -> None:
        self.stack = FoundStack(
            "Reservoir", "DELETE_FAILED", {output_name(SNAPSHOTS_BUCKET): "gone"}, {}
        )
        self.instances = tuple(SimpleNamespace(id=each) for each in running)
        self.calls: list[tuple[str, ...]] = []

    def destroy(self) -> None:
        fleet = SimpleNamespace(
            instances=SimpleNamespace(list_owned=lambda: self.instances),
            templates=SimpleNamespace(list_owned=lambda: (), delete=lambda _: None),
        )
        settings = SimpleNamespace(termination_protection=False, retain=False)
        deployment = SimpleNamespace(
            name="production", stack="Reservoir", settings=settings
        )
        account = SimpleNamespace(stacks=lambda: [self.stack], clients=lambda _: self)
        action: Any = Destroy(
            deployment,  # type: ignore[arg-type] # as much as is asked of it
            account,  # type: ignore[arg-type] # the same
            lambda _: fleet,  # type: ignore[arg-type,return-value] # the same
            lambda *command: self.calls.append(command),
            print,
            print,
        )
        action.run(action.check(drain=True))

    # --- the services' clients

    class exceptions:  # noqa: N801 - as botocore's clients have it
        class NoSuchBucket(Exception):  # noqa: N818 - as S3 names it
            pass

    def get_paginator(self, _: str) -> Any:
        return self

    def paginate(self, **_asked: Any) -> Iterator[Any]:
        raise self.exceptions.NoSuchBucket

    def update_termination_protection(self, **_asked: Any) -> None:
        pass


def test_a_deletion_that_failed_is_repeated_though_nothing_can_be_drained_any_more() -> (
    None
):
    left = HalfDeleted()
    left.destroy()
    assert left.calls == [("destroy", "--force")]


def test_what_runs_beside_a_stack_that_is_half_deleted_is_named_for_people_to_end() -> None:
    left = HalfDeleted("i-1")
    with pytest.raises(
        DestroyRefusedError, match="The functions that would drain them are deleted already"
    ):
        left.destroy()
    assert left.calls == []


class Fleet:
    """A deployment with nodes at work, and whoever destroys it; time passes only while that waits."""

    def __init__(self, aws: EmbeddedAws, folder: Path) -> None:
        self.aws = aws
        self.path = folder / "production.yaml"
        self.path.write_text(json.dumps(SETTINGS))
        (folder / "policy").mkdir()
        shutil.copy(POLICY, folder / "policy")
        self.cdk = EmbeddedCdk(aws, self.path)
        Deploy(
            read(self.path),
            Account(aws.client),
            partial(deployed, aws.client),
            self.cdk,
            print,
        ).run(())
        reservoir = DeployedReservoir(report=print)
        reservoir.aws, reservoir.outputs = aws, self.cdk.outputs
        self.world = World(reservoir)
        self.straggler = ""
        # the claims that were live whenever the destroyer waited
        self.looks: list[dict[str, Any]] = []

    def submit(
        self, name: str, replicas: int, namespace: str = "story", **spec: Any
    ) -> None:
        requests = {"cpu": "1200m", "memory": "4Gi"}
        workload = workload_manifest(
            f"{namespace}/{name}", replicas, requests, generation=1, **spec
        )
        self.world.send({"action": "submit", "workload": workload})

    def give_to_a_team(self, namespace: str) -> None:
        """Let a namespace belong to a Team of which whoever destroys the deployment is no principal."""
        trust = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        role = self.aws.client("iam").create_role(
            RoleName="owners", AssumeRolePolicyDocument=document
        )["Role"]
        path = self.path.parent / "team.json"
        team = team_manifest("owners", namespaces=[namespace], principals=[role["Arn"]])
        path.write_text(json.dumps(team))
        self.world.apply(path)

    def claims(self) -> dict[str, Any]:
        """The claims that are live, by id."""
        rows = self.aws.client("dynamodb").scan(
            TableName=self.world.output(Table.NODE_CLAIMS)
        )["Items"]
        return {
            row["id"]["S"]: json.loads(row["data"]["S"]) for row in rows if "listing" in row
        }

    def stop_listening(self) -> None:
        """Take the test's own rule from the bus."""
        events = self.aws.client("events")
        events.remove_targets(Rule="everything", EventBusName="reservoir", Ids=["tap"])
        events.delete_rule(Name="everything", EventBusName="reservoir")

    def destroy(self, *, drain: bool) -> list[str]:
        """Destroy; return what was said."""
        said: list[str] = []
        connect = partial(fleet, self.aws.client)
        action = Destroy(
            read(self.path),
            Account(self.aws.client),
            connect,
            self._cdk,
            said.append,
            self._wait,
        )
        action.run(action.check(drain=drain))
        return said

    def _cdk(self, command: str, *arguments: str) -> None:
        """Let a launch that was under way come to its end while the stack is deleted."""
        self.cdk(command, *arguments)
        ec2 = self.aws.client("ec2")
        owner = {
            "ResourceType": "instance",
            "Tags": [{"Key": OWNER_TAG, "Value": "Reservoir"}],
        }
        image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
        launched = ec2.run_instances(
            ImageId=image,
            InstanceType="m5.large",
            MinCount=1,
            MaxCount=1,
            TagSpecifications=[owner],
        )
        self.straggler = str(launched["Instances"][0]["InstanceId"])

    def _wait(self, seconds: float) -> None:
        self.looks.append(self.claims())
        assert len(self.looks) <= LOOKS_MAX, self.world.summary()
        if len(self.looks) == 1:
            self.submit("late", 1)  # senders go on while the deployment is drained
        self.aws.clock.advance(timedelta(seconds=seconds))


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with EmbeddedAws() as aws:
        make_network(aws)
        found = Fleet(aws, tmp_path_factory.mktemp("deployments"))
        found.world.reserve("general", "m7i.large", "us-east-1a", 1, "general")
        found.world.discover()
        found.submit("web", 3)
        found.submit("training", 1, checkpointPeriod="10m")
        found.submit("theirs", 1, namespace="owned")
        wanted = {"story/web": 3, "story/training": 1, "owned/theirs": 1}
        found.world.until("all run", lambda seen: seen.all_run(wanted))
        found.give_to_a_team("owned")
        yield found
        print(aws.log())  # noqa: T201 - pytest shows it beside a failure


def test_it_is_refused_while_instances_run(story: Fleet) -> None:
    # nothing is replaced between what is seen here and what is refused
    story.aws.clock.pause()
    story.aws.clock.settle()
    running = {instance.id for instance in story.world.look().live()}
    story.stop_listening()
    with pytest.raises(
        DestroyRefusedError, match=f"{len(running)} instances of production run"
    ) as refused:
        story.destroy(drain=False)
    assert all(instance in str(refused.value) for instance in running)
    assert "make destroy ARGS=--drain" in str(refused.value)
    assert {call[0] for call in story.cdk.calls} == {"deploy"}
    assert set(story.claims()) != set()
    story.aws.clock.resume()


def test_drained_its_work_has_notice_and_nothing_is_left(story: Fleet) -> None:
    ran = {instance.id for instance in story.world.look().live()}
    said = story.destroy(drain=True)
    assert {line for line in said if line.startswith("withdrawing")} == {
        f"withdrawing {name}"
        for name in ("story/web", "story/training", "story/late", "owned/theirs")
    }
    ec2 = story.aws.client("ec2")
    assert (
        f"launched meanwhile; you must terminate them yourself: {story.straggler}" in said
    )
    states = {
        instance["InstanceId"]: instance["State"]["Name"]
        for reservation in ec2.describe_instances()["Reservations"]
        for instance in reservation["Instances"]
        if instance["InstanceId"] != story.straggler
    }
    # how many nodes the work took depends on what was known when it was planned, and EC2 forgets what ended
    assert ran
    assert set(states.values()) <= {"shutting-down", "terminated"}
    assert ec2.describe_launch_templates()["LaunchTemplates"] == []
    assert story.cdk.calls[-1] == ("destroy", "--force")
    assert story.aws.client("dynamodb").list_tables()["TableNames"] == []
    buckets = [
        bucket["Name"] for bucket in story.aws.client("s3").list_buckets()["Buckets"]
    ]
    assert [name for name in buckets if "snapshots" in name] == []
    drains = [
        claim["drain"]
        for look in story.looks
        for claim in look.values()
        if claim.get("drain")
    ]
    assert drains, "nodes are told before they end"
    assert all(drain["deadline"] for drain in drains)
