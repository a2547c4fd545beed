"""A deployment from a first create that fails to its end, on the embedded AWS; the tests tell one story in their order.

The stack that is deployed is the one that an account gets; only the CDK's command line is played.
"""

import json
import time
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from lab.embedded.client import EmbeddedAws
from lab.embedded.deploy import DeploymentError
from lab.embedded.reservoir import make_network
from reservoir import names
from reservoir.adapters.aws_errors import map_client_errors
from reservoir.adapters.dynamodb.policy import DynamoDbPolicyStore
from reservoir.adapters.dynamodb.workloads import LISTED, STANDING
from reservoir.cli.deployment import deploy as deploy_module
from reservoir.cli.deployment.account import Account, FoundStack
from reservoir.cli.deployment.connect import deployed, fleet
from reservoir.cli.deployment.deploy import Deploy
from reservoir.cli.deployment.destroy import Destroy, DestroyRefusedError
from reservoir.deployment.deployment import read
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.names import (
    DEPLOYMENT,
    EVENT_BUS,
    KEY,
    LISTING_KEY,
    PLACED_KEY,
    ROW_REVISION,
    Queue,
    Table,
    output_name,
)
from tests.deployment.embedded_cdk import EmbeddedCdk

pytestmark = pytest.mark.embedded

EXAMPLES = Path(__file__).parents[2] / "examples"
SETTINGS = {"stack": "Reservoir", "manifests": "policy", "instanceRole": "reservoir-node"}


class Story:
    """One deployment, what is said while it is deployed and destroyed, and what the account holds of it."""

    def __init__(self, aws: EmbeddedAws, folder: Path) -> None:
        self.aws, self.folder = aws, folder
        self.path = folder / "production.yaml"
        self.settings(**SETTINGS)
        (folder / "policy").mkdir()
        for example in (EXAMPLES / "policy").glob("*.yaml"):
            (folder / "policy" / example.name).write_text(example.read_text())
        self.cdk = EmbeddedCdk(aws, self.path)
        self.said: list[str] = []

    def settings(self, **settings: Any) -> None:
        self.path.write_text(json.dumps(settings))

    def deploy(self, *, to_older: bool = False) -> list[str]:
        """Deploy; return what was said."""
        self.said.clear()
        connect = partial(deployed, self.aws.client)
        Deploy(
            read(self.path), Account(self.aws.client), connect, self.cdk, self.said.append
        ).run((), to_older=to_older)
        return list(self.said)

    def destroy(self, *, drain: bool = False) -> list[str]:
        """Destroy; return what was said."""
        self.said.clear()
        connect = partial(fleet, self.aws.client)
        action = Destroy(
            read(self.path),
            Account(self.aws.client),
            connect,
            self.cdk,
            self.said.append,
            time.sleep,
        )
        action.run(action.check(drain=drain))
        return list(self.said)

    def holds(self) -> dict[str, list[str]]:
        """What the account holds that a stack can leave behind."""
        client = self.aws.client
        return {
            "tables": client("dynamodb").list_tables()["TableNames"],
            "queues": client("sqs")
            .list_queues(QueueNamePrefix="Reservoir")
            .get("QueueUrls", []),
            "logs": [
                group["logGroupName"]
                for group in client("logs").describe_log_groups()["logGroups"]
            ],
            "buckets": [
                bucket["Name"]
                for bucket in client("s3").list_buckets()["Buckets"]
                if "snapshots" in bucket["Name"]
            ],
            "functions": [
                each["FunctionName"]
                for each in client("lambda").list_functions()["Functions"]
            ],
            "timers": [
                group["Name"]
                for group in client("scheduler").list_schedule_groups()["ScheduleGroups"]
                if group["Name"] != "default"
            ],
        }

    def indexes(self, table: Table) -> set[str]:
        """The names of a table's indexes."""
        name = self.cdk.outputs[output_name(table)]
        found = self.aws.client("dynamodb").describe_table(TableName=name)["Table"]
        return {index["IndexName"] for index in found["GlobalSecondaryIndexes"]}

    def is_protected(self) -> list[bool]:
        """Whether the stack, then each table, is protected from deletion."""
        (stack,) = self.aws.client("cloudformation").describe_stacks(StackName="Reservoir")[
            "Stacks"
        ]
        dynamodb = self.aws.client("dynamodb")
        tables = [
            dynamodb.describe_table(TableName=self.cdk.outputs[output_name(table)])["Table"]
            for table in Table
        ]
        return [
            stack["EnableTerminationProtection"],
            *(table["DeletionProtectionEnabled"] for table in tables),
        ]


