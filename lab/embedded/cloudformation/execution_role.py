"""As whom CloudFormation makes a stack's resources: with the role that a request names, and with no more than it may.

MiniStack makes resources without asking anybody. Here each is made, changed and deleted with the actions that
CloudFormation's handler of its kind calls, of those that its properties ask for; where the role may not, the resource
fails as at AWS. A stack keeps its role; without one nothing is asked here, though AWS asks the caller. The actions are
those of the schemas of CloudFormation's registry (`handlers`, `permissions`), which say none for rules.
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-iam-servicerole.html
https://docs.aws.amazon.com/cloudformation-cli/latest/userguide/resource-type-schema.html
"""

# ruff: noqa: SLF001 - MiniStack has no public extension points; its version is pinned exactly

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ministack.core import responses
from ministack.services import iam
from ministack.services.cloudformation import handlers, stacks

from lab.embedded.functions.roles import role_allows

Properties = Mapping[str, Any]
Need = tuple[
    str, str, Mapping[str, str]
]  # an action, the ARN that it is about, condition keys

_CREATE, _UPDATE, _DELETE = "create", "update", "delete"
_CUSTOM: Final = ("Custom::", "AWS::CloudFormation::CustomResource")
_SUFFIX: Final = "-ABCDEFGHIJKL"  # of a name that CloudFormation chooses
# How MiniStack begins a log group's name that CloudFormation chooses; at AWS it begins with the stack's.
_LOGS_OF_STACKS: Final = "/aws/cloudformation/"
_TO_STORE: Final = ("kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey", "kms:Encrypt")


# https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsidentityandaccessmanagementiam.html
_BOUNDED: Final = frozenset(
    {
        "iam:AttachRolePolicy",
        "iam:CreateRole",
        "iam:DeleteRolePolicy",
        "iam:PutRolePermissionsBoundary",
        "iam:PutRolePolicy",
    }
)


class DeniedError(ValueError):
    """The stack's role may not do what making a resource takes; CloudFormation reports the text."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of resource: its ARN by its name, the property that names it, and what making it calls."""

    arn: str
    actions: Mapping[str, tuple[str, ...]]
    name: str | None = None


