"""What stands between a deployment and those who may do something in its account, on the deployed stack."""

import json
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from infra.config import FUNCTIONS
from infra.naming import function_name
from lab.fakes.manifests import team_manifest
from lab.story.people import Person, all_refused, policy_statements, refusal
from lab.story.policies import one_type_pool, story_workload, write_manifests
from lab.story.world import World
from reservoir.cli.stack.operating import signed
from reservoir.manifests.answers.policy_request import PolicyRequest
from reservoir.names import (
    DEMAND_DEAD_LETTER_QUEUE,
    DEPLOYMENT,
    OWNER_TAG,
    Function,
    Queue,
    Table,
    key_attributes,
)

pytestmark = pytest.mark.embedded

TOPIC = "arn:aws:sns:us-east-1:123456789012:alarms"
SETTINGS = {"alarmTopic": TOPIC, "reserveConcurrency": True}
NUMBERS = count(1)
ACCOUNT_LIMIT = 1_000  # of invocations at once, AWS's default


ADMINISTRATOR = ({"Effect": "Allow", "Action": "*", "Resource": "*"},)


def test_nobody_can_forge_an_event_not_even_an_administrator(world: World) -> None:
    administrator = Person(world, statements=ADMINISTRATOR)
    with pytest.raises(ClientError) as refused:
        administrator.client("sqs").send_message(
            QueueUrl=world.output(Queue.REACTIONS.value),
            MessageBody=json.dumps(
                {
                    "source": "aws.ec2",
                    "detail-type": "EC2 Spot Instance Interruption Warning",
                }
            ),
        )
    assert "explicit deny" in refusal(refused.value)
    entry = {
        "Source": "aws.ec2",
        "DetailType": "EC2 Spot Instance Interruption Warning",
        "Detail": "{}",
    }
    (answer,) = administrator.client("events").put_events(Entries=[entry])["Entries"]
    assert answer["ErrorCode"] == "NotAuthorizedForSourceException"


def test_a_stack_that_is_not_there_is_told_with_where_it_was_looked_for(
    world: World,
) -> None:
    told = Person(world, statements=ADMINISTRATOR).command("--stack", "Nowhere", "get")
    assert told.returncode == 2
    assert told.stderr.startswith(
        "there is no stack Nowhere in us-east-1: look in another place with --region"
    )


def launch_template(launcher: Person, world: World, **data: Any) -> str:
    tags = [{"Key": OWNER_TAG, "Value": world.reservoir.outputs["ReservoirDeployment"]}]
    kinds = ("instance", "network-interface", "volume")
    made = launcher.client("ec2").create_launch_template(
        LaunchTemplateName=f"template-{next(NUMBERS)}",
        LaunchTemplateData={
            "InstanceType": "m5.large",
            "ImageId": image(world),
            "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in kinds],
            **data,
        },
        TagSpecifications=[{"ResourceType": "launch-template", "Tags": tags}],
    )
    return str(made["LaunchTemplate"]["LaunchTemplateId"])


def image(world: World) -> str:
    return str(
        world.aws.client("ec2").describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    )


TOKENS = {"MetadataOptions": {"HttpTokens": "required"}}


def test_the_launch_role_launches_from_a_template_of_ours_with_metadata_by_token(
    world: World,
) -> None:
    launcher = Person(world, statements=policy_statements(world, Function.LAUNCH))
    template = launch_template(launcher, world, **TOKENS)
    launched = launcher.client("ec2").run_instances(
        LaunchTemplate={"LaunchTemplateId": template}, MinCount=1, MaxCount=1
    )
    world.aws.client("ec2").terminate_instances(
        InstanceIds=[launched["Instances"][0]["InstanceId"]]
    )