@pytest.fixture(scope="module")
def story(embedded_aws: EmbeddedAws, tmp_path_factory: pytest.TempPathFactory) -> Story:
    make_network(embedded_aws)
    return Story(embedded_aws, tmp_path_factory.mktemp("deployments"))


NOTHING: Final[dict[str, list[str]]] = {
    "tables": [],
    "queues": [],
    "logs": [],
    "buckets": [],
    "functions": [],
    "timers": [],
}


@pytest.mark.parametrize(
    "choices",
    [{}, {"retain": False}, {"terminationProtection": False}],
    ids=["as by default", "nothing retained", "never protected"],
)
def test_a_first_create_that_fails_leaves_nothing_behind_and_is_not_in_the_way(
    story: Story, choices: dict[str, Any]
) -> None:
    story.settings(**SETTINGS, **choices)
    wrong = story.folder / "policy" / "wrong.yaml"
    wrong.write_text(
        "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: wrong}, spec: {wieght: 1}}"
    )
    for _ in range(2):  # the second attempt meets what the first one left
        with pytest.raises(DeploymentError, match="is ROLLBACK_COMPLETE"):
            story.deploy()
        assert story.holds() == NOTHING
    wrong.unlink()
    story.settings(**SETTINGS)


QUOTAS: Final = {
    "AWS::CloudWatch::Alarm": {},
    "AWS::DynamoDB::Table": {"retain": False},
    "AWS::Events::Rule": {"terminationProtection": False},
    "AWS::IAM::ManagedPolicy": {},
    "AWS::IAM::Role": {"retain": False},
    "AWS::Logs::LogGroup": {},
    "AWS::S3::Bucket": {"retain": False},
    "AWS::Scheduler::ScheduleGroup": {},
}


@pytest.mark.parametrize(("kind", "choices"), QUOTAS.items(), ids=QUOTAS)
def test_a_first_create_for_which_a_quota_is_too_small_is_not_in_the_way_either(
    story: Story, kind: str, choices: dict[str, Any]
) -> None:
    story.settings(**SETTINGS, **choices)
    story.aws.set_account_quotas({kind: 1})
    with pytest.raises(DeploymentError, match="is ROLLBACK_COMPLETE"):
        story.deploy()
    assert story.holds() == NOTHING
    story.aws.set_account_quotas({})
    story.settings(**SETTINGS)


def test_nor_is_one_whose_reserved_concurrency_the_account_does_not_have(
    story: Story,
) -> None:
    story.settings(**SETTINGS, reserveConcurrency=True)
    story.aws.limit_concurrency(10)
    with pytest.raises(DeploymentError, match="below its minimum value"):
        story.deploy()
    assert story.holds() == NOTHING
    story.aws.limit_concurrency(1_000)
    story.settings(**SETTINGS)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("CREATE_IN_PROGRESS", "wait until it is over"),
        ("DELETE_IN_PROGRESS", "wait until it is over"),
        ("ROLLBACK_IN_PROGRESS", "wait until it is over"),
        ("DELETE_FAILED", "make destroy again"),
    ],
)
def test_a_stack_that_nothing_can_be_done_with_is_named_and_left_as_it_is(
    story: Story, monkeypatch: pytest.MonkeyPatch, status: str, said: str
) -> None:
    found = FoundStack("Reservoir", status, outputs={}, tables={})
    monkeypatch.setattr(Account, "stacks", lambda _account: [found])
    story.cdk.calls.clear()
    with pytest.raises(ManifestError, match=said):
        story.deploy()
    assert story.cdk.calls == []


