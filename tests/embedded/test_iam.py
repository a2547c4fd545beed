"""Policies are enforced as on AWS, EC2's with every resource and tag that EC2 asks about."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.embedded.client import EmbeddedAws
from lab.embedded.ec2.api.protocol import Call
from lab.embedded.ec2_permissions import Check, checks
from tests.embedded.conftest import Resources, allow, unique, until

OWNER = "reservoir:deployment"
REQUESTED = {"StringEquals": {f"aws:RequestTag/{OWNER}": "mine"}}
OWNED = {"StringEquals": {f"aws:ResourceTag/{OWNER}": "mine"}}
LAUNCHED = ("fleet", "instance", "volume", "network-interface", "launch-template")


def _arns(*kinds: str) -> list[str]:
    return [f"arn:aws:ec2:us-east-1:123456789012:{kind}/*" for kind in kinds]


LAUNCH_POLICY = [
    allow(
        "ec2:CreateFleet",
        "ec2:RunInstances",
        "ec2:CreateLaunchTemplate",
        resource=_arns(*LAUNCHED),
        **REQUESTED,
    ),
    allow(
        "ec2:CreateFleet", "ec2:RunInstances", resource=_arns("launch-template"), **OWNED
    ),
    allow(
        "ec2:CreateFleet",
        "ec2:RunInstances",
        resource=[
            *_arns("subnet", "security-group", "capacity-reservation"),
            "arn:aws:ec2:us-east-1::image/*",
        ],
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

    def __init__(self, aws: EmbeddedAws, more: Sequence[dict[str, Any]] = ()) -> None:
        self.root = aws.client("ec2")
        iam = aws.client("iam")
        user = unique("user")
        iam.create_user(UserName=user)
        document = json.dumps(
            {"Version": "2012-10-17", "Statement": [*LAUNCH_POLICY, *more]}
        )
        iam.put_user_policy(UserName=user, PolicyName="launch", PolicyDocument=document)
        key = iam.create_access_key(UserName=user)["AccessKey"]
        credentials = {
            "aws_access_key_id": key["AccessKeyId"],
            "aws_secret_access_key": key["SecretAccessKey"],
        }
        self.kms = aws.client("kms", **credentials)
        self.ec2 = aws.client("ec2", **credentials)
        self.image = self.root.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]

    def template(
        self, maker: Any, owner: str | None, *, tag_volumes: bool = True, **data: Any
    ) -> str:
        tags = [{"Key": OWNER, "Value": owner}] if owner else []
        kinds = ["instance", "network-interface", *(["volume"] if tag_volumes else [])]
        specifications = [
            {"ResourceType": kind, "Tags": [{"Key": OWNER, "Value": "mine"}]}
            for kind in kinds
        ]
        made = maker.create_launch_template(
            LaunchTemplateName=unique("template"),
            LaunchTemplateData={
                "InstanceType": "m5.large",
                "ImageId": self.image,
                "TagSpecifications": specifications,
                **data,
            },
            **(
                {"TagSpecifications": [{"ResourceType": "launch-template", "Tags": tags}]}
                if tags
                else {}
            ),
        )
        return str(made["LaunchTemplate"]["LaunchTemplateId"])

    def fleet(self, template_id: str, owner: str | None = "mine") -> list[str]:
        tags = (
            [{"ResourceType": "fleet", "Tags": [{"Key": OWNER, "Value": owner}]}]
            if owner
            else []
        )
        answer = self.ec2.create_fleet(
            Type="instant",
            LaunchTemplateConfigs=[
                {
                    "LaunchTemplateSpecification": {
                        "LaunchTemplateId": template_id,
                        "Version": "$Latest",
                    }
                }
            ],
            TargetCapacitySpecification={
                "TotalTargetCapacity": 1,
                "DefaultTargetCapacityType": "on-demand",
            },
            **({"TagSpecifications": tags} if tags else {}),
        )
        assert not answer["Errors"]
        return [
            instance_id
            for instances in answer["Instances"]
            for instance_id in instances["InstanceIds"]
        ]


@pytest.fixture(scope="module")
def launcher(embedded_aws: EmbeddedAws) -> Launcher:
    return Launcher(embedded_aws)


def _denied(error: ClientError) -> str:
    assert error.response["Error"]["Code"] == "UnauthorizedOperation"
    return (
        error.response["Error"]["Message"]
        .split("not authorized to perform: ")[1]
        .split(" because")[0]
    )


@pytest.mark.embedded
def test_a_launch_that_is_tagged_at_birth_is_allowed_and_only_own_instances_can_be_ended(
    launcher: Launcher,
) -> None:
    instances = launcher.fleet(launcher.template(launcher.ec2, "mine"))
    launcher.ec2.terminate_instances(InstanceIds=instances)
    strangers = launcher.root.run_instances(
        ImageId=launcher.image, InstanceType="m5.large", MinCount=1, MaxCount=1
    )
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
        (
            None,
            {},
            "ec2:CreateFleet on resource: arn:aws:ec2:us-east-1:123456789012:fleet/*",
        ),
        (
            "other",
            {},
            "ec2:CreateFleet on resource: arn:aws:ec2:us-east-1:123456789012:fleet/*",
        ),
        (
            "mine",
            {"tag_volumes": False},
            "ec2:RunInstances on resource: arn:aws:ec2:us-east-1:123456789012:volume/*",
        ),
        (
            "mine",
            {"owner": "other"},
            "ec2:RunInstances on resource: arn:aws:ec2:us-east-1:123456789012:launch-template/",
        ),
        (
            "mine",
            {"owner": None},
            "ec2:RunInstances on resource: arn:aws:ec2:us-east-1:123456789012:launch-template/",
        ),
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
def test_a_role_cannot_be_handed_to_instances_without_permission(
    launcher: Launcher, embedded_aws: EmbeddedAws
) -> None:
    iam = embedded_aws.client("iam")
    role, profile = unique("role"), unique("profile")
    trust = {
        "Effect": "Allow",
        "Principal": {"Service": "ec2.amazonaws.com"},
        "Action": "sts:AssumeRole",
    }
    iam.create_role(
        RoleName=role,
        AssumeRolePolicyDocument=json.dumps(
            {"Version": "2012-10-17", "Statement": [trust]}
        ),
    )
    iam.create_instance_profile(InstanceProfileName=profile)
    iam.add_role_to_instance_profile(InstanceProfileName=profile, RoleName=role)
    template_id = launcher.template(
        launcher.root, "mine", IamInstanceProfile={"Name": profile}
    )
    with pytest.raises(ClientError) as refused:
        launcher.fleet(template_id)
    assert (
        _denied(refused.value)
        == f"iam:PassRole on resource: arn:aws:iam::123456789012:role/{role}"
    )


@pytest.mark.embedded
def test_tags_cannot_be_added_later(launcher: Launcher) -> None:
    (instance_id,) = launcher.fleet(launcher.template(launcher.ec2, "mine"))
    with pytest.raises(ClientError) as refused:
        launcher.ec2.create_tags(
            Resources=[instance_id], Tags=[{"Key": OWNER, "Value": "mine"}]
        )
    assert _denied(refused.value).startswith("ec2:CreateTags on resource: ")


@pytest.mark.embedded
def test_a_key_that_nobody_has_is_refused(embedded_aws: EmbeddedAws) -> None:
    stranger = {
        "aws_access_key_id": "AKIAIOSFODNN7EXAMPLE",
        "aws_secret_access_key": "nothing",
    }
    with pytest.raises(ClientError) as refused:
        embedded_aws.client("ec2", **stranger).describe_instances()
    assert refused.value.response["Error"]["Code"] == "AuthFailure"


@pytest.mark.embedded
def test_a_queue_that_denies_plain_http_takes_messages_over_tls(
    resources: Resources,
) -> None:
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


@pytest.mark.embedded
def test_a_queue_that_denies_all_but_one_role_takes_its_messages(
    resources: Resources, embedded_aws: EmbeddedAws
) -> None:
    source = (
        "import boto3\n"
        "def handle(event, context): boto3.client('sqs').send_message(QueueUrl=event, MessageBody='in')"
    )
    one, other = (resources.function(source, allow("sqs:SendMessage")) for _ in range(2))
    role = embedded_aws.client("lambda").get_function_configuration(FunctionName=one)[
        "Role"
    ]
    deny = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:SendMessage",
        "Resource": "*",
        "Condition": {"ArnNotEquals": {"aws:PrincipalArn": [role]}},
    }
    url, _ = resources.queue(Policy={"Version": "2012-10-17", "Statement": [deny]})
    assert resources.invoke(one, url) == (None, False)
    answer, failed = resources.invoke(other, url)
    assert failed
    assert "explicit deny" in str(answer)
    assert resources.bodies(url, 1) == ["in"]


THROUGH_EC2 = {"StringEquals": {"kms:ViaService": "ec2.us-east-1.amazonaws.com"}}


def may_use(*keys: str) -> list[dict[str, Any]]:
    return [
        allow(
            "kms:Decrypt",
            "kms:DescribeKey",
            "kms:GenerateDataKeyWithoutPlaintext",
            resource=[*keys],
            **THROUGH_EC2,
        ),
        allow(
            "kms:CreateGrant",
            resource=[*keys],
            **THROUGH_EC2,
            Bool={"kms:GrantIsForAWSResource": "true"},
        ),
    ]


def ends(launcher: Launcher, key: str) -> dict[str, Any]:
    """Launch an instance with a volume of this key; return it when it has left pending."""
    volume = {
        "DeviceName": "/dev/xvda",
        "Ebs": {"VolumeSize": 8, "Encrypted": True, "KmsKeyId": key},
    }
    (instance_id,) = launcher.fleet(
        launcher.template(launcher.ec2, "mine", BlockDeviceMappings=[volume])
    )

    def left_pending() -> dict[str, Any] | None:
        found = launcher.root.describe_instances(InstanceIds=[instance_id])["Reservations"][
            0
        ]["Instances"][0]
        return None if found["State"]["Name"] == "pending" else dict(found)

    return dict(until(left_pending))


@pytest.mark.embedded
def test_an_instance_whose_key_the_launcher_may_not_use_ends_before_it_runs_and_says_why(
    embedded_aws: EmbeddedAws,
) -> None:
    kms = embedded_aws.client("kms")
    mine, other, off = (kms.create_key()["KeyMetadata"]["Arn"] for _ in range(3))
    kms.disable_key(KeyId=off)
    launcher = Launcher(embedded_aws, may_use(mine, off))
    assert ends(launcher, mine)["State"]["Name"] == "running"
    denied = ends(launcher, other)
    assert (denied["State"]["Name"], denied["StateReason"]["Code"]) == (
        "terminated",
        "Client.InternalError",
    )
    assert (
        denied["StateReason"]["Message"] == "Client.InternalError: Client error on launch"
    )
    assert ends(launcher, off)["StateReason"]["Code"] == "Client.InvalidKMSKey.InvalidState"


@pytest.mark.embedded
def test_a_key_that_may_be_used_through_ec2_cannot_be_used_directly(
    embedded_aws: EmbeddedAws,
) -> None:
    key = embedded_aws.client("kms").create_key()["KeyMetadata"]["Arn"]
    launcher = Launcher(embedded_aws, may_use(key))
    with pytest.raises(ClientError) as refused:
        launcher.kms.generate_data_key_without_plaintext(KeyId=key, KeySpec="AES_256")
    assert refused.value.response["Error"]["Code"] == "AccessDeniedException"


class _Account:
    """An account with one launch template and no tags."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    def tags_of(self, resource_id: str) -> dict[str, str]:
        return {"of": resource_id}

    def volume_key(self, ebs: Mapping[str, Any]) -> str | None:
        key: str | None = ebs.get("KmsKeyId")
        return key

    def launch_template(self, specification: Any) -> tuple[str, dict[str, Any]] | None:
        return ("lt-1", self._data) if specification else None

    def role_arn(self, instance_profile: Any) -> str | None:
        return f"arn:aws:iam::1:role/{instance_profile['Name']}"


