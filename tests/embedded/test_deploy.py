"""A synthesised template deploys as it is, with every kind of resource that a stack here may need."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from embedded.client import EmbeddedAws
from embedded.deploy import DeploymentError, deploy
from tests.embedded.conftest import Resources, unique, until, zipped

pytestmark = pytest.mark.embedded

RESPOND = """
    import json, urllib.request
    from helper import VALUE
    def handle(event, context):
        if "ResponseURL" not in event:
            return {"batchItemFailures": []}
        answer = {
            "Status": "FAILED" if event["ResourceProperties"]["Wish"] == "fail" else "SUCCESS",
            "Reason": "as wished", "PhysicalResourceId": "custom",
            "Data": {"Echo": event["RequestType"] + " " + event["ResourceProperties"]["Wish"] + " " + VALUE},
            **{name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")},
        }
        request = urllib.request.Request(event["ResponseURL"], json.dumps(answer).encode(), method="PUT")
        urllib.request.urlopen(request).read()
"""


class Assembly:
    """A cloud assembly in the CDK's format, with stacks that are written here."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._files: dict[str, dict[str, Any]] = {}
        self._artifacts: dict[str, dict[str, Any]] = {}

    def asset(self, name: str, content: bytes) -> dict[str, str]:
        (self.folder / name).write_bytes(content)
        return self._register(name, "zip")

    def stack(self, name: str, resources: dict[str, Any], after: str | None = None, **sections: Any) -> None:
        template = f"{name}.template.json"
        (self.folder / template).write_text(json.dumps({"Resources": resources, **sections}))
        self._register(template, "json")
        (self.folder / f"{name}.assets.json").write_text(json.dumps({"version": "48.0.0", "files": self._files}))
        dependencies = [f"{name}.assets", *([after] if after else [])]
        self._artifacts[f"{name}.assets"] = {
            "type": "cdk:asset-manifest",
            "properties": {"file": f"{name}.assets.json"},
        }
        self._artifacts[name] = {
            "type": "aws:cloudformation:stack",
            "properties": {"templateFile": template},
            "dependencies": dependencies,
        }
        (self.folder / "manifest.json").write_text(json.dumps({"artifacts": self._artifacts}))

    def _register(self, path: str, kind: str) -> dict[str, str]:
        key = f"{hashlib.sha256((self.folder / path).read_bytes()).hexdigest()}.{kind}"
        bucket = "cdk-hnb659fds-assets-${AWS::AccountId}-${AWS::Region}"
        destination = {"bucketName": bucket, "objectKey": key}
        self._files[path] = {
            "source": {"path": path, "packaging": "file"},
            "destinations": {"current": destination},
        }
        return {"S3Bucket": "cdk-hnb659fds-assets-123456789012-us-east-1", "S3Key": key}


def _everything(function_code: dict[str, str], layer: dict[str, str], wish: str) -> dict[str, Any]:
    """Return one resource of each kind; properties are those that the CDK writes."""

    def get(logical_id: str, attribute: str = "Arn") -> dict[str, Any]:
        return {"Fn::GetAtt": [logical_id, attribute]}

    role = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    consume = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"]
    from_events = {
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": get("Queue"),
        "Condition": {"ArnEquals": {"aws:SourceArn": get("Rule")}},
    }
    types: dict[str, tuple[str, dict[str, Any]]] = {
        "Table": (
            "AWS::DynamoDB::Table",
            {
                "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("id", "listing")],
                "BillingMode": "PAY_PER_REQUEST",
                "GlobalSecondaryIndexes": [
                    {
                        "IndexName": "listing",
                        "KeySchema": [
                            {"AttributeName": "listing", "KeyType": "HASH"},
                            {"AttributeName": "id", "KeyType": "RANGE"},
                        ],
                        "Projection": {"ProjectionType": "ALL"},
                    }
                ],
                "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
                "SSESpecification": {"SSEEnabled": True},
                "TimeToLiveSpecification": {"AttributeName": "expires_at_s", "Enabled": True},
            },
        ),
        "Dead": ("AWS::SQS::Queue", {"SqsManagedSseEnabled": True}),
        "Queue": (
            "AWS::SQS::Queue",
            {"VisibilityTimeout": 60, "RedrivePolicy": {"deadLetterTargetArn": get("Dead"), "maxReceiveCount": 3}},
        ),
        "QueuePolicy": (
            "AWS::SQS::QueuePolicy",
            {
                "Queues": [{"Ref": "Queue"}],
                "PolicyDocument": {"Version": "2012-10-17", "Statement": [from_events]},
            },
        ),
        "Role": (
            "AWS::IAM::Role",
            {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [role]}},
        ),
        "Policy": (
            "AWS::IAM::Policy",
            {
                "PolicyName": "consume",
                "Roles": [{"Ref": "Role"}],
                "PolicyDocument": {
                    "Version": "2012-10-17",
                    "Statement": [{"Effect": "Allow", "Action": consume, "Resource": get("Queue")}],
                },
            },
        ),
        "Layer": ("AWS::Lambda::LayerVersion", {"Content": layer, "CompatibleRuntimes": ["python3.13"]}),
        "LogGroup": ("AWS::Logs::LogGroup", {"RetentionInDays": 30}),
        "Function": (
            "AWS::Lambda::Function",
            {
                "Code": function_code,
                "Runtime": "python3.13",
                "Handler": "handler.handle",
                "Role": get("Role"),
                "Timeout": 20,
                "Architectures": ["x86_64"],
                "Layers": [{"Ref": "Layer"}],
                "LoggingConfig": {"LogGroup": {"Ref": "LogGroup"}},
                "Environment": {"Variables": {"TABLE": {"Ref": "Table"}}},
            },
        ),
        "Mapping": (
            "AWS::Lambda::EventSourceMapping",
            {
                "EventSourceArn": get("Queue"),
                "FunctionName": {"Ref": "Function"},
                "BatchSize": 100,
                "MaximumBatchingWindowInSeconds": 1,
                "FunctionResponseTypes": ["ReportBatchItemFailures"],
                "ScalingConfig": {"MaximumConcurrency": 2},
            },
        ),
        "Bus": ("AWS::Events::EventBus", {"Name": {"Fn::Sub": "${AWS::StackName}-bus"}}),
        "Rule": (
            "AWS::Events::Rule",
            {
                "EventBusName": {"Ref": "Bus"},
                "EventPattern": {"source": ["test"]},
                "State": "ENABLED",
                "Targets": [{"Id": "queue", "Arn": get("Queue")}, {"Id": "function", "Arn": get("Function")}],
            },
        ),
        "Permission": (
            "AWS::Lambda::Permission",
            {
                "Action": "lambda:InvokeFunction",
                "FunctionName": get("Function"),
                "Principal": "events.amazonaws.com",
                "SourceArn": get("Rule"),
            },
        ),
        "Retries": (
            "AWS::Lambda::EventInvokeConfig",
            {"FunctionName": {"Ref": "Function"}, "Qualifier": "$LATEST", "MaximumRetryAttempts": 1},
        ),
        "Group": ("AWS::Scheduler::ScheduleGroup", {"Name": {"Fn::Sub": "${AWS::StackName}-group"}}),
        "Schedule": (
            "AWS::Scheduler::Schedule",
            {
                "GroupName": {"Ref": "Group"},
                "ScheduleExpression": "rate(365 days)",
                "FlexibleTimeWindow": {"Mode": "OFF"},
                "Target": {"Arn": get("Queue"), "RoleArn": get("Role")},
            },
        ),
        "Bucket": (
            "AWS::S3::Bucket",
            {"LifecycleConfiguration": {"Rules": [{"ExpirationInDays": 30, "Status": "Enabled"}]}},
        ),
        "Template": (
            "AWS::EC2::LaunchTemplate",
            {
                "LaunchTemplateData": {"InstanceType": "m5.large", "EbsOptimized": True},
                "TagSpecifications": [{"ResourceType": "launch-template", "Tags": [{"Key": "from", "Value": "stack"}]}],
            },
        ),
        "Alarm": (
            "AWS::CloudWatch::Alarm",
            {
                "ComparisonOperator": "GreaterThanThreshold",
                "EvaluationPeriods": 1,
                "Threshold": 1,
                "Metrics": [{"Id": "sum", "Expression": "SUM(METRICS())"}],
            },
        ),
        "Dashboard": ("AWS::CloudWatch::Dashboard", {"DashboardBody": '{"widgets": []}'}),
        "Custom": ("Custom::Applied", {"ServiceToken": get("Function"), "Wish": wish}),
    }
    return {name: {"Type": kind, "Properties": properties} for name, (kind, properties) in types.items()}