_KINDS: Final[Mapping[str, Kind]] = {
    "AWS::CloudWatch::Alarm": Kind(
        "cloudwatch:{region}:{account}:alarm:{name}",
        {
            _CREATE: ("cloudwatch:PutMetricAlarm", "cloudwatch:DescribeAlarms"),
            _UPDATE: ("cloudwatch:PutMetricAlarm", "cloudwatch:DescribeAlarms"),
            _DELETE: ("cloudwatch:DeleteAlarms", "cloudwatch:DescribeAlarms"),
        },
        "AlarmName",
    ),
    "AWS::CloudWatch::Dashboard": Kind(
        "cloudwatch::{account}:dashboard/{name}",
        {
            _CREATE: ("cloudwatch:PutDashboard", "cloudwatch:GetDashboard"),
            _UPDATE: ("cloudwatch:PutDashboard",),
            _DELETE: ("cloudwatch:DeleteDashboards", "cloudwatch:GetDashboard"),
        },
        "DashboardName",
    ),
    "AWS::DynamoDB::Table": Kind(
        "dynamodb:{region}:{account}:table/{name}",
        {
            _CREATE: (
                "dynamodb:CreateTable",
                "dynamodb:DescribeTable",
                "dynamodb:DescribeTimeToLive",
                "dynamodb:UpdateTimeToLive",
                "dynamodb:DescribeContinuousBackups",
                "dynamodb:UpdateContinuousBackups",
            ),
            _UPDATE: (
                "dynamodb:UpdateTable",
                "dynamodb:DescribeTable",
                "dynamodb:DescribeTimeToLive",
                "dynamodb:DescribeContinuousBackups",
            ),
            _DELETE: ("dynamodb:DeleteTable", "dynamodb:DescribeTable"),
        },
        "TableName",
    ),
    "AWS::Events::EventBus": Kind(
        "events:{region}:{account}:event-bus/{name}",
        {
            _CREATE: ("events:CreateEventBus", "events:DescribeEventBus"),
            _UPDATE: ("events:DescribeEventBus",),
            _DELETE: ("events:DeleteEventBus", "events:DescribeEventBus"),
        },
        "Name",
    ),
    "AWS::Events::Rule": Kind(
        "events:{region}:{account}:rule/{bus}{name}",
        {
            _CREATE: ("events:DescribeRule", "events:PutRule", "events:PutTargets"),
            _UPDATE: ("events:DescribeRule", "events:PutRule", "events:PutTargets"),
            _DELETE: ("events:DeleteRule", "events:RemoveTargets"),
        },
        "Name",
    ),
    "AWS::IAM::ManagedPolicy": Kind(
        "iam::{account}:policy/{name}",
        {
            _CREATE: ("iam:CreatePolicy",),
            _UPDATE: (
                "iam:CreatePolicyVersion",
                "iam:DeletePolicyVersion",
                "iam:GetPolicy",
                "iam:ListPolicyVersions",
            ),
            _DELETE: (
                "iam:DeletePolicy",
                "iam:GetPolicy",
                "iam:ListEntitiesForPolicy",
                "iam:ListPolicyVersions",
            ),
        },
        "ManagedPolicyName",
    ),
    "AWS::IAM::Role": Kind(
        "iam::{account}:role/{name}",
        {
            _CREATE: ("iam:CreateRole", "iam:GetRole"),
            _UPDATE: (
                "iam:GetRole",
                "iam:UpdateAssumeRolePolicy",
                "iam:UpdateRole",
                "iam:UpdateRoleDescription",
            ),
            _DELETE: (
                "iam:DeleteRole",
                "iam:GetRole",
                "iam:ListAttachedRolePolicies",
                "iam:ListRolePolicies",
            ),
        },
        "RoleName",
    ),
    "AWS::Lambda::EventSourceMapping": Kind(
        "lambda:{region}:{account}:event-source-mapping:{name}",
        {
            _CREATE: ("lambda:CreateEventSourceMapping", "lambda:GetEventSourceMapping"),
            _UPDATE: ("lambda:UpdateEventSourceMapping", "lambda:GetEventSourceMapping"),
            _DELETE: ("lambda:DeleteEventSourceMapping", "lambda:GetEventSourceMapping"),
        },
    ),
    "AWS::Lambda::Function": Kind(
        "lambda:{region}:{account}:function:{name}",
        {
            _CREATE: ("lambda:CreateFunction", "lambda:GetFunction"),
            _UPDATE: (
                "lambda:GetFunction",
                "lambda:UpdateFunctionCode",
                "lambda:UpdateFunctionConfiguration",
            ),
            _DELETE: ("lambda:DeleteFunction", "lambda:GetFunction"),
        },
        "FunctionName",
    ),
    "AWS::Lambda::LayerVersion": Kind(
        "lambda:{region}:{account}:layer:{name}",
        {
            _CREATE: ("lambda:PublishLayerVersion",),
            _DELETE: ("lambda:DeleteLayerVersion", "lambda:GetLayerVersion"),
        },
        "LayerName",
    ),
    "AWS::Logs::LogGroup": Kind(
        "logs:{region}:{account}:log-group:{name}:*",
        {
            _CREATE: (
                "logs:CreateLogGroup",
                "logs:DescribeLogGroups",
                "logs:PutRetentionPolicy",
            ),
            _UPDATE: ("logs:DescribeLogGroups", "logs:PutRetentionPolicy"),
            _DELETE: ("logs:DeleteLogGroup", "logs:DescribeLogGroups"),
        },
        "LogGroupName",
    ),
    "AWS::S3::Bucket": Kind(
        "s3:::{name}",
        {
            _CREATE: (
                "s3:CreateBucket",
                "s3:PutBucketPublicAccessBlock",
                "s3:PutEncryptionConfiguration",
                "s3:PutLifecycleConfiguration",
            ),
            _UPDATE: (
                "s3:PutBucketPublicAccessBlock",
                "s3:PutEncryptionConfiguration",
                "s3:PutLifecycleConfiguration",
            ),
            _DELETE: ("s3:DeleteBucket",),
        },
        "BucketName",
    ),
    "AWS::SQS::Queue": Kind(
        "sqs:{region}:{account}:{name}",
        {
            _CREATE: ("sqs:CreateQueue", "sqs:GetQueueAttributes", "sqs:GetQueueUrl"),
            _UPDATE: ("sqs:GetQueueAttributes", "sqs:SetQueueAttributes"),
            _DELETE: ("sqs:DeleteQueue", "sqs:GetQueueAttributes"),
        },
        "QueueName",
    ),
    "AWS::Scheduler::ScheduleGroup": Kind(
        "scheduler:{region}:{account}:schedule-group/{name}",
        {
            _CREATE: ("scheduler:CreateScheduleGroup", "scheduler:GetScheduleGroup"),
            _UPDATE: ("scheduler:GetScheduleGroup",),
            _DELETE: ("scheduler:DeleteScheduleGroup", "scheduler:GetScheduleGroup"),
        },
        "Name",
    ),
}
# What tagging a resource calls beside making it, where its tags are not part of the same call's permission.
_TAGGING: Final[Mapping[str, str]] = {
    "AWS::CloudWatch::Alarm": "cloudwatch:TagResource",
    "AWS::DynamoDB::Table": "dynamodb:TagResource",
    "AWS::Events::EventBus": "events:TagResource",
    "AWS::IAM::Role": "iam:TagRole",
    "AWS::Lambda::EventSourceMapping": "lambda:TagResource",
    "AWS::Lambda::Function": "lambda:TagResource",
    "AWS::Logs::LogGroup": "logs:TagResource",
    "AWS::S3::Bucket": "s3:PutBucketTagging",
    "AWS::SQS::Queue": "sqs:TagQueue",
    "AWS::Scheduler::ScheduleGroup": "scheduler:TagResource",
}
# Parts of another resource, which a property names.
_PARTS: Final[Mapping[str, tuple[str, str, Mapping[str, tuple[str, ...]]]]] = {
    "AWS::IAM::Policy": (
        "AWS::IAM::Role",
        "Roles",
        {
            _CREATE: ("iam:GetRolePolicy", "iam:PutRolePolicy"),
            _UPDATE: ("iam:PutRolePolicy",),
            _DELETE: ("iam:DeleteRolePolicy",),
        },
    ),
    "AWS::Lambda::EventInvokeConfig": (
        "AWS::Lambda::Function",
        "FunctionName",
        {
            _CREATE: ("lambda:PutFunctionEventInvokeConfig",),
            _UPDATE: ("lambda:UpdateFunctionEventInvokeConfig",),
            _DELETE: ("lambda:DeleteFunctionEventInvokeConfig",),
        },
    ),
    "AWS::Lambda::Permission": (
        "AWS::Lambda::Function",
        "FunctionName",
        {
            _CREATE: ("lambda:AddPermission",),
            _UPDATE: ("lambda:AddPermission", "lambda:RemovePermission"),
            _DELETE: ("lambda:RemovePermission",),
        },
    ),
    "AWS::S3::BucketPolicy": (
        "AWS::S3::Bucket",
        "Bucket",
        {
            _CREATE: ("s3:GetBucketPolicy", "s3:PutBucketPolicy"),
            _UPDATE: ("s3:GetBucketPolicy", "s3:PutBucketPolicy"),
            _DELETE: ("s3:DeleteBucketPolicy", "s3:GetBucketPolicy"),
        },
    ),
    "AWS::SQS::QueuePolicy": (
        "AWS::SQS::Queue",
        "Queues",
        dict.fromkeys((_CREATE, _UPDATE, _DELETE), ("sqs:SetQueueAttributes",)),
    ),
}


