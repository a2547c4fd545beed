"""A synthesised template deploys as it is, with every kind of resource that a stack here may need."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from lab.embedded.client import EmbeddedAws
from lab.embedded.deploy import DeploymentError, ForeignLayerError, deploy
from tests.embedded.conftest import Resources, unique, until, zipped

pytestmark = pytest.mark.embedded

BUCKET = "cdk-hnb659fds-assets-123456789012-us-east-1"
EVERY_KIND = Path(__file__).with_name("every_kind.template.json")
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

    def asset(self, name: str, content: bytes) -> str:
        """Add a file; return its key in BUCKET."""
        (self.folder / name).write_bytes(content)
        return self._register(name, "zip")

    def stack(
        self,
        name: str,
        template: Any,
        after: str | None = None,
        parameters: dict[str, str] | None = None,
    ) -> None:
        file = f"{name}.template.json"
        (self.folder / file).write_text(json.dumps(template))
        self._register(file, "json")
        (self.folder / f"{name}.assets.json").write_text(
            json.dumps({"version": "48.0.0", "files": self._files})
        )
        self._artifacts[f"{name}.assets"] = {
            "type": "cdk:asset-manifest",
            "properties": {"file": f"{name}.assets.json"},
        }
        self._artifacts[name] = {
            "type": "aws:cloudformation:stack",
            "properties": {"templateFile": file, "parameters": parameters or {}},
            "dependencies": [f"{name}.assets", *([after] if after else [])],
        }
        (self.folder / "manifest.json").write_text(
            json.dumps({"artifacts": self._artifacts})
        )

    def _register(self, path: str, kind: str) -> str:
        key = f"{hashlib.sha256((self.folder / path).read_bytes()).hexdigest()}.{kind}"
        bucket = "cdk-hnb659fds-assets-${AWS::AccountId}-${AWS::Region}"
        self._files[path] = {
            "source": {"path": path, "packaging": "file"},
            "destinations": {"current": {"bucketName": bucket, "objectKey": key}},
        }
        return key


def _assembly(folder: Path, name: str, wish: str) -> Assembly:
    """Return an assembly of one stack that has every kind of resource, with properties as the CDK writes them."""
    assembly = Assembly(folder)
    parameters = {
        "AssetsBucket": BUCKET,
        "CodeKey": assembly.asset("function", zipped(RESPOND)),
        "LayerKey": assembly.asset(
            "layer", zipped("VALUE = 'layered'", "python/helper.py")
        ),
        "Wish": wish,
    }
    assembly.stack(name, json.loads(EVERY_KIND.read_text()), parameters=parameters)
    return assembly


def test_a_stack_of_every_kind_deploys_works_and_is_updated(
    resources: Resources, tmp_path: Path
) -> None:
    aws, name, lines = resources.aws, unique("Stack"), list[str]()
    outputs = deploy(
        _assembly(tmp_path / "first", name, "please").folder, aws.client, lines.append
    )[name]
    assert outputs["Echo"] == "Create please layered"
    assert lines[-1] == f"{name}: CREATE_COMPLETE"
    ec2 = aws.client("ec2")
    (template,) = ec2.describe_launch_templates(LaunchTemplateIds=[outputs["TemplateId"]])[
        "LaunchTemplates"
    ]
    assert template["Tags"] == [{"Key": "from", "Value": "stack"}]
    table = aws.client("dynamodb").describe_table(TableName=outputs["TableName"])["Table"]
    assert [index["IndexName"] for index in table["GlobalSecondaryIndexes"]] == ["listing"]

    entry = {
        "EventBusName": outputs["BusName"],
        "Source": "test",
        "DetailType": "x",
        "Detail": "{}",
    }
    resources.events.put_events(Entries=[entry])
    numbers = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]

    def waiting() -> set[str]:
        found = resources.sqs.get_queue_attributes(
            QueueUrl=outputs["QueueUrl"], AttributeNames=numbers
        )
        return set(found["Attributes"].values())

    until(lambda: waiting() == {"0"})  # the rule put it in, the function took it out

    again = deploy(
        _assembly(tmp_path / "same", name, "please").folder, aws.client, lines.append
    )[name]
    assert again == outputs
    assert lines[-1] == f"{name}: no changes"
    changed = deploy(
        _assembly(tmp_path / "second", name, "again").folder, aws.client, lines.append
    )[name]
    assert changed["Echo"] == "Update again layered"
    assert changed["QueueUrl"] == outputs["QueueUrl"]


def test_a_resource_that_fails_is_named_with_its_reason(
    embedded_aws: EmbeddedAws, tmp_path: Path
) -> None:
    name = unique("Stack")
    with pytest.raises(
        DeploymentError,
        match=r"(?s)ROLLBACK_COMPLETE.*Custom \(Custom::Applied\): .*as wished",
    ):
        deploy(
            _assembly(tmp_path / "out", name, "fail").folder,
            embedded_aws.client,
            lambda _: None,
        )


def indexed_table(*indexes: str) -> dict[str, Any]:
    """Return a template with a table that has these indexes."""

    def by(name: str) -> list[dict[str, str]]:
        return [{"AttributeName": name, "KeyType": "HASH"}]

    properties = {
        "KeySchema": by("id"),
        "AttributeDefinitions": [
            {"AttributeName": name, "AttributeType": "S"} for name in ("id", *indexes)
        ],
        "BillingMode": "PAY_PER_REQUEST",
        "GlobalSecondaryIndexes": [
            {
                "IndexName": name,
                "KeySchema": by(name),
                "Projection": {"ProjectionType": "ALL"},
            }
            for name in indexes
        ],
    }
    return {
        "Resources": {"Table": {"Type": "AWS::DynamoDB::Table", "Properties": properties}}
    }


def test_an_update_makes_or_deletes_one_index_of_a_table(
    embedded_aws: EmbeddedAws, tmp_path: Path
) -> None:
    name = unique("Stack")

    def update(*indexes: str) -> None:
        assembly = Assembly(tmp_path / unique("out"))
        assembly.stack(name, indexed_table(*indexes))
        deploy(assembly.folder, embedded_aws.client, lambda _: None)

    update("a")
    for refused in (("b",), ("a", "b", "c")):
        with pytest.raises(
            DeploymentError,
            match="more than one GSI creation or deletion in a single update",
        ):
            update(*refused)
    update("a", "b")
    update("b")


def test_two_stacks_deploy_in_their_order(
    embedded_aws: EmbeddedAws, tmp_path: Path
) -> None:
    first, second = unique("Stack"), unique("Stack")
    assembly = Assembly(tmp_path / "out")
    queue = {"Type": "AWS::SQS::Queue"}
    shared = {
        "Value": {"Fn::GetAtt": ["Queue", "Arn"]},
        "Export": {"Name": f"{first}-queue"},
    }
    user = {"Arn": {"Value": {"Fn::ImportValue": f"{first}-queue"}}}
    assembly.stack(second, {"Resources": {"Queue": queue}, "Outputs": user}, after=first)
    assembly.stack(first, {"Resources": {"Queue": queue}, "Outputs": {"Arn": shared}})
    outputs = deploy(assembly.folder, embedded_aws.client, lambda _: None)
    assert list(outputs) == [first, second]
    assert outputs[first]["Arn"] == outputs[second]["Arn"]


def layer(**properties: list[str]) -> dict[str, Any]:
    content = {"S3Bucket": "any", "S3Key": "any"}
    return {
        "Resources": {
            "Packages": {
                "Type": "AWS::Lambda::LayerVersion",
                "Properties": {"Content": content, **properties},
            }
        }
    }


@pytest.mark.parametrize(
    ("properties", "foreign"),
    [
        ({"CompatibleRuntimes": ["python2.7"]}, "python2.7"),
        ({"CompatibleArchitectures": ["sparc"]}, "sparc"),
    ],
)
def test_a_layer_for_another_machine_is_refused_before_anything_changes(
    embedded_aws: EmbeddedAws,
    tmp_path: Path,
    properties: dict[str, list[str]],
    foreign: str,
) -> None:
    assembly = Assembly(tmp_path / "out")
    name = unique("foreign")
    assembly.stack(name, layer(**properties))
    embedded_aws.clear_requests()
    with pytest.raises(
        ForeignLayerError, match=rf"layer Packages is for {foreign}.*make play"
    ):
        deploy(assembly.folder, embedded_aws.client, print)
    assert embedded_aws.requests() == []


def test_a_layer_that_names_no_machine_is_for_every_machine(
    embedded_aws: EmbeddedAws, tmp_path: Path
) -> None:
    assembly = Assembly(tmp_path / "out")
    key = assembly.asset("packages.zip", zipped("", "python/some.py"))
    name = unique("plain")
    template = layer()
    template["Resources"]["Packages"]["Properties"]["Content"] = {
        "S3Bucket": BUCKET,
        "S3Key": key,
    }
    assembly.stack(name, template)
    assert deploy(assembly.folder, embedded_aws.client, print) == {name: {}}
