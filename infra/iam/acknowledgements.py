"""Findings of cdk-nag that stand, each acknowledged singly, with its reason, where it arises."""

from collections.abc import Iterable

from aws_cdk import Acknowledgment, Stack, Validations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs

from infra.iam.grants import Grant


def acknowledge_wildcards(
    role: iam.Role | iam.ManagedPolicy, grants: Iterable[Grant]
) -> None:
    """Give each resource pattern of a role or policy the reason that its grants state."""
    reasons: dict[str, list[str]] = {}
    for grant in grants:
        for resource in grant.resources:
            text = as_reported(Stack.of(role).resolve(resource))
            if "*" in text:
                reasons.setdefault(text, []).append(grant.reason)
    for text, because in reasons.items():
        _acknowledge(role, f"AwsSolutions-IAM5[Resource::{text}]", " ".join(because))


def acknowledge_runtime(function: lambda_.Function) -> None:
    """Explain why the runtime is not the newest."""
    _acknowledge(
        function,
        "AwsSolutions-L1",
        "Python 3.13 is supported into 2029 and is what the locked wheels are tested on.",
    )


def acknowledge_no_access_log(bucket: s3.Bucket) -> None:
    """Explain why the bucket of snapshots logs no accesses."""
    _acknowledge(
        bucket,
        "AwsSolutions-S1",
        "Replay data for a month, without secrets; CloudTrail data events serve who must audit reads.",
    )


def acknowledge_letters_of_rules(queue: sqs.Queue) -> None:
    """Explain why a queue has no dead letter queue: it is one, of rules, which cdk-nag does not see."""
    _acknowledge(
        queue,
        "AwsSolutions-SQS3",
        "It is the dead letter queue of the stack's EventBridge rules.",
    )


def _acknowledge(
    construct: iam.Role | iam.ManagedPolicy | lambda_.Function | s3.Bucket | sqs.Queue,
    rule: str,
    reason: str,
) -> None:
    Validations.of(construct).acknowledge(
        Acknowledgment(id=f"AwsSolutions::{rule}", reason=reason)
    )


def as_reported(resolved: object) -> str:
    """Write a resolved ARN as cdk-nag reports it: ``{"Ref": "AWS::Region"}`` is ``<AWS::Region>``."""
    match resolved:
        case {"Ref": str(name)}:
            return f"<{name}>"
        case {"Fn::GetAtt": [str(name), str(attribute)]}:
            return f"<{name}.{attribute}>"
        case {"Fn::Join": [str(separator), [*parts]]}:
            return separator.join(as_reported(part) for part in parts)
        case str(text):
            return text
        case _:
            message = f"an ARN of an unknown form: {resolved!r}"
            raise ValueError(message)
