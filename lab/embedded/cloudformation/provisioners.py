"""CloudFormation resource types that MiniStack refuses, or makes where nothing looks for them."""

# ruff: noqa: SLF001 - MiniStack has no public extension points; its version is pinned exactly

import hashlib
import json
from collections.abc import Callable
from typing import Any, Final

from ministack.services import (
    cloudformation,
    dynamodb,
    iam,
    lambda_svc,
    s3,
    scheduler,
)
from ministack.services.cloudformation import provisioners

from lab.embedded.ec2 import Ec2Emulation

Properties = dict[str, Any]
Provisioned = tuple[str, dict[str, str]]  # physical id, attributes

_SUFFIX_LENGTH: Final = 13  # of a generated name
NOT_EVALUATED: Final = "embedded/metric-math-is-not-evaluated"


def install(ec2: Ec2Emulation) -> None:
    """Fill the gaps; ``ec2`` is where launch templates are made."""
    _accept_metric_math()
    _name_by_stack_id()
    _complete_tables()
    _reserve_concurrency()
    _keep_keys()
    _refuse_names_in_use()
    _finish("AWS::IAM::Role", _set_boundary)
    provisioners._RESOURCE_HANDLERS["AWS::EC2::LaunchTemplate"] = _launch_template(ec2)


def _refuse_names_in_use() -> None:
    # MiniStack takes over a function or a schedule group that has the name that a template gives; CloudFormation makes
    # nothing that exists already.
    # https://repost.aws/knowledge-center/cloudformation-already-exists-stack-error
    in_use: dict[str, tuple[str, Callable[[str], bool]]] = {
        "AWS::Lambda::Function": (
            "FunctionName",
            lambda name: name in lambda_svc._functions,
        ),
        "AWS::Scheduler::ScheduleGroup": (
            "Name",
            lambda name: name in scheduler._schedule_groups,
        ),
    }
    for kind, (field, exists) in in_use.items():
        handlers = provisioners._RESOURCE_HANDLERS[kind]
        provisioners._RESOURCE_HANDLERS[kind] = {
            **handlers,
            "create": _made_unless(kind, field, exists, handlers["create"]),
        }


def _made_unless(
    kind: str, field: str, exists: Callable[[str], bool], create: Callable[..., Provisioned]
) -> Callable[..., Provisioned]:
    def creating(logical_id: str, properties: Properties, stack: str) -> Provisioned:
        name = properties.get(field)
        if name is not None and exists(name):
            raise ValueError(
                f"Resource of type '{kind}' with identifier '{name}' already exists."
                " (HandlerErrorCode: AlreadyExists)"
            )
        return create(logical_id, properties, stack)

    return creating


def _accept_metric_math() -> None:
    # An alarm on an expression is described as the template says; it stays without data, since nothing evaluates it.
    make_record = provisioners._cw_metric_alarm_record

    def record(name: str, properties: dict[str, Any]) -> Any:
        metrics = properties.get("Metrics")
        if not metrics:
            return make_record(name, properties)
        plain = {key: value for key, value in properties.items() if key != "Metrics"}
        stand_in = {
            "MetricName": metrics[0]["Id"],
            "Namespace": NOT_EVALUATED,
            "TreatMissingData": "missing",
        }
        return {**make_record(name, {**plain, **stand_in}), "Metrics": metrics}

    provisioners._cw_metric_alarm_record = record


def _name_by_stack_id() -> None:
    # MiniStack makes a generated name of the stack's name alone. A stack that is made again would then meet what the
    # one before it left behind; on AWS it never does.
    name_of = provisioners._physical_name

    def named(stack_name: str, logical_id: str, **options: Any) -> str:
        name: str = name_of(stack_name, logical_id, **options)
        stack = cloudformation._stacks.get(stack_name)
        if stack is None:
            return name
        suffix = hashlib.sha256(f"{stack['StackId']} {name}".encode()).hexdigest()[
            :_SUFFIX_LENGTH
        ]
        return name[:-_SUFFIX_LENGTH] + (suffix if name.islower() else suffix.upper())

    provisioners._physical_name = named


def _complete_tables() -> None:
    # MiniStack leaves out a table's expiry of rows, its point-in-time recovery and its key, deletes protected tables,
    # and makes and deletes any number of indexes in one update.
    handlers = provisioners._RESOURCE_HANDLERS["AWS::DynamoDB::Table"]
    create, update = handlers["create"], handlers["update"]

    def finished(made: Provisioned, properties: Properties) -> Provisioned:
        recovery = properties.get("PointInTimeRecoverySpecification", {}).get(
            "PointInTimeRecoveryEnabled", False
        )
        specification = {"PointInTimeRecoveryEnabled": _typed(recovery)}
        dynamodb._update_continuous_backups(
            {"TableName": made[0], "PointInTimeRecoverySpecification": specification}
        )
        if "TimeToLiveSpecification" in properties:
            expiry = _typed(properties["TimeToLiveSpecification"])
            dynamodb._update_ttl({"TableName": made[0], "TimeToLiveSpecification": expiry})
        key = dict(properties.get("SSESpecification") or {})
        enabled = {"Enabled": _typed(key.pop("SSEEnabled", False))}
        dynamodb._tables[made[0]]["SSEDescription"] = (
            dynamodb._sse_description_from_spec({**key, **enabled}) if key else None
        )
        return made

    def updated(name: str, old: Properties, new: Properties, *rest: Any) -> Provisioned:
        if len(_index_names(old) ^ _index_names(new)) > 1:
            raise ValueError(
                "Cannot perform more than one GSI creation or deletion in a single update"
            )
        return finished(update(name, old, new, *rest), new)

    def delete(name: str, _properties: Properties) -> None:
        status, _, body = dynamodb._delete_table({"TableName": name})
        if status != 200 and name in dynamodb._tables:
            raise ValueError(f"{name}: {json.loads(body)['message']}")

    provisioners._RESOURCE_HANDLERS["AWS::DynamoDB::Table"] = {
        **handlers,
        "create": lambda logical_id, properties, stack: finished(
            create(logical_id, properties, stack), properties
        ),
        "update": updated,
        "delete": delete,
    }


