"""Policies are enforced as on AWS, EC2's with every resource and tag that EC2 asks about."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from embedded.client import EmbeddedAws
from embedded.ec2.protocol import Call
from embedded.ec2_permissions import Check, checks
from tests.embedded.conftest import Resources, allow, unique

OWNER = "reservoir:deployment"
REQUESTED = {"StringEquals": {f"aws:RequestTag/{OWNER}": "mine"}}
OWNED = {"StringEquals": {f"aws:ResourceTag/{OWNER}": "mine"}}
LAUNCHED = ("fleet", "instance", "volume", "network-interface", "launch-template")


def _arns(*kinds: str) -> list[str]:
    return [f"arn:aws:ec2:us-east-1:123456789012:{kind}/*" for kind in kinds]


LAUNCH_POLICY = [
    allow("ec2:CreateFleet", "ec2:RunInstances", "ec2:CreateLaunchTemplate", resource=_arns(*LAUNCHED), **REQUESTED),
    allow("ec2:CreateFleet", "ec2:RunInstances", resource=_arns("launch-template"), **OWNED),
    allow(
        "ec2:CreateFleet",
        "ec2:RunInstances",
        resource=[*_arns("subnet", "security-group", "capacity-reservation"), "arn:aws:ec2:us-east-1::image/*"],
    ),
    allow(
        "ec2:CreateTags",
        resource=_arns(*LAUNCHED),
        StringEquals={
            **REQUESTED["StringEquals"],
            "ec2:CreateAction": ["CreateFleet", "CreateLaunchTemplate", "RunInstances"],
        },
    ),
    allow("ec2:TerminateInstances", resource=_arns("instance"), **OWNED),
    allow("ec2:Describe*"),
]


class Launcher:
    """A user with LAUNCH_POLICY, what it needs to launch, and the account's root beside it."""

    def __init__(self, aws: EmbeddedAws) -> None:
        self.root = aws.client("ec2")
        iam = aws.client("iam")
        user = unique("user")
        iam.create_user(UserName=user)
        document = json.dumps({"Version": "2012-10-17", "Statement": LAUNCH_POLICY})
        iam.put_user_policy(UserName=user, PolicyName="launch", PolicyDocument=document)
        key = iam.create_access_key(UserName=user)["AccessKey"]
        credentials = {
            "aws_access_key_id": key["AccessKeyId"],
            "aws_secret_access_key": key["SecretAccessKey"],
        }
        self.ec2 = aws.client("ec2", **credentials)
        self.image = self.root.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]

    def template(self, maker: Any, owner: str | None, *, tag_volumes: bool = True, **data: Any) -> str:
        tags = [{"Key": OWNER, "Value": owner}] if owner else []
        kinds = ["instance", "network-interface", *(["volume"] if tag_volumes else [])]
        specifications = [{"ResourceType": kind, "Tags": [{"Key": OWNER, "Value": "mine"}]} for kind in kinds]
        made = maker.create_launch_template(
            LaunchTemplateName=unique("template"),
            LaunchTemplateData={
                "InstanceType": "m5.large",
                "ImageId": self.image,
                "TagSpecifications": specifications,
                **data,
            },
            **({"TagSpecifications": [{"ResourceType": "launch-template", "Tags": tags}]} if tags else {}),
        )
        return str(made["LaunchTemplate"]["LaunchTemplateId"])

    def fleet(self, template_id: str, owner: str | None = "mine") -> list[str]:
        tags = [{"ResourceType": "fleet", "Tags": [{"Key": OWNER, "Value": owner}]}] if owner else []
        answer = self.ec2.create_fleet(
            Type="instant",
            LaunchTemplateConfigs=[
                {"LaunchTemplateSpecification": {"LaunchTemplateId": template_id, "Version": "$Latest"}}
            ],
            TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
            **({"TagSpecifications": tags} if tags else {}),
        )
        assert not answer["Errors"]
        return [instance_id for instances in answer["Instances"] for instance_id in instances["InstanceIds"]]


