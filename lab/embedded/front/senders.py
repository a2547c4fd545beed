"""Who sent a message: SQS's ``SenderId``, which MiniStack fills with the account for everybody.

AWS gives a user's id (``AIDA...``) and, for whoever acts with a role, the role's id with the session's name
(``AROA...:session``): https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html.
The account's root sends as the account.
"""

# ruff: noqa: SLF001 - MiniStack has no public extension points; its version is pinned exactly

import contextvars
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ministack.core import iam_evaluator, responses
from ministack.services import lambda_svc, sqs

# The key that signed the request under way; empty for what AWS's own services send.
caller_key: Final[contextvars.ContextVar[str]] = contextvars.ContextVar(
    "access key of this request", default=""
)


def install() -> None:
    """Let messages carry their sender to receivers and to functions."""
    sqs._build_send_sys_attrs = _with_sender(sqs._build_send_sys_attrs)
    lambda_svc._run_sqs_batch = _with_senders_of_batch(lambda_svc._run_sqs_batch)


def _with_sender(
    build: Callable[[float, Any], dict[str, Any]],
) -> Callable[[float, Any], dict[str, Any]]:
    def attributes(now: float, asked: Any) -> dict[str, Any]:
        return {**build(now, asked), "SenderId": _sender_id()}

    return attributes


def _sender_id() -> str:
    account_id = str(responses.get_account_id())
    key = caller_key.get()
    caller = iam_evaluator.resolve_credential(key, account_id) if key else None
    return (
        caller.principal_id
        if isinstance(caller, iam_evaluator.ResolvedCredential)
        else account_id
    )


def _with_senders_of_batch(run: Callable[..., Any]) -> Callable[..., Any]:
    def run_batch(
        mapping: Any,
        function: Any,
        event: Mapping[str, Any],
        batch: Sequence[Mapping[str, Any]],
        *rest: Any,
    ) -> Any:
        senders = {message["id"]: message["sys"]["SenderId"] for message in batch}
        for record in event["Records"]:
            record["attributes"]["SenderId"] = senders[record["messageId"]]
        return run(mapping, function, event, batch, *rest)

    return run_batch