@pytest.mark.parametrize(
    ("data", "request_more", "kind"),
    [
        pytest.param({}, {}, "instance", id="metadata without tokens"),
        pytest.param(
            {"MetadataOptions": {"HttpTokens": "optional"}},
            {},
            "instance",
            id="tokens optional",
        ),
        pytest.param(
            TOKENS,
            {"MetadataOptions": {"HttpTokens": "optional"}},
            "instance",
            id="tokens optional in the request",
        ),
        pytest.param(
            TOKENS, {"ImageId": "another"}, "image", id="another image than the template's"
        ),
        pytest.param(TOKENS, {"LaunchTemplate": None}, "instance", id="no template"),
    ],
)
def test_the_launch_role_launches_nothing_else(
    world: World, data: dict[str, Any], request_more: dict[str, Any], kind: str
) -> None:
    launcher = Person(world, statements=policy_statements(world, Function.LAUNCH))
    request = {
        "LaunchTemplate": {"LaunchTemplateId": launch_template(launcher, world, **data)},
        **request_more,
    }
    if request["LaunchTemplate"] is None:
        owner = [
            {"Key": OWNER_TAG, "Value": world.reservoir.outputs["ReservoirDeployment"]}
        ]
        kinds = ("instance", "network-interface", "volume")
        del request["LaunchTemplate"]
        request |= {
            "ImageId": image(world),
            "InstanceType": "m5.large",
            "TagSpecifications": [{"ResourceType": each, "Tags": owner} for each in kinds],
            **TOKENS,
        }
    if request.get("ImageId") == "another":
        request["ImageId"] = world.aws.client("ec2").register_image(
            Name=f"image-{next(NUMBERS)}", Architecture="x86_64"
        )["ImageId"]
    with pytest.raises(ClientError) as refused:
        launcher.client("ec2").run_instances(**request, MinCount=1, MaxCount=1)
    assert (
        f":{kind}/"
        in refusal(refused.value).split(" on resource: ")[1].split(" because")[0]
    )


def test_the_launch_role_notes_a_classs_status_and_writes_no_manifest(
    world: World,
) -> None:
    launcher = Person(world, statements=policy_statements(world, Function.LAUNCH))
    table = launcher.client("dynamodb")
    row = {
        "TableName": world.output(Table.POLICY.value),
        "Key": {"id": {"S": "EC2NodeClass/x"}},
    }
    names, values = {"#s": "status", "#d": "data"}, {":v": {"S": "{}"}}
    table.update_item(
        **row,
        UpdateExpression="SET #s = :v",
        ExpressionAttributeNames={"#s": "status"},
        ExpressionAttributeValues=values,
    )
    for update in ("SET #s = :v, #d = :v", "SET #s = :v REMOVE #d"):
        with pytest.raises(ClientError) as refused:
            table.update_item(
                **row,
                UpdateExpression=update,
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=values,
            )
        assert refused.value.response["Error"]["Code"] == "AccessDeniedException"
    world.aws.client("dynamodb").delete_item(**row)


@pytest.mark.parametrize("function", [Function.INTAKE, Function.FOLLOW])
def test_who_reads_what_strangers_write_ends_no_instance_of_ours(
    world: World, function: Function
) -> None:
    reader = Person(world, statements=policy_statements(world, function))
    launcher = Person(world, statements=policy_statements(world, Function.LAUNCH))
    template = launch_template(launcher, world, **TOKENS)
    (instance,) = launcher.client("ec2").run_instances(
        LaunchTemplate={"LaunchTemplateId": template}, MinCount=1, MaxCount=1
    )["Instances"]
    ids = [instance["InstanceId"]]
    with pytest.raises(ClientError) as refused:
        reader.client("ec2").terminate_instances(InstanceIds=ids)
    assert refused.value.response["Error"]["Code"] == "UnauthorizedOperation"
    world.aws.client("ec2").terminate_instances(InstanceIds=ids)