def test_timers_that_a_release_before_left_are_named_before_their_name_is_in_the_way(
    story: Story,
) -> None:
    scheduler = story.aws.client("scheduler")
    scheduler.create_schedule_group(Name="Reservoir-drain")
    with pytest.raises(ManifestError, match="delete-schedule-group --name Reservoir-drain"):
        story.deploy()
    scheduler.delete_schedule_group(Name="Reservoir-drain")


def test_the_next_attempt_creates_and_then_protects_also_after_one_that_was_protected(
    story: Story,
) -> None:
    cloudformation = story.aws.client("cloudformation")
    cloudformation.update_termination_protection(
        StackName="Reservoir", EnableTerminationProtection=True
    )
    story.cdk.calls.clear()
    story.deploy()
    assert [call[0] for call in story.cdk.calls] == ["deploy", "deploy"]
    assert story.is_protected() == [True] * (1 + len(Table))


def test_deploying_again_is_the_same_deployment(story: Story) -> None:
    before, story_calls = story.holds(), len(story.cdk.calls)
    assert story.deploy() == []
    assert len(story.cdk.calls) == story_calls + 1
    assert story.holds() == before


def test_namespaces_that_no_team_keeps_apart_are_warned_of_once_it_is_deployed(
    story: Story,
) -> None:
    dynamodb = story.aws.client("dynamodb")
    table = story.cdk.outputs[output_name(Table.WORKLOADS)]
    keys = [{KEY: {"S": f"{namespace}/train"}} for namespace in ("audio", "vision")]
    for key, value in zip(keys, (PLACED_KEY, LISTING_KEY), strict=True):
        shown = {"S": STANDING if value == PLACED_KEY else LISTED}
        row = {**key, value: shown, ROW_REVISION: {"N": "1"}}
        dynamodb.put_item(TableName=table, Item=row)
    assert story.deploy() == [
        "warning: there is no Team: any sender may withdraw the work of all 2 namespaces (audio, vision);"
        " give namespaces to principals, see docs/teams.md"
    ]
    for key in keys:
        dynamodb.delete_item(TableName=table, Key=key)
    assert story.deploy() == []


def test_the_role_of_spot_is_made_where_it_is_missing_and_is_never_in_the_way(
    story: Story,
) -> None:
    story.settings(**SETTINGS, spotServiceLinkedRole=True)
    assert story.deploy() == ["AWSServiceRoleForEC2Spot was missing, and was created"]
    assert story.deploy() == []
    story.settings(**SETTINGS)
    assert story.deploy() == []
    iam = story.aws.client("iam")
    with pytest.raises(
        iam.exceptions.InvalidInputException, match="has been taken in this account"
    ):
        iam.create_service_linked_role(AWSServiceName="spot.amazonaws.com")


def test_whoever_may_not_make_the_role_of_spot_has_deployed_and_is_told_whom_to_ask(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_account: Account) -> bool:
        raise denied("CreateServiceLinkedRole")

    monkeypatch.setattr(Account, "make_spot_role", refused)
    story.settings(**SETTINGS, spotServiceLinkedRole=True)
    (said,) = story.deploy()
    assert said.startswith("warning: AWSServiceRoleForEC2Spot was not made: ")
    assert (
        "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com" in said
    )
    story.settings(**SETTINGS)


def test_whoever_may_not_read_policy_deploys_and_is_told_that_nothing_was_looked_at(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_store: DynamoDbPolicyStore) -> None:
        with map_client_errors():
            raise denied("Scan")

    monkeypatch.setattr(DynamoDbPolicyStore, "list_all", refused)
    first, second = story.deploy()
    assert first.startswith("warning: the changes of policy could not be determined: ")
    assert second.startswith("warning: the rights of senders could not be checked: ")


def denied(operation: str) -> ClientError:
    return ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, operation)