class ExecutionRoles:
    """The roles of stacks, by the stack's name."""

    def __init__(self) -> None:
        self._roles: dict[str, str] = {}

    def install(self) -> None:
        """Keep the role of each request, and ask it for each resource."""
        for action in ("CreateStack", "UpdateStack", "DeleteStack", "CreateChangeSet"):
            handlers._ACTION_HANDLERS[action] = self._keeping(
                handlers._ACTION_HANDLERS[action]
            )
        make, change, delete = (
            stacks._provision_resource,
            stacks._update_resource,
            stacks._delete_resource,
        )

        def making(kind: str, logical: str, properties: Properties, stack: str) -> Any:
            self._ask(
                stack, _CREATE, kind, _name(kind, properties, stack, logical), properties
            )
            return make(kind, logical, properties, stack)

        def changing(
            kind: str,
            physical: str,
            old: Properties,
            new: Properties,
            stack: str,
            *rest: Any,
        ) -> Any:
            if old != new:
                self._ask(stack, _UPDATE, kind, physical, new)
            return change(kind, physical, old, new, stack, *rest)

        def deleting(
            kind: str,
            physical: str,
            properties: Properties,
            stack: str | None = None,
            logical: str | None = None,
        ) -> Any:
            if stack is not None:
                self._ask(stack, _DELETE, kind, physical, properties)
            return delete(kind, physical, properties, stack, logical)

        stacks._provision_resource = making
        stacks._update_resource = changing
        stacks._delete_resource = deleting

    def _keeping(self, handle: Callable[..., Any]) -> Callable[..., Any]:
        def keeping(params: Mapping[str, Any]) -> Any:
            role = handlers._p(params, "RoleARN")
            if role:
                stack: str = handlers._p(params, "StackName")
                self._roles[stack.rpartition(":stack/")[2].partition("/")[0]] = role
            return handle(params)

        return keeping

    def _ask(
        self, stack: str, step: str, kind: str, name: str, properties: Properties
    ) -> None:
        role = self._roles.get(stack)
        if role is None:
            return
        for action, arn, keys in needs(step, kind, name, properties):
            known = {**keys, **_boundary_of(action, arn, properties)}
            if not role_allows(role, action, arn, known):
                raise DeniedError(
                    f"User: {role} is not authorized to perform: {action} on resource: {arn}"
                    f" because no identity-based policy allows the {action} action"
                )


