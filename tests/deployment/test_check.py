"""What is found in accounts in which a deployment, or its launches, would fail. The account is a fake of the calls."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from infra.app import ROOT
from lab.fakes.discovery import IMAGES, SUBNETS, MemoryLaunchEnvironment
from lab.worlds.planning_world import node_class_manifest, node_pool_manifest
from reservoir.cli.deployment.account import SPOT_ROLE
from reservoir.cli.examination.before import CHECKS, look
from reservoir.cli.examination.finding import Finding, Severity
from reservoir.cli.examination.network import SERVICES
from reservoir.cli.examination.place import Place
from reservoir.deployment.deployment import read

TOPIC = "arn:aws:sns:us-east-1:123456789012:pages"
KEY = "arn:aws:kms:us-east-1:123456789012:key/volumes"
KEY_OF_AWS = "arn:aws:kms:us-east-1:123456789012:key/of-ebs"
ALIAS = "arn:aws:kms:us-east-1:123456789012:alias/volumes"
BOUNDS = ROOT / "examples" / "iam" / "boundary.json"
KEY_POLICY = ROOT / "examples" / "iam" / "encryption-key.json"
BOUNDARY = "arn:aws:iam::123456789012:policy/bounds"
STACK = "Reservoir-production"
EXECUTION_ROLE = "cdk-hnb659fds-cfn-exec-role-123456789012-us-east-1"
TRUST = {
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "ec2.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ]
}


def key_policy_without(statement: str) -> dict[str, Any]:
    """Return the policy that the documents show, but for one of its statements."""
    policy: dict[str, Any] = json.loads(KEY_POLICY.read_text())
    kept = [each for each in policy["Statement"] if each["Sid"] != statement]
    return {**policy, "Statement": kept}


SUBNET, GROUP = "subnet-0123456789abcdef0", "sg-0123456789abcdef0"
NETWORK = {"subnets": [SUBNET], "securityGroups": [GROUP]}
DEFAULT_ROUTE = {"DestinationCidrBlock": "0.0.0.0/0", "State": "active"}
TO_NAT = {**DEFAULT_ROUTE, "NatGatewayId": "nat-1"}
EVERYTHING_ALLOWED = {"Effect": "Allow", "Action": "*", "Resource": "*"}
DENIED = {"Effect": "Deny", "Resource": "*"}
BUT_LAUNCHES = {"Effect": "Allow", "NotAction": "ec2:Run*", "Resource": "*"}
EVERYTHING_OUT = {"IpProtocol": "-1"}
HTTPS = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443}
FROM_FUNCTIONS = {**HTTPS, "UserIdGroupPairs": [{"GroupId": GROUP}]}


def networked(
    subnets: Iterable[str] = (SUBNET,),
    groups: Iterable[str] = (GROUP,),
    egress: Iterable[Mapping[str, Any]] = (EVERYTHING_OUT,),
    routes: Iterable[Mapping[str, Any]] = (TO_NAT,),
    endpoints: Iterable[str] = (),
    addresses: int = 1,
    ingress: Iterable[Mapping[str, Any]] = (FROM_FUNCTIONS,),
) -> dict[str, list[dict[str, Any]]]:
    """Return what EC2 shows of a VPC, by the call."""
    return {
        "Subnets": [
            {
                "SubnetId": each,
                "VpcId": "vpc-1",
                "CidrBlock": "10.0.1.0/24",
                "AvailableIpAddressCount": addresses,
            }
            for each in subnets
        ],
        "SecurityGroups": [
            {"GroupId": each, "IpPermissionsEgress": list(egress), "IpPermissions": []}
            for each in groups
        ]
        + [{"GroupId": "sg-endpoints", "IpPermissions": list(ingress)}],
        "RouteTables": [
            {
                "RouteTableId": "rtb-1",
                "Associations": [{"Main": True}],
                "Routes": list(routes),
            }
        ],
        "VpcEndpoints": [
            {
                "VpcEndpointId": f"vpce-{each}",
                "Groups": [{"GroupId": "sg-endpoints"}],
                "ServiceName": f"com.amazonaws.us-east-1.{each}",
                "State": "available",
                "VpcEndpointType": "Interface",
                "PrivateDnsEnabled": True,
            }
            for each in endpoints
        ],
    }


class MissingError(Exception):
    """What the services say of what is not there."""


class DeniedError(Exception):
    """An SCP denies it."""


class AccountAsFound:
    """A good account but for what a test changes; its methods are the calls of all services."""

    class exceptions:  # noqa: N801 - as botocore's clients have it
        ParameterNotFound = NoSuchEntityException = NotFoundException = (
            NoSuchResourceException
        ) = MissingError

    def __init__(self) -> None:
        self.account = "123456789012"
        self.parameters = {"/cdk-bootstrap/hnb659fds/version": "21"}
        self.may_assume = True
        self.stacks = {"Somebodys": "CREATE_COMPLETE"}
        self.was_complete = True
        self.summary = {
            "Roles": 100,
            "RolesQuota": 1_000,
            "Policies": 100,
            "PoliciesQuota": 1_500,
        }
        self.code_bytes = 0
        self.functions = ["somebodys"]
        self.buses = ["default"]
        self.log_groups: list[str] = []
        self.schedule_groups = ["default"]
        self.buckets = [
            f"cdk-hnb659fds-assets-123456789012-{region}"
            for region in ("us-east-1", "eu-south-1", "cn-north-1")
        ]
        self.rules, self.tables = 10, 10
        self.granted: dict[
            str, float
        ] = {}  # quotas that AWS raised, by Service Quotas' codes
        self.free = 1_000
        self.roles: dict[str, Any] = {
            SPOT_ROLE: {},
            "reservoir-production-node": TRUST,
            EXECUTION_ROLE: {},
        }
        self.forbidden: set[str] = set()  # for CloudFormation
        self.profiles = ["reservoir-production-node"]
        self.class_spec: dict[str, Any] = {"role": "reservoir-production-node"}
        self.boundaries = {BOUNDARY}
        self.bounds: Any = EVERYTHING_ALLOWED
        self.volume_key: str | None = None
        self.keys = {KEY: "Enabled", KEY_OF_AWS: "Enabled"}
        self.aliases = {ALIAS: KEY}
        self.key_policy = json.loads(KEY_POLICY.read_text())
        self.network: dict[str, Any] = networked()
        self.metadata: dict[str, str] = {}
        self.vcpus: dict[str, float] = {}
        self.topics: dict[str, dict[str, str]] = {TOPIC: {}}
        self.price_list = ["{}"]
        self.logs = True
        self.not_served: set[str] = set()
        self.denied: set[str] = set()
        self.subnets, self.groups, self.images = SUBNETS, ("sg-1",), IMAGES

    def __call__(self, _service: str) -> "AccountAsFound":
        return self

    @property
    def environment(self) -> MemoryLaunchEnvironment:
        return MemoryLaunchEnvironment(self.subnets, self.groups, self.images)

    def is_served(self, service: str, _region: str) -> bool:
        return service not in self.not_served

    def get_paginator(self, operation: str) -> Any:
        return SimpleNamespace(paginate=lambda **asked: [getattr(self, operation)(**asked)])

    def get_caller_identity(self) -> dict[str, str]:
        return {"Account": self.account}

    def assume_role(self, *, RoleArn: str, **_asked: str) -> None:
        if not self.may_assume:
            raise ClientError(
                {"Error": {"Code": "AccessDenied", "Message": RoleArn}}, "AssumeRole"
            )

    def describe_stacks(self) -> dict[str, Any]:
        return {
            "Stacks": [
                {"StackName": name, "StackId": name, "StackStatus": status}
                for name, status in self.stacks.items()
            ]
        }

    def describe_stack_events(self, *, StackName: str) -> dict[str, Any]:
        status = "CREATE_COMPLETE" if self.was_complete else "ROLLBACK_FAILED"
        event = {"PhysicalResourceId": StackName, "ResourceStatus": status}
        return {"StackEvents": [event]}

    def get_account_summary(self) -> dict[str, Any]:
        return {"SummaryMap": self.summary}

    def list_rules(self) -> dict[str, Any]:
        return {"Rules": [{}] * self.rules}

    def list_functions(self) -> dict[str, Any]:
        return {"Functions": [{"FunctionName": name} for name in self.functions]}

    def list_event_buses(self, *, NamePrefix: str) -> dict[str, Any]:
        return {"EventBuses": [{"Name": each} for each in self.buses if NamePrefix in each]}

    def describe_log_groups(self, *, logGroupNamePrefix: str) -> dict[str, Any]:
        assert logGroupNamePrefix == f"{STACK}-NodeLogs"
        return {"logGroups": [{"logGroupName": each} for each in self.log_groups]}

    def get_schedule_group(self, *, Name: str) -> dict[str, str]:
        if Name in self.schedule_groups:
            return {"Name": Name}
        raise ClientError(
            {"Error": {"Code": "ResourceNotFoundException"}}, "GetScheduleGroup"
        )

    def head_bucket(self, *, Bucket: str) -> None:
        if Bucket not in self.buckets:
            raise ClientError({"Error": {"Code": "404"}}, "HeadBucket")

    def list_tables(self) -> dict[str, Any]:
        return {"TableNames": ["table"] * self.tables}

    def get_policy(self, *, PolicyArn: str) -> dict[str, Any]:
        if PolicyArn not in self.boundaries:
            raise MissingError
        return {"Policy": {"DefaultVersionId": "v3"}}

    def get_policy_version(self, *, PolicyArn: str, VersionId: str) -> dict[str, Any]:
        assert (PolicyArn, VersionId) == (BOUNDARY, "v3")
        return {"PolicyVersion": {"Document": {"Statement": self.bounds}}}

    def describe_key(self, *, KeyId: str) -> dict[str, Any]:
        arn = self.aliases.get(KeyId, KeyId)
        if arn not in self.keys:
            raise MissingError
        manager = "AWS" if arn == KEY_OF_AWS else "CUSTOMER"
        found = {"KeyState": self.keys[arn], "Arn": arn, "KeyManager": manager}
        return {"KeyMetadata": found}

    def describe_subnets(self, *, Filters: Any) -> dict[str, Any]:
        assert Filters == [{"Name": "subnet-id", "Values": [SUBNET]}]
        return self.network

    def describe_security_groups(self, *, Filters: Any) -> dict[str, Any]:
        assert Filters == [{"Name": "vpc-id", "Values": ["vpc-1"]}]
        return self.network

    def describe_route_tables(self, *, Filters: Any) -> dict[str, Any]:
        assert Filters == [{"Name": "vpc-id", "Values": ["vpc-1"]}]
        return self.network

    describe_vpc_endpoints = describe_route_tables

    def get_key_policy(self, *, KeyId: str, PolicyName: str) -> dict[str, str]:
        assert (KeyId, PolicyName) == (KEY, "default")
        return {"Policy": json.dumps(self.key_policy)}

    def get_instance_metadata_defaults(self) -> dict[str, Any]:
        return {"AccountLevel": self.metadata}

    def get_service_quota(self, *, ServiceCode: str, QuotaCode: str) -> dict[str, Any]:
        if ServiceCode == "ec2":
            return {"Quota": {"Value": self.vcpus.get(QuotaCode, 1_000.0)}}
        if QuotaCode not in self.granted:
            # of many quotas Service Quotas knows only what was granted
            raise ClientError(
                {"Error": {"Code": "NoSuchResourceException"}}, "GetServiceQuota"
            )
        return {"Quota": {"Value": self.granted[QuotaCode]}}

    def describe_trails(self) -> dict[str, Any]:
        return {"trailList": [{"TrailARN": "arn:trail"}]}

    def get_trail_status(self, **_asked: str) -> dict[str, bool]:
        return {"IsLogging": self.logs}

    def get_event_selectors(self, **_asked: str) -> dict[str, Any]:
        return {
            "EventSelectors": [{"IncludeManagementEvents": True, "ReadWriteType": "All"}]
        }

    def get_parameter(self, *, Name: str) -> dict[str, Any]:
        if Name not in self.parameters:
            raise MissingError
        return {"Parameter": {"Value": self.parameters[Name]}}

    def get_account_settings(self) -> dict[str, Any]:
        limit = {
            "UnreservedConcurrentExecutions": self.free,
            "TotalCodeSize": 80_530_636_800,
        }
        return {"AccountLimit": limit, "AccountUsage": {"TotalCodeSize": self.code_bytes}}

    def get_role(self, *, RoleName: str) -> dict[str, Any]:
        if RoleName not in self.roles:
            raise MissingError
        return {
            "Role": {
                "Arn": f"arn:aws:iam::123456789012:role/{RoleName}",
                "AssumeRolePolicyDocument": self.roles[RoleName],
            }
        }

    def simulate_principal_policy(
        self,
        *,
        PolicySourceArn: str,
        ActionNames: list[str],
        ResourceArns: list[str],
        **_asked: Any,
    ) -> dict[str, Any]:
        assert PolicySourceArn.endswith(EXECUTION_ROLE)
        (resource,) = ResourceArns
        assert "eservoir*" not in resource
        return {
            "EvaluationResults": [
                {
                    "EvalActionName": action,
                    "EvalDecision": "implicitDeny"
                    if action in self.forbidden
                    else "allowed",
                }
                for action in ActionNames
            ]
        }

    def get_instance_profile(self, *, InstanceProfileName: str) -> dict[str, Any]:
        if InstanceProfileName not in self.profiles:
            raise MissingError
        roles = [{"RoleName": InstanceProfileName}]
        return {"InstanceProfile": {"Roles": roles}}

    def list_instance_profiles_for_role(self, *, RoleName: str) -> dict[str, Any]:
        return {"InstanceProfiles": [each for each in self.profiles if each == RoleName]}

    def get_ebs_encryption_by_default(self) -> dict[str, bool]:
        return {"EbsEncryptionByDefault": self.volume_key is not None}

    def get_ebs_default_kms_key_id(self) -> dict[str, str | None]:
        return {"KmsKeyId": self.volume_key}

    def get_topic_attributes(self, *, TopicArn: str) -> dict[str, Any]:
        if TopicArn not in self.topics:
            raise MissingError
        return {"Attributes": self.topics[TopicArn]}

    def get_products(self, **_asked: Any) -> dict[str, Any]:
        if "pricing" in self.denied:
            raise DeniedError("explicit deny in a service control policy")
        return {"PriceList": self.price_list}


def found(
    there: AccountAsFound, folder: Path, region: str = "us-east-1", **settings: Any
) -> list[tuple[str, str]]:
    """Return (check, severity) of what is found."""
    listed = findings(there, folder, region, **settings)
    return [(finding.check, finding.severity.value) for finding in listed]


def findings(
    there: AccountAsFound, folder: Path, region: str = "us-east-1", **settings: Any
) -> list[Finding]:
    """Return what is found."""
    path = folder / "production.yaml"
    policy = folder / "policy"
    policy.mkdir(exist_ok=True)
    pool = node_pool_manifest(capacity_types=("on-demand", "spot"))
    types = {
        "key": "node.kubernetes.io/instance-type",
        "operator": "In",
        "values": ["p5.48xlarge", "m7i.large"],
    }
    pool["spec"]["template"]["spec"]["requirements"].append(types)
    for manifest in (node_class_manifest(**there.class_spec), pool):
        (policy / f"{manifest['kind']}.json").write_text(json.dumps(manifest))
    path.write_text(
        json.dumps({"alarmTopic": TOPIC, "stack": STACK, "manifests": "policy", **settings})
    )
    place = Place(read(path), there, there, region, there.environment, there.is_served)
    listed = look(place, (DeniedError,))
    assert all(finding.message and finding.advice for finding in listed)
    return listed


def test_a_good_account_has_no_finding(tmp_path: Path) -> None:
    assert found(AccountAsFound(), tmp_path) == []
    encrypted = AccountAsFound()
    encrypted.volume_key = "alias/aws/ebs"
    assert found(encrypted, tmp_path) == []


def publish_by(**principal: str) -> dict[str, dict[str, str]]:
    statement = {
        "Effect": "Allow",
        "Action": "sns:Publish",
        "Principal": principal,
        "Resource": TOPIC,
    }
    return {TOPIC: {"Policy": json.dumps({"Statement": [statement]})}}


BROKEN: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no bootstrap": ({"parameters": {}}, {}, "bootstrap"),
    "an old bootstrap": (
        {"parameters": {"/cdk-bootstrap/hnb659fds/version": "5"}},
        {},
        "bootstrap",
    ),
    "a bootstrap whose bucket was deleted": ({"buckets": []}, {}, "bootstrap"),
    "a function of that name": (
        {"functions": [f"{STACK}-launch"]},
        {},
        "names",
    ),
    "a bus of that name": ({"buses": ["default", f"{STACK}-reservoir"]}, {}, "names"),
    "a log group of that name": ({"log_groups": [f"{STACK}-NodeLogs"]}, {}, "names"),
    "a schedule group of that name": (
        {"schedule_groups": [f"{STACK}-drain"]},
        {},
        "names",
    ),
    "another qualifier": ({}, {"bootstrapQualifier": "platform"}, "bootstrap"),
    "another account": ({}, {"account": "999988887777"}, "account"),
    "no role of the CDK's": ({"may_assume": False}, {}, "cdk-roles"),
    "CloudFormation may make no table": (
        {"forbidden": {"dynamodb:CreateTable"}},
        {},
        "execution-role",
    ),
    "CloudFormation may not use the key": (
        {"forbidden": {"kms:CreateGrant"}},
        {"encryptionKey": KEY},
        "execution-role",
    ),
    "CloudFormation may not look at the network": (
        {"forbidden": {"ec2:DescribeVpcs"}},
        {"vpc": NETWORK},
        "execution-role",
    ),
    "CloudFormation may not set the boundary": (
        {"forbidden": {"iam:PutRolePermissionsBoundary"}},
        {"permissionsBoundary": BOUNDARY},
        "execution-role",
    ),
    "a stack that is busy": ({"stacks": {STACK: "UPDATE_IN_PROGRESS"}}, {}, "stack"),
    "a stack that is stuck": ({"stacks": {STACK: "UPDATE_ROLLBACK_FAILED"}}, {}, "stack"),
    "a stack that would not go": ({"stacks": {STACK: "DELETE_FAILED"}}, {}, "stack"),
    "no room for roles": (
        {
            "summary": {
                "Roles": 990,
                "RolesQuota": 1_000,
                "Policies": 1,
                "PoliciesQuota": 1_500,
            }
        },
        {},
        "room",
    ),
    "no room for policies": (
        {
            "summary": {
                "Roles": 1,
                "RolesQuota": 1_000,
                "Policies": 1_490,
                "PoliciesQuota": 1_500,
            }
        },
        {},
        "room",
    ),
    "no room for code": ({"code_bytes": 80_500_000_000}, {}, "room"),
    "no room for rules": ({"rules": 290}, {}, "room"),
    "no room for tables": ({"tables": 2_495}, {}, "room"),
    "no room where a first deployment failed for it": (
        {"rules": 290, "stacks": {STACK: "ROLLBACK_COMPLETE"}},
        {},
        "room",
    ),
    "no boundary": (
        {"boundaries": set()},
        {"permissionsBoundary": BOUNDARY},
        "permissions-boundary",
    ),
    "a boundary without launches": (
        {"bounds": BUT_LAUNCHES},
        {"permissionsBoundary": BOUNDARY},
        "permissions-boundary",
    ),
    "a boundary that keeps roles": (
        {"bounds": [EVERYTHING_ALLOWED, {**DENIED, "Action": "iam:*"}]},
        {"permissionsBoundary": BOUNDARY},
        "permissions-boundary",
    ),
    "a new account": ({"free": 10}, {}, "concurrency"),
    "too little to keep": ({"free": 112}, {"reserveConcurrency": True}, "concurrency"),
    "no role of nodes": ({"roles": {SPOT_ROLE: {}}}, {}, "instance-role"),
    "a role of somebody else": (
        {"roles": {SPOT_ROLE: {}, "reservoir-production-node": {"Statement": []}}},
        {},
        "instance-role",
    ),
    "no profile": ({"profiles": []}, {}, "instance-role"),
    "no role of spot": ({"roles": {"reservoir-production-node": TRUST}}, {}, "spot-role"),
    "a key of its own": ({"volume_key": KEY}, {}, "volume-key"),
    "a key of its own, by alias": ({"volume_key": ALIAS}, {}, "volume-key"),
    "volumes under a key that is gone": (
        {"volume_key": KEY, "keys": {}},
        {},
        "volume-key",
    ),
    "no key": ({"keys": {}}, {"kmsKeys": [KEY]}, "keys"),
    "a key that goes": ({"keys": {KEY: "PendingDeletion"}}, {"kmsKeys": [KEY]}, "keys"),
    "no key of the data": ({"keys": {}}, {"encryptionKey": KEY}, "encryption-key"),
    "a key of the data that is off": (
        {"keys": {KEY: "Disabled"}},
        {"encryptionKey": KEY},
        "encryption-key",
    ),
    "a key of the data elsewhere": (
        {},
        {"encryptionKey": KEY.replace("us-east-1", "eu-west-1")},
        "encryption-key",
    ),
    "a key of the data that no log can use": (
        {"key_policy": key_policy_without("LogsOfFunctions")},
        {"encryptionKey": KEY},
        "encryption-key",
    ),
    "a key of the data that no rule can use": (
        {"key_policy": key_policy_without("RulesSendToQueues")},
        {"encryptionKey": KEY},
        "encryption-key",
    ),
    "a key of the data that no role can use": (
        {"key_policy": key_policy_without("WhatIamAllows")},
        {"encryptionKey": KEY},
        "encryption-key",
    ),
    "no such subnet": ({"network": networked(subnets=())}, {"vpc": NETWORK}, "vpc"),
    "no such group": ({"network": networked(groups=())}, {"vpc": NETWORK}, "vpc"),
    "a group that lets nothing out": (
        {"network": networked(egress=[])},
        {"vpc": NETWORK},
        "vpc",
    ),
    "subnets that lead nowhere": (
        {"network": networked(routes=[])},
        {"vpc": NETWORK},
        "vpc",
    ),
    "subnets that lead to an internet gateway": (
        {"network": networked(routes=[{**DEFAULT_ROUTE, "GatewayId": "igw-1"}])},
        {"vpc": NETWORK},
        "vpc",
    ),
    "endpoints of the default group": (
        {"network": networked(routes=[], endpoints=SERVICES, ingress=[])},
        {"vpc": NETWORK},
        "vpc",
    ),
    "endpoints that another subnet may use": (
        {
            "network": networked(
                routes=[],
                endpoints=SERVICES,
                ingress=[{**HTTPS, "IpRanges": [{"CidrIp": "10.0.2.0/24"}]}],
            )
        },
        {"vpc": NETWORK},
        "vpc",
    ),
    "a subnet that is full": (
        {"network": networked(addresses=0)},
        {"vpc": NETWORK},
        "vpc",
    ),
    "an endpoint that is missing": (
        {"network": networked(routes=[], endpoints=SERVICES[1:])},
        {"vpc": NETWORK},
        "vpc",
    ),
    "tokens enforced": (
        {"metadata": {"HttpTokensEnforced": "enabled"}},
        {"metadataHttpTokens": "optional"},
        "metadata",
    ),
    "no quota of GPUs on demand": ({"vcpus": {"L-417A185B": 0.0}}, {}, "quotas"),
    "no quota of spot": ({"vcpus": {"L-34B43A08": 5.0}}, {}, "quotas"),
    "no subnet": ({"subnets": ()}, {}, "classes"),
    "no security group": ({"groups": ()}, {}, "classes"),
    "no image, or none that is allowed": ({"images": ()}, {}, "classes"),
    "a class with a role of another deployment": (
        {"class_spec": {"role": "reservoir-staging-node"}},
        {},
        "classes",
    ),
    "a class with a profile that is gone": (
        {"class_spec": {"role": None, "instanceProfile": "old-nodes"}},
        {},
        "classes",
    ),
    "a class with a profile of another deployment": (
        {
            "class_spec": {"role": None, "instanceProfile": "staging"},
            "profiles": ["reservoir-production-node", "staging"],
        },
        {},
        "classes",
    ),
    "no topic": ({"topics": {}}, {}, "alarm-topic"),
    "a topic elsewhere": (
        {},
        {"alarmTopic": TOPIC.replace("us-east-1", "eu-west-1")},
        "alarm-topic",
    ),
    "a topic under AWS's key": (
        {"topics": {TOPIC: {"KmsMasterKeyId": "alias/aws/sns"}}},
        {},
        "alarm-topic",
    ),
    "a topic under a key that CloudWatch may not use": (
        {"topics": {TOPIC: {"KmsMasterKeyId": KEY}}},
        {},
        "alarm-topic",
    ),
    "a topic that takes nothing": (
        {"topics": publish_by(Service="events.amazonaws.com")},
        {},
        "alarm-topic",
    ),
    "no trail": ({"logs": False}, {}, "trail"),
    "no Scheduler": ({"not_served": {"scheduler"}}, {}, "services"),
    "no prices": ({"price_list": []}, {}, "prices"),
    "prices denied": ({"denied": {"pricing"}}, {}, "prices"),
}


@pytest.mark.parametrize(("changes", "settings", "check"), BROKEN.values(), ids=BROKEN)
def test_what_is_broken_is_found_and_nothing_else(
    tmp_path: Path, changes: dict[str, Any], settings: dict[str, Any], check: str
) -> None:
    account = AccountAsFound()
    for name, value in changes.items():
        setattr(account, name, value)
    assert [each for each, _ in found(account, tmp_path, **settings)] == [check]


def test_what_updates_alone_take_is_warned_of(tmp_path: Path) -> None:
    account = AccountAsFound()
    account.forbidden = {"lambda:UpdateFunctionCode"}
    assert found(account, tmp_path) == [("execution-role", Severity.WARNING.value)]


def test_what_no_setting_asks_for_cloudformation_need_not_be_allowed(
    tmp_path: Path,
) -> None:
    account = AccountAsFound()
    account.forbidden = {
        "ec2:DescribeVpcs",
        "iam:PutRolePermissionsBoundary",
        "kms:CreateGrant",
        "logs:AssociateKmsKey",
    }
    assert found(account, tmp_path) == []


OF_THE_VPC = [{**HTTPS, "IpRanges": [{"CidrIp": "10.0.0.0/16"}]}]


@pytest.mark.parametrize(
    "network",
    [
        networked(),
        networked(routes=[], endpoints=SERVICES),
        networked(routes=[], endpoints=SERVICES, ingress=OF_THE_VPC),
        networked(endpoints=SERVICES, ingress=[]),
    ],
)
def test_subnets_with_a_way_out_or_all_endpoints_are_no_finding(
    tmp_path: Path, network: dict[str, Any]
) -> None:
    account = AccountAsFound()
    account.network = network
    assert found(account, tmp_path, vpc=NETWORK) == []


@pytest.mark.parametrize("missing", ["iam", "pricing.api"])
def test_an_endpoint_that_aws_has_in_few_regions_stops_no_deployment(
    tmp_path: Path, missing: str
) -> None:
    account = AccountAsFound()
    there = [service for service in SERVICES if service != missing]
    account.network = networked(routes=[], endpoints=there)
    assert found(account, tmp_path, vpc=NETWORK) == [("vpc", Severity.WARNING.value)]


@pytest.mark.parametrize(
    "key",
    ["alias/aws/ebs", "arn:aws:kms:us-east-1:123456789012:alias/aws/ebs", KEY_OF_AWS],
)
def test_volumes_under_awss_own_key_are_no_finding(tmp_path: Path, key: str) -> None:
    account = AccountAsFound()
    account.volume_key = key
    assert found(account, tmp_path) == []


@pytest.mark.parametrize("pattern", ["nodes-*", "teams/nodes-*", "teams/nodes-gpu"])
def test_a_class_may_hand_out_what_the_setting_matches(
    tmp_path: Path, pattern: str
) -> None:
    account = AccountAsFound()
    account.roles["nodes-gpu"] = TRUST
    account.profiles.append("nodes-gpu")
    account.class_spec = {"role": None, "instanceProfile": "nodes-gpu"}
    assert found(account, tmp_path, instanceRole=pattern) == []


def test_a_default_key_is_known_by_its_alias(tmp_path: Path) -> None:
    account = AccountAsFound()
    account.volume_key = ALIAS
    assert found(account, tmp_path, kmsKeys=[KEY]) == []


def test_functions_that_stand_have_their_addresses(tmp_path: Path) -> None:
    account = AccountAsFound()
    account.stacks = {STACK: "UPDATE_COMPLETE"}
    account.network = networked(addresses=0)
    assert found(account, tmp_path, vpc=NETWORK) == []


def test_the_boundary_of_the_example_is_no_finding(tmp_path: Path) -> None:
    account = AccountAsFound()
    account.bounds = json.loads(BOUNDS.read_text())["Statement"]
    everything = {"kmsKeys": [KEY], "vpc": NETWORK, "encryptionKey": KEY, "tracing": True}
    settings: dict[str, Any] = {"permissionsBoundary": BOUNDARY, **everything}
    assert found(account, tmp_path, **settings) == []


def test_what_functions_can_do_without_may_be_beyond_the_boundary(tmp_path: Path) -> None:
    account = AccountAsFound()
    account.bounds = [EVERYTHING_ALLOWED, {**DENIED, "Action": "scheduler:*"}]
    warning = [("permissions-boundary", Severity.WARNING.value)]
    assert found(account, tmp_path, permissionsBoundary=BOUNDARY) == warning


def test_a_boundary_may_leave_out_what_no_setting_asks_for(tmp_path: Path) -> None:
    account = AccountAsFound()
    account.bounds = [EVERYTHING_ALLOWED, {**DENIED, "Action": ["kms:*", "xray:*"]}]
    assert found(account, tmp_path, permissionsBoundary=BOUNDARY) == []


def test_denials_of_some_resources_or_under_conditions_are_no_finding(
    tmp_path: Path,
) -> None:
    account = AccountAsFound()
    elsewhere = {"StringNotEquals": {"aws:RequestedRegion": "us-east-1"}}
    account.bounds = [
        EVERYTHING_ALLOWED,
        {**DENIED, "Action": "*", "Condition": elsewhere},
        {**DENIED, "Action": "s3:*", "Resource": "arn:aws:s3:::audit/*"},
    ]
    assert found(account, tmp_path, permissionsBoundary=BOUNDARY) == []


def test_a_key_with_the_policy_of_the_example_is_no_finding(tmp_path: Path) -> None:
    assert found(AccountAsFound(), tmp_path, encryptionKey=KEY) == []


@pytest.mark.parametrize(
    "principal", [{"AWS": "*"}, {"Service": "cloudwatch.amazonaws.com"}]
)
def test_topics_that_cloudwatch_may_tell_are_no_finding(
    tmp_path: Path, principal: dict[str, str]
) -> None:
    account = AccountAsFound()
    account.topics = publish_by(**principal)
    assert found(account, tmp_path) == []


def test_a_topic_under_a_key_that_lets_cloudwatch_in_is_no_finding(tmp_path: Path) -> None:
    account = AccountAsFound()
    account.topics = {TOPIC: {"KmsMasterKeyId": KEY}}
    account.key_policy["Statement"].append(
        {
            "Effect": "Allow",
            "Principal": {"Service": "cloudwatch.amazonaws.com"},
            "Action": ["kms:Decrypt", "kms:GenerateDataKey*"],
            "Resource": "*",
        }
    )
    assert found(account, tmp_path) == []


def test_a_stack_that_stands_needs_no_more_room(tmp_path: Path) -> None:
    account = AccountAsFound()
    account.stacks = {STACK: "UPDATE_COMPLETE"}
    account.rules = 290
    assert found(account, tmp_path) == []


@pytest.mark.parametrize(
    ("is_left", "advice"),
    [
        (True, "aws s3 rb s3://cdk-hnb659fds-assets-123456789012-us-east-1"),
        (False, "make bootstrap,"),
    ],
)
def test_a_bucket_that_a_bootstrap_left_is_named_as_it_is_in_the_way_of_the_next(
    tmp_path: Path, is_left: bool, advice: str
) -> None:
    account = AccountAsFound()
    account.parameters = {}
    account.buckets = account.buckets if is_left else []
    (finding,) = findings(account, tmp_path)
    assert finding.check == "bootstrap"
    assert advice in finding.advice


def test_a_quota_that_was_raised_is_room(tmp_path: Path) -> None:
    account = AccountAsFound()
    account.rules = 290
    account.granted = {"L-244521F2": 500.0}
    assert found(account, tmp_path) == []


def test_regions_with_room_for_fewer_rules_are_known(tmp_path: Path) -> None:
    account = AccountAsFound()
    account.rules = 90
    assert ("room", "error") in found(account, tmp_path, region="eu-south-1")


@pytest.mark.parametrize(
    "status", ["CREATE_FAILED", "DELETE_FAILED", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED"]
)
def test_what_a_first_deployment_left_is_replaced_and_is_no_finding(
    tmp_path: Path, status: str
) -> None:
    account = AccountAsFound()
    account.stacks, account.was_complete = {STACK: status}, False
    assert found(account, tmp_path) == []


def test_a_region_that_is_not_served_is_found(tmp_path: Path) -> None:
    assert found(AccountAsFound(), tmp_path, region="cn-north-1")[-1] == ("region", "error")


def test_what_the_deployer_may_not_ask_is_said_and_is_no_error(tmp_path: Path) -> None:
    account = AccountAsFound()
    account.denied = {"pricing"}
    assert found(account, tmp_path) == [("prices", Severity.SKIPPED.value)]


def test_every_check_finds_something_here() -> None:
    assert {check for _, _, check in BROKEN.values()} | {"region"} == set(CHECKS)