def test_an_alarm_tells_the_topic(world: World) -> None:
    sns, sqs, cloudwatch = (
        world.aws.client(service) for service in ("sns", "sqs", "cloudwatch")
    )
    assert sns.create_topic(Name="alarms")["TopicArn"] == TOPIC
    from_sns = {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:*",
        "Resource": "*",
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [from_sns]})
    url = sqs.create_queue(QueueName="mailbox", Attributes={"Policy": policy})["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"][
        "QueueArn"
    ]
    sns.subscribe(TopicArn=TOPIC, Protocol="sqs", Endpoint=arn)
    alarms = [alarm["AlarmName"] for alarm in cloudwatch.describe_alarms()["MetricAlarms"]]
    blocked = min(name for name in alarms if "LaunchesBlocked" in name)
    for state in ("ALARM", "OK"):
        cloudwatch.set_alarm_state(
            AlarmName=blocked, StateValue=state, StateReason="a test says so"
        )
    told: set[tuple[str, str]] = set()

    def both_are_told(_: object) -> bool:
        for message in sqs.receive_message(QueueUrl=url).get("Messages", ()):
            notice = json.loads(json.loads(message["Body"])["Message"])
            told.add((notice["AlarmName"], notice["NewStateValue"]))
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return len(told) >= 2

    world.until("both are told", both_are_told)
    assert told == {(blocked, "ALARM"), (blocked, "OK")}


def test_a_delivery_that_is_not_allowed_any_more_is_kept_for_people(world: World) -> None:
    lambda_, events = world.aws.client("lambda"), world.aws.client("events")
    collect = function_name(
        world.reservoir.outputs["ReservoirDeployment"], Function.COLLECT
    )
    policy = json.loads(lambda_.get_policy(FunctionName=collect)["Policy"])
    for statement in policy["Statement"]:
        lambda_.remove_permission(FunctionName=collect, StatementId=statement["Sid"])
    try:
        url = world.reservoir.outputs["UndeliveredQueueUrl"]

        def undelivered() -> list[dict[str, Any]]:
            world.aws.clock.advance(timedelta(seconds=60))
            answer = world.aws.client("sqs").receive_message(
                QueueUrl=url, MessageAttributeNames=["All"]
            )
            return list(answer.get("Messages", ()))

        message = next(found[0] for found in iter(undelivered, None) if found)
    finally:
        for statement in policy["Statement"]:
            source = statement["Condition"]["ArnLike"]["AWS:SourceArn"]
            lambda_.add_permission(
                FunctionName=collect,
                StatementId=statement["Sid"],
                Action="lambda:InvokeFunction",
                Principal="events.amazonaws.com",
                SourceArn=source,
            )
    attributes = {
        name: value["StringValue"] for name, value in message["MessageAttributes"].items()
    }
    assert attributes["ERROR_CODE"] == "NO_PERMISSIONS"
    assert attributes["TARGET_ARN"].endswith(collect)
    assert attributes["RULE_ARN"].rsplit("/", 1)[-1] in [
        rule["Name"] for rule in events.list_rules()["Rules"]
    ]


def runs(world: World, function: Function, message: str) -> int:
    """Return how often a function has run to its end, which it says."""
    return world.log(function).count(f'"message":"{message}"')


def test_a_schedule_that_is_off_runs_nothing_until_an_operator_switches_it_on(
    world: World,
) -> None:
    """What a dead-man's switch rests on: nothing runs, so nothing is counted, and that is the alarm."""
    events = world.aws.client("events")
    (rule,) = (
        rule["Name"]
        for rule in events.list_rules()["Rules"]
        if "SchedulesCollect" in rule["Name"]
    )
    world.aws.clock.advance(timedelta(minutes=6))
    events.disable_rule(Name=rule)
    world.aws.clock.settle()  # it may have fired before that
    before = runs(world, Function.COLLECT, "collected")
    assert before > 0
    world.aws.clock.advance(timedelta(minutes=20))
    assert runs(world, Function.COLLECT, "collected") == before
    Person(world, managed=("Operator",)).client("events").enable_rule(Name=rule)
    world.aws.clock.advance(timedelta(minutes=6))
    assert runs(world, Function.COLLECT, "collected") > before


def test_neighbours_that_take_all_concurrency_stop_the_planner_and_no_sweep(
    world: World,
) -> None:
    world.aws.limit_concurrency(
        sum(settings.reserved_concurrency or 0 for settings in FUNCTIONS.values())
    )
    try:
        world.aws.clock.settle()  # what has begun before goes on
        swept, planned = (
            runs(world, Function.COLLECT, "collected"),
            runs(world, Function.PROVISION, "planned"),
        )
        world.aws.clock.advance(timedelta(minutes=6))
        assert runs(world, Function.COLLECT, "collected") > swept
        assert runs(world, Function.PROVISION, "planned") == planned
    finally:
        world.aws.limit_concurrency(ACCOUNT_LIMIT)
    world.aws.clock.advance(timedelta(minutes=2))
    assert runs(world, Function.PROVISION, "planned") > planned, "what waited is worked off"