def _boundary_of(action: str, arn: str, properties: Properties) -> Mapping[str, str]:
    """Return the boundary of the role that a call is about: the one that it is to have, or has."""
    if action not in _BOUNDED:
        return {}
    role = iam._roles.get(arn.rpartition("/")[2]) or {}
    boundary = properties.get("PermissionsBoundary") or role.get("PermissionsBoundary")
    return {"iam:PermissionsBoundary": boundary} if boundary else {}


def needs(step: str, kind: str, name: str, properties: Properties) -> Iterator[Need]:
    """Yield what CloudFormation calls to make, change or delete a resource."""
    if kind.startswith(_CUSTOM):
        yield "lambda:InvokeFunction", properties["ServiceToken"], {}
        return
    if kind in _PARTS:
        whole, field, actions = _PARTS[kind]
        named = properties[field]
        for each in named if isinstance(named, list) else [named]:
            for action in actions[step]:
                yield action, _arn(whole, str(each), {}), {}
        return
    if kind not in _KINDS:
        return
    arn = _arn(kind, name, properties)
    keys = {}
    if kind == "AWS::Lambda::EventSourceMapping":
        function = _arn("AWS::Lambda::Function", properties["FunctionName"], {})
        keys = {"lambda:FunctionArn": function}
    for action in _KINDS[kind].actions.get(step, ()):
        yield action, arn, keys
    if step != _DELETE:
        yield from _by_properties(kind, arn, properties)


