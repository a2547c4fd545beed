"""Customer managed keys of tables, queues, buckets, logs and functions: who may not use a key gets nothing of it.

AWS's services use such a key in the name of who calls them, EventBridge and CloudWatch Logs in their own. Their guides:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html
https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html
https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html
https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars-encryption.html
AWS remembers for minutes what it has decrypted; here each call is asked anew, so that a refusal is seen at once.
"""

# ruff: noqa: SLF001 - MiniStack has no public extension points; its version is pinned exactly

import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

from ministack import app
from ministack.core import iam_actions, iam_evaluator, responses
from ministack.services import (
    cloudwatch_logs,
    dynamodb,
    kms,
    lambda_svc,
    s3,
    sqs,
)

from lab.embedded.front.senders import caller_key
from lab.embedded.functions.roles import context_of, role_allows
from lab.embedded.limits.quotas import QuotaError, checked

Response = tuple[int, dict[str, str], bytes]
Handler = Callable[..., Coroutine[Any, Any, Response]]

_TO_READ: Final = ("kms:Decrypt", "kms:DescribeKey")
_TO_SEND: Final = ("kms:Decrypt", "kms:GenerateDataKey")
_TO_WRITE: Final = (
    *_TO_READ,
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)
# By IAM's name of a call: what whoever makes it must be allowed with the key.
NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    **{
        f"dynamodb:{each}": _TO_READ
        for each in ("BatchGetItem", "GetItem", "Query", "Scan", "TransactGetItems")
    },
    **{
        f"dynamodb:{each}": _TO_WRITE
        for each in (
            *("BatchWriteItem", "ConditionCheckItem", "DeleteItem", "PutItem"),
            *("TransactWriteItems", "UpdateItem"),
        )
    },
    "sqs:SendMessage": _TO_SEND,
    "sqs:ReceiveMessage": ("kms:Decrypt",),
    "sqs:StartMessageMoveTask": _TO_SEND,
    "s3:GetObject": ("kms:Decrypt",),
    "s3:PutObject": ("kms:GenerateDataKey",),
}
_OF_LOGS: Final = ("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey")
_OF_STATE: Final = {"Disabled": "KmsDisabled"}
_OF_AWS: Final = "alias/aws/"  # everybody of the account may use those
_KEY_HEADER: Final = "x-amz-server-side-encryption-aws-kms-key-id"
_KEY_ID: Final = re.compile(r"<KMSMasterKeyID>([^<]+)<")


def install() -> None:
    """Ask for the key wherever one is used."""
    for service in ("dynamodb", "sqs", "s3"):
        app.SERVICE_HANDLERS[service] = _guarded(service, app.SERVICE_HANDLERS[service])
    _guard_logs()
    _guard_pollers()
    _use_awss_own_key()


def _use_awss_own_key() -> None:
    """Let S3 encrypt what asks for KMS and names no key with AWS's own, as it does; MiniStack refuses that."""
    resolve = s3._resolve_sse_write_headers

    def resolved(headers: dict[str, str], bucket_name: str) -> Any:
        asks = headers.get("x-amz-server-side-encryption") == "aws:kms"
        if asks and not headers.get(_KEY_HEADER):
            headers = {**headers, _KEY_HEADER: f"{_OF_AWS}s3"}
        return resolve(headers, bucket_name)

    s3._resolve_sse_write_headers = resolved


def _guarded(service: str, handler: Handler) -> Handler:
    async def handle(
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        query: dict[str, list[str]],
    ) -> Response:
        if kms._keys:
            refused = _refusal_of_call(service, method, path, headers, body, query)
            if refused is not None:
                return refused
        return await handler(method, path, headers, body, query)

    return handle


def _refusal_of_call(
    service: str,
    method: str,
    path: str,
    headers: dict[str, str],
    body: bytes,
    query: dict[str, list[str]],
) -> Response | None:
    parameters = app._routing_params(method, path, headers, body, query)
    action = (
        iam_actions.extract_iam_action(service, method, path, headers, body, parameters)
        or ""
    )
    needed = NEEDED.get(action)
    if needed is None:
        return None
    region, account_id = responses.get_region(), responses.get_account_id()
    arns = [
        iam_actions.extract_resource_arn(
            service, method, path, headers, body, parameters, region, account_id
        )
    ]
    if service == "dynamodb":
        arns = iam_actions.dynamodb_resource_arns(body, region, account_id) or [
            arn
            for _, arn in iam_actions.dynamodb_transaction_checks(
                action, body, region, account_id
            )
            or ()
        ]
    for arn in arns:
        key = _key_of(service, arn)
        code = None if key is None else _refusal_of_caller(service, key, needed, region)
        if code is not None:
            return _refused(service, code, path)
    return None


def _key_of(service: str, arn: str) -> str | None:
    """Return the key that a table, queue or bucket is encrypted with, if it is a customer's."""
    if service == "dynamodb":
        table = dynamodb._tables.get(arn.partition(":table/")[2].partition("/")[0]) or {}
        found = (table.get("SSEDescription") or {}).get("KMSMasterKeyArn")
    elif service == "sqs":
        queue = sqs._queue_by_arn(arn)
        found = None if queue is None else queue["attributes"].get("KmsMasterKeyId")
    else:
        bucket = arn.rpartition(":")[2].partition("/")[0]
        named = _KEY_ID.search(s3._bucket_encryption.get(bucket) or "")
        found = None if named is None else named[1]
    return str(found) if found and _OF_AWS not in str(found) else None