def _assembly(folder: Path, name: str, wish: str) -> Assembly:
    assembly = Assembly(folder)
    code = assembly.asset("function", zipped(RESPOND))
    layer = assembly.asset("layer", zipped("VALUE = 'layered'", "python/helper.py"))
    outputs = {
        key: {"Value": value}
        for key, value in {
            "Echo": {"Fn::GetAtt": ["Custom", "Echo"]},
            "BusName": {"Ref": "Bus"},
            "QueueUrl": {"Ref": "Queue"},
            "TemplateId": {"Ref": "Template"},
            "FunctionName": {"Ref": "Function"},
            "TableName": {"Ref": "Table"},
        }.items()
    }
    assembly.stack(name, _everything(code, layer, wish), Outputs=outputs)
    return assembly


def test_a_stack_of_every_kind_deploys_works_and_is_updated(resources: Resources, tmp_path: Path) -> None:
    aws, name, lines = resources.aws, unique("Stack"), list[str]()
    outputs = deploy(_assembly(tmp_path / "first", name, "please").folder, aws.client, lines.append)[name]
    assert outputs["Echo"] == "Create please layered"
    assert lines[-1] == f"{name}: CREATE_COMPLETE"
    ec2 = aws.client("ec2")
    (template,) = ec2.describe_launch_templates(LaunchTemplateIds=[outputs["TemplateId"]])["LaunchTemplates"]
    assert template["Tags"] == [{"Key": "from", "Value": "stack"}]
    table = aws.client("dynamodb").describe_table(TableName=outputs["TableName"])["Table"]
    assert [index["IndexName"] for index in table["GlobalSecondaryIndexes"]] == ["listing"]

    entry = {"EventBusName": outputs["BusName"], "Source": "test", "DetailType": "x", "Detail": "{}"}
    resources.events.put_events(Entries=[entry])
    numbers = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]

    def waiting() -> set[str]:
        found = resources.sqs.get_queue_attributes(QueueUrl=outputs["QueueUrl"], AttributeNames=numbers)
        return set(found["Attributes"].values())

    until(lambda: waiting() == {"0"})  # the rule put it in, the function took it out

    again = deploy(_assembly(tmp_path / "same", name, "please").folder, aws.client, lines.append)[name]
    assert again == outputs
    assert lines[-1] == f"{name}: no changes"
    changed = deploy(_assembly(tmp_path / "second", name, "again").folder, aws.client, lines.append)[name]
    assert changed["Echo"] == "Update again layered"
    assert changed["QueueUrl"] == outputs["QueueUrl"]