def _index_names(table: Properties) -> set[str]:
    return {index["IndexName"] for index in table.get("GlobalSecondaryIndexes", ())}


def _reserve_concurrency() -> None:
    # MiniStack makes functions without what they reserve.
    _finish("AWS::Lambda::Function", _reserve)


def _reserve(name: str, properties: Properties) -> None:
    wanted = properties.get("ReservedConcurrentExecutions")
    if wanted is None:
        lambda_svc._delete_function_concurrency(name)
        return
    status, _, body = lambda_svc._put_function_concurrency(
        name, {"ReservedConcurrentExecutions": int(wanted)}
    )
    if status != 200:
        raise ValueError(json.loads(body)["message"])


def _keep_keys() -> None:
    # MiniStack makes buckets without their encryption and functions without their key.
    _finish("AWS::S3::Bucket", _encrypt_bucket)
    _finish("AWS::Lambda::Function", _set_key_of_function)


def _finish(kind: str, finish: Callable[[str, Properties], None]) -> None:
    """Have ``finish`` called with a resource's id and properties when it was made or updated.

    One that cannot be finished has an id, so that CloudFormation deletes it again as it rolls back:
    https://docs.aws.amazon.com/cloudformation-cli/latest/userguide/resource-type-test-contract.html.
    """
    handlers = provisioners._RESOURCE_HANDLERS[kind]
    create, update = handlers["create"], handlers["update"]

    def created(logical_id: str, properties: Properties, *rest: Any) -> Provisioned:
        made: Provisioned = create(logical_id, properties, *rest)
        try:
            finish(made[0], properties)
        except ValueError:
            handlers["delete"](made[0], properties)
            raise
        return made

    def updated(name: str, old: Properties, new: Properties, *rest: Any) -> Provisioned:
        made: Provisioned = update(name, old, new, *rest)
        finish(made[0], new)
        return made

    provisioners._RESOURCE_HANDLERS[kind] = {
        **handlers,
        "create": created,
        "update": updated,
    }


def _encrypt_bucket(name: str, properties: Properties) -> None:
    rules = properties.get("BucketEncryption", {}).get("ServerSideEncryptionConfiguration")
    if not rules:
        s3._bucket_encryption.pop(name, None)
        return
    default = rules[0]["ServerSideEncryptionByDefault"]
    key = default.get("KMSMasterKeyID")
    named = f"<KMSMasterKeyID>{key}</KMSMasterKeyID>" if key else ""
    algorithm = f"<SSEAlgorithm>{default['SSEAlgorithm']}</SSEAlgorithm>"
    s3._bucket_encryption[name] = (
        '<ServerSideEncryptionConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Rule>'
        f"<ApplyServerSideEncryptionByDefault>{algorithm}{named}</ApplyServerSideEncryptionByDefault>"
        "</Rule></ServerSideEncryptionConfiguration>"
    )


def _set_key_of_function(name: str, properties: Properties) -> None:
    lambda_svc._functions[name]["config"]["KMSKeyArn"] = properties.get("KmsKeyArn", "")


def _set_boundary(name: str, properties: Properties) -> None:
    # MiniStack makes the roles of stacks without what bounds them.
    boundary = properties.get("PermissionsBoundary")
    if boundary and iam._boundary_policy_error(boundary) is not None:
        raise ValueError(f"Scope ARN: {boundary} does not exist or is not attachable.")
    iam._roles[name]["PermissionsBoundary"] = boundary


def _launch_template(ec2: Ec2Emulation) -> dict[str, Any]:
    """Return the handlers for launch templates, which MiniStack would put into its own EC2, where nobody launches."""

    def described(template_id: str) -> Provisioned:
        found = ec2.client().describe_launch_templates(LaunchTemplateIds=[template_id])[
            "LaunchTemplates"
        ][0]
        return template_id, {
            "LaunchTemplateId": template_id,
            "DefaultVersionNumber": str(found["DefaultVersionNumber"]),
            "LatestVersionNumber": str(found["LatestVersionNumber"]),
        }

    def create(logical_id: str, properties: Properties, stack_name: str) -> Provisioned:
        name = properties.get("LaunchTemplateName") or provisioners._physical_name(
            stack_name, logical_id
        )
        request = {
            "LaunchTemplateName": name,
            "LaunchTemplateData": _typed(properties["LaunchTemplateData"]),
        }
        if "TagSpecifications" in properties:
            request["TagSpecifications"] = properties["TagSpecifications"]
        made = ec2.client().create_launch_template(**request)
        return described(made["LaunchTemplate"]["LaunchTemplateId"])

    def update(physical_id: str, _old: Properties, new: Properties, *_: str) -> Provisioned:
        data = _typed(new["LaunchTemplateData"])
        ec2.client().create_launch_template_version(
            LaunchTemplateId=physical_id, LaunchTemplateData=data
        )
        return described(physical_id)

    def delete(physical_id: str, _properties: Properties) -> None:
        ec2.client().delete_launch_template(LaunchTemplateId=physical_id)

    return {"create": create, "update": update, "delete": delete}


def _typed(value: Any) -> Any:
    """Turn the strings that templates may have for booleans into booleans, which botocore insists on."""
    if isinstance(value, dict):
        return {name: _typed(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_typed(each) for each in value]
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value, value)
    return value