def _by_properties(kind: str, arn: str, properties: Properties) -> Iterator[Need]:
    if properties.get("Tags") and kind in _TAGGING:
        yield _TAGGING[kind], arn, {}
    if kind in _ASKED:
        yield from _ASKED[kind](arn, properties)


def _of_role(arn: str, properties: Properties) -> Iterator[Need]:
    if properties.get("PermissionsBoundary"):
        yield "iam:PutRolePermissionsBoundary", arn, {}
    if properties.get("ManagedPolicyArns"):
        yield "iam:AttachRolePolicy", arn, {}


def _of_managed_policy(_arn_of_policy: str, properties: Properties) -> Iterator[Need]:
    for role in properties.get("Roles") or ():
        yield "iam:AttachRolePolicy", _arn("AWS::IAM::Role", str(role), {}), {}


def _of_log_group(arn: str, properties: Properties) -> Iterator[Need]:
    if properties.get("KmsKeyId"):
        yield "logs:AssociateKmsKey", arn, {}


def _of_table(_arn_of_table: str, properties: Properties) -> Iterator[Need]:
    key = (properties.get("SSESpecification") or {}).get("KMSMasterKeyId")
    if key:
        for action in _TO_STORE:
            yield action, key, {}


def _of_layer(_arn_of_layer: str, properties: Properties) -> Iterator[Need]:
    yield from _of_code(properties["Content"])


def _of_function(arn: str, properties: Properties) -> Iterator[Need]:
    yield (
        "iam:PassRole",
        properties["Role"],
        {"iam:PassedToService": "lambda.amazonaws.com"},
    )
    yield from _of_code(properties["Code"])
    for layer in properties.get("Layers") or ():
        yield "lambda:GetLayerVersion", layer, {}
    if (properties.get("VpcConfig") or {}).get("SubnetIds"):
        for what in ("SecurityGroups", "Subnets", "Vpcs"):
            yield f"ec2:Describe{what}", "*", {}
    key = properties.get("KmsKeyArn")
    if key:
        for action in (*_TO_STORE, "kms:GenerateDataKey"):
            yield action, key, {}
    if properties.get("ReservedConcurrentExecutions") is not None:
        yield "lambda:PutFunctionConcurrency", arn, {}
    if properties.get("RecursiveLoop"):
        yield "lambda:PutFunctionRecursionConfig", arn, {}


_ASKED: Final[Mapping[str, Callable[[str, Properties], Iterator[Need]]]] = {
    "AWS::DynamoDB::Table": _of_table,
    "AWS::IAM::ManagedPolicy": _of_managed_policy,
    "AWS::IAM::Role": _of_role,
    "AWS::Lambda::Function": _of_function,
    "AWS::Lambda::LayerVersion": _of_layer,
    "AWS::Logs::LogGroup": _of_log_group,
}


def _of_code(code: Properties) -> Iterator[Need]:
    if "S3Bucket" in code:
        yield "s3:GetObject", f"arn:aws:s3:::{code['S3Bucket']}/{code['S3Key']}", {}


def _name(kind: str, properties: Properties, stack: str, logical: str) -> str:
    """Return a resource's name, or one as CloudFormation chooses it."""
    field = _KINDS[kind].name if kind in _KINDS else None
    if field is not None and properties.get(field):
        return str(properties[field])
    chosen = f"{stack}-{logical}{_SUFFIX}"
    return chosen.lower() if kind == "AWS::S3::Bucket" else chosen


def _arn(kind: str, name: str, properties: Properties) -> str:
    if name.startswith("arn:"):
        return name
    if name.startswith(_LOGS_OF_STACKS):
        name = name.removeprefix(_LOGS_OF_STACKS).replace("/", "-")
    bus = properties.get("EventBusName")
    text = _KINDS[kind].arn.format(
        region=responses.get_region(),
        account=responses.get_account_id(),
        name=name.rpartition("/")[2],  # of a queue's URL
        bus=f"{bus}/" if bus else "",
    )
    return f"arn:aws:{text}"