@pytest.fixture(scope="module")
def launcher(embedded_aws: EmbeddedAws) -> Launcher:
    return Launcher(embedded_aws)


def _denied(error: ClientError) -> str:
    assert error.response["Error"]["Code"] == "UnauthorizedOperation"
    return error.response["Error"]["Message"].split("not authorized to perform: ")[1].split(" because")[0]


@pytest.mark.embedded
def test_a_launch_that_is_tagged_at_birth_is_allowed_and_only_own_instances_can_be_ended(launcher: Launcher) -> None:
    instances = launcher.fleet(launcher.template(launcher.ec2, "mine"))
    launcher.ec2.terminate_instances(InstanceIds=instances)
    strangers = launcher.root.run_instances(ImageId=launcher.image, InstanceType="m5.large", MinCount=1, MaxCount=1)
    stranger = strangers["Instances"][0]["InstanceId"]
    with pytest.raises(ClientError) as refused:
        launcher.ec2.terminate_instances(InstanceIds=[*instances, stranger])
    assert _denied(refused.value).startswith(
        f"ec2:TerminateInstances on resource: {_arns('instance')[0][:-1]}{stranger}"
    )


@pytest.mark.embedded
@pytest.mark.parametrize(
    ("owner", "template", "denied"),
    [
        (None, {}, "ec2:CreateFleet on resource: arn:aws:ec2:us-east-1:123456789012:fleet/*"),
        ("other", {}, "ec2:CreateFleet on resource: arn:aws:ec2:us-east-1:123456789012:fleet/*"),
        ("mine", {"tag_volumes": False}, "ec2:RunInstances on resource: arn:aws:ec2:us-east-1:123456789012:volume/*"),
        (
            "mine",
            {"owner": "other"},
            "ec2:RunInstances on resource: arn:aws:ec2:us-east-1:123456789012:launch-template/",
        ),
        ("mine", {"owner": None}, "ec2:RunInstances on resource: arn:aws:ec2:us-east-1:123456789012:launch-template/"),
    ],
)
def test_a_launch_without_the_owner_tag_somewhere_is_refused_there(
    launcher: Launcher, owner: str | None, template: dict[str, Any], denied: str
) -> None:
    template_id = launcher.template(launcher.root, **{"owner": "mine", **template})
    with pytest.raises(ClientError) as refused:
        launcher.fleet(template_id, owner)
    assert _denied(refused.value).startswith(denied)


@pytest.mark.embedded
def test_a_role_cannot_be_handed_to_instances_without_permission(launcher: Launcher, embedded_aws: EmbeddedAws) -> None:
    iam = embedded_aws.client("iam")
    role, profile = unique("role"), unique("profile")
    trust = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    iam.create_role(RoleName=role, AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]}))
    iam.create_instance_profile(InstanceProfileName=profile)
    iam.add_role_to_instance_profile(InstanceProfileName=profile, RoleName=role)
    template_id = launcher.template(launcher.root, "mine", IamInstanceProfile={"Name": profile})
    with pytest.raises(ClientError) as refused:
        launcher.fleet(template_id)
    assert _denied(refused.value) == f"iam:PassRole on resource: arn:aws:iam::123456789012:role/{role}"


@pytest.mark.embedded
def test_tags_cannot_be_added_later(launcher: Launcher) -> None:
    (instance_id,) = launcher.fleet(launcher.template(launcher.ec2, "mine"))
    with pytest.raises(ClientError) as refused:
        launcher.ec2.create_tags(Resources=[instance_id], Tags=[{"Key": OWNER, "Value": "mine"}])
    assert _denied(refused.value).startswith("ec2:CreateTags on resource: ")


@pytest.mark.embedded
def test_a_key_that_nobody_has_is_refused(embedded_aws: EmbeddedAws) -> None:
    stranger = {"aws_access_key_id": "AKIAIOSFODNN7EXAMPLE", "aws_secret_access_key": "nothing"}
    with pytest.raises(ClientError) as refused:
        embedded_aws.client("ec2", **stranger).describe_instances()
    assert refused.value.response["Error"]["Code"] == "AuthFailure"