def test_an_instance_whose_key_the_deployment_does_not_know_ends_and_the_class_was_warned_of(
    world: World, tmp_path: Path
) -> None:
    key = world.aws.client("kms").create_key()["KeyMetadata"]["Arn"]
    volume = {
        "deviceName": "/dev/xvda",
        "ebs": {"volumeSize": "20Gi", "encrypted": True, "kmsKeyID": key},
    }
    manifests = one_type_pool(
        "sealed", "m5.large", ["on-demand"], blockDeviceMappings=[volume]
    )
    applied = world.command("apply", "-f", str(write_manifests(tmp_path, manifests)))
    assert applied.returncode == 0, applied.stderr
    assert f"{key} is no key of the deployment (kmsKeys)" in " ".join(
        (applied.stdout + applied.stderr).split()
    )
    world.discover()
    world.send({"action": "submit", "workload": story_workload("sealed", 1, "1")})

    def ended(_: object) -> bool:
        reservations = world.aws.client("ec2").describe_instances(
            Filters=[{"Name": "instance-state-name", "Values": ["terminated"]}]
        )["Reservations"]
        reasons = [
            i.get("StateReason", {}).get("Code")
            for r in reservations
            for i in r["Instances"]
        ]
        return "Client.InternalError" in reasons

    world.until("the instance ends before it runs", ended)
    world.send(
        {
            "action": "withdraw",
            "workload": {
                "metadata": {"namespace": "story", "name": "sealed", "generation": 2}
            },
        }
    )


LIFT = ("envelope", "lift", "orphans", "--count", "1", "--reason", "OPS-123", "--yes")


@pytest.fixture
def tables(world: World) -> dict[Table, str]:
    return {table: world.output(table.value) for table in Table}


def test_a_sender_sends_demand_and_nothing_else(
    world: World, tables: dict[Table, str]
) -> None:
    sender = Person(world, managed=("Sender",))
    body = json.dumps(
        {"action": "submit", "workload": story_workload("from-a-sender", 1, "1")}
    )
    sqs = sender.client("sqs")
    sqs.send_message(QueueUrl=world.output(Queue.DEMAND.value), MessageBody=body)
    refused: list[Callable[[], Any]] = [
        lambda: sqs.send_message(
            QueueUrl=world.output(Queue.LAUNCHES.value), MessageBody="{}"
        ),
        lambda: sqs.send_message(
            QueueUrl=world.output(Queue.PLANNING.value),
            MessageBody="{}",
            MessageGroupId="plan",
        ),
        lambda: sqs.send_message(
            QueueUrl=world.output(DEMAND_DEAD_LETTER_QUEUE), MessageBody="{}"
        ),
        lambda: sqs.receive_message(QueueUrl=world.output(Queue.DEMAND.value)),
        lambda: sqs.purge_queue(QueueUrl=world.output(Queue.DEMAND.value)),
        lambda: sender.client("dynamodb").get_item(
            TableName=tables[Table.WORKLOADS], Key={"id": {"S": "a"}}
        ),
        lambda: sender.client("cloudformation").describe_stacks(
            StackName=world.reservoir.outputs["ReservoirDeployment"]
        ),
        lambda: sender.client("lambda").invoke(FunctionName="Reservoir-collect"),
    ]
    all_refused(refused)
    assert "AccessDenied" in sender.command(*LIFT).stderr


