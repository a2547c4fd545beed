"""``reservoir doctor``: what is wrong is found, and says what to do; what is right is not."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from email.utils import format_datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from typer.testing import Result

from lab.fakes.manifests import team_manifest
from lab.fakes.pages import Pages
from lab.fakes.stores.demand_census import MemoryDemandCensus
from lab.fakes.values import workload_record
from lab.worlds.disrupt_world import DisruptWorld
from lab.worlds.launch_world import DEPLOYMENT
from lab.worlds.planning_world import node_class_manifest
from reservoir.cli.commands.ask.doctor import paragraphs
from reservoir.cli.examination.checks import CHECKS
from reservoir.cli.examination.finding import Finding, Severity
from reservoir.core.disruption.command import DisruptionDecision, WaitingTurn
from reservoir.core.disruption.decision_ids import LATEST_DECISION
from reservoir.core.serialisation.json_codec import dumps
from reservoir.manifests.answers.operations import OperationRequest, Verb
from reservoir.manifests.kinds.launch_limits import LaunchLimits
from reservoir.names import VERSION
from reservoir.ports.history import Decision
from reservoir.ports.policy import PolicyKind, PutPolicy
from reservoir.usecases.provisioning.gather_snapshot import SnapshotGatherer
from tests.cli.acting import Stack

WRITES = {"ReadWriteType": "All", "IncludeManagementEvents": True}
ALARM = {"AlarmName": "Reservoir-x", "StateValue": "OK", "AlarmActions": ["arn:topic"]}


@dataclass
class Queue:
    """A dead-letter queue with a number of letters."""

    name: str
    letters: int

    def count(self) -> int:
        return self.letters


@dataclass
class Aws:
    """A client of every service that the doctor asks."""

    world: DisruptWorld
    alarms: list[dict[str, Any]] = field(default_factory=lambda: [ALARM])
    rules: list[dict[str, Any]] = field(default_factory=list)
    mappings: list[dict[str, Any]] = field(default_factory=list)
    denied: set[str] = field(default_factory=set)
    late_s: int = 0
    # actions that IAM's simulator refuses, and how
    refused: dict[str, dict[str, Any]] = field(default_factory=dict)
    simulated: list[dict[str, Any]] = field(default_factory=list)
    # quotas by code; one that is not here is large
    vcpus: dict[str, int] = field(default_factory=dict)
    concurrency: int = 1_000
    trail: dict[str, Any] = field(
        default_factory=lambda: {"IsLogging": True, "EventSelectors": [WRITES]}
    )

    demand_policy: str | None = None

    def get_queue_attributes(self, **asked: Any) -> dict[str, Any]:
        assert asked["AttributeNames"] == ["Policy"]
        policy = self.demand_policy
        return {} if policy is None else {"Attributes": {"Policy": policy}}

    @property
    def exceptions(self) -> "Aws":
        return self

    NoSuchResourceException = LookupError

    def get_paginator(self, operation: str) -> Any:
        if operation in self.denied:
            raise ClientError(
                {"Error": {"Code": "AccessDenied", "Message": "not you"}}, operation
            )
        page = {
            "MetricAlarms": self.alarms,
            "Rules": self.rules,
            "EventSourceMappings": self.mappings,
        }
        return SimpleNamespace(paginate=lambda **_: Pages([page]))

    def get_function_configuration(self, **asked: str) -> dict[str, Any]:
        name = asked["FunctionName"]
        arn = f"arn:aws:lambda:us-east-1:111122223333:function:{name}"
        return {"FunctionArn": arn, "Role": f"arn:aws:iam::111122223333:role/{name}-role"}

    def simulate_principal_policy(self, **asked: Any) -> dict[str, Any]:
        self.simulated.append(asked)
        (action,) = asked["ActionNames"]
        return {
            "EvaluationResults": [self.refused.get(action, {"EvalDecision": "allowed"})]
        }

    def get_service_quota(self, **asked: str) -> dict[str, Any]:
        assert asked["ServiceCode"] == "ec2"
        value = self.vcpus.get(asked["QuotaCode"], 10_000)
        if value < 0:
            raise self.NoSuchResourceException
        return {"Quota": {"Value": float(value)}}

    def get_account_settings(self) -> dict[str, Any]:
        return {"AccountLimit": {"UnreservedConcurrentExecutions": self.concurrency}}

    def describe_trails(self) -> dict[str, Any]:
        return {"trailList": [{"TrailARN": "arn:trail"}]}

    def get_trail_status(self, **asked: str) -> dict[str, Any]:
        assert asked == {"Name": "arn:trail"}
        return self.trail

    def get_event_selectors(self, **asked: str) -> dict[str, Any]:
        assert asked == {"TrailName": "arn:trail"}
        return self.trail

    def get_caller_identity(self) -> dict[str, Any]:
        at = self.world.clock.now().replace(microsecond=0)
        self.world.clock.advance(seconds=self.late_s)
        return {
            "ResponseMetadata": {"HTTPHeaders": {"date": format_datetime(at, usegmt=True)}}
        }


@dataclass
class Patient(Stack):
    """What the doctor examines."""

    aws: Any = None
    deployment: str = DEPLOYMENT
    release: str | None = VERSION
    launch_limits: LaunchLimits = field(default_factory=LaunchLimits)
    letters: dict[str, int] = field(default_factory=dict)

    @property
    def dead_letter_queues(self) -> Mapping[str, Queue]:
        return {name: Queue(name, count) for name, count in self.letters.items()}

    @property
    def snapshots(self) -> SnapshotGatherer:
        return self.world.gatherer()

    @property
    def demand_census(self) -> MemoryDemandCensus:
        return MemoryDemandCensus(self.world.state.workloads, self.world.clock)

    def client(self, _: str) -> Aws:
        aws: Aws = self.aws
        return aws

    def findings(self) -> list[tuple[str, str, str]]:
        """Severity, check and message of each finding."""
        items = json.loads(self.run("doctor", "-o", "json").stdout)["items"]
        return [
            (it["status"]["severity"], it["metadata"]["name"], it["status"]["message"])
            for it in items
        ]


@pytest.fixture
def patient() -> Patient:
    """A deployment with a reservation, of which nothing is wrong."""
    world = DisruptWorld("reserved", "on-demand")
    world.add_reservation("cr-1", total_count=1)
    world.minutes(1)
    return Patient(world, aws=Aws(world))


def only(patient: Patient) -> tuple[str, str, str]:
    (finding,) = patient.findings()
    return finding


def test_a_deployment_of_which_nothing_is_wrong(patient: Patient) -> None:
    result: Result = patient.run("doctor")
    assert (result.exit_code, result.stdout, result.stderr) == (
        0,
        "",
        "no problems found (17 checks)\n",
    )


def test_a_reservation_that_no_class_selects(patient: Patient) -> None:
    patient.world.select()
    assert only(patient) == (
        "warning",
        "reservations",
        "no EC2NodeClass selects cr-1: 1 x p5.48xlarge",
    )


def test_tables_that_are_not_known_to_be_whole_are_an_error(patient: Patient) -> None:
    patient.world.marks.empty("NodeClaims")
    assert patient.findings()[0][:2] == ("error", "tables")
    assert patient.run("doctor").exit_code == 1


def test_a_paused_pool_is_a_hint_that_says_who(patient: Patient) -> None:
    patient.operate(OperationRequest(verb=Verb.PAUSE, names=["gpu"], reason="OPS-8"))
    severity, check, message = only(patient)
    assert (severity, check) == ("hint", "policy")
    assert message.startswith("NodePool/gpu is paused by ")
    assert patient.run("doctor").exit_code == 0


def test_namespaces_that_no_team_keeps_apart(patient: Patient) -> None:
    for namespace in ("audio", "vision"):
        record = replace(
            workload_record(replicas=1), key=f"{namespace}/train", placed_count=1
        )
        patient.world.state.workloads.put(record, expected_revision=None)
    found = [each for each in patient.findings() if "no Team" in each[2]]
    assert [each[:2] for each in found] == [("warning", "policy")]
    assert "2 namespaces (audio, vision)" in found[0][2]

    manifest = team_manifest("sound", namespaces=["audio"])
    patient.world.store.commit([PutPolicy(PolicyKind.TEAM, "sound", manifest, 1, None)])
    assert not [each for each in patient.findings() if "no Team" in each[2]], (
        "one namespace is nobody else's"
    )


def test_what_waits_in_namespaces_of_no_team_counts_as_well(patient: Patient) -> None:
    manifest = team_manifest("sound", namespaces=["audio"])
    patient.world.store.commit([PutPolicy(PolicyKind.TEAM, "sound", manifest, 1, None)])
    for namespace in ("audio", "vision", "maps"):
        record = replace(workload_record(replicas=1), key=f"{namespace}/train")
        patient.world.state.workloads.put(record, expected_revision=None)
    (found,) = [each for each in patient.findings() if "no Team" in each[2]]
    assert "2 namespaces (maps, vision)" in found[2]


def test_a_demand_queue_that_takes_messages_of_other_accounts(patient: Patient) -> None:
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": "arn:aws:iam::999988887777:root"},
        "Action": "sqs:SendMessage",
    }
    patient.aws.demand_policy = json.dumps({"Statement": [statement]})
    assert only(patient) == (
        "warning",
        "policy",
        "the demand queue takes messages of other accounts: arn:aws:iam::999988887777:root",
    )


def test_a_pool_that_can_never_launch(patient: Patient) -> None:
    patient.world.apply(
        {**patient.world.store.list_all()[-1].manifest, "metadata": {"name": "lost"}}
    )
    stored = next(each for each in patient.world.store.list_all() if each.name == "lost")
    template = stored.manifest["spec"]["template"]
    reference = {**template["spec"]["nodeClassRef"], "name": "gone"}
    spec = {
        **stored.manifest["spec"],
        "template": {**template, "spec": {**template["spec"], "nodeClassRef": reference}},
    }
    patient.world.apply({**stored.manifest, "spec": spec})
    error, warning = patient.findings()
    assert error == (
        "error",
        "pools",
        "NodePool/lost can never launch anything: there is no EC2NodeClass gone",
    )
    assert warning[:2] == ("warning", "policy")
    assert warning[2].startswith("NodePool/lost: ")
    assert patient.run("doctor").exit_code == 1


def test_nodes_that_disruption_does_not_look_at_within_an_hour(patient: Patient) -> None:
    now = patient.world.clock.now()
    turns = (WaitingTurn("nc-1", now - timedelta(hours=1)), WaitingTurn("nc-2", now))
    decision = dumps(DisruptionDecision((), (), waiting=turns))
    patient.world.state.decisions.save(Decision(LATEST_DECISION, now, decision), "{}")
    assert patient.findings() == [
        (
            "warning",
            "pools",
            "1 node waits for more than an hour until disruption looks at it",
        )
    ]


def test_letters_alarms_and_rules(patient: Patient) -> None:
    patient.letters = {"demand": 2, "launches": 0}
    patient.aws.alarms = [
        ALARM,
        {**ALARM, "StateValue": "ALARM"},
        {**ALARM, "AlarmActions": []},
    ]
    patient.aws.rules = [
        {"Name": "Reservoir-r", "State": "DISABLED"},
        {"Name": "Reservoir-s", "State": "ENABLED"},
    ]
    assert patient.findings() == [
        ("error", "alarms", "Reservoir-x has gone off: "),
        ("error", "schedules", "Reservoir-r is disabled"),
        ("warning", "alarms", "1 of 3 alarms notify nobody"),
        ("warning", "dead-letters", "demand: 2 messages failed too often"),
    ]


def test_a_clock_that_is_late(patient: Patient) -> None:
    patient.aws.late_s = 90
    assert only(patient)[:2] == ("error", "clock")


def test_what_may_not_be_looked_at_is_said_to_be_skipped(patient: Patient) -> None:
    patient.aws.denied = {"list_rules"}
    severity, check, message = only(patient)
    assert (severity, check) == ("skipped", "schedules")
    assert message.startswith("not checked: ")
    result = patient.run("doctor")
    assert result.exit_code == 0
    assert result.stderr == "16 of 17 checks ran\n"


def test_a_stack_of_another_release(patient: Patient) -> None:
    patient.release = "0.0.9"
    assert only(patient) == (
        "warning",
        "versions",
        f"this command is release {VERSION}, the stack is release 0.0.9",
    )
    assert "or pip install reservoir==0.0.9" in patient.run("doctor").stdout
    patient.release = None
    assert only(patient)[2].endswith("the stack is of an older release")


def test_a_queue_that_nobody_reads(patient: Patient) -> None:
    mapping = {
        "FunctionArn": f"arn:aws:lambda:us-east-1:1:function:{DEPLOYMENT}-launch",
        "EventSourceArn": "arn:aws:sqs:us-east-1:1:launches",
        "UUID": "u-1",
    }
    others = {
        "FunctionArn": "arn:aws:lambda:us-east-1:1:function:other",
        "EventSourceArn": "arn:q",
        "UUID": "u-2",
    }
    patient.aws.mappings = [
        {**mapping, "State": "Enabled"},
        {**others, "State": "Disabled"},
    ]
    assert patient.findings() == []
    patient.aws.mappings = [{**mapping, "State": "Disabled"}]
    severity, check, message = only(patient)
    assert (severity, check) == ("error", "queues")
    assert message.startswith(f"{DEPLOYMENT}-launch does not read launches")


@pytest.mark.parametrize(
    ("refusal", "why"),
    [
        ({"EvalDecision": "implicitDeny"}, "no policy of its role allows it"),
        ({"EvalDecision": "explicitDeny"}, "a policy denies it"),
        (
            {
                "EvalDecision": "explicitDeny",
                "OrganizationsDecisionDetail": {"AllowedByOrganizations": False},
            },
            "a policy of the organization does not allow it",
        ),
        (
            {
                "EvalDecision": "implicitDeny",
                "PermissionsBoundaryDecisionDetail": {
                    "AllowedByPermissionsBoundary": False
                },
            },
            "the role's permissions boundary does not allow it",
        ),
    ],
)
def test_what_a_function_may_not_do(
    patient: Patient, refusal: dict[str, Any], why: str
) -> None:
    patient.aws.refused = {"ec2:TerminateInstances": refusal}
    resource = "arn:aws:ec2:us-east-1:111122223333:instance/*"
    message = f"expire may not ec2:TerminateInstances on {resource}: {why}"
    assert only(patient) == ("error", "permissions", message)


def test_a_role_that_launches_may_not_hand_to_instances(patient: Patient) -> None:
    patient.world.apply(node_class_manifest(role="nodes"))
    patient.aws.refused = {"iam:PassRole": {"EvalDecision": "implicitDeny"}}
    severity, check, message = only(patient)
    assert (severity, check) == ("error", "permissions")
    assert message.startswith(
        "EC2NodeClass/default: launch may not iam:PassRole on arn:aws:iam::111122223333:role/nodes"
    )


def test_a_quota_that_lets_nothing_be_launched(patient: Patient) -> None:
    patient.aws.vcpus = {"L-417A185B": 191}
    severity, check, message = only(patient)
    assert (severity, check) == ("warning", "quotas")
    assert message.startswith(
        "the quota of P instances on on-demand is 191 vCPUs: not even one p5.48xlarge (192)"
    )


@pytest.mark.parametrize("width", [80, 120])
def test_on_a_terminal_no_word_of_a_finding_is_cut(width: int) -> None:
    long = (
        "NodePool/training can never launch anything: EC2NodeClass training has no subnet in us-east-1a "
        * 3
    )
    found = [
        Finding(
            Severity.ERROR, "pools", long, "fix the pool or its class, then apply it again"
        ),
        Finding(Severity.HINT, "clock", "fine\x1b[2J", ""),
    ]
    shown = [line.plain for line in paragraphs(found, width)]
    assert max(map(len, shown)) <= width
    assert "…" not in "".join(shown)
    assert " ".join(" ".join(shown).split()).startswith(
        f"error pools: {long.strip()} do: fix the pool"
    )
    assert shown[-1].split() == ["hint", "clock:", r"fine\x1b[2J"]


def test_a_quota_that_a_reservation_nearly_uses_up(patient: Patient) -> None:
    # of which the reservation's one unit counts 192, used or not: 80 %
    patient.aws.vcpus = {"L-417A185B": 240}
    assert only(patient)[2] == (
        "the quota of P instances on on-demand is 240 vCPUs, of which known nodes use 192"
    )
    patient.aws.vcpus = {"L-417A185B": 241}
    assert patient.findings() == []


def test_a_quota_that_this_region_does_not_know_says_nothing(patient: Patient) -> None:
    patient.aws.vcpus = {"L-417A185B": -1}
    assert patient.findings() == []


def test_too_little_concurrency_for_a_busy_stack(patient: Patient) -> None:
    patient.aws.concurrency = 10
    assert only(patient)[:2] == ("warning", "concurrency")


@pytest.mark.parametrize(
    "trail",
    [
        {"IsLogging": False, "EventSelectors": [WRITES]},
        {"IsLogging": True, "EventSelectors": [{**WRITES, "ReadWriteType": "ReadOnly"}]},
        {
            "IsLogging": True,
            "EventSelectors": [{**WRITES, "IncludeManagementEvents": False}],
        },
        {
            "IsLogging": True,
            "AdvancedEventSelectors": [
                {"FieldSelectors": [{"Field": "eventCategory", "Equals": ["Data"]}]}
            ],
        },
    ],
)
def test_no_trail_tells_of_changes(patient: Patient, trail: dict[str, Any]) -> None:
    patient.aws.trail = trail
    assert only(patient)[:2] == ("hint", "trail")


def test_a_trail_with_advanced_selectors(patient: Patient) -> None:
    selectors = [
        {"Field": "eventCategory", "Equals": ["Management"]},
        {"Field": "readOnly", "Equals": ["false"]},
    ]
    patient.aws.trail = {
        "IsLogging": True,
        "AdvancedEventSelectors": [{"FieldSelectors": selectors}],
    }
    assert patient.findings() == []


def test_the_page_has_every_check() -> None:
    page = (Path(__file__).parents[3] / "docs/operating-by-hand.md").read_text()
    table = page.partition("## Checking a deployment")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE) == list(CHECKS)