def _refusal_of_caller(
    service: str, key: str, actions: Iterable[str], region: str
) -> str | None:
    """Return the code of SQS for the reason why the caller may not use a key, or None."""
    found = kms._resolve_key(key)
    if found is None:
        return "KmsNotFound"
    if found["KeyState"] != "Enabled":
        return _OF_STATE.get(found["KeyState"], "KmsInvalidState")
    through = {"kms:ViaService": f"{service}.{region}.amazonaws.com"}
    for action in actions:
        denied = iam_evaluator.enforce(
            caller_key.get(),
            action,
            "kms",
            region,
            resource_arn=found["Arn"],
            service_context=through,
        )
        if denied is not None:
            return "KmsAccessDenied"
    return None


def _refused(service: str, code: str, path: str) -> Response:
    message = (
        "The ciphertext refers to a customer master key that does not exist, does not exist in this region, or you are"
        " not allowed to access."
    )
    if service == "sqs":
        refused: Response = sqs._json_err_resp(code, message)
    elif service == "dynamodb":
        # https://github.com/aws/aws-cdk/issues/18616 has the text
        refused = responses.error_response_json(
            "AccessDeniedException", f"KMS key access denied error: {message}", 400
        )
    elif code == "KmsAccessDenied":
        refused = s3._error("AccessDenied", message, 403, path)
    else:
        refused = s3._error(f"KMS.{code[3:]}Exception", message, 400, path)
    return refused


# --- services that use a key in their own name, or with a role


def service_may_use(
    key: str, service: str, actions: Iterable[str], keys: Mapping[str, str]
) -> bool:
    """Whether a key's own policy lets an AWS service do all of ``actions``; IAM has no word in it."""
    found = kms._resolve_key(key)
    return (
        found is not None
        and found["KeyState"] == "Enabled"
        and all(
            iam_evaluator.evaluate_resource_policy(
                found["Policy"],
                context_of(service, action, found["Arn"], keys),
                service=service,
            ).decision
            == "Allow"
            for action in actions
        )
    )


def role_may_use(
    key: str, role_arn: str, actions: Iterable[str], keys: Mapping[str, str]
) -> bool:
    """Whether a role's policies let it use a key, whose own policy leaves that to IAM."""
    found = kms._resolve_key(key)
    return (
        found is not None
        and found["KeyState"] == "Enabled"
        and all(role_allows(role_arn, action, found["Arn"], keys) for action in actions)
    )


def may_deliver(queue_arn: str, role_arn: str | None) -> bool:
    """Whether EventBridge, or Scheduler with a role, may encrypt what it sends to a queue."""
    key = _key_of("sqs", queue_arn)
    if key is None:
        return True
    if role_arn is None:
        return service_may_use(key, "events.amazonaws.com", _TO_SEND, {})
    through = {"kms:ViaService": f"sqs.{responses.get_region()}.amazonaws.com"}
    return role_may_use(key, role_arn, _TO_SEND, through)


def may_start(config: Mapping[str, Any]) -> bool:
    """Whether Lambda can decrypt a function's variables with its role."""
    key = config.get("KMSKeyArn")
    if not key:
        return True
    context = {"kms:EncryptionContext:aws:lambda:FunctionArn": str(config["FunctionArn"])}
    return role_may_use(str(key), str(config["Role"]), ["kms:Decrypt"], context)


def _guard_pollers() -> None:
    # A poller receives with the function's role: what it may not decrypt stays in the queue, and counts no receive.
    receive = sqs._receive_messages_for_esm

    def receive_what_may_be_read(queue_url: str, max_number: int) -> Any:
        queue = sqs._queues.get(queue_url)
        arn = "" if queue is None else queue["attributes"]["QueueArn"]
        key = _key_of("sqs", arn) if arn else None
        if key is not None and not all(
            _reads(key, role) for role in _roles_of_pollers(arn)
        ):
            return []
        return receive(queue_url, max_number)

    sqs._receive_messages_for_esm = receive_what_may_be_read


def _roles_of_pollers(queue_arn: str) -> list[str]:
    functions = [
        esm["FunctionName"]
        for _, _, esm in lambda_svc._iter_all_esms()
        if esm.get("EventSourceArn") == queue_arn
    ]
    configs = [
        lambda_svc._get_func_record_for_qualifier(name, None)[1] for name in functions
    ]
    return [str(config["Role"]) for config in configs if config is not None]


def _reads(key: str, role_arn: str) -> bool:
    through = {"kms:ViaService": f"sqs.{responses.get_region()}.amazonaws.com"}
    return role_may_use(key, role_arn, ["kms:Decrypt"], through)


def _guard_logs() -> None:
    create = cloudwatch_logs._create_log_group

    def checked_create(data: dict[str, Any]) -> Any:
        refused = _refusal_of_logs(data.get("kmsKeyId"), str(data.get("logGroupName")))
        if refused is not None:
            return responses.error_response_json("AccessDeniedException", refused, 400)
        return create(data)

    cloudwatch_logs._create_log_group = checked_create

    def check(properties: Mapping[str, Any]) -> None:
        name = str(properties.get("LogGroupName", "*"))
        refused = _refusal_of_logs(properties.get("KmsKeyId"), name)
        if refused is not None:
            raise QuotaError(refused)

    checked("AWS::Logs::LogGroup", check)


def _refusal_of_logs(key: str | None, name: str) -> str | None:
    """Say why CloudWatch Logs may not use a key; https://github.com/aws/aws-cdk/issues/28304 has the text."""
    region = responses.get_region()
    arn = f"arn:aws:logs:{region}:{responses.get_account_id()}:log-group:{name}"
    about = {"kms:EncryptionContext:aws:logs:arn": arn}
    if not key or service_may_use(key, f"logs.{region}.amazonaws.com", _OF_LOGS, about):
        return None
    return f"The specified KMS key does not exist or is not allowed to be used with Arn '{arn}'"