def test_a_viewer_reads_but_no_user_data_and_changes_nothing(
    world: World, tables: dict[Table, str], tmp_path: Path
) -> None:
    viewer = Person(world, managed=("Viewer",))
    explained = viewer.command("explain", "workload", "story/nobody-sent-this")
    assert "is not known" in explained.stderr
    assert "orphans: open" in viewer.command("envelope", "show").stdout
    examined = json.loads(viewer.command("doctor", "-o", "json").stdout)["items"]
    skipped = {
        item["metadata"]["name"]
        for item in examined
        if item["status"]["severity"] == "skipped"
    }
    # Classes hold user data; letters and the account's roles are not a viewer's to look at.
    assert skipped == {
        *("dead-letters", "policy", "pools", "reservations", "spot-role"),
        *("permissions", "queues", "quotas", "starts", "trail"),
    }  # and, on AWS, concurrency: the emulator lets everybody read an account's settings
    on_sale = json.loads(
        viewer.command("get", "blocks", "2 p5en.48xlarge for 7d", "-o", "json").stdout
    )["items"]
    assert {(item["spec"]["zone"], item["spec"]["count"]) for item in on_sale} == {
        ("us-east-1a", 2),
        ("us-east-1c", 2),
    }
    dynamodb, key = viewer.client("dynamodb"), {"id": {"S": "a"}}
    for table in set(Table) - {Table.POLICY}:
        dynamodb.get_item(
            TableName=tables[table],
            Key={name: {"S": "a"} for name in key_attributes(table)},
        )
    viewer.client("cloudwatch").describe_alarms()
    viewer.client("events").describe_event_bus(Name=world.output("EVENT_BUS_NAME"))
    calls: list[Callable[[], Any]] = [
        lambda: dynamodb.get_item(TableName=tables[Table.POLICY], Key=key),
        lambda: dynamodb.put_item(TableName=tables[Table.WORKLOADS], Item=key),
        lambda: dynamodb.delete_item(TableName=tables[Table.NODE_CLAIMS], Key=key),
        lambda: dynamodb.scan(TableName=tables[Table.WORKLOADS]),
        lambda: viewer.client("sqs").send_message(
            QueueUrl=world.output(Queue.DEMAND.value), MessageBody="{}"
        ),
    ]
    all_refused(calls)
    manifests = write_manifests(tmp_path, one_type_pool("seen", "m5.large", ["on-demand"]))
    for refused in (("apply", "-f", str(manifests)), LIFT):
        done = viewer.command(*refused)
        assert done.returncode != 0
        assert "AccessDenied" in done.stderr


def test_an_operator_changes_policy_and_works_off_letters_and_ends_nothing(
    world: World, tables: dict[Table, str], tmp_path: Path
) -> None:
    operator = Person(world, managed=("Viewer", "Operator"))
    manifests = write_manifests(
        tmp_path, one_type_pool("operated", "m5.large", ["on-demand"])
    )
    applied = operator.command("apply", "-f", str(manifests))
    assert applied.returncode == 0, applied.stderr
    assert "operated" in operator.command("get", "nodepool").stdout
    examined = json.loads(operator.command("doctor", "-o", "json").stdout)["items"]
    severities = {item["metadata"]["name"]: item["status"]["severity"] for item in examined}
    assert "skipped" not in severities.values()  # an operator may look at everything ...
    # ... and these are all right
    assert severities.keys() & {"permissions", "quotas", "queues", "versions"} == set()
    assert operator.command("delete", "-f", str(manifests)).returncode == 0
    world.until("both are told", lambda _: len(_changes(world, "operated")) == 2)
    assert [it["by"] for it in _changes(world, "operated")] == [operator.arn] * 2
    sqs = operator.client("sqs")
    sqs.receive_message(QueueUrl=world.output(DEMAND_DEAD_LETTER_QUEUE))
    body = json.dumps(
        {
            "action": "withdraw",
            "workload": {"metadata": {"namespace": "story", "name": "given-up"}},
        }
    )
    # again, by hand
    sqs.send_message(QueueUrl=world.output(Queue.DEMAND.value), MessageBody=body)
    rules = world.aws.client("events").list_rules()["Rules"]
    operator.client("events").enable_rule(
        Name=next(rule["Name"] for rule in rules if "Collect" in rule["Name"])
    )
    calls: list[Callable[[], Any]] = [
        lambda: operator.client("dynamodb").put_item(
            TableName=tables[Table.NODE_CLAIMS], Item={"id": {"S": "a"}}
        ),
        lambda: operator.client("dynamodb").delete_table(TableName=tables[Table.POLICY]),
        lambda: operator.client("ec2").terminate_instances(
            InstanceIds=["i-0123456789abcdef0"]
        ),
        lambda: operator.client("dynamodb").put_item(
            TableName=tables[Table.POLICY], Item={"id": {"S": "NodePool/operated"}}
        ),
        lambda: operator.client("lambda").invoke(FunctionName="Reservoir-collect"),
        lambda: operator.client("lambda").invoke(FunctionName="Reservoir-apply"),
        lambda: operator.client("events").disable_rule(Name=rules[0]["Name"]),
        lambda: sqs.receive_message(QueueUrl=world.output(Queue.DEMAND.value)),
        lambda: sqs.send_message(
            QueueUrl=world.output(Queue.REACTIONS.value), MessageBody="{}"
        ),
    ]
    all_refused(calls)