def test_an_update_keeps_the_indexes_of_the_release_before_until_its_functions_are_gone(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping = ("deploy", "--context", "olderIndexes=true")
    tables = (Table.NODE_CLAIMS, Table.WORKLOADS)
    with monkeypatch.context() as before:
        before.setattr(names, "VERSION", "0.1.0")
        story.cdk(*keeping)
    assert [story.indexes(table) for table in tables] == [
        set(names.indexes(it, with_older=True)) for it in tables
    ]
    story.cdk.calls.clear()
    story.deploy()
    assert story.cdk.calls == [keeping, ("deploy",)]
    assert [story.indexes(table) for table in tables] == [
        set(names.indexes(table)) for table in tables
    ]


def test_an_older_release_replaces_a_newer_one_only_when_that_is_said(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = list(story.cdk.calls)
    monkeypatch.setattr(deploy_module, "VERSION", "0.1.9")
    with pytest.raises(
        ManifestError,
        match=rf"runs release {names.VERSION}, and this is 0\.1\.9: .* add --rollback",
    ):
        story.deploy()
    assert story.cdk.calls == before
    story.deploy(to_older=True)
    assert len(story.cdk.calls) > len(before)


def test_what_a_deployment_does_to_policy_is_said_before(story: Story) -> None:
    (story.folder / "policy" / "gpu-training.yaml").rename(
        story.folder / "gpu-training.yaml"
    )
    assert story.deploy() == [
        "policy: EC2NodeClass/gpu-training is in force and not in the folder: it stays until removed names it",
        "policy: NodePool/gpu-training is in force and not in the folder: it stays until removed names it",
    ]
    story.settings(
        **SETTINGS, removed=["NodePool/gpu-training", "EC2NodeClass/gpu-training"]
    )
    assert story.deploy() == [
        "policy: EC2NodeClass/gpu-training will be deleted",
        "policy: NodePool/gpu-training will be deleted",
    ]
    assert story.deploy() == [], "it is gone, and to say so again is no mistake"


def test_a_second_stack_by_accident_is_refused(story: Story) -> None:
    story.settings(**{**SETTINGS, "stack": "Reservior"})
    before = story.holds()
    with pytest.raises(
        ManifestError, match="deployed as Reservoir, and Reservior would be a second stack"
    ):
        story.deploy()
    assert story.holds() == before
    story.settings(**SETTINGS)


def test_destroy_is_refused_while_protected_listened_to_or_running(story: Story) -> None:
    with pytest.raises(DestroyRefusedError, match="set terminationProtection: false"):
        story.destroy()
    story.settings(**SETTINGS, terminationProtection=False)
    events, bus = story.aws.client("events"), story.cdk.outputs[output_name(EVENT_BUS)]
    events.put_rule(
        Name="ours", EventBusName=bus, EventPattern=json.dumps({"source": ["reservoir"]})
    )
    with pytest.raises(
        DestroyRefusedError, match="rules of yours listen on the bus reservoir: ours"
    ):
        story.destroy()
    events.delete_rule(Name="ours", EventBusName=bus)
    (stack,) = story.aws.client("cloudformation").describe_stacks(StackName="Reservoir")[
        "Stacks"
    ]
    assert stack["StackStatus"].endswith("_COMPLETE")


def test_destroy_leaves_what_is_retained_and_tells_how_to_go_on_with_it(
    story: Story,
) -> None:
    outputs = dict(story.cdk.outputs)
    said = story.destroy()
    left = story.holds()
    assert left["tables"] == sorted(outputs[output_name(table)] for table in Table)
    assert outputs[output_name(Queue.DEMAND)] in left["queues"]
    assert len(left["queues"]) == 2, "the demand queue and its dead letters"
    assert left["logs"]
    assert left["buckets"]
    assert left["functions"] == []
    assert f"  nodeClaims: {outputs[output_name(Table.NODE_CLAIMS)]}" in said
    with pytest.raises(DestroyRefusedError, match="there is no stack Reservoir"):
        story.destroy()
    assert outputs[output_name(DEPLOYMENT)] == "Reservoir"
