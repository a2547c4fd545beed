"""The customer managed key, where a deployment has one: of what the stack stores, who may use it, and how."""

from collections.abc import Iterable
from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs

from infra.iam.grants import Grant, Resources
from infra.naming import function_name
from reservoir.names import Function

# SQS asks KMS for a new data key of a queue this often, and so does each who sends or receives; the default is 300.
REUSE_PERIOD_S: Final = 3_600
READ: Final = ("kms:Decrypt", "kms:DescribeKey")
SEND: Final = ("kms:Decrypt", "kms:GenerateDataKey")
# What DynamoDB asks for in a caller's name: its developer guide, "Using AWS KMS keys to encrypt".
WRITE: Final = (
    *READ,
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)


def encrypt(stack: Stack, key_arn: str) -> None:
    """Encrypt everything in ``stack`` that stores something with the key.

    Not by the CDK's own properties: it would add statements of its own beside those of the grants.
    """
    for each in stack.node.find_all():
        match each:
            case dynamodb.CfnTable():
                each.sse_specification = dynamodb.CfnTable.SSESpecificationProperty(
                    sse_enabled=True, sse_type="KMS", kms_master_key_id=key_arn
                )
            case sqs.CfnQueue():
                each.sqs_managed_sse_enabled = None
                each.kms_master_key_id = key_arn
                each.kms_data_key_reuse_period_seconds = REUSE_PERIOD_S
            case s3.CfnBucket():
                each.bucket_encryption = _of_bucket(key_arn)
            case logs.CfnLogGroup():
                each.kms_key_id = key_arn
            case lambda_.CfnFunction():
                each.kms_key_arn = key_arn
            case _:
                pass


def _of_bucket(key_arn: str) -> s3.CfnBucket.BucketEncryptionProperty:
    by_default = s3.CfnBucket.ServerSideEncryptionByDefaultProperty(
        sse_algorithm="aws:kms", kms_master_key_id=key_arn
    )
    rule = s3.CfnBucket.ServerSideEncryptionRuleProperty(
        bucket_key_enabled=True, server_side_encryption_by_default=by_default
    )
    return s3.CfnBucket.BucketEncryptionProperty(
        server_side_encryption_configuration=[rule]
    )


def use(
    resources: Resources, actions: Iterable[str], services: Iterable[str]
) -> Iterable[Grant]:
    """Allow using the key through AWS's ``services`` that store with it; nothing where there is no key."""
    key_arn = resources.deployment.settings.encryption_key
    if key_arn is None:
        return
    region = resources.stack.region
    yield Grant(
        "UseDataKey",
        "What is stored with the deployment's key is read and written by those services alone.",
        list(actions),
        [key_arn],
        {
            "StringEquals": {
                "kms:ViaService": [f"{name}.{region}.amazonaws.com" for name in services]
            }
        },
    )


def read_variables(function: Function, resources: Resources) -> Iterable[Grant]:
    """Allow a function to begin: Lambda decrypts its variables with its role's permission, and says whose they are."""
    key_arn = resources.deployment.settings.encryption_key
    if key_arn is None:
        return
    stack = resources.stack
    arn = stack.format_arn(
        service="lambda", resource=f"function:{function_name(stack.stack_name, function)}"
    )
    yield Grant(
        "ReadOwnVariables",
        "Lambda decrypts a function's variables with its role's permission.",
        ["kms:Decrypt"],
        [key_arn],
        {"StringEquals": {"kms:EncryptionContext:aws:lambda:FunctionArn": arn}},
    )