def _changes(world: World, pool: str) -> list[dict[str, Any]]:
    """Return what was told of changes of a pool."""
    return [
        event
        for event in world.events("Policy Changed")
        if pool in {it["name"] for it in event["changes"]}
    ]


def test_a_change_of_policy_says_what_was_so_before_and_who_changed_it(
    world: World, tmp_path: Path
) -> None:
    operator = Person(world, managed=("Viewer", "Operator"))
    node_class, pool = one_type_pool("told", "m5.large", ["on-demand"])
    node_class["spec"]["userData"] = "TOKEN=s3cret"
    for limit in ("10", "20"):
        pool["spec"]["limits"] = {"cpu": limit}
        applied = operator.command(
            "apply", "-f", str(write_manifests(tmp_path, [node_class, pool]))
        )
        assert applied.returncode == 0, applied.stderr
    world.until("both are told", lambda _: len(_changes(world, "told")) == 2)
    (last,) = [
        event
        for event in _changes(world, "told")
        if event["changes"][0]["change"] == "updated"
    ]
    assert last["by"] == operator.arn
    assert [it["fields"] for it in last["changes"]] == [
        [{"path": "spec.limits.cpu", "before": '"10"', "after": '"20"'}]
    ]
    assert "s3cret" not in json.dumps(_changes(world, "told"))
    assert operator.command("delete", "nodepool/told", "ec2nodeclass/told").returncode == 0


def test_nobody_changes_policy_in_the_name_of_another(
    world: World, tables: dict[Table, str]
) -> None:
    """A proof is of one request: with another's, nothing is written."""
    operator = Person(world, managed=("Viewer", "Operator"))
    signed_by_another = PolicyRequest(manifests=[])
    team = team_manifest("forged", namespaces=["forged"], principals=[])
    deployment = world.output(DEPLOYMENT)
    proof = signed(world.aws.client("sts"), signed_by_another.digest(deployment))
    event = {"request": PolicyRequest(manifests=[team]).document(), "proof": proof}
    answer = operator.client("lambda").invoke(
        FunctionName=function_name(deployment, Function.CHANGE_POLICY),
        Payload=json.dumps(event),
    )
    problems = json.loads(answer["Payload"].read())["problems"]
    assert [it["rule"] for it in problems] == ["identity"]
    found = world.aws.client("dynamodb").get_item(
        TableName=tables[Table.POLICY], Key={"id": {"S": "Team/forged"}}
    )
    assert "Item" not in found