def test_a_fleet_needs_permissions_for_all_that_it_makes_and_refers_to() -> None:
    data = {
        "ImageId": "ami-1",
        "IamInstanceProfile": {"Name": "node"},
        "SecurityGroupIds": ["sg-1"],
        "CapacityReservationSpecification": {
            "CapacityReservationTarget": {"CapacityReservationId": "cr-1"}
        },
        "TagSpecifications": [
            {"ResourceType": "instance", "Tags": [{"Key": "a", "Value": "b"}]}
        ],
    }
    parameters = {
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateId": "lt-1"},
                "Overrides": [{"SubnetId": "subnet-1"}, {"SubnetId": "subnet-2"}],
            }
        ],
        "TagSpecifications": [
            {"ResourceType": "fleet", "Tags": [{"Key": "c", "Value": "d"}]}
        ],
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


def conditions(call: Call, data: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the condition keys of a launch's checks by resource, without those about tags."""
    return {
        (check.kind, check.resource_id): {
            key: value
            for key, value in check.context("1", "us-east-1").items()
            if "Tag" not in key
        }
        for check in checks(call, _Account(data))
        if check.action == "ec2:RunInstances"
    }


def test_policies_can_ask_whether_a_launch_comes_from_a_template_and_how_it_gives_metadata() -> (
    None
):
    data = {"ImageId": "ami-1", "MetadataOptions": {"HttpTokens": "required"}}
    template = {"ec2:LaunchTemplate": "arn:aws:ec2:us-east-1:1:launch-template/lt-1"}
    launch = {"LaunchTemplate": {"LaunchTemplateId": "lt-1"}, "SubnetId": "subnet-1"}
    found = conditions(Call("RunInstances", launch), data)
    theirs, ours = (
        {"ec2:IsLaunchTemplateResource": "true"},
        {"ec2:IsLaunchTemplateResource": "false"},
    )
    assert found["instance", "*"] == template | theirs | {
        "ec2:MetadataHttpTokens": "required"
    }
    assert found["volume", "*"] == template | theirs
    assert found["image", "ami-1"] == template | theirs
    assert found["subnet", "subnet-1"] == template | ours  # the request named it
    overridden = conditions(Call("RunInstances", launch | {"ImageId": "ami-2"}), data)
    assert overridden["image", "ami-2"] == template | ours


def test_a_launch_without_a_template_has_no_template_to_ask_about() -> None:
    assert conditions(Call("RunInstances", {"ImageId": "ami-1"}), {})["instance", "*"] == {}


def test_each_override_of_a_fleet_is_checked_as_it_is_launched() -> None:
    config = {
        "LaunchTemplateSpecification": {"LaunchTemplateId": "lt-1"},
        "Overrides": [{"SubnetId": "subnet-1"}, {"ImageId": "ami-2"}],
    }
    found = conditions(
        Call("CreateFleet", {"LaunchTemplateConfigs": [config]}), {"ImageId": "ami-1"}
    )
    of_template = {
        key: value["ec2:IsLaunchTemplateResource"] for key, value in found.items()
    }
    assert of_template["image", "ami-1"] == "true"
    assert of_template["image", "ami-2"] == "false"


def test_calls_that_describe_know_no_resources() -> None:
    call = Call("DescribeInstances", {"InstanceIds": ["i-1"]})
    assert checks(call, _Account({})) == [Check("ec2:DescribeInstances", "*", "*")]


def test_calls_that_change_something_name_it_with_its_tags() -> None:
    call = Call(
        "ModifyCapacityReservation", {"CapacityReservationId": "cr-1", "InstanceCount": 3}
    )
    (check,) = checks(call, _Account({}))
    assert (
        check.resource_arn("1", "us-east-1")
        == "arn:aws:ec2:us-east-1:1:capacity-reservation/cr-1"
    )
    assert check.context("1", "us-east-1")["aws:ResourceTag/of"] == "cr-1"


def test_calls_that_make_something_carry_its_tags() -> None:
    tags = [{"ResourceType": "capacity-reservation", "Tags": [{"Key": "a", "Value": "b"}]}]
    found = checks(
        Call("CreateCapacityReservation", {"TagSpecifications": tags}), _Account({})
    )
    assert [(check.action, check.kind, check.create_action) for check in found] == [
        ("ec2:CreateCapacityReservation", "capacity-reservation", None),
        ("ec2:CreateTags", "capacity-reservation", "CreateCapacityReservation"),
    ]
    assert all(
        check.context("1", "us-east-1")["aws:RequestTag/a"] == "b" for check in found
    )


def test_splitting_asks_about_the_source_and_about_what_is_made() -> None:
    call = Call(
        "CreateCapacityReservationBySplitting",
        {
            "SourceCapacityReservationId": "cr-0123456789abcdef0",
            "InstanceCount": 1,
            "TagSpecifications": [
                {
                    "ResourceType": "capacity-reservation",
                    "Tags": [{"Key": "a", "Value": "b"}],
                }
            ],
        },
    )
    split = "ec2:CreateCapacityReservationBySplitting"
    kind = "capacity-reservation"
    asked = [
        (check.action, check.kind, check.resource_id)
        for check in checks(call, _Account({}))
    ]
    assert asked == [
        (split, kind, "*"),
        ("ec2:CreateTags", kind, "*"),
        (split, kind, "cr-0123456789abcdef0"),
    ]
