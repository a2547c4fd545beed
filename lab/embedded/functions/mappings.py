"""What Lambda refuses of a mapping that feeds a function from a queue.

https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-parameters.html; the texts are those that people report.
"""

# ruff: noqa: SLF001 - MiniStack has no public extension points; its version is pinned exactly

from collections.abc import Mapping
from typing import Any, Final

from ministack.core import responses
from ministack.core.arn import parse_arn
from ministack.services import lambda_svc

from lab.embedded.limits.quotas import QuotaError, checked

BATCH_WITHOUT_WINDOW_MAX: Final = 10
FIFO_BATCH_MAX: Final = 10
WINDOW_MAX_S: Final = 300


def install() -> None:
    """Refuse at the API, and as resources of stacks."""
    create, update = lambda_svc._create_esm, lambda_svc._update_esm

    def checked_create(data: dict[str, Any]) -> Any:
        refused = refusal(data)
        return create(data) if refused is None else _invalid(refused)

    def checked_update(mapping: str, data: dict[str, Any]) -> Any:
        known = lambda_svc._esms.get(mapping) or {}
        refused = refusal({**known, **data})
        return update(mapping, data) if refused is None else _invalid(refused)

    lambda_svc._create_esm, lambda_svc._update_esm = checked_create, checked_update

    def check(properties: Mapping[str, Any]) -> None:
        refused = refusal(properties)
        if refused is not None:
            raise QuotaError(refused)

    checked("AWS::Lambda::EventSourceMapping", check)


def refusal(mapping: Mapping[str, Any]) -> str | None:
    """Say why Lambda makes no such mapping of a queue."""
    source = str(mapping.get("EventSourceArn", ""))
    if not source or parse_arn(source).service != "sqs":
        return None
    batch = int(mapping.get("BatchSize") or BATCH_WITHOUT_WINDOW_MAX)
    window_s = int(mapping.get("MaximumBatchingWindowInSeconds") or 0)
    is_fifo = source.endswith(".fifo")
    if is_fifo and window_s:
        return "Batching window is not supported for FIFO queues"
    if is_fifo and batch > FIFO_BATCH_MAX:
        return f"Batch size must not exceed {FIFO_BATCH_MAX} for FIFO queues"
    if batch > BATCH_WITHOUT_WINDOW_MAX and not window_s:
        return "Maximum batch window in seconds must be greater than 0 if maximum batch size is greater than 10"
    if window_s > WINDOW_MAX_S:
        return f"Maximum batch window in seconds must not exceed {WINDOW_MAX_S}"
    return None


def _invalid(message: str) -> Any:
    return responses.error_response_json("InvalidParameterValueException", message, 400)