@pytest.mark.embedded
def test_a_queue_that_denies_plain_http_takes_messages_over_tls(resources: Resources) -> None:
    deny = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:*",
        "Resource": "*",
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    url, _ = resources.queue(Policy={"Version": "2012-10-17", "Statement": [deny]})
    function = resources.function(
        "import boto3\ndef handle(event, context): boto3.client('sqs').send_message(QueueUrl=event, MessageBody='in')",
        allow("sqs:SendMessage"),
    )
    assert resources.invoke(function, url) == (None, False)
    assert resources.bodies(url, 1) == ["in"]


class _Account:
    """An account with one launch template and no tags."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    def tags_of(self, resource_id: str) -> dict[str, str]:
        return {"of": resource_id}

    def launch_template(self, specification: Any) -> tuple[str, dict[str, Any]] | None:
        return ("lt-1", self._data) if specification else None

    def role_arn(self, instance_profile: Any) -> str | None:
        return f"arn:aws:iam::1:role/{instance_profile['Name']}"


def test_a_fleet_needs_permissions_for_all_that_it_makes_and_refers_to() -> None:
    data = {
        "ImageId": "ami-1",
        "IamInstanceProfile": {"Name": "node"},
        "SecurityGroupIds": ["sg-1"],
        "CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationId": "cr-1"}},
        "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "a", "Value": "b"}]}],
    }
    parameters = {
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateId": "lt-1"},
                "Overrides": [{"SubnetId": "subnet-1"}, {"SubnetId": "subnet-2"}],
            }
        ],
        "TagSpecifications": [{"ResourceType": "fleet", "Tags": [{"Key": "c", "Value": "d"}]}],
    }
    found = {
        (check.action, check.kind, check.resource_id)
        for check in checks(Call("CreateFleet", parameters), _Account(data))
    }
    run = "ec2:RunInstances"
    assert found == {
        ("ec2:CreateFleet", "fleet", "*"),
        ("ec2:CreateFleet", "instance", "*"),
        ("ec2:CreateFleet", "launch-template", "lt-1"),
        ("ec2:CreateTags", "fleet", "*"),
        ("ec2:CreateTags", "instance", "*"),
        ("iam:PassRole", "role", "arn:aws:iam::1:role/node"),
        (run, "capacity-reservation", "cr-1"),
        (run, "image", "ami-1"),
        (run, "instance", "*"),
        (run, "launch-template", "lt-1"),
        (run, "network-interface", "*"),
        (run, "security-group", "sg-1"),
        (run, "subnet", "subnet-1"),
        (run, "subnet", "subnet-2"),
        (run, "volume", "*"),
    }


def test_calls_that_describe_know_no_resources() -> None:
    call = Call("DescribeInstances", {"InstanceIds": ["i-1"]})
    assert checks(call, _Account({})) == [Check("ec2:DescribeInstances", "*", "*")]


def test_calls_that_change_something_name_it_with_its_tags() -> None:
    call = Call("ModifyCapacityReservation", {"CapacityReservationId": "cr-1", "InstanceCount": 3})
    (check,) = checks(call, _Account({}))
    assert check.resource_arn("1", "us-east-1") == "arn:aws:ec2:us-east-1:1:capacity-reservation/cr-1"
    assert check.context()["aws:ResourceTag/of"] == "cr-1"


def test_calls_that_make_something_carry_its_tags() -> None:
    tags = [{"ResourceType": "capacity-reservation", "Tags": [{"Key": "a", "Value": "b"}]}]
    found = checks(Call("CreateCapacityReservation", {"TagSpecifications": tags}), _Account({}))
    assert [(check.action, check.kind, check.create_action) for check in found] == [
        ("ec2:CreateCapacityReservation", "capacity-reservation", None),
        ("ec2:CreateTags", "capacity-reservation", "CreateCapacityReservation"),
    ]
    assert all(check.context()["aws:RequestTag/a"] == "b" for check in found)