def test_a_resource_that_fails_is_named_with_its_reason(embedded_aws: EmbeddedAws, tmp_path: Path) -> None:
    name = unique("Stack")
    with pytest.raises(DeploymentError, match=r"(?s)ROLLBACK_COMPLETE.*Custom \(Custom::Applied\): .*as wished"):
        deploy(_assembly(tmp_path / "out", name, "fail").folder, embedded_aws.client, lambda _: None)


def test_two_stacks_deploy_in_their_order(embedded_aws: EmbeddedAws, tmp_path: Path) -> None:
    first, second = unique("Stack"), unique("Stack")
    assembly = Assembly(tmp_path / "out")
    queue = {"Type": "AWS::SQS::Queue"}
    shared = {"Value": {"Fn::GetAtt": ["Queue", "Arn"]}, "Export": {"Name": f"{first}-queue"}}
    user = {"Arn": {"Value": {"Fn::ImportValue": f"{first}-queue"}}}
    assembly.stack(second, {"Queue": queue}, after=first, Outputs=user)
    assembly.stack(first, {"Queue": queue}, Outputs={"Arn": shared})
    outputs = deploy(assembly.folder, embedded_aws.client, lambda _: None)
    assert list(outputs) == [first, second]
    assert outputs[first]["Arn"] == outputs[second]["Arn"]