def test_an_operator_lifts_the_envelope_and_writes_no_row_of_the_nodes(
    world: World, tables: dict[Table, str]
) -> None:
    operator = Person(world, managed=("Viewer", "Operator"))
    lifted = operator.command(*LIFT)
    assert lifted.returncode == 0, lifted.stderr
    assert f"by {operator.arn} for 1" in operator.command("envelope", "show").stdout
    dynamodb, nodes = operator.client("dynamodb"), tables[Table.NODE_CLAIMS]
    tally, node, mark = (
        {"id": {"S": key}} for key in ("#endings orphans", "nc-1", "#mark")
    )
    calls: list[Callable[[], Any]] = [
        lambda: dynamodb.put_item(TableName=nodes, Item=tally),
        lambda: dynamodb.put_item(TableName=nodes, Item=node),
        lambda: dynamodb.put_item(TableName=nodes, Item=mark),
        lambda: dynamodb.transact_write_items(
            TransactItems=[
                {"Put": {"TableName": nodes, "Item": row}} for row in (tally, node)
            ]
        ),
        lambda: dynamodb.update_item(TableName=nodes, Key=tally),
        lambda: dynamodb.delete_item(TableName=nodes, Key=tally),
        lambda: dynamodb.put_item(TableName=tables[Table.WORKLOADS], Item=tally),
    ]
    all_refused(calls)
    adopted = operator.command("tables", "adopt", "--reason", "OPS-123", "--yes")
    assert "AccessDenied" in adopted.stderr


def test_an_operator_forges_no_fact_about_others(world: World) -> None:
    operator = Person(world, managed=("Viewer", "Operator"))
    bus = world.output("EVENT_BUS_NAME")
    for detail_type in (
        *("Operation Requested", "Envelope Lifted", "Node Terminated"),
        "Policy Changed",
    ):
        entry = {
            "EventBusName": bus,
            "Source": "reservoir",
            "DetailType": detail_type,
            "Detail": json.dumps({"by": "somebody-else"}),
        }
        with pytest.raises(ClientError) as refused:
            operator.client("events").put_events(Entries=[entry])
        assert "events:PutEvents" in refusal(refused.value)


def test_a_teams_operator_changes_no_policy(
    world: World, tables: dict[Table, str], tmp_path: Path
) -> None:
    guest = Person(world, managed=("Viewer", "TeamOperator"))
    team = team_manifest("guests", namespaces=["guests"], principals=[guest.arn])
    world.apply(write_manifests(tmp_path, [team]))
    greedy = {**team, "spec": {**team["spec"], "limits": {"replicas": 1_000_000}}}
    raised = guest.command("apply", "-f", str(write_manifests(tmp_path, [greedy])))
    assert (raised.returncode != 0, "AccessDenied" in raised.stderr) == (True, True)
    removed = guest.command("delete", "team", "guests", "--yes")
    assert (removed.returncode != 0, "AccessDenied" in removed.stderr) == (True, True)
    lifted = guest.command(*LIFT)
    assert (lifted.returncode, "Team guests" in lifted.stdout + lifted.stderr) == (2, True)
    dynamodb, sqs = guest.client("dynamodb"), guest.client("sqs")
    all_refused(
        [
            lambda: dynamodb.put_item(
                TableName=tables[Table.POLICY], Item={"id": {"S": "Team/guests"}}
            ),
            lambda: dynamodb.delete_item(
                TableName=tables[Table.POLICY], Key={"id": {"S": "Team/guests"}}
            ),
            lambda: sqs.send_message(
                QueueUrl=world.output(Queue.DEMAND.value), MessageBody="{}"
            ),
            lambda: sqs.purge_queue(QueueUrl=world.output(DEMAND_DEAD_LETTER_QUEUE)),
            lambda: guest.client("events").put_events(
                Entries=[{"Source": "reservoir", "DetailType": "Policy Changed"}]
            ),
        ]
    )


def test_the_collector_marks_the_policy_table_and_writes_no_policy(
    world: World, tables: dict[Table, str]
) -> None:
    collector = Person(world, statements=policy_statements(world, Function.COLLECT))
    dynamodb, policy = collector.client("dynamodb"), tables[Table.POLICY]
    calls: list[Callable[[], Any]] = [
        lambda: dynamodb.put_item(
            TableName=policy, Item={"id": {"S": "NodePool/operated"}}
        ),
        lambda: dynamodb.delete_item(TableName=policy, Key={"id": {"S": "#mark"}}),
    ]
    all_refused(calls)
    # it may, and the mark is there
    with pytest.raises(dynamodb.exceptions.ConditionalCheckFailedException):
        dynamodb.put_item(
            TableName=policy,
            Item={"id": {"S": "#mark"}},
            ConditionExpression="attribute_not_exists(id)",
        )
